//! Work that fails where it hangs, instead of hanging.

use std::sync::mpsc;
use std::time::Duration;

/// Longer than any of these tests takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(240);

/// Fails where the work hangs, instead of hanging with it.
pub(crate) fn watched(title: &str, work: impl FnOnce() + Send + 'static) {
    let (done, waiting) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        work();
        let _ = done.send(());
    });
    match waiting.recv_timeout(PATIENCE) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{title} hangs"),
        // Done, or ended by a panic, which joining reports.
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {
            if let Err(panic) = worker.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}
