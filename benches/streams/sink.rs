//! A medium that takes bytes without a processor, as a disk does that reads memory by itself: nothing is copied, nothing is kept.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use aqueduct::device::{
    Capabilities, Device, DeviceOpenOptions, Error, Handle, Kind, Operation, Result, Segment, SegmentMut,
    SyncScope, register_device,
};

/// Names, and the lengths of files that would be there.
#[derive(Default)]
struct Sink(Mutex<HashMap<OsString, Arc<AtomicU64>>>);

struct Sunk {
    name: OsString,
    len: Arc<AtomicU64>,
}

/// Makes `sink:` a device, once.
pub(crate) fn register() {
    register_device("sink", Arc::new(Sink::default())).expect("the prefix is free");
}

impl Device for Sink {
    fn open(&self, name: &OsStr, _: &DeviceOpenOptions) -> Result<Arc<dyn Handle>> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let len = Arc::clone(files.entry(name.into()).or_default());
        Ok(Arc::new(Sunk { name: name.into(), len }))
    }

    fn delete(&self, name: &OsStr) -> Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        Ok(())
    }
}

impl Handle for Sunk {
    fn read(&self, _: &mut [SegmentMut<'_>]) -> Result<u64> {
        Err(Error::new(Kind::PermissionDenied, Operation::Read, &self.name))
    }

    fn write(&self, pieces: &[Segment<'_>]) -> Result<u64> {
        let end = pieces.iter().map(|piece| piece.offset + piece.bytes.len() as u64).max();
        self.len.fetch_max(end.unwrap_or(0), Ordering::Relaxed);
        Ok(pieces.iter().map(|piece| piece.bytes.len() as u64).sum())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.len.load(Ordering::Relaxed))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.len.store(len, Ordering::Relaxed);
        Ok(())
    }

    fn sync(&self, _: SyncScope) -> Result<()> {
        Ok(())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { persistent: true, shared: true, ..Capabilities::default() }
    }
}
