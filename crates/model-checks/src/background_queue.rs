//! The queue of a background thread: every job is done, in order, before the queue ends.

use loom::thread;

use crate::check;
use crate::sync::{Arc, Condvar, Mutex};
use crate::write_behind::background_queue::{BackgroundQueue, JobContext};

type Log = Arc<Mutex<Vec<u32>>>;

fn submit(queue: &BackgroundQueue, log: &Log, number: u32) {
    let log = Arc::clone(log);
    queue.submit(move |_| log.lock().unwrap().push(number)).expect("there are threads");
}

/// Jobs are done in order, and all of them when the wait ends.
pub fn jobs_are_done_in_order_when_the_wait_ends() {
    check(4, || {
        let (queue, log) = (BackgroundQueue::new("model"), Log::default());
        submit(&queue, &log, 1);
        submit(&queue, &log, 2);
        queue.drain();
        assert_eq!(*log.lock().unwrap(), [1, 2]);
    });
}

/// Jobs of two threads are done once each before the queue is dropped.
pub fn jobs_of_two_threads_are_done_before_the_queue_ends() {
    check(4, || {
        let (queue, log) = (Arc::new(BackgroundQueue::new("model")), Log::default());
        let (sharing, shared_log) = (Arc::clone(&queue), Arc::clone(&log));
        let other = thread::spawn(move || submit(&sharing, &shared_log, 1));
        submit(&queue, &log, 2);
        other.join().unwrap();
        drop(queue);
        let mut done = log.lock().unwrap().clone();
        done.sort_unstable();
        assert_eq!(done, [1, 2]);
    });
}

/// A thread waits for all jobs while another submits one: the wait ends, and the job is done in the end.
pub fn a_wait_ends_while_another_thread_submits() {
    check(4, || {
        let (queue, log) = (Arc::new(BackgroundQueue::new("model")), Log::default());
        submit(&queue, &log, 1);
        let (sharing, shared_log) = (Arc::clone(&queue), Arc::clone(&log));
        let other = thread::spawn(move || submit(&sharing, &shared_log, 2));
        queue.drain();
        assert!(log.lock().unwrap().contains(&1));
        other.join().unwrap();
        drop(queue);
        assert_eq!(log.lock().unwrap().len(), 2);
    });
}

/// A job detaches the queue while a thread waits for it: the wait ends before the job does.
pub fn a_wait_ends_when_a_job_detaches_the_queue() {
    check(4, || {
        let (queue, flag) = (BackgroundQueue::new("model"), Arc::new((Mutex::new(false), Condvar::new())));
        let waited_for = Arc::clone(&flag);
        let job = move |context: &JobContext<'_>| {
            context.detach();
            let mut released = waited_for.0.lock().unwrap();
            while !*released {
                released = waited_for.1.wait(released).unwrap();
            }
        };
        queue.submit(job).expect("there are threads");
        queue.drain();
        *flag.0.lock().unwrap() = true;
        flag.1.notify_all();
    });
}
