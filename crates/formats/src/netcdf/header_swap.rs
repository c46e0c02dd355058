//! Replacing the header of a file with data: a copy of the new one is at the end of the file until it is complete in its place, so that
//! neither the old nor the new one can be lost.

use aqueduct_file::File;
use xxhash_rust::xxh3::xxh3_64;

use super::file::NetcdfFile;
use super::header::NetcdfHeader;
use super::sizes::DatasetSizes;
use crate::error::{Kind, Result};

/// In the place of the magic while a header is replaced; its copy is whole then.
pub(crate) const BEING_REPLACED: [u8; 4] = *b"CDF?";
/// What a device writes whole or not at all.
const SECTOR: usize = 512;
/// The trailer of the copy: its length, its checksum, and this.
const SIGN: &[u8; 8] = b"AQUEDUCT";
const FOOTER: u64 = 24;

/// The copy of a header as stored at the end of the file.
fn copy(header: &[u8]) -> Vec<u8> {
    let length = (header.len() as u64).to_be_bytes();
    [header, &length, &xxh3_64(header).to_be_bytes(), SIGN].concat()
}

/// The header whose replacing was interrupted, and where the copy of it begins, if the file ends with one.
pub(super) fn find_interrupted_swap(file: &File, longest: u64) -> Result<Option<(Vec<u8>, u64)>> {
    let Some(footer_at) = file.size()?.checked_sub(FOOTER) else { return Ok(None) };
    let mut footer = [[0u8; 8]; 3];
    file.at(footer_at).read(footer.as_flattened_mut())?;
    let [length, sum] = [footer[0], footer[1]].map(u64::from_be_bytes);
    let begin = footer_at.checked_sub(length).filter(|_| length <= longest && &footer[2] == SIGN);
    let Some(begin) = begin else { return Ok(None) };
    let mut header = vec![0; length as usize];
    file.at(begin).read(&mut header)?;
    Ok((xxh3_64(&header) == sum).then_some((header, begin)))
}

impl NetcdfFile {
    /// Writes a header in the place of one that a file with data has. Collective.
    pub(super) fn replace_header(&self, operation: &'static str, header: &NetcdfHeader) -> Result<()> {
        let bytes = self.encoded(operation, header)?;
        if bytes.len() <= SECTOR {
            self.core.agree(operation, self.write_on_root(0, &bytes))?;
            return self.core.sync();
        }
        let geometry =
            DatasetSizes::of(header).map_err(|what| self.core.error(Kind::TooLarge, operation, what))?;
        // After all data of the file, written or not.
        let data = geometry.end(header, self.records()).unwrap_or(0).max(bytes.len() as u64);
        let end = self.core.agree(operation, self.core.file.size())?.max(data);
        self.core.agree(operation, self.write_on_root(end, &copy(&bytes)))?;
        self.core.sync()?;
        self.finish_header(operation, &bytes, end)
    }

    /// Writes a header whose copy is at `end`, and removes the copy. Collective.
    pub(super) fn finish_header(&self, operation: &'static str, bytes: &[u8], end: u64) -> Result<()> {
        self.write_magic(operation, BEING_REPLACED)?;
        let (magic, rest) = bytes.split_at(BEING_REPLACED.len().min(bytes.len()));
        self.core.agree(operation, self.write_on_root(magic.len() as u64, rest))?;
        self.core.sync()?;
        self.core.agree(operation, self.write_on_root(0, magic))?;
        self.core.sync()?;
        self.core.file.set_size(end)?;
        self.core.sync()
    }

    /// Replaces the magic by a mark of the change in progress, durably. Collective.
    pub(super) fn write_magic(&self, operation: &'static str, mark: [u8; 4]) -> Result<()> {
        self.core.agree(operation, self.write_on_root(0, &mark))?;
        self.core.sync()
    }
}
