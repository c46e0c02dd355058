//! The I/O thread: it does jobs in order and sleeps when there are none, so that operations progress while the caller computes.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::Duration;

use super::waiting::wait_while;
use crate::sync::{Arc, Builder, Condvar, JoinHandle, Mutex, MutexGuard};

/// A piece of work.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Jobs in order, and the thread that does them, which is started with the first one.
#[derive(Default)]
pub(crate) struct IoThread {
    shared: Arc<JobQueue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct JobQueue {
    state: Mutex<QueueState>,
    change: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Job>,
    busy: bool,
    stopped: bool,
}

impl IoThread {
    /// Adds a job at the end of the queue.
    pub(crate) fn submit(&self, job: Job) -> std::io::Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let builder = Builder::new().name("aqueduct i/o".to_owned());
            *thread = Some(builder.spawn(move || work(&shared))?);
        }
        self.shared.lock().waiting.push_back(job);
        self.shared.change.notify_all();
        Ok(())
    }

    /// Waits until all jobs are done.
    pub(crate) fn drain(&self) {
        self.wait(None);
    }

    /// The same, but no longer than `longest`; true if they are done.
    pub(crate) fn drain_within(&self, longest: Duration) -> bool {
        self.wait(Some(longest))
    }

    fn wait(&self, longest: Option<Duration>) -> bool {
        let in_progress = |state: &mut QueueState| state.busy || !state.waiting.is_empty();
        wait_while(|| self.shared.lock(), &self.shared.change, longest, in_progress).1
    }
}

impl Drop for IoThread {
    fn drop(&mut self) {
        self.drain();
        self.shared.lock().stopped = true;
        self.shared.change.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A job does not panic: its outcome, a panic too, is kept in its request.
            let _ = thread.join();
        }
    }
}

impl JobQueue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn work(shared: &JobQueue) {
    aqueduct_comm::forbid_mpi_on_thread();
    let courtesy = aqueduct_comm::BatchScheduling::new();
    let mut state = shared.lock();
    loop {
        if let Some(job) = state.waiting.pop_front() {
            state.busy = true;
            drop(state);
            job();
            state = shared.lock();
            state.busy = false;
            shared.change.notify_all();
        } else if state.stopped {
            return;
        } else {
            state = courtesy.wait(|| shared.change.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_done_in_order_and_before_the_thread_ends() {
        let done = Arc::new(Mutex::new(Vec::new()));
        let queue = IoThread::default();
        for number in 0..100 {
            let done = Arc::clone(&done);
            queue.submit(Box::new(move || done.lock().unwrap().push(number))).unwrap();
        }
        queue.drain();
        assert_eq!(done.lock().unwrap().len(), 100);
        let late = Arc::clone(&done);
        queue.submit(Box::new(move || late.lock().unwrap().push(100))).unwrap();
        drop(queue);
        assert_eq!(*done.lock().unwrap(), (0..=100).collect::<Vec<_>>());
    }
}
