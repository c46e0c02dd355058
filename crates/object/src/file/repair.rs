//! Repair: creates a new `.meta` from the data.

use std::ffi::OsStr;
use std::fmt;

use aqueduct_comm::Comm;
use aqueduct_comm::agreement::from_root;
use aqueduct_file::{File, OpenOptions};

use super::meta_file::{
    BLOCK, ChecksumUnits, CommitState, DESCRIPTION, IndexEntry, MetaArea, MetaSlot, ObjectFileMetadata, UNIT,
};
use super::open_options::{lock_meta, meta_name, new_slot, read_description, read_slot};
use crate::Object;
use crate::codec::Decoder;
use crate::error::{Error, Kind, Result};
use crate::schema::{ByteOrder, Schema, TypeContext, skip, swap};

/// The result of a repair.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairReport {
    /// The number of objects that can be read.
    pub objects: u64,
    /// The number of bytes after them that were truncated.
    pub cut: u64,
    /// True if committed objects were being overwritten: some of them may be old and some new.
    pub mixed: bool,
    /// True if the `.meta` could not be read and was created from the program's type.
    pub rebuilt: bool,
}

impl fmt::Display for RepairReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} objects can be read", self.objects)?;
        if self.cut > 0 {
            write!(f, "; {} bytes after them were truncated", self.cut)?;
        }
        if self.mixed {
            f.write_str("; they were being overwritten: some may be old and some new")?;
        }
        if self.rebuilt {
            f.write_str("; the .meta was created from the type of the program")?;
        }
        Ok(())
    }
}

/// Makes a file readable that is incomplete, or whose `.meta` is damaged or missing: whole objects are kept, a partial one at the end is truncated, the
/// index and the checksums are computed from the data. Damaged data is not detected. Collective; rank 0 does the work.
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_object::{Kind, ObjectFile, repair};
///
/// Launch::threads(2).run(|world| {
///     let file = ObjectFile::create(world, "memfs:broken")?;
///     file.at(0).all().write(&[1u32, 2, 3])?;
///     drop(file); // never committed
///     world.barrier()?;
///     assert_eq!(ObjectFile::<u32>::open(world, "memfs:broken").unwrap_err().kind(), Kind::Incomplete);
///     assert_eq!(repair::<u32>(world, "memfs:broken")?.objects, 3);
///     let file = ObjectFile::<u32>::open(world, "memfs:broken")?;
///     assert_eq!(file.at(0).read_vec(9)?, [1, 2, 3]);
///     file.close()
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
pub fn repair<T: Object>(comm: &Comm, name: impl AsRef<OsStr>) -> Result<RepairReport> {
    repair_as(comm, name.as_ref(), Some(&*T::schema()))
}

/// As [`repair()`], for programs that do not know the type: the description in the `.meta` must be readable. Collective; rank 0 does the work.
pub fn repair_described(comm: &Comm, name: impl AsRef<OsStr>) -> Result<RepairReport> {
    repair_as(comm, name.as_ref(), None)
}

fn repair_as(comm: &Comm, name: &OsStr, schema: Option<&Schema>) -> Result<RepairReport> {
    let shown = name.to_string_lossy();
    let talk = |error: aqueduct_comm::Error| Error::from_comm("repair", &shown, &error);
    let own = comm.split(Some(comm.rank() as u32), 0).map_err(talk)?;
    let done = match own.filter(|_| comm.rank() == 0) {
        Some(own) => repair_on_root(&own, name, &shown, schema).map(|done| {
            let numbers = [done.objects, done.cut, u64::from(done.mixed), u64::from(done.rebuilt)];
            numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
        }),
        None => Ok(Vec::new()),
    };
    let report = from_root(comm, "repair", &shown, done)?;
    let number = |at: usize| report.as_chunks().0.get(at).map_or(0, |bytes| u64::from_le_bytes(*bytes));
    Ok(RepairReport { objects: number(0), cut: number(1), mixed: number(2) != 0, rebuilt: number(3) != 0 })
}

