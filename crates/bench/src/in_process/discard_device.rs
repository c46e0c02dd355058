//! A device that accepts data without CPU time, as a disk with DMA: nothing is copied, nothing is stored.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use aqueduct::device::{
    Capabilities, Device, DeviceOpenOptions, Error, Handle, Kind, Operation, Result, Segment, SegmentMut,
    SyncScope, register_device,
};

/// Names and lengths of files.
#[derive(Default)]
struct DiscardDevice(Mutex<HashMap<OsString, Arc<AtomicU64>>>);

struct DiscardHandle {
    name: OsString,
    len: Arc<AtomicU64>,
}

/// Registers the prefix `discard:`.
pub(crate) fn register() {
    register_device("discard", Arc::new(DiscardDevice::default())).expect("the prefix is free");
}

impl Device for DiscardDevice {
    fn open(&self, name: &OsStr, _: &DeviceOpenOptions) -> Result<Arc<dyn Handle>> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let len = Arc::clone(files.entry(name.into()).or_default());
        Ok(Arc::new(DiscardHandle { name: name.into(), len }))
    }

    fn delete(&self, name: &OsStr) -> Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        Ok(())
    }
}

impl Handle for DiscardHandle {
    fn read(&self, _: &mut [SegmentMut<'_>]) -> Result<u64> {
        Err(Error::new(Kind::PermissionDenied, Operation::Read, &self.name))
    }

    fn write(&self, segments: &[Segment<'_>]) -> Result<u64> {
        let end = segments.iter().map(|segment| segment.offset + segment.bytes.len() as u64).max();
        self.len.fetch_max(end.unwrap_or(0), Ordering::Relaxed);
        Ok(segments.iter().map(|segment| segment.bytes.len() as u64).sum())
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
