//! Non-blocking operations: each request owns its buffer until it is done.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::engine::OpenFile;
use crate::error::{Error, Kind, Result};
use crate::write_behind::catch_panic;
use crate::write_behind::waiting::{wait_while, within};

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

/// The work of a request, for a background thread.
pub(crate) type RequestJob = Box<dyn FnOnce() + Send>;

/// A non-blocking operation. It owns its buffer: dropping it lets the operation go on, and the buffer with it.
#[doc(alias = "MPI_Request")]
#[must_use = "an operation is only known to be done after `wait`"]
pub struct Request<B> {
    slot: Arc<RequestCell<B>>,
    /// The name of the file, for messages. A request that is done does not keep the file open.
    name: Arc<str>,
    /// A part of a collective operation, for which other ranks wait.
    collective: bool,
}

pub(crate) struct RequestCell<B> {
    state: Mutex<RequestState<B>>,
    done: Condvar,
}

enum RequestState<B> {
    /// With its buffer, not started yet.
    Queued(B),
    Running,
    Done(Box<Result<(B, Count)>>),
    /// Given to the caller, or cancelled.
    Gone,
}

impl<B: Send> Request<B> {
    /// A request and the job that fulfils it.
    pub(crate) fn new(
        file: Arc<OpenFile>,
        buffer: B,
        collective: bool,
        work: impl FnOnce(&OpenFile, &mut B) -> Result<Count> + Send,
    ) -> (Self, impl FnOnce() + Send) {
        let slot =
            Arc::new(RequestCell { state: Mutex::new(RequestState::Queued(buffer)), done: Condvar::new() });
        let (job_slot, name) = (Arc::clone(&slot), Arc::clone(&file.context.name));
        let job = move || job_slot.run(&file, work);
        (Self { slot, name, collective }, job)
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
            RequestState::Queued(_) | RequestState::Running => None,
            RequestState::Done(_) | RequestState::Gone => Some(self.take(&mut state)),
        }
    }

    /// Whether it is done, or has given its result.
    pub fn is_done(&self) -> bool {
        matches!(*self.slot.lock(), RequestState::Done(_) | RequestState::Gone)
    }

    /// Waits until it is done, but for no longer than this, and takes nothing; whether it is.
    pub fn wait_timeout(&self, longest: Duration) -> bool {
        self.slot.wait(Some(longest)).1
    }

    /// Takes the buffer back if the operation has not begun. Collective operations cannot be cancelled: others count on them.
    #[doc(alias = "MPI_Cancel")]
    pub fn cancel(self) -> std::result::Result<B, Self> {
        if self.collective {
            return Err(self);
        }
        let mut state = self.slot.lock();
        match std::mem::replace(&mut *state, RequestState::Gone) {
            RequestState::Queued(buffer) => Ok(buffer),
            other => {
                *state = other;
                drop(state);
                Err(self)
            }
        }
    }

    fn take(&self, state: &mut RequestState<B>) -> Result<(B, Count)> {
        match std::mem::replace(state, RequestState::Gone) {
            RequestState::Done(outcome) => *outcome,
            _ => {
                let detail = "this request has already given its result";
                Err(Error::new(Kind::RequestGone, "wait", &self.name, detail))
            }
        }
    }
}

impl<B> RequestCell<B> {
    fn wait(&self, longest: Option<Duration>) -> (MutexGuard<'_, RequestState<B>>, bool) {
        let in_progress =
            |state: &mut RequestState<B>| matches!(state, RequestState::Queued(_) | RequestState::Running);
        wait_while(|| self.lock(), &self.done, within(longest), in_progress)
    }

    fn lock(&self) -> MutexGuard<'_, RequestState<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, file: &OpenFile, work: impl FnOnce(&OpenFile, &mut B) -> Result<Count>) {
        let RequestState::Queued(mut buffer) = std::mem::replace(&mut *self.lock(), RequestState::Running)
        else {
            *self.lock() = RequestState::Gone;
            return;
        };
        let outcome = catch_panic(|| work(file, &mut buffer));
        let outcome =
            outcome.unwrap_or_else(|panicked| Err(file.context.error(Kind::Io, "request", panicked)));
        *self.lock() = RequestState::Done(Box::new(outcome.map(|count| (buffer, count))));
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
        // Requests may belong to different files, which have no common condition variable: poll with growing pauses.
        if !aqueduct_comm::progress() {
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_micros(500));
        }
    }
    None
}
