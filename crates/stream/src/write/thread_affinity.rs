//! Binding background threads to processors.

use std::io;
use std::sync::mpsc;

use aqueduct_file::write_behind::BackgroundQueue;

/// A queue whose thread runs on the given processors only; on any, if there are none. Fails if the thread
/// cannot be started or bound.
pub(crate) fn pinned_queue(name: &'static str, cpus: &[usize]) -> io::Result<BackgroundQueue> {
    let queue = BackgroundQueue::new(name);
    let (sender, outcome) = mpsc::channel();
    let cpus = cpus.to_vec();
    queue.submit(move |_| _ = sender.send(pin(&cpus)))?;
    outcome.recv().unwrap_or(Ok(()))?;
    Ok(queue)
}

/// Binds this thread to the given processors; to none, if there are none.
fn pin(cpus: &[usize]) -> io::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = rustix::thread::CpuSet::new();
    let known = cpus.iter().all(|cpu| *cpu < rustix::thread::CpuSet::MAX_CPU);
    if !known {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    cpus.iter().for_each(|cpu| set.set(*cpu));
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}
