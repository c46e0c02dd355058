//! Splitting the ranks of a program into compute ranks and I/O servers.

use std::sync::Arc;

use aqueduct_comm::agreement::agree_same;
use aqueduct_comm::{Comm, ThreadLevel};

use super::protocol::{ClientRequest, REQUEST, SERVER, send_message};
use crate::error::{Error, Kind, Result};

/// The role of a rank.
#[derive(Debug)]
pub enum Role {
    /// A compute rank.
    Compute(ComputeGroup),
    /// An I/O server, which writes for compute ranks.
    Server(Server),
}

/// The compute ranks, and the connection of one of them to its server. The server runs until all of these, and the outputs and
/// files that use them, are dropped.
#[derive(Clone, Debug)]
pub struct ComputeGroup {
    comm: Comm,
    servers: usize,
    pub(super) link: Arc<ServerLink>,
}

/// The connection of a client to its server.
#[derive(Debug)]
pub(super) struct ServerLink {
    /// The server is rank 0, its clients follow.
    pub(super) comm: Comm,
}

/// An I/O server.
#[derive(Debug)]
pub struct Server {
    pub(super) servers: Comm,
    /// This server is rank 0, its clients follow.
    pub(super) link: Comm,
    pub(super) memory: Option<u64>,
    pub(super) pinned: Vec<usize>,
}

/// Splits I/O servers off the ranks: the ranks are divided into `servers` equal parts, and the last rank of each part serves the
/// others of its part. With as many servers as nodes, each node has one. Collective.
pub fn split_io_servers(world: &Comm, servers: usize) -> Result<Role> {
    let lost = |error: aqueduct_comm::Error| Error::from_comm("split", "the ranks", &error);
    let (allowed, count) = (check_server_count(world, servers), Some(servers as u64));
    agree_same(world, "split", "the ranks", allowed, "number of servers", count, [])?;
    let (part, serves) = part(world.rank(), world.size(), servers);
    divide(world, (part, serves), servers).map_err(lost)
}

/// Splits one I/O server off the ranks of each node, wherever the launcher has placed them: the last rank of a node serves the
/// others of its node, so that all data goes through shared memory. The compute ranks are numbered node by node in
/// [`ComputeGroup::comm`]. Fails if a node has only one rank. Collective.
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_stream::{Role, split_io_servers_per_node};
///
/// // Three nodes of two ranks.
/// Launch::threads(6).node_ranks(2).run(|world| {
///     match split_io_servers_per_node(world)? {
///         Role::Server(server) => assert_eq!((server.clients(), server.serve()?.outputs), (1, 0)),
///         Role::Compute(compute) => assert_eq!((compute.comm().size(), compute.servers()), (3, 3)),
///     }
///     Ok::<_, aqueduct_stream::Error>(())
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
pub fn split_io_servers_per_node(world: &Comm) -> Result<Role> {
    let lost = |error: aqueduct_comm::Error| Error::from_comm("split", "the ranks", &error);
    let nodes = world.node_count();
    let alone = (0..nodes).find(|node| world.ranks_of_node(*node).len() < 2);
    let two_on_each = alone.map_or(Ok(()), |node| {
        let detail = format!("node {node} has only one rank, which cannot compute and serve; start two ranks on each node at least");
        Err(Error::new(Kind::BadArgument, "split", "the ranks", detail))
    });
    let allowed = two_on_each.and_then(|()| check_server_count(world, nodes));
    agree_same(world, "split", "the ranks", allowed, "number of nodes", Some(nodes as u64), [])?;
    let node = world.node_of(world.rank());
    let serves = world.ranks_of_node(node).last() == Some(&world.rank());
    divide(world, (node as u32, serves), nodes).map_err(lost)
}

/// Divides the ranks into parts, of which the rank that `serves` is the server. Collective.
fn divide(world: &Comm, (part, serves): (u32, bool), servers: usize) -> aqueduct_comm::Result<Role> {
    // Part by part, so that the clients of a server follow one another: lists are stored in the order of the ranks.
    let order = i64::from(part) * world.size() as i64 + world.rank() as i64;
    let kind = world.split(Some(u32::from(serves)), order)?;
    // The server comes first.
    let link = world.split(Some(part), i64::from(!serves))?;
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
        let detail = "a server receives requests while a thread of it writes, and this thread level lets only one thread call MPI; request MPI_THREAD_MULTIPLE";
        return refuse(Kind::Unsupported, detail.to_owned());
    }
    Ok(())
}

/// The part of a rank, and true if the rank is the last of its part.
fn part(rank: usize, ranks: usize, servers: usize) -> (u32, bool) {
    let end = |part: usize| ranks * (part + 1) / servers;
    let part = (0..servers).find(|part| rank < end(*part)).unwrap_or(0);
    (part as u32, rank + 1 == end(part))
}

impl ComputeGroup {
    /// The communicator of the compute ranks.
    pub fn comm(&self) -> &Comm {
        &self.comm
    }

    /// The number of servers.
    pub fn servers(&self) -> usize {
        self.servers
    }
}

impl Drop for ServerLink {
    fn drop(&mut self) {
        // It fails only if the server is gone.
        let _ = send_message(&self.comm, SERVER, REQUEST, &ClientRequest::Leave);
    }
}

impl Server {
    /// The memory of this server for all outputs and files, in bytes; the default is half of the available memory divided by the
    /// ranks of its node.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Binds the threads that write to these processors, numbered from 0.
    #[must_use]
    pub fn pin(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.pinned = cpus.into_iter().collect();
        self
    }

    /// The number of clients.
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
