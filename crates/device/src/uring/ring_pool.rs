//! A pool of rings: each call uses one ring, so that threads do not wait for each other's operations.

use std::ffi::OsStr;
use std::io;
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};

use aqueduct_report::{Report, ReportSource};

use super::ring::IoRing;

/// The rings of one device.
#[derive(Debug, Default)]
pub(super) struct RingPool {
    /// Whether the kernel allows rings; checked once.
    usable: OnceLock<Result<(), String>>,
    spare: Mutex<Vec<IoRing>>,
}

impl RingPool {
    /// A pool that never has a ring.
    pub(super) fn refused() -> Self {
        Self { usable: OnceLock::from(Err("switched off".to_owned())), spare: Mutex::default() }
    }

    /// True if rings are available; if not, reports that once per process.
    pub(super) fn is_usable(&self) -> bool {
        let outcome = self.has_rings();
        if let Err(error) = outcome {
            static SAID: Once = Once::new();
            SAID.call_once(|| {
                let message = format!("no io_uring ({error}): the device uring works as ufs");
                Report::new(ReportSource::Device).warn(&message);
            });
        }
        outcome.is_ok()
    }

    /// As [`is_usable`](Self::is_usable) without a report: the error if not.
    pub(super) fn has_rings(&self) -> Result<(), &str> {
        let asked = self.usable.get_or_init(|| {
            let ring = first_ring().map_err(|error| error.to_string())?;
            self.spare().push(ring);
            Ok(())
        });
        asked.as_ref().copied().map_err(String::as_str)
    }

    /// Calls `work` with a ring; no effect if none is available. A broken ring is dropped.
    pub(super) fn with_ring(&self, work: impl FnOnce(&mut IoRing)) {
        let spare = self.spare().pop().filter(IoRing::is_fit);
        let Some(mut ring) = spare.or_else(|| IoRing::new().ok()) else { return };
        work(&mut ring);
        if ring.is_fit() {
            self.spare().push(ring);
        }
    }

    fn spare(&self) -> MutexGuard<'_, Vec<IoRing>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn first_ring() -> io::Result<IoRing> {
    let setting = std::env::var_os("AQUEDUCT_URING").filter(|value| !value.is_empty());
    match setting.as_deref().map(OsStr::as_encoded_bytes) {
        Some(b"off") => return Err(io::Error::other("switched off by AQUEDUCT_URING")),
        None | Some(b"on") => {}
        Some(_) => report_setting(&setting.unwrap_or_default()),
    }
    IoRing::new()
}

/// Reports an invalid value of the variable once.
fn report_setting(value: &OsStr) {
    static REPORTED: Once = Once::new();
    let value = value.display();
    REPORTED.call_once(|| {
        let message =
            format!("AQUEDUCT_URING={value} has no effect: it takes off to do without io_uring, or on");
        Report::new(ReportSource::Device).warn(&message);
    });
}
