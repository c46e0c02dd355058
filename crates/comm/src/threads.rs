//! The transport among threads of this process: packets move by pointer, memory is common anyway.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use crate::block::Block;
use crate::hub;
use crate::mailbox::Mailbox;
use crate::packet::{Body, Header, Packet};
use crate::rendezvous::Nap;
use crate::wire::{Ticket, Wire};
use crate::{Error, Kind, Result, ThreadLevel};

/// Why a rank failed: the error of its program.
pub(crate) type Cause = Box<dyn std::error::Error + Send + Sync>;

/// What the thread ranks of one [`run`](crate::run) have in common.
#[derive(Debug)]
pub(crate) struct World {
    mailboxes: Vec<Mailbox>,
    shared: Mutex<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    offers: HashMap<u64, Arc<Block>>,
    next_offer: u64,
    watched: Vec<Weak<Block>>,
    /// The first rank that failed, and why.
    failure: Option<(usize, Cause)>,
}

/// One thread's end of its world.
#[derive(Debug)]
pub(crate) struct ThreadWire {
    world: Arc<World>,
    rank: usize,
}

impl World {
    pub(crate) fn new(ranks: usize) -> Arc<Self> {
        let mailboxes = (0..ranks).map(|_| Mailbox::default()).collect();
        Arc::new(Self { mailboxes, shared: Mutex::default() })
    }

    pub(crate) fn wire(self: &Arc<Self>, rank: usize) -> Arc<ThreadWire> {
        Arc::new(ThreadWire { world: Arc::clone(self), rank })
    }

    /// The first rank that failed, and its error.
    pub(crate) fn take_failure(&self) -> Option<(usize, Cause)> {
        self.lock().failure.take()
    }

    /// Rank `rank` has failed: everyone who waits for anyone learns of it.
    pub(crate) fn fail(&self, rank: usize, cause: Cause, wire: &dyn Wire) {
        let watched = {
            let mut shared = self.lock();
            shared.failure.get_or_insert((rank, cause));
            std::mem::take(&mut shared.watched)
        };
        watched.iter().filter_map(Weak::upgrade).for_each(|block| hub::fail(&block, wire));
        self.mailboxes.iter().for_each(Mailbox::fail);
    }

    /// Rank `rank` has returned from the program: it sends nothing more.
    pub(crate) fn leave(&self, rank: usize) {
        self.mailboxes.iter().for_each(|mailbox| mailbox.gone(rank));
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Nap for ThreadWire {
    fn nap(&self) -> Option<Duration> {
        None
    }
}

impl Wire for ThreadWire {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.world.mailboxes.len()
    }

    fn describe(&self) -> String {
        "threads of one process".to_owned()
    }

    fn thread_level(&self) -> Option<ThreadLevel> {
        None
    }

    fn machine(&self) -> u64 {
        0
    }

    fn shares_addresses(&self) -> bool {
        true
    }

    fn mailbox(&self) -> &Mailbox {
        &self.world.mailboxes[self.rank]
    }

    fn send(&self, to: usize, header: Header, bytes: &[u8]) -> Result<()> {
        self.post(to, header, Body::new(bytes.to_vec())).map(|_| ())
    }

    fn post(&self, to: usize, header: Header, body: Body) -> Result<Option<u64>> {
        self.world.mailboxes[to].deliver(Packet { header, body });
        Ok(None)
    }

    fn departed(&self, _post: u64) -> Result<bool> {
        Ok(true)
    }

    fn offer(&self, len: usize) -> Result<(Arc<Block>, Ticket)> {
        let detail = || format!("{len} bytes of shared memory");
        let block = Block::for_threads(len).map_err(|source| Error::system("offer", detail(), source))?;
        let block = Arc::new(block);
        let mut shared = self.world.lock();
        shared.next_offer += 1;
        let ticket = [shared.next_offer, 0];
        shared.offers.insert(ticket[0], Arc::clone(&block));
        Ok((block, ticket))
    }

    fn attach(&self, ticket: Ticket, _len: usize) -> Result<Arc<Block>> {
        let missing = || Error::new(Kind::Mismatch, "attach", "no rank offers this shared memory any more");
        self.world.lock().offers.get(&ticket[0]).cloned().ok_or_else(missing)
    }

    fn retire(&self, ticket: Ticket) {
        self.world.lock().offers.remove(&ticket[0]);
    }

    fn watch(&self, block: &Arc<Block>) {
        let mut shared = self.world.lock();
        shared.watched.retain(|known| known.strong_count() > 0);
        let block = Arc::downgrade(block);
        if !shared.watched.iter().any(|known| known.ptr_eq(&block)) {
            shared.watched.push(block);
        }
    }

    fn failure(&self, call: &'static str) -> Error {
        match &self.world.lock().failure {
            Some((rank, cause)) => {
                Error::new(Kind::RankFailed, call, format!("rank {rank} failed: {cause}")).caused_by(*rank)
            }
            None => left(call),
        }
    }
}

/// A meeting that never takes place because a rank gave up its handle.
pub(crate) fn left(call: &'static str) -> Error {
    let detail = "another rank has left the program, or dropped this communicator, without making this call";
    Error::new(Kind::RankFailed, call, detail)
}
