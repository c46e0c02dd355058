//! Messages that are stored elsewhere: in the header of a committed datatype, or in the heap of shared messages.

use std::borrow::Cow;

use super::byte_cursor::Decoded;
use super::fractal_heap::{self, FractalHeap};
use super::metadata_source::{MetadataSource, within};
use super::object_header::{self, HeaderMessage, message};
use crate::hdf5::model::tree::UNDEFINED_ADDRESS;

/// The heaps of shared messages of a file.
#[derive(Default)]
pub(crate) struct SharedMessages {
    /// The types of messages, one bit each, and their heap.
    heaps: Vec<(u16, FractalHeap)>,
}

impl SharedMessages {
    /// The heaps that the superblock extension names.
    pub(crate) fn read(source: &MetadataSource<'_>, extension: u64) -> Decoded<Self> {
        let mut shared = Self::default();
        if extension == UNDEFINED_ADDRESS {
            return Ok(shared);
        }
        let header = object_header::read(source, extension)?;
        let Some(found) = header.find(message::SHARED_TABLE) else { return Ok(shared) };
        let mut cursor = object_header::body(source, found);
        cursor.version(0..=0)?;
        let (address, count) = (cursor.address()?, cursor.u8()?);
        within("table of shared messages", address, shared.read_table(source, address, count))?;
        Ok(shared)
    }

    fn read_table(&mut self, source: &MetadataSource<'_>, address: u64, count: u8) -> Decoded<()> {
        let entry = 14 + 2 * source.sizes().offset;
        let bytes = source.checked_block(address, 8 + u64::from(count) * entry as u64)?;
        let mut cursor = source.cursor(&bytes);
        cursor.signature(*b"SMTB")?;
        for _ in 0..count {
            cursor.skip(2)?;
            let kinds = cursor.u16()?;
            cursor.skip(10)?;
            cursor.address()?;
            let heap = cursor.address()?;
            if heap != UNDEFINED_ADDRESS {
                self.heaps.push((kinds, fractal_heap::read(source, heap)?));
            }
        }
        Ok(())
    }

    /// The message itself: `found`, or what it refers to.
    pub(crate) fn resolve<'m>(
        &self,
        source: &MetadataSource<'_>,
        found: &'m HeaderMessage,
    ) -> Decoded<Cow<'m, HeaderMessage>> {
        if found.shared {
            self.follow(source, found.kind, &found.body).map(Cow::Owned)
        } else {
            Ok(Cow::Borrowed(found))
        }
    }

    /// The message of a type that a reference stands for.
    pub(crate) fn follow(
        &self,
        source: &MetadataSource<'_>,
        kind: u16,
        reference: &[u8],
    ) -> Decoded<HeaderMessage> {
        let mut cursor = source.cursor(reference);
        let version = cursor.version(1..=3)?;
        let place = cursor.u8()?;
        cursor.skip(if version == 1 { 6 } else { 0 })?;
        if version == 3 && place == 1 {
            let heap = self.heaps.iter().find(|(kinds, _)| kinds >> kind & 1 != 0);
            let (_, heap) =
                heap.ok_or_else(|| format!("there is no heap of shared messages of type {kind}"))?;
            let object = heap.object(source, cursor.take(8)?)?;
            return Ok(HeaderMessage { kind, shared: false, body: object });
        }
        let address = cursor.address()?;
        let header = object_header::read(source, address)?;
        let found = header.find(kind).filter(|found| !found.shared).cloned();
        found.ok_or_else(|| format!("the object header at {address:#x} has no message of type {kind}"))
    }
}
