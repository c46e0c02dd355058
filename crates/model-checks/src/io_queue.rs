//! The I/O queue: every job is done, in order, before the queue ends.

use loom::thread;

use crate::check;
use crate::io_thread::IoThread;
use crate::sync::{Arc, Mutex};

type Log = Arc<Mutex<Vec<u32>>>;

fn submit(queue: &IoThread, log: &Log, number: u32) {
    let log = Arc::clone(log);
    queue.submit(Box::new(move || log.lock().unwrap().push(number))).expect("there are threads");
}

/// Jobs are done in order, and all of them when the wait ends.
pub fn jobs_are_done_in_order_when_the_wait_ends() {
    check(4, || {
        let (queue, log) = (IoThread::default(), Log::default());
        submit(&queue, &log, 1);
        submit(&queue, &log, 2);
        queue.drain();
        assert_eq!(*log.lock().unwrap(), [1, 2]);
    });
}

/// Jobs of two threads are done once each before the queue is gone.
pub fn jobs_of_two_threads_are_done_before_the_queue_ends() {
    check(4, || {
        let (queue, log) = (Arc::new(IoThread::default()), Log::default());
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
        let (queue, log) = (Arc::new(IoThread::default()), Log::default());
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
