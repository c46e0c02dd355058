//! The links of a group: symbol tables of the first versions, link messages and dense links of later ones.

use std::collections::BTreeMap;

use super::btree_v1::{self, BtreeV1Kind};
use super::btree_v2;
use super::byte_cursor::{ByteCursor, Decoded};
use super::fractal_heap;
use super::metadata_source::{MetadataSource, within};
use super::object_header::{ObjectHeader, body, message};
use crate::hdf5::model::tree::UNDEFINED_ADDRESS;

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LinkTarget {
    /// The object header at an address.
    Hard(u64),
    /// A path in this file.
    Soft(String),
    /// A path in another file.
    External(String, String),
    /// A kind that only another program knows.
    UserDefined(u8),
}

/// All links of a group, by their names; none if it is no group.
pub(crate) fn read(
    source: &MetadataSource<'_>,
    header: &ObjectHeader,
) -> Decoded<Option<BTreeMap<String, LinkTarget>>> {
    let mut links = BTreeMap::new();
    let mut is_group = false;
    if let Some(found) = header.find(message::SYMBOL_TABLE) {
        is_group = true;
        symbol_table(source, body(source, found), &mut links)?;
    }
    if let Some(found) = header.find(message::LINK_INFO) {
        is_group = true;
        dense(source, body(source, found), &mut links)?;
    }
    for found in header.all(message::LINK) {
        is_group = true;
        let (name, target) = link(body(source, found))?;
        links.insert(name, target);
    }
    Ok(is_group.then_some(links))
}

/// A link message.
fn link(mut cursor: ByteCursor<'_>) -> Decoded<(String, LinkTarget)> {
    cursor.version(1..=1)?;
    let flags = cursor.u8()?;
    let kind = if flags & 8 != 0 { cursor.u8()? } else { 0 };
    cursor.skip(if flags & 4 != 0 { 8 } else { 0 })?;
    cursor.skip(usize::from(flags & 16 != 0))?;
    let length = cursor.uint(1 << (flags & 3))?;
    let name = usize::try_from(length).map_err(|_| "a name beyond every file")?;
    let name = text(cursor.take(name)?);
    let target = match kind {
        0 => LinkTarget::Hard(cursor.address()?),
        1 => {
            let length = cursor.u16()?;
            LinkTarget::Soft(text(cursor.take(length.into())?))
        }
        64 => {
            let length = cursor.u16()?;
            let mut value = ByteCursor::new(cursor.take(length.into())?, cursor.sizes());
            value.skip(1)?;
            LinkTarget::External(text(value.terminated()?), text(value.terminated()?))
        }
        kind => LinkTarget::UserDefined(kind),
    };
    Ok((name, target))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Links in a fractal heap, by the index of their names.
fn dense(
    source: &MetadataSource<'_>,
    mut cursor: ByteCursor<'_>,
    links: &mut BTreeMap<String, LinkTarget>,
) -> Decoded<()> {
    cursor.version(0..=0)?;
    let flags = cursor.u8()?;
    cursor.skip(if flags & 1 != 0 { 8 } else { 0 })?;
    let (heap, names) = (cursor.address()?, cursor.address()?);
    if heap == UNDEFINED_ADDRESS || names == UNDEFINED_ADDRESS {
        return Ok(());
    }
    let heap = fractal_heap::read(source, heap)?;
    let tree = btree_v2::read(source, names)?;
    if tree.kind != 5 || tree.record < 11 {
        return Err(format!("links in records of kind {} and {} bytes", tree.kind, tree.record));
    }
    tree.walk(source, &mut |record| {
        // The hash of the name, then the identifier.
        let object = heap.object(source, &record[4..])?;
        let (name, target) = link(source.cursor(&object))?;
        links.insert(name, target);
        Ok(())
    })
}

/// Links in a B-tree, their names in a local heap.
fn symbol_table(
    source: &MetadataSource<'_>,
    mut cursor: ByteCursor<'_>,
    links: &mut BTreeMap<String, LinkTarget>,
) -> Decoded<()> {
    let (tree, heap) = (cursor.address()?, cursor.address()?);
    let names = within("local heap", heap, local_heap(source, heap))?;
    btree_v1::walk(source, tree, BtreeV1Kind::Group, &mut |_, node| {
        within("symbol table node", node, symbols(source, node, &names, links))
    })
}

fn local_heap(source: &MetadataSource<'_>, address: u64) -> Decoded<Vec<u8>> {
    let sizes = source.sizes();
    let bytes = source.block(address, (8 + 2 * sizes.length + sizes.offset) as u64)?;
    let mut cursor = source.cursor(&bytes);
    cursor.signature(*b"HEAP")?;
    cursor.version(0..=0)?;
    cursor.skip(3)?;
    let length = cursor.length()?;
    cursor.skip(sizes.length)?;
    source.block(cursor.address()?, length)
}

fn symbols(
    source: &MetadataSource<'_>,
    address: u64,
    names: &[u8],
    links: &mut BTreeMap<String, LinkTarget>,
) -> Decoded<()> {
    let prefix = source.block(address, 8)?;
    let mut cursor = source.cursor(&prefix);
    cursor.signature(*b"SNOD")?;
    cursor.version(1..=1)?;
    cursor.skip(1)?;
    let count = cursor.u16()?;
    let entry = 24 + 2 * source.sizes().offset;
    let start = address.checked_add(8).ok_or("it is beyond every file")?;
    let bytes = source.block(start, u64::from(count) * entry as u64)?;
    let name_at = |offset: u64| {
        let rest = usize::try_from(offset).ok().and_then(|offset| names.get(offset..));
        let rest = rest.ok_or_else(|| format!("a name at byte {offset} of a heap of {}", names.len()))?;
        source.cursor(rest).terminated().map(text)
    };
    for symbol in bytes.chunks_exact(entry) {
        let mut cursor = source.cursor(symbol);
        let name = cursor.uint(source.sizes().offset)?;
        let header = cursor.address()?;
        let cached = cursor.u32()?;
        cursor.skip(4)?;
        let target = match cached {
            2 => LinkTarget::Soft(name_at(cursor.u32()?.into())?),
            _ => LinkTarget::Hard(header),
        };
        links.insert(name_at(name)?, target);
    }
    Ok(())
}
