//! Connections that have not proven the key yet. They are few; further ones wait, and who is silent makes room for them.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::socket::Socket;

/// The most connections that are greeted at the same time.
const MOST: usize = 64;

/// While others wait, a greeting may take so long.
const PATIENCE: Duration = Duration::from_millis(500);

/// Connections that are being greeted, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct GreetingQueue {
    state: Mutex<GreetedSockets>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct GreetedSockets {
    sockets: BTreeMap<u64, (Instant, Socket)>,
    next: u64,
}

/// The place of a connection that is being greeted.
#[derive(Debug)]
pub(super) struct GreetingTicket {
    queue: Arc<GreetingQueue>,
    number: u64,
}

impl GreetingQueue {
    fn state(&self) -> MutexGuard<'_, GreetedSockets> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a connection; waits for one if there are enough, and ends the oldest greeting if that takes too long.
    pub(super) fn enter(self: &Arc<Self>, socket: &Socket) -> io::Result<GreetingTicket> {
        let copy = socket.try_clone()?;
        let mut state = self.state();
        while state.sockets.len() >= MOST {
            if let Some((begin, oldest)) = state.sockets.values().next()
                && begin.elapsed() >= PATIENCE
            {
                // Its thread leaves the queue.
                oldest.shut_down();
            }
            state = self.left.wait_timeout(state, PATIENCE / 10).unwrap_or_else(PoisonError::into_inner).0;
        }
        let number = state.next;
        state.next += 1;
        state.sockets.insert(number, (Instant::now(), copy));
        Ok(GreetingTicket { queue: Arc::clone(self), number })
    }
}

impl Drop for GreetingTicket {
    fn drop(&mut self) {
        self.queue.state().sockets.remove(&self.number);
        self.queue.left.notify_all();
    }
}
