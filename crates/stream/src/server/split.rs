//! One call makes two kinds of ranks.

use std::sync::Arc;

use aqueduct_comm::agreement::agree_same;
use aqueduct_comm::{Comm, ThreadLevel};

use super::protocol::{REQUEST, SERVER, ServerRequest, send_json};
use crate::error::{Error, Kind, Result};

/// What a rank is from now on.
#[derive(Debug)]
pub enum Role {
    /// It computes.
    Compute(ComputeGroup),
    /// It writes for those that compute.
    Server(Server),
}

/// The ranks that compute, and the way from one of them to its server. While it or an output that it serves lives, the server goes on.
#[derive(Clone, Debug)]
pub struct ComputeGroup {
    comm: Comm,
    servers: usize,
    pub(super) link: Arc<ServerLink>,
}

/// A client's way to its server.
#[derive(Debug)]
pub(super) struct ServerLink {
    /// The server, then its clients.
    pub(super) comm: Comm,
}

/// A rank that writes for others.
#[derive(Debug)]
pub struct Server {
    pub(super) servers: Comm,
    /// This server, then its clients.
    pub(super) link: Comm,
    pub(super) memory: Option<u64>,
    pub(super) pinned: Vec<usize>,
}

/// Splits `servers` ranks off the world, evenly: the last rank of each of as many equal parts serves the others of its part. With as many servers as
/// nodes, that is one on each. Collective.
pub fn split_io_servers(world: &Comm, servers: usize) -> Result<Role> {
    let talk = |error: aqueduct_comm::Error| Error::from_comm("split", "the ranks", &error);
    let (allowed, count) = (check_server_count(world, servers), Some(servers as u64));
    agree_same(world, "split", "the ranks", allowed, "number of servers", count, [])?;
    let (part, serves) = part(world.rank(), world.size(), servers);
    let kind = world.split(Some(u32::from(serves)), 0).map_err(talk)?;
    // The server comes first.
    let link = world.split(Some(part), i64::from(!serves)).map_err(talk)?;
    let (comm, link) = kind.zip(link).expect("every rank has a kind and a part");
    Ok(if serves {
        Role::Server(Server { servers: comm, link, memory: None, pinned: Vec::new() })
    } else {
        Role::Compute(ComputeGroup { comm, servers, link: Arc::new(ServerLink { comm: link }) })
    })
}

fn check_server_count(world: &Comm, servers: usize) -> Result<()> {
    let refuse = |kind, detail: String| Err(Error::new(kind, "split", "the ranks", detail));
    if servers == 0 || 2 * servers > world.size() {
        let most = world.size() / 2;
        let ranks = world.size();
        return refuse(Kind::BadArgument, format!("{servers} servers among {ranks} ranks; give 1 to {most}"));
    }
    if world.thread_level().is_some_and(|level| level < ThreadLevel::Serialized) {
        let detail = "a server listens while a thread of it writes, and MPI lets only one thread send; ask it for thread level multiple";
        return refuse(Kind::Unsupported, detail.to_owned());
    }
    Ok(())
}

/// The part of a rank, and whether it is its last one.
fn part(rank: usize, ranks: usize, servers: usize) -> (u32, bool) {
    let end = |part: usize| ranks * (part + 1) / servers;
    let part = (0..servers).find(|part| rank < end(*part)).unwrap_or(0);
    (part as u32, rank + 1 == end(part))
}

impl ComputeGroup {
    /// The ranks that compute.
    pub fn comm(&self) -> &Comm {
        &self.comm
    }

    /// How many ranks write.
    pub fn servers(&self) -> usize {
        self.servers
    }
}

impl Drop for ServerLink {
    fn drop(&mut self) {
        // A server that is gone needs no farewell.
        let _ = send_json(&self.comm, SERVER, REQUEST, &ServerRequest::Bye);
    }
}

impl Server {
    /// What this server may hold for all outputs, in bytes; without this, half of the available memory divided by the ranks of its node.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Keeps the threads that write on these processors, numbered from 0.
    #[must_use]
    pub fn pin(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.pinned = cpus.into_iter().collect();
        self
    }

    /// How many ranks this one writes for.
    pub fn clients(&self) -> usize {
        self.link.size() - 1
    }
}

#[cfg(test)]
mod tests {
    use super::part;

    #[test]
    fn servers_are_the_last_of_equal_parts() {
        let servers = |ranks, servers| -> Vec<usize> {
            (0..ranks).filter(|rank| part(*rank, ranks, servers).1).collect()
        };
        assert_eq!(servers(4, 1), [3]);
        assert_eq!(servers(8, 2), [3, 7]);
        assert_eq!(servers(7, 3), [1, 3, 6]);
        let parts: Vec<u32> = (0..7).map(|rank| part(rank, 7, 3).0).collect();
        assert_eq!(parts, [0, 0, 1, 1, 2, 2, 2]);
    }
}
