//! The state of a crash wrapper: open files, files with unsynced changes, and the scheduled power cut.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::sync::Arc;

use super::super::random::SeededRandom;
use super::image::{CrashImage, SECTOR};
use super::mapped_image::MappedImage;
use super::unsynced::UnsyncedChanges;
use crate::{Device, DeviceOpenOptions, Handle, Mapping, RangeLocks, Result, Segment, SegmentMut, SyncScope};

/// The state of a crash wrapper. A handle whose file is no longer here is from before a power cut.
#[derive(Default)]
pub(super) struct CrashState {
    files: BTreeMap<u64, CrashFile>,
    /// Files by name; a file that was deleted while open has none.
    names: BTreeMap<OsString, u64>,
    next: u64,
    /// The number of operations that changed something.
    pub(super) operations: u64,
    /// After which operation the power fails, and the seed of what survives.
    pub(super) failure: Option<(u64, u64)>,
}

/// A file that is open, or has unsynced changes, or is new and not synced.
pub(super) struct CrashFile {
    name: OsString,
    pub(super) unsynced: UnsyncedChanges,
    /// Its entry was not synced since it was created.
    fresh: bool,
    /// The handles of the inner device, by the numbers of the outer ones.
    handles: BTreeMap<u64, Arc<dyn Handle>>,
    /// A handle that can write, kept while there are unsynced changes.
    writer: Option<Arc<dyn Handle>>,
    locks: Arc<RangeLocks>,
    /// Present after a part of the file was mapped.
    mapped_image: Option<MappedImage>,
}

impl CrashState {
    /// Adds a handle; returns the numbers of file and handle and the locks of the file.
    pub(super) fn enter(
        &mut self,
        name: &OsStr,
        inner: Arc<dyn Handle>,
        options: &DeviceOpenOptions,
        created: bool,
    ) -> Result<(u64, u64, Arc<RangeLocks>)> {
        let number = match self.names.get(name) {
            Some(&number) => number,
            None => self.add(name, inner.len()?),
        };
        let id = self.number();
        let file = self.files.get_mut(&number).expect("a name refers to a file");
        file.fresh |= created;
        if options.is_write() && file.writer.is_none() {
            file.writer = Some(Arc::clone(&inner));
        }
        if options.is_truncate() {
            file.set_len(0)?;
        }
        file.handles.insert(id, inner);
        Ok((number, id, Arc::clone(&file.locks)))
    }

