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

/// The processors on which this thread may run.
pub(crate) fn allowed() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None);
    set.map_or(Vec::new(), |set| {
        (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
    })
}

/// True if threads of this process can be bound to a processor: a thread tries it.
pub(crate) fn can_bind(cpu: usize) -> bool {
    std::thread::spawn(move || pin(&[cpu]).is_ok()).join().unwrap_or(false)
}
