//! One operation of a random sequence, what it does to a plain vector, and how such sequences are made.

use std::ops::Range;

use aqueduct_device::{Handle, HandleExt, Result, Segment, SyncScope};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};

use crate::byte_pattern::{byte, pattern};

/// Where in a file, and how many bytes.
pub type Extents = Vec<(u64, usize)>;

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceOperation {
    /// Writes a list. Its bytes depend on the salt and their place in the file, so that overlapping pieces hold equal ones.
    Write {
        /// Makes this write differ from others.
        salt: u8,
        /// The pieces.
        extents: Extents,
    },
    /// Reads a list.
    Read(Extents),
    /// Cuts or extends.
    SetLen(u64),
    /// Preallocates.
    Preallocate(u64),
    /// Asks for the length.
    Len,
    /// Makes durable.
    Sync(SyncScope),
    /// Closes and opens again.
    Reopen,
}

/// Writes a whole list of such pieces to a file.
pub(crate) fn write(file: &dyn Handle, salt: u8, extents: &[(u64, usize)]) -> Result<()> {
    let bytes: Vec<_> = extents.iter().map(|&(offset, length)| pattern(salt, offset, length)).collect();
    let pieces = extents.iter().zip(&bytes).map(|(&(offset, _), bytes)| Segment::new(offset, bytes));
    file.write_all(&pieces.collect::<Vec<_>>())
}

impl DeviceOperation {
    /// What the operation does to the bytes of a file.
    pub fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            DeviceOperation::Write { salt, extents } => apply_prefix(bytes, *salt, extents, u64::MAX),
            DeviceOperation::SetLen(len) => bytes.resize(*len as usize, 0),
            DeviceOperation::Preallocate(len) => bytes.resize(bytes.len().max(*len as usize), 0),
            DeviceOperation::Read(_)
            | DeviceOperation::Len
            | DeviceOperation::Sync(_)
            | DeviceOperation::Reopen => {}
        }
    }
}

/// Writes the first `count` bytes of a list into a vector.
pub(super) fn apply_prefix(bytes: &mut Vec<u8>, salt: u8, extents: &[(u64, usize)], count: u64) {
    let places = extents.iter().flat_map(|&(offset, length)| offset..offset + length as u64);
    for place in places.take(usize::try_from(count).unwrap_or(usize::MAX)) {
        if place as usize >= bytes.len() {
            bytes.resize(place as usize + 1, 0);
        }
        bytes[place as usize] = byte(salt, place);
    }
}

/// Random sequences of operations on files of up to about 140 kB, with a liking for the edges of sectors, pages and chunks.
pub fn operation_sequences(length: Range<usize>) -> impl Strategy<Value = Vec<DeviceOperation>> {
    vec(step(), length)
}

fn step() -> impl Strategy<Value = DeviceOperation> {
    prop_oneof![
        6 => (any::<u8>(), extents()).prop_map(|(salt, extents)| DeviceOperation::Write { salt, extents }),
        3 => extents().prop_map(DeviceOperation::Read),
        2 => place().prop_map(DeviceOperation::SetLen),
        1 => place().prop_map(DeviceOperation::Preallocate),
        1 => prop_oneof![Just(DeviceOperation::Len), Just(DeviceOperation::Reopen)],
        2 => any::<bool>().prop_map(|entry| DeviceOperation::Sync(super::scope(entry))),
    ]
}

fn extents() -> impl Strategy<Value = Extents> {
    vec((place(), size()), 0..6)
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![1 => Just(0), 4 => 1..40_usize, 2 => 1..1500_usize, 1 => 4000..9000_usize]
}

fn place() -> impl Strategy<Value = u64> {
    let near = |edge: u64| edge.saturating_sub(20)..edge + 20;
    prop_oneof![3 => 0..200_u64, 3 => 0..6000_u64, 1 => near(512), 1 => near(4096), 1 => near(65536), 1 => near(131_072)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_grows_the_vector_only_where_it_has_bytes() {
        let mut bytes = vec![0; 2];
        DeviceOperation::Write { salt: 1, extents: vec![(100, 0), (4, 2), (1, 1)] }.apply(&mut bytes);
        assert_eq!(bytes, [0, byte(1, 1), 0, 0, byte(1, 4), byte(1, 5)]);
        let mut bytes = vec![];
        apply_prefix(&mut bytes, 1, &[(100, 0), (4, 2), (1, 1)], 1);
        assert_eq!(bytes, [0, 0, 0, 0, byte(1, 4)]);
    }

    #[test]
    fn lengths() {
        let mut bytes = vec![1; 4];
        DeviceOperation::Preallocate(2).apply(&mut bytes);
        assert_eq!(bytes, [1; 4]);
        DeviceOperation::Preallocate(5).apply(&mut bytes);
        DeviceOperation::SetLen(3).apply(&mut bytes);
        DeviceOperation::SetLen(4).apply(&mut bytes);
        assert_eq!(bytes, [1, 1, 1, 0]);
    }
}
