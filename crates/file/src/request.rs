//! Operations under way: each owns its buffer until it is done.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::core::Core;
use crate::error::{Error, Kind, Result};
use crate::waiting::wait_while;

/// How much an access transferred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "MPI_Status")]
pub struct Count {
    bytes: u64,
}

impl Count {
    pub(crate) fn new(bytes: u64) -> Self {
        Self { bytes }
    }

    /// In bytes.
    #[doc(alias = "MPI_Get_elements")]
    pub fn bytes(self) -> u64 {
        self.bytes
    }

    /// In whole values of a type.
    #[doc(alias = "MPI_Get_count")]
    pub fn of<T>(self) -> u64 {
        self.bytes / (size_of::<T>() as u64).max(1)
    }
}

/// An operation under way. It owns its buffer: dropping it lets the operation go on, and the buffer with it.
#[doc(alias = "MPI_Request")]
#[must_use = "an operation is only known to be done after `wait`"]
pub struct Request<B> {
    slot: Arc<Slot<B>>,
    /// Of the file, for messages. A request that has been fulfilled does not keep the file open.
    name: Arc<str>,
    /// A part of a collective operation: others count on it.
    together: bool,
}

pub(crate) struct Slot<B> {
    state: Mutex<State<B>>,
    done: Condvar,
}

enum State<B> {
    /// With its buffer, waiting for its turn.
    Queued(B),
    Running,
    Done(Box<Result<(B, Count)>>),
    /// Given to the caller, or cancelled.
    Gone,
}

impl<B: Send> Request<B> {
    /// A request and the job that fulfils it.
    pub(crate) fn new(
        core: Arc<Core>,
        buffer: B,
        together: bool,
        work: impl FnOnce(&Core, &mut B) -> Result<Count> + Send,
    ) -> (Self, impl FnOnce() + Send) {
        let slot = Arc::new(Slot { state: Mutex::new(State::Queued(buffer)), done: Condvar::new() });
        let (job_slot, name) = (Arc::clone(&slot), Arc::clone(&core.name));
        let job = move || job_slot.run(&core, work);
        (Self { slot, name, together }, job)
    }

    /// Waits until it is done; the buffer, and how much was transferred.
    #[doc(alias = "MPI_Wait")]
    pub fn wait(self) -> Result<(B, Count)> {
        let (mut state, _) = self.slot.wait(None);
        self.take(&mut state)
    }

    /// The buffer and how much was transferred, if it is done; after that, an error.
    #[doc(alias = "MPI_Test")]
    pub fn test(&mut self) -> Result<Option<(B, Count)>> {
        self.take_result().transpose()
    }

    /// The same, through a shared reference: for requests that several threads look at. The result is given once.
    pub fn take_result(&self) -> Option<Result<(B, Count)>> {
        let mut state = self.slot.lock();
        match *state {
            State::Queued(_) | State::Running => None,
            State::Done(_) | State::Gone => Some(self.take(&mut state)),
        }
    }

    /// Whether it is done, or has given its result.
    pub fn is_done(&self) -> bool {
        matches!(*self.slot.lock(), State::Done(_) | State::Gone)
    }

    /// Waits until it is done, but for no longer than this, and takes nothing; whether it is.
    pub fn settle(&self, longest: Duration) -> bool {
        self.slot.wait(Some(longest)).1
    }

    /// Takes the buffer back if the operation has not begun. Collective operations cannot be cancelled: others count on them.
    #[doc(alias = "MPI_Cancel")]
    pub fn cancel(self) -> std::result::Result<B, Self> {
        if self.together {
            return Err(self);
        }
        let mut state = self.slot.lock();
        match std::mem::replace(&mut *state, State::Gone) {
            State::Queued(buffer) => Ok(buffer),
            other => {
                *state = other;
                drop(state);
                Err(self)
            }
        }
    }

    fn take(&self, state: &mut State<B>) -> Result<(B, Count)> {
        match std::mem::replace(state, State::Gone) {
            State::Done(outcome) => *outcome,
            _ => {
                let detail = "this request has already given its result";
                Err(Error::new(Kind::RequestGone, "wait", &self.name, detail))
            }
        }
    }
}

impl<B> Slot<B> {
    fn wait(&self, longest: Option<Duration>) -> (MutexGuard<'_, State<B>>, bool) {
        let under_way = |state: &mut State<B>| matches!(state, State::Queued(_) | State::Running);
        wait_while(|| self.lock(), &self.done, longest, under_way)
    }

    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, core: &Core, work: impl FnOnce(&Core, &mut B) -> Result<Count>) {
        let State::Queued(mut buffer) = std::mem::replace(&mut *self.lock(), State::Running) else {
            *self.lock() = State::Gone;
            return;
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| work(core, &mut buffer)));
        let outcome = outcome.unwrap_or_else(|_| {
            Err(core.error(Kind::Io, "request", "the operation panicked; this is a defect, please report it"))
        });
        *self.lock() = State::Done(Box::new(outcome.map(|count| (buffer, count))));
        self.done.notify_all();
    }
}

/// Waits for all requests; the first error after all are done.
#[doc(alias = "MPI_Waitall")]
pub fn wait_all<B: Send>(requests: impl IntoIterator<Item = Request<B>>) -> Result<Vec<(B, Count)>> {
    let outcomes: Vec<_> = requests.into_iter().map(Request::wait).collect();
    outcomes.into_iter().collect()
}

/// Waits for one of the requests, whichever is first, and takes it out of the list; its place in the list and its outcome.
#[doc(alias = "MPI_Waitany")]
pub fn wait_any<B: Send>(requests: &mut Vec<Request<B>>) -> Option<(usize, Result<(B, Count)>)> {
    let place = wait_for_some(requests)?;
    Some((place, requests.remove(place).wait()))
}

/// Waits until at least one of the requests is done, and takes all that are out of the list.
#[doc(alias = "MPI_Waitsome")]
pub fn wait_some<B: Send>(requests: &mut Vec<Request<B>>) -> Vec<Result<(B, Count)>> {
    let mut done = Vec::new();
    if wait_for_some(requests).is_some() {
        let mut place = 0;
        while place < requests.len() {
            if requests[place].is_done() {
                done.push(requests.remove(place).wait());
            } else {
                place += 1;
            }
        }
    }
    done
}

/// The place of a request that is done; none where there are no requests.
fn wait_for_some<B: Send>(requests: &[Request<B>]) -> Option<usize> {
    let mut pause = Duration::from_micros(5);
    while !requests.is_empty() {
        if let Some(place) = requests.iter().position(Request::is_done) {
            return Some(place);
        }
        // Requests may belong to different files, which have no common bell: look again after a while that grows.
        if !aqueduct_comm::progress() {
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_micros(500));
        }
    }
    None
}
