//! Crash images: the power is cut in every operation of a sequence, and what is left must be something that a disk may leave.
//!
//! The check is independent of the `crash` wrapper. It keeps the whole file as it was after each operation since the last
//! sync (the *moments*), and checks the surviving file: the length is that of a moment; each sector is that of a moment, less what a
//! later one truncated; the file is missing only if its entry was never synced. With no operation since the sync, only the synced bytes are valid.

use std::ffi::OsStr;
use std::sync::Arc;

use aqueduct_device::layers::CrashDevice;
use aqueduct_device::{Device, DeviceOpenOptions, Error, Handle, HandleExt, Kind, SyncScope};

use crate::oracle::{self, DeviceOperation, operation_sequences};

/// What a disk writes as a whole.
const SECTOR: usize = 512;

/// Runs random sequences of operations and cuts the power in each operation; panics with the shortest sequence that fails.
///
/// `inner` makes an empty device to put under the wrapper, on which `name` can be created.
pub fn check(title: &str, cases: u32, name: &OsStr, inner: impl Fn() -> Arc<dyn Device>) {
    oracle::run(title, cases, operation_sequences(1..12), |steps| cut_everywhere(name, steps, 3, &inner));
}

/// Runs the steps on new devices and cuts the power in every operation, with the given number of seeds.
pub fn cut_everywhere(
    name: &OsStr,
    steps: &[DeviceOperation],
    seeds: u64,
    inner: &dyn Fn() -> Arc<dyn Device>,
) -> Result<(), String> {
    for after in 0..=steps.len() as u64 {
        for seed in 0..seeds {
            cut_once(name, steps, after, seed, inner())
                .map_err(|problem| format!("power cut after {after} changes, seed {seed}: {problem}"))?;
        }
    }
    Ok(())
}

/// Runs the steps until the power fails, or cuts it at the end, and checks the surviving file.
fn cut_once(
    name: &OsStr,
    steps: &[DeviceOperation],
    after: u64,
    seed: u64,
    inner: Arc<dyn Device>,
) -> Result<(), String> {
    let crash = CrashDevice::new(inner).after(after, seed);
    let options = DeviceOpenOptions::read_write().create(true);
    let file = crash.open(name, &options).map_err(|error| error.to_string())?;
    let mut history = CrashHistory::default();
    let mut lost = false;
    for step in steps {
        match play(&*file, step) {
            Ok(()) => history.done(step),
            Err(error) if error.kind() == Kind::PowerLost => {
                history.interrupted(step);
                lost = true;
                break;
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    if !lost {
        crash.cut(seed).map_err(|error| error.to_string())?;
    }
    if !matches!(file.len(), Err(error) if error.kind() == Kind::PowerLost) {
        return Err("a handle from before the power cut still works".into());
    }
    history.check_survivor(left(&crash, name)?.as_deref())
}

/// The whole file after the cut; `None` if it is gone.
fn left(crash: &CrashDevice, name: &OsStr) -> Result<Option<Vec<u8>>, String> {
    let read = || -> Result<Vec<u8>, Error> {
        let file = crash.open(name, &DeviceOpenOptions::read_only())?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_at(0, &mut bytes)?;
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == Kind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn play(file: &dyn Handle, step: &DeviceOperation) -> Result<(), Error> {
    match step {
        DeviceOperation::Write { salt, extents } => oracle::write(file, *salt, extents),
        DeviceOperation::SetLen(len) => file.set_len(*len),
        DeviceOperation::Preallocate(len) => file.preallocate(*len),
        DeviceOperation::Sync(scope) => file.sync(*scope),
        DeviceOperation::Read(_) | DeviceOperation::Len | DeviceOperation::Reopen => Ok(()),
    }
}

/// What a file has been since its last sync.
struct CrashHistory {
    moments: Vec<Vec<u8>>,
    entry_synced: bool,
}

impl Default for CrashHistory {
    fn default() -> Self {
        Self { moments: vec![Vec::new()], entry_synced: false }
    }
}

impl CrashHistory {
    fn done(&mut self, step: &DeviceOperation) {
        self.interrupted(step);
        if let DeviceOperation::Sync(scope) = step {
            self.moments.drain(..self.moments.len() - 1);
            self.entry_synced |= *scope == SyncScope::Entry;
        }
    }

    /// A step that the power failed in may have happened.
    fn interrupted(&mut self, step: &DeviceOperation) {
        let mut bytes = self.moments.last().cloned().unwrap_or_default();
        step.apply(&mut bytes);
        self.moments.push(bytes);
    }

    fn check_survivor(&self, left: Option<&[u8]>) -> Result<(), String> {
        let Some(left) = left else {
            return if self.entry_synced {
                Err("the file is gone, but its entry was synced".into())
            } else {
                Ok(())
            };
        };
        if !self.moments.iter().any(|moment| moment.len() == left.len()) {
            return Err(format!("the length {} was never that of the file", left.len()));
        }
        match left.chunks(SECTOR).enumerate().find(|(index, bytes)| !self.had_bytes(index * SECTOR, bytes)) {
            Some((index, _)) => Err(format!("sector {index} was never like that")),
            None => Ok(()),
        }
    }

    /// Whether these bytes were at this place at some moment, less what a later moment cut off.
    fn had_bytes(&self, place: usize, bytes: &[u8]) -> bool {
        self.moments.iter().enumerate().any(|(index, moment)| {
            let later = self.moments[index..].iter().map(Vec::len);
            let mut ends: Vec<usize> = later.filter(|&end| end <= moment.len()).collect();
            ends.dedup();
            ends.iter().any(|&end| {
                let there = moment[..end].get(place..).unwrap_or_default();
                let there = &there[..there.len().min(bytes.len())];
                bytes.starts_with(there) && bytes[there.len()..].iter().all(|&byte| byte == 0)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::byte_pattern::byte;

    fn history() -> CrashHistory {
        let mut history = CrashHistory::default();
        history.done(&DeviceOperation::Write { salt: 1, extents: vec![(0, 2000)] });
        history.done(&DeviceOperation::Sync(SyncScope::Entry));
        history.done(&DeviceOperation::Write { salt: 2, extents: vec![(0, 1024)] });
        history
    }

    fn mixed(sectors: &[u8], len: u64) -> Vec<u8> {
        (0..len).map(|place| byte(sectors[place as usize / SECTOR], place)).collect()
    }

    #[test]
    fn sectors_of_any_moment_are_accepted() {
        for sectors in [[1, 1, 1, 1], [2, 2, 1, 1], [1, 2, 1, 1], [2, 1, 1, 1]] {
            assert_eq!(history().check_survivor(Some(&mixed(&sectors, 2000))), Ok(()));
        }
    }

    #[test]
    fn other_contents_are_rejected() {
        let history = history();
        assert!(history.check_survivor(None).is_err(), "the entry was synced");
        assert!(history.check_survivor(Some(&mixed(&[1; 4], 1999))).is_err(), "a length that never was");
        assert!(
            history.check_survivor(Some(&mixed(&[1, 1, 2, 1], 2000))).is_err(),
            "bytes that were never written there"
        );
        let mut torn = mixed(&[2, 1, 1, 1], 2000);
        torn[..100].copy_from_slice(&mixed(&[1], 100));
        assert!(history.check_survivor(Some(&torn)).is_err(), "a sector is written as a whole");
    }
}