    fn add(&mut self, name: &OsStr, len: u64) -> u64 {
        let number = self.number();
        let file = CrashFile {
            name: name.to_owned(),
            unsynced: UnsyncedChanges::new(len),
            fresh: false,
            handles: BTreeMap::new(),
            writer: None,
            locks: Arc::default(),
            mapped_image: None,
        };
        self.files.insert(number, file);
        self.names.insert(name.to_owned(), number);
        number
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The file and the handle inside; none after a power cut.
    pub(super) fn find(&mut self, file: u64, id: u64) -> Option<(&mut CrashFile, Arc<dyn Handle>)> {
        let file = self.files.get_mut(&file)?;
        let inner = Arc::clone(file.handles.get(&id)?);
        Some((file, inner))
    }

    /// Removes a handle, and the file if it has no unsynced changes; returns the inner handle.
    pub(super) fn leave(&mut self, number: u64, id: u64) -> Option<Arc<dyn Handle>> {
        let file = self.files.get_mut(&number)?;
        let inner = file.handles.remove(&id);
        if !file.handles.is_empty() {
            return inner;
        }
        let named = self.names.get(&file.name) == Some(&number);
        if file.unsynced.is_empty() || !named {
            file.writer = None;
            if !(file.fresh && named) {
                self.forget(number, named);
            }
        }
        inner
    }

    fn forget(&mut self, number: u64, named: bool) {
        if let Some(file) = self.files.remove(&number)
            && named
        {
            self.names.remove(&file.name);
        }
    }

    /// Deletes a file here and on the inner device; open handles stay valid if the inner device supports that.
    pub(super) fn delete(&mut self, device: &dyn Device, name: &OsStr) -> Result<()> {
        let Some(&number) = self.names.get(name) else { return device.delete(name) };
        let file = self.files.get_mut(&number).expect("a name refers to a file");
        let idle = file.handles.is_empty();
        if idle {
            // A device may refuse to delete what is open.
            file.writer = None;
        }
        if let Err(error) = device.delete(name) {
            if idle && !file.unsynced.is_empty() {
                file.writer = device.open(name, &DeviceOpenOptions::read_write()).ok();
            }
            return Err(error);
        }
        self.names.remove(name);
        if idle {
            self.files.remove(&number);
        }
        Ok(())
    }

    /// Counts an operation that changes something; the seed of the power cut if the power fails in it.
    pub(super) fn count(&mut self) -> Option<u64> {
        self.operations += 1;
        self.failure.filter(|(after, _)| self.operations > *after).map(|(_, seed)| seed)
    }

    pub(super) fn crash_image(&self, seed: u64) -> CrashImage {
        let mut survivor = CrashImage::default();
        for (index, (name, number)) in self.names.iter().enumerate() {
            let Some(file) = self.files.get(number) else { continue };
            let mut random = SeededRandom::keyed(seed, &[index as u64]);
            let gone = file.fresh && random.chance(0.5);
            if gone || !file.unsynced.is_empty() {
                let left = (!gone).then(|| file.unsynced.sample(random.next()));
                survivor.files.insert(name.clone(), left);
            }
        }
        survivor
    }

    /// Cuts the power: clears the state and writes the surviving data to the inner device. Continues after errors and returns the first.
    pub(super) fn cut(&mut self, device: &dyn Device, seed: u64) -> Result<()> {
        let survivor = self.crash_image(seed);
        let names = std::mem::take(&mut self.names);
        let mut files = std::mem::take(&mut self.files);
        self.failure = None;
        let mut outcome = Ok(());
        for (name, left) in &survivor.files {
            let Some(file) = names.get(name).and_then(|number| files.remove(number)) else { continue };
            let applied = match (left, file.writer.clone()) {
                (Some(left), Some(writer)) => left.apply(&*writer),
                (Some(_), None) => Ok(()),
                (None, writer) => {
                    drop((file, writer));
                    device.delete(name)
                }
            };
            outcome = outcome.and(applied);
        }
        outcome
    }
}

impl CrashFile {
    /// Writes segments.
    pub(super) fn write(&mut self, segments: &[Segment<'_>], inner: &dyn Handle) -> Result<u64> {
        let count = self.unsynced.write(segments, inner)?;
        self.mapped_image.as_ref().map_or(Ok(()), |shadow| shadow.write(segments))?;
        Ok(count)
    }

    pub(super) fn set_len(&mut self, len: u64) -> Result<()> {
        self.unsynced.set_len(len);
        self.mapped_image.as_ref().map_or(Ok(()), |shadow| shadow.set_len(len))
    }

    /// A mapped part of a copy of the file: stores to it are not durable.
    pub(super) fn map(&mut self, range: Range<u64>, write: bool, inner: &dyn Handle) -> Option<Mapping> {
        if self.mapped_image.is_none() {
            let pending = &self.unsynced;
            let read = |offset, bytes: &mut [u8]| {
                pending.read(&mut [SegmentMut::new(offset, bytes)], inner).map(drop)
            };
            self.mapped_image = MappedImage::new(pending.len(), read);
        }
        self.mapped_image.as_ref()?.map(range, write)
    }

    /// Records what was stored to mapped memory in a range as one write.
    pub(super) fn record_stores(&mut self, range: &Range<u64>, inner: &dyn Handle) -> Result<()> {
        let (Some(shadow), sector) = (&self.mapped_image, SECTOR as u64) else { return Ok(()) };
        let start = range.start / sector * sector;
        let end = range.end.next_multiple_of(sector).min(self.unsynced.len());
        if start >= end {
            // The file was truncated concurrently: nothing was stored in it.
            return Ok(());
        }
        let (mut now, mut before) = (vec![0; (end - start) as usize], vec![0; (end - start) as usize]);
        shadow.read(start, &mut now)?;
        self.unsynced.read(&mut [SegmentMut::new(start, &mut before)], inner)?;
        let sectors = now.chunks(SECTOR).zip(before.chunks(SECTOR)).zip(0u64..);
        let changed = sectors.filter(|((now, before), _)| now != before);
        let segments: Vec<_> = changed.map(|((now, _), at)| Segment::new(start + at * sector, now)).collect();
        self.unsynced.write(&segments, inner).map(drop)
    }

    /// Writes unsynced changes to the inner device and syncs it; after an error they stay unsynced.
    pub(super) fn sync(&mut self, inner: &dyn Handle, scope: SyncScope) -> Result<()> {
        let target = self.writer.as_deref().unwrap_or(inner);
        if !self.unsynced.is_empty() {
            self.unsynced.newest().apply(target)?;
        }
        target.sync(scope)?;
        self.unsynced = UnsyncedChanges::new(self.unsynced.len());
        self.fresh &= scope != SyncScope::Entry;
        Ok(())
    }
}
