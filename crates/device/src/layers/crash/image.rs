//! The state after a power cut, as a value that can be read or applied to the inner device.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use crate::{Handle, HandleExt, Result, Segment};

/// The unit that a disk writes atomically.
pub(super) const SECTOR: usize = 512;

/// One state that a power cut may leave behind, for all files with unsynced changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrashImage {
    pub(super) files: BTreeMap<OsString, Option<FileImage>>,
}

impl CrashImage {
    /// The bytes of a file after the cut, given its durable bytes before it; `None` if it is missing.
    pub fn file_bytes(&self, name: impl AsRef<OsStr>, durable: &[u8]) -> Option<Vec<u8>> {
        match self.files.get(name.as_ref()) {
            Some(survivor) => survivor.as_ref().map(|survivor| survivor.bytes(durable)),
            None => Some(durable.to_vec()),
        }
    }
}

/// The state of one file: a length, and sectors that differ from the durable ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileImage {
    /// The durable bytes from here on are lost.
    pub(super) cut: Option<u64>,
    /// Sectors with their offsets, ascending; none goes beyond the length.
    pub(super) sectors: Vec<(u64, Vec<u8>)>,
    pub(super) len: u64,
}

impl FileImage {
    /// The bytes of the file, given its durable bytes.
    fn bytes(&self, durable: &[u8]) -> Vec<u8> {
        let mut image = durable.to_vec();
        image.truncate(self.cut.map_or(usize::MAX, |cut| cut as usize));
        image.resize(self.len as usize, 0);
        for (offset, bytes) in &self.sectors {
            image[*offset as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        image
    }

    /// Applies the state to the durable file.
    pub(super) fn apply(&self, file: &dyn Handle) -> Result<()> {
        if let Some(cut) = self.cut
            && cut < file.len()?
        {
            file.set_len(cut)?;
        }
        let segments: Vec<_> =
            self.sectors.iter().map(|(offset, bytes)| Segment::new(*offset, bytes)).collect();
        file.write_all(&segments)?;
        if file.len()? == self.len { Ok(()) } else { file.set_len(self.len) }
    }
}
