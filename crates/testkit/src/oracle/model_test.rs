//! A sequence of operations on a device and on a vector, compared.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use aqueduct_device::{Handle, HandleExt, SegmentMut};

use super::device_operation::{DeviceOperation, apply_prefix};
use crate::device::DeviceUnderTest;

/// An operation that only looks is tried so often before a failing device counts as broken.
const TRIES: usize = 200;

type Outcome = Result<(), String>;

/// An open file and what it should hold.
pub(super) struct ModelTest<'a> {
    subject: &'a DeviceUnderTest,
    name: OsString,
    file: Arc<dyn Handle>,
    model: Vec<u8>,
}

impl<'a> ModelTest<'a> {
    /// Makes a new file.
    pub(super) fn begin(subject: &'a DeviceUnderTest, name: &OsStr) -> Result<Self, String> {
        let file = retry(|| subject.open(name, &super::options(true)))?;
        Ok(Self { subject, name: name.to_owned(), file, model: Vec::new() })
    }

    /// Does one step on both sides and compares them.
    pub(super) fn step(&mut self, step: &DeviceOperation) -> Outcome {
        match step {
            DeviceOperation::Write { salt, extents } => self.write(step, *salt, extents)?,
            DeviceOperation::Read(extents) => self.read(extents)?,
            DeviceOperation::SetLen(len) => {
                let outcome = self.file.set_len(*len);
                self.resized(step, outcome.is_ok())?;
            }
            DeviceOperation::Preallocate(len) => {
                let outcome = self.file.preallocate(*len);
                self.resized(step, outcome.is_ok())?;
            }
            DeviceOperation::Len => {}
            // A failed sync promises nothing, and takes nothing away.
            DeviceOperation::Sync(scope) => drop(self.file.sync(*scope)),
            DeviceOperation::Reopen => {
                self.file = retry(|| self.subject.open(&self.name, &super::options(false)))?;
            }
        }
        let found = self.read_all()?;
        same(&found, &self.model)
    }

    fn write(&mut self, step: &DeviceOperation, salt: u8, extents: &[(u64, usize)]) -> Outcome {
        match super::write(&*self.file, salt, extents) {
            Ok(()) => {
                step.apply(&mut self.model);
                Ok(())
            }
            Err(error) => {
                let (mut least, mut most) = (self.model.clone(), self.model.clone());
                apply_prefix(&mut least, salt, extents, error.transferred());
                step.apply(&mut most);
                self.adopt_state(&least, &most).map_err(|problem| format!("after {error}: {problem}"))
            }
        }
    }

    /// After a change of the length that was done or failed.
    fn resized(&mut self, step: &DeviceOperation, done: bool) -> Outcome {
        let mut after = self.model.clone();
        step.apply(&mut after);
        if done {
            self.model = after;
            return Ok(());
        }
        let found = self.read_all()?;
        if found != self.model && found != after {
            return Err(format!("a length of {} after a failure is neither old nor new", found.len()));
        }
        self.model = found;
        Ok(())
    }

    /// Takes over what the device holds if that lies between what must have happened and what may have.
    fn adopt_state(&mut self, least: &[u8], most: &[u8]) -> Outcome {
        let found = self.read_all()?;
        if found.len() < least.len() || found.len() > most.len() {
            return Err(format!("a length of {} is not in {}..={}", found.len(), least.len(), most.len()));
        }
        for (place, &byte) in found.iter().enumerate() {
            let old = least.get(place).copied().unwrap_or(0);
            if byte != old && byte != most[place] {
                return Err(format!("byte {place} is {byte}, neither {old} nor {}", most[place]));
            }
        }
        self.model = found;
        Ok(())
    }

    fn read(&self, extents: &[(u64, usize)]) -> Outcome {
        let mut bytes: Vec<Vec<u8>> = extents.iter().map(|&(_, length)| vec![0xEE; length]).collect();
        let count = retry(|| {
            let mut pieces: Vec<_> = extents
                .iter()
                .zip(&mut bytes)
                .map(|(&(offset, _), bytes)| SegmentMut::new(offset, bytes))
                .collect();
            self.file.read_full(&mut pieces)
        })?;
        let mut expected = Vec::new();
        for &(offset, length) in extents {
            let there = self.model.get(offset as usize..).unwrap_or_default();
            expected.extend_from_slice(&there[..there.len().min(length)]);
            if there.len() < length {
                break;
            }
        }
        if count != expected.len() as u64 {
            return Err(format!("{count} bytes were read, {} are there", expected.len()));
        }
        same(&bytes.concat()[..expected.len()], &expected)
    }

    /// The whole file.
    fn read_all(&self) -> Result<Vec<u8>, String> {
        let len = retry(|| self.file.len())?;
        let mut bytes = vec![0xEE; len as usize];
        let count = retry(|| self.file.read_at(0, &mut bytes))?;
        if count == len { Ok(bytes) } else { Err(format!("{count} bytes can be read of {len}")) }
    }
}

/// Tries again what fails at random.
fn retry<T>(mut attempt: impl FnMut() -> aqueduct_device::Result<T>) -> Result<T, String> {
    let mut outcome = attempt();
    for _ in 1..TRIES {
        if outcome.is_ok() {
            break;
        }
        outcome = attempt();
    }
    outcome.map_err(|error| error.to_string())
}

fn same(found: &[u8], expected: &[u8]) -> Outcome {
    if found == expected {
        return Ok(());
    }
    if found.len() != expected.len() {
        return Err(format!("the length is {}, expected {}", found.len(), expected.len()));
    }
    let place = found.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
    Err(format!("byte {place} is {}, expected {}", found[place], expected[place]))
}
