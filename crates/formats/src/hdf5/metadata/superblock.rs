//! The superblock: the first bytes of a file, which refer to the root group and the end of the file. Pure.
//!
//! Version 0 is written for new files; versions 0 to 3 are changed.

use super::message_encode::put_words;
use super::object_header::{number_at, word_at};
use super::symbol_table::{GroupNodeSizes, SymbolTarget};
use crate::hdf5::model::tree::UNDEFINED_ADDRESS;
use crate::hdf5::reader::checksum::lookup3;

const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";
/// Half the children of a node of chunks, as in all files of version 0.
const CHUNK_K: u64 = 32;
/// Bytes of the superblock of a new file.
pub(crate) const SUPERBLOCK_BYTES: u64 = 96;

/// A superblock as the file has it.
#[derive(Clone, Debug)]
pub(crate) struct StoredSuperblock {
    version: u8,
    bytes: Vec<u8>,
    pub(crate) sizes: GroupNodeSizes,
}

impl StoredSuperblock {
    /// That of a new file.
    pub(crate) fn new() -> Self {
        let sizes = GroupNodeSizes::default();
        let mut bytes = SIGNATURE.to_vec();
        bytes.extend_from_slice(b"\0\0\0\0\0\x08\x08\0");
        for number in [sizes.leaf_k, sizes.inner_k, 0, 0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        put_words(&mut bytes, [0, UNDEFINED_ADDRESS, 0, UNDEFINED_ADDRESS]);
        bytes.resize(SUPERBLOCK_BYTES as usize, 0);
        Self { version: 0, bytes, sizes }
    }

    /// The first bytes of a file; an error says why its metadata is not changed.
    pub(crate) fn decode(first: &[u8]) -> Result<Self, String> {
        if !first.starts_with(SIGNATURE) {
            return Err("its superblock is not at its beginning (a user block)".to_owned());
        }
        let version = *first.get(8).ok_or("its superblock is cut off")?;
        let (length, widths, base_at) = match version {
            0 => (96, 13, 24),
            1 => (100, 13, 28),
            2 | 3 => (48, 9, 12),
            _ => return Err(format!("its superblock is of version {version}")),
        };
        let bytes = first.get(..length).ok_or("its superblock is cut off")?.to_vec();
        if bytes[widths..widths + 2] != [8, 8] || word_at(&bytes, base_at)? != 0 {
            return Err("its addresses are not of eight bytes from its beginning".to_owned());
        }
        let mut sizes = GroupNodeSizes::default();
        if version < 2 {
            sizes.leaf_k = number_at(&bytes, 16, 2)? as u16;
            sizes.inner_k = number_at(&bytes, 18, 2)? as u16;
            if sizes.leaf_k == 0 || sizes.inner_k == 0 {
                return Err("its groups have nodes without entries".to_owned());
            }
        }
        if version == 1 && number_at(&bytes, 24, 2)? != CHUNK_K {
            return Err("its trees of chunks have nodes of another size".to_owned());
        }
        Ok(Self { version, bytes, sizes })
    }

    /// The address of the root group's header.
    pub(crate) fn root(&self) -> Result<u64, String> {
        word_at(&self.bytes, [64, 68, 36, 36][usize::from(self.version)])
    }

    /// The end of the file.
    pub(crate) fn end(&self) -> Result<u64, String> {
        word_at(&self.bytes, [40, 44, 28, 28][usize::from(self.version)])
    }

    /// The same with another root and another end: less than a sector, which is written whole or not at all.
    pub(crate) fn with(&mut self, root: SymbolTarget, end: u64) -> Vec<u8> {
        let at = usize::from(self.version);
        let end_at = [40, 44, 28, 28][at];
        self.bytes[end_at..end_at + 8].copy_from_slice(&end.to_le_bytes());
        let mut entry = Vec::new();
        root.encode(0, &mut entry);
        if self.version < 2 {
            let root_at = [56, 60][at];
            self.bytes[root_at..root_at + entry.len()].copy_from_slice(&entry);
        } else {
            self.bytes[36..44].copy_from_slice(&entry[8..16]);
            let sum = lookup3(&self.bytes[..44]);
            self.bytes[44..48].copy_from_slice(&sum.to_le_bytes());
        }
        self.bytes.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superblocks_are_decoded_and_changed() {
        let mut made = StoredSuperblock::new();
        let bytes = made.with(SymbolTarget::Object(800, Some([900, 1000])), 4321);
        let found = StoredSuperblock::decode(&bytes).unwrap();
        assert_eq!((found.root().unwrap(), found.end().unwrap(), bytes.len()), (800, 4321, 96));
        assert!(StoredSuperblock::decode(&bytes[..90]).is_err());
        assert!(StoredSuperblock::decode(b"CDF\x05").is_err());
    }
}
