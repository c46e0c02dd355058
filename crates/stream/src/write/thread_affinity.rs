//! Threads that stay on their processors.

use std::io;
use std::thread::{Builder, JoinHandle};

/// Starts a thread that stays on the given processors; on any, if none are given. An error if it cannot.
pub(crate) fn start<T: Default + Send + 'static>(
    name: &str,
    cpus: &[usize],
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let (tell, told) = std::sync::mpsc::channel();
    let cpus = cpus.to_vec();
    let thread = Builder::new().name(name.to_owned()).spawn(move || {
        let pinned = pin(&cpus);
        let fine = pinned.is_ok();
        let _ = tell.send(pinned);
        if fine { work() } else { T::default() }
    })?;
    told.recv().unwrap_or(Ok(()))?;
    Ok(thread)
}

/// Keeps this thread on the given processors; on any, if none are given.
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
