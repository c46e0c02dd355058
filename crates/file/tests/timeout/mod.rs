//! Runs work with a timeout, so that a hang is a test failure.

use std::sync::mpsc;
use std::time::Duration;

/// Longer than any of these tests takes on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(240);

/// Panics if the work does not finish in time.
pub(crate) fn with_timeout(title: &str, work: impl FnOnce() + Send + 'static) {
    let (done, waiting) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    match waiting.recv_timeout(TIMEOUT) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{title} hangs"),
        // Done, or ended by a panic, which `join` returns.
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {
            if let Err(panic) = worker.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}