fn repair_on_root(own: &Comm, name: &OsStr, shown: &str, schema: Option<&Schema>) -> Result<RepairReport> {
    let data = OpenOptions::new().read(true).write(true).open(own, name)?;
    let meta =
        OpenOptions::new().read(true).write(true).create(schema.is_some()).open(own, meta_name(name))?;
    let _claim = lock_meta("repair", name, shown)?;
    let known = read_slot(&meta, shown).and_then(|slot| {
        let description = read_description(&meta, &slot, shown)?;
        let described = ObjectFileMetadata::decode(&description);
        described
            .map(|described| (slot, description, described))
            .map_err(|why| Error::new(Kind::Damaged, "repair", shown, why))
    });
    if let Err(error) = &known
        && error.kind() == Kind::UnknownVersion
    {
        return Err(error.clone());
    }
    let rebuilt = known.is_err();
    let (old, description, (described, schema)) = match (known, schema) {
        (Ok(known), _) => known,
        (Err(error), None) => return Err(error),
        (Err(_), Some(schema)) => {
            let described = ObjectFileMetadata::new(schema, ByteOrder::Little, true);
            let description = described.encode();
            let slot = MetaSlot { generation: 0, ..new_slot(CommitState::Complete, &description) };
            (slot, description, (described, schema.clone()))
        }
    };
    let length = data.size()?;
    let found = recover_objects(&data, &schema, described.byte_order, &old, length)?;
    let mut slot = MetaSlot {
        state: CommitState::Complete,
        generation: old.generation + 1,
        ..new_slot(CommitState::Complete, &description)
    };
    (slot.count, slot.length) = (found.count, found.length);
    // A reader must not take the file for the old one while it is repaired.
    meta.set_size(0)?;
    data.set_size(found.length)?;
    meta.at(DESCRIPTION).write(&description)?;
    if described.checksums {
        write_sums(&data, &meta, &mut slot)?;
    }
    if schema.size().is_none() {
        slot.index = MetaArea {
            start: slot.end,
            room: (found.entries.len() as u64).div_ceil(super::meta_file::ENTRIES).max(8),
        };
        slot.end += slot.index.room * UNIT as u64;
        meta.at(slot.index.start).write(&IndexEntry::encode_all(&found.entries))?;
    }
    data.sync()?;
    meta.sync()?;
    meta.at(slot.place()).write(&slot.encode())?;
    meta.sync()?;
    let mixed = old.state == CommitState::Changing && old.count > 0;
    Ok(RepairReport { objects: found.count, cut: length - found.length, mixed, rebuilt })
}

/// The objects in the data.
struct RecoveredObjects {
    count: u64,
    length: u64,
    entries: Vec<IndexEntry>,
}

fn recover_objects(
    data: &File,
    schema: &Schema,
    order: ByteOrder,
    old: &MetaSlot,
    length: u64,
) -> Result<RecoveredObjects> {
    if let Some(size) = schema.size() {
        let count = length / size.max(1);
        return Ok(RecoveredObjects { count, length: count * size, entries: Vec::new() });
    }
    if old.state == CommitState::Changing && old.count > 0 {
        let detail = "objects of variable size were being overwritten, so the valid bytes are not known; write the objects again";
        return Err(Error::new(Kind::Unsupported, "repair", data.name(), detail));
    }
    // Consecutive objects, up to the first that cannot be decoded.
    let mut bytes = vec![0; length as usize];
    data.at(0).read(&mut bytes)?;
    let (mut entries, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let Some(object) = object_length(schema, order, &bytes[at..]) else { break };
        entries.push(IndexEntry { offset: at as u64, length: object as u64 });
        at += object;
    }
    Ok(RecoveredObjects { count: entries.len() as u64, length: at as u64, entries })
}

/// The length of the object that begins here, if one does.
fn object_length(schema: &Schema, order: ByteOrder, bytes: &[u8]) -> Option<usize> {
    let mut turned;
    let bytes = if order == ByteOrder::Big {
        // The swap fails after the end of the object; the bytes of the object are swapped.
        turned = bytes.to_vec();
        let _ = swap(schema.root(), ByteOrder::Big, &mut turned);
        &turned
    } else {
        bytes
    };
    let mut input = Decoder::new(bytes);
    skip(schema.root(), &mut input, &mut TypeContext::default()).ok()?;
    (input.position() > 0).then_some(input.position())
}

fn write_sums(data: &File, meta: &File, slot: &mut MetaSlot) -> Result<()> {
    let mut sums = Vec::new();
    let mut block = vec![0; BLOCK as usize];
    for at in 0..slot.length / BLOCK {
        data.at(at * BLOCK).read(&mut block)?;
        sums.push(crc32c::crc32c(&block));
    }
    let mut tail = vec![0; (slot.length % BLOCK) as usize];
    data.at(slot.length - slot.length % BLOCK).read(&mut tail)?;
    slot.tail = crc32c::crc32c(&tail);
    let units = ChecksumUnits::encode_all(&sums);
    slot.sums = MetaArea { start: slot.end, room: (units.len() / UNIT).max(8) as u64 };
    slot.end += slot.sums.room * UNIT as u64;
    meta.at(slot.sums.start).write(&units)?;
    Ok(())
}
