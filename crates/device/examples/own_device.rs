//! A device of one's own, in some sixty lines: names that mean files in a scratch folder.
//!
//! Two methods of `Device` and six of `Handle` are all there is to write; lists, short transfers, names, wrappers and the conformance
//! suite come with the crate. Run it: `cargo run -p aqueduct-device --example own_device`.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;

use aqueduct_device::{
    Capabilities, Device, DeviceOpenOptions, Error, Handle, HandleExt, Kind, Operation, Segment, SegmentMut,
};
use aqueduct_device::{Result, SyncScope, name, segment};

/// Names mean files in this folder.
pub(crate) struct Scratch(pub(crate) PathBuf);

struct ScratchFile {
    name: OsString,
    file: File,
    options: DeviceOpenOptions,
}

impl Device for Scratch {
    fn open(&self, name: &OsStr, options: &DeviceOpenOptions) -> Result<Arc<dyn Handle>> {
        name::check(name, Operation::Open)?;
        options.check(name)?;
        let mut open = File::options();
        open.read(options.is_read()).write(options.is_write()).truncate(options.is_truncate());
        open.create(options.is_create()).create_new(options.is_exclusive());
        let file =
            open.open(self.0.join(name)).map_err(|error| Error::from_io(error, Operation::Open, name))?;
        Ok(Arc::new(ScratchFile { name: name.into(), file, options: options.clone() }))
    }

    fn delete(&self, name: &OsStr) -> Result<()> {
        name::check(name, Operation::Delete)?;
        std::fs::remove_file(self.0.join(name))
            .map_err(|error| Error::from_io(error, Operation::Delete, name))
    }
}

impl ScratchFile {
    fn allow(&self, allowed: bool, operation: Operation) -> Result<()> {
        if allowed { Ok(()) } else { Err(Error::new(Kind::PermissionDenied, operation, &self.name)) }
    }

    fn outcome<T>(&self, operation: Operation, outcome: io::Result<T>) -> Result<T> {
        outcome.map_err(|error| Error::from_io(error, operation, &self.name))
    }
}

impl Handle for ScratchFile {
    fn read(&self, segments: &mut [SegmentMut<'_>]) -> Result<u64> {
        self.allow(self.options.is_read(), Operation::Read)?;
        segment::check(segments, Operation::Read, &self.name)?;
        // A device may stop short. One segment per call is enough: `read_full` comes back for the others.
        let Some(segment) = segments.iter_mut().find(|segment| !segment.bytes.is_empty()) else {
            return Ok(0);
        };
        let count = self.outcome(Operation::Read, self.file.read_at(segment.bytes, segment.offset));
        count.map(|count| count as u64).map_err(|error| error.at(segment.offset))
    }

    fn write(&self, segments: &[Segment<'_>]) -> Result<u64> {
        self.allow(self.options.is_write(), Operation::Write)?;
        segment::check(segments, Operation::Write, &self.name)?;
        let Some(segment) = segments.iter().find(|segment| !segment.bytes.is_empty()) else { return Ok(0) };
        let count = self.outcome(Operation::Write, self.file.write_at(segment.bytes, segment.offset));
        count.map(|count| count as u64).map_err(|error| error.at(segment.offset))
    }

    fn len(&self) -> Result<u64> {
        self.outcome(Operation::Len, self.file.metadata().map(|data| data.len()))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.allow(self.options.is_write(), Operation::SetLen)?;
        self.outcome(Operation::SetLen, self.file.set_len(len))
    }

    fn sync(&self, _: SyncScope) -> Result<()> {
        self.outcome(Operation::Sync, self.file.sync_all())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { persistent: true, shared: true, ..Capabilities::default() }
    }
}

fn main() -> Result<()> {
    aqueduct_device::register_device("scratch", Arc::new(Scratch(std::env::temp_dir())))?;
    // From here on it is a device like any other, also inside wrappers.
    let name = "throttle=1GB/s:scratch:own_device_example";
    let file = aqueduct_device::open(name, &DeviceOpenOptions::read_write().create(true).truncate(true))?;
    file.write_all(&[Segment::new(5, b"me Ishmael"), Segment::new(0, b"Call ")])?;
    let mut text = [0; 15];
    file.read_at(0, &mut text)?;
    println!("{}", String::from_utf8_lossy(&text));
    drop(file);
    aqueduct_device::delete(name)
}
