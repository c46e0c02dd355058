//! Version 1 B-trees: of the names of a group, and of the chunks of a dataset.

use super::byte_cursor::{ByteCursor, Decoded};
use super::metadata_source::{MetadataSource, within};

/// The deepest tree.
const DEEPEST: u8 = 32;

/// What a tree is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BtreeV1Kind {
    Group,
    /// Chunks of so many dimensions.
    Chunks(usize),
}

impl BtreeV1Kind {
    fn number(self) -> u8 {
        matches!(self, Self::Chunks(_)).into()
    }

    /// Bytes of a key.
    fn key(self, length: usize) -> usize {
        match self {
            Self::Group => length,
            Self::Chunks(rank) => 8 + 8 * (rank + 1),
        }
    }
}

/// Passes each key and child of the leaves to `leaf`, in order.
pub(crate) fn walk(
    source: &MetadataSource<'_>,
    address: u64,
    kind: BtreeV1Kind,
    leaf: &mut dyn FnMut(&mut ByteCursor<'_>, u64) -> Decoded<()>,
) -> Decoded<()> {
    node(source, address, kind, None, leaf)
}

fn node(
    source: &MetadataSource<'_>,
    address: u64,
    kind: BtreeV1Kind,
    above: Option<u8>,
    leaf: &mut dyn FnMut(&mut ByteCursor<'_>, u64) -> Decoded<()>,
) -> Decoded<()> {
    let (level, keys) = within("B-tree node", address, read_node(source, address, kind, above))?;
    let mut cursor = source.cursor(&keys);
    let key = kind.key(source.sizes().length);
    while cursor.rest().len() >= key + source.sizes().offset {
        let mut key = ByteCursor::new(cursor.take(key)?, source.sizes());
        let child = cursor.address()?;
        if level == 0 {
            leaf(&mut key, child)?;
        } else {
            node(source, child, kind, Some(level), leaf)?;
        }
    }
    Ok(())
}

/// The level of a node, and its keys and children.
fn read_node(
    source: &MetadataSource<'_>,
    address: u64,
    kind: BtreeV1Kind,
    above: Option<u8>,
) -> Decoded<(u8, Vec<u8>)> {
    let sizes = source.sizes();
    let prefix = 8 + 2 * sizes.offset as u64;
    let bytes = source.block(address, prefix)?;
    let mut cursor = source.cursor(&bytes);
    cursor.signature(*b"TREE")?;
    let (found, level, entries) = (cursor.u8()?, cursor.u8()?, cursor.u16()?);
    if found != kind.number() || level > DEEPEST || above.is_some_and(|above| level + 1 != above) {
        return Err(format!("a node of kind {found} and level {level} below level {above:?}"));
    }
    let length = u64::from(entries) * (kind.key(sizes.length) + sizes.offset) as u64;
    let start = address.checked_add(prefix).ok_or("it is beyond every file")?;
    Ok((level, source.block(start, length)?))
}
