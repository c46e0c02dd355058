//! A background thread that executes jobs in order and sleeps when there are none.

use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::time::Duration;

use super::activity::{JobActivity, StallTimer};
use super::waiting::{wait_while, within};
use crate::sync::{Arc, Builder, Condvar, JoinHandle, Mutex, MutexGuard};

type Job = Box<dyn FnOnce(&JobContext<'_>) + Send>;

/// Jobs in order and the thread that executes them, which is started with the first one. Dropping it
/// waits for all jobs.
///
/// On communicators of a host program the thread calls MPI only if the thread level allows it. A job
/// that panics ends, and the next one is executed; [`catch_panic`] makes an error of it.
pub struct BackgroundQueue {
    shared: Arc<JobQueue>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct JobQueue {
    /// The name of the thread.
    name: &'static str,
    state: Mutex<QueueState>,
    change: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Job>,
    busy: bool,
    stopped: bool,
    /// Waits end, and dropping the queue does not wait.
    detached: bool,
    activity: JobActivity,
}

impl QueueState {
    fn is_idle(&self) -> bool {
        self.detached || !self.busy && self.waiting.is_empty()
    }
}

/// The queue, as the running job sees it.
pub struct JobContext<'a>(&'a JobQueue);

impl JobContext<'_> {
    /// Records that the job begins to wait for other ranks, or that such a wait is over.
    pub fn set_waits(&self, waits: bool) {
        self.0.lock().activity.set_waits(waits);
        self.0.change.notify_all();
    }

    /// Ends all waits for the queue: the rest of this job is of no use to this rank.
    pub fn detach(&self) {
        self.0.lock().detached = true;
        self.0.change.notify_all();
    }
}

impl fmt::Debug for BackgroundQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BackgroundQueue").field("name", &self.shared.name).finish_non_exhaustive()
    }
}

impl BackgroundQueue {
    /// An empty queue, with the name of its thread.
    pub fn new(name: &'static str) -> Self {
        let shared = JobQueue { name, state: Mutex::default(), change: Condvar::default() };
        Self { shared: Arc::new(shared), thread: Mutex::default() }
    }

    /// Starts the thread, if it is not running.
    pub fn start(&self) -> std::io::Result<()> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            *thread = Some(Builder::new().name(shared.name.to_owned()).spawn(move || work(&shared))?);
        }
        Ok(())
    }

    /// Adds a job at the end of the queue. Fails only if the thread cannot be started.
    pub fn submit(&self, job: impl FnOnce(&JobContext<'_>) + Send + 'static) -> std::io::Result<()> {
        self.start()?;
        self.shared.lock().waiting.push_back(Box::new(job));
        self.shared.change.notify_all();
        Ok(())
    }

    /// True if all jobs are done.
    pub fn is_idle(&self) -> bool {
        self.shared.lock().is_idle()
    }

    /// Waits until all jobs are done.
    pub fn drain(&self) {
        self.drain_within(None);
    }

    /// As [`drain`](Self::drain), but no longer than `longest`; true if all jobs are done.
    pub fn drain_within(&self, longest: Option<Duration>) -> bool {
        self.wait(within(longest))
    }

    /// As [`drain`](Self::drain), but gives up if a job has waited for other ranks for longer than
    /// `limit`; true if all jobs are done.
    pub fn drain_unless_stalled(&self, limit: Option<Duration>) -> bool {
        let mut timer = StallTimer::new(limit);
        self.wait(|state| timer.left(state.activity))
    }

    /// Ends all waits; dropping the queue does not wait for the jobs.
    pub fn detach(&self) {
        JobContext(&self.shared).detach();
    }

    fn wait(&self, left: impl FnMut(&QueueState) -> Option<Duration>) -> bool {
        wait_while(|| self.shared.lock(), &self.shared.change, left, |state| !state.is_idle()).1
    }
}

impl Drop for BackgroundQueue {
    fn drop(&mut self) {
        self.drain();
        let mut state = self.shared.lock();
        state.stopped = true;
        let detached = state.detached;
        drop(state);
        self.shared.change.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread.filter(|_| !detached) {
            // The thread does not panic: it catches the panics of jobs.
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
    let scheduling = aqueduct_comm::BatchScheduling::new();
    let mut state = shared.lock();
    loop {
        if let Some(job) = state.waiting.pop_front() {
            state.busy = true;
            drop(state);
            let _ = catch_panic(|| job(&JobContext(shared)));
            state = shared.lock();
            state.busy = false;
            shared.change.notify_all();
        } else if state.stopped {
            return;
        } else {
            state = scheduling.wait(|| shared.change.wait(state)).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Runs `work`; if it panics, the text of the error.
pub fn catch_panic<T>(work: impl FnOnce() -> T) -> Result<T, &'static str> {
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|_| "the operation panicked; this is a defect, please report it")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Option<Duration> = Some(Duration::from_millis(20));

    #[test]
    fn jobs_are_done_in_order_and_before_the_queue_is_dropped() {
        let done = Arc::new(Mutex::new(Vec::new()));
        let queue = BackgroundQueue::new("test");
        for number in 0..100 {
            let done = Arc::clone(&done);
            queue.submit(move |_| done.lock().unwrap().push(number)).unwrap();
        }
        queue.drain();
        assert_eq!(done.lock().unwrap().len(), 100);
        let late = Arc::clone(&done);
        queue.submit(move |_| late.lock().unwrap().push(100)).unwrap();
        drop(queue);
        assert_eq!(*done.lock().unwrap(), (0..=100).collect::<Vec<_>>());
    }

    #[test]
    fn a_job_that_panics_is_followed_by_the_next() {
        let queue = BackgroundQueue::new("test");
        let (sender, outcome) = std::sync::mpsc::channel();
        queue.submit(|_| panic!("this job fails")).unwrap();
        queue.submit(move |_| sender.send(7).unwrap()).unwrap();
        assert_eq!(outcome.recv(), Ok(7));
        assert!(catch_panic(|| panic!("as this does")).unwrap_err().contains("panicked"));
    }

    /// Waits for a job with several phases: milliseconds, and whether it waits for other ranks.
    fn wait_for(phases: &'static [(u64, bool)]) -> bool {
        let queue = BackgroundQueue::new("test");
        let job = move |context: &JobContext<'_>| {
            for (milliseconds, waits) in phases {
                context.set_waits(*waits);
                std::thread::sleep(Duration::from_millis(*milliseconds));
            }
        };
        queue.submit(job).unwrap();
        queue.drain_unless_stalled(SHORT)
    }

    #[test]
    fn only_waits_for_other_ranks_have_a_limit() {
        assert!(wait_for(&[(200, false)]), "the medium takes its time");
        assert!(wait_for(&[(1, true), (200, false), (1, true)]));
        assert!(!wait_for(&[(500, true)]), "other ranks do not come");
        let mut timer = StallTimer::new(None);
        assert_eq!(timer.left(JobActivity { turns: 1, waits: true }), None);
    }

    #[test]
    fn a_detached_queue_is_not_waited_for() {
        let (queue, (release, wait)) = (BackgroundQueue::new("test"), std::sync::mpsc::channel::<()>());
        let job = move |context: &JobContext<'_>| {
            context.detach();
            let _ = wait.recv();
        };
        queue.submit(job).unwrap();
        queue.drain();
        drop(queue);
        drop(release);
    }
}
