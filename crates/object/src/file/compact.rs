//! Compaction: a copy of a file with its current objects only, in order.

use std::ffi::OsStr;

use aqueduct_comm::{Comm, Op};
use aqueduct_file::Mode;
use aqueduct_file::layout::{Basic, Layout};

use super::open_options::ObjectOpenOptions;
use super::scope::Independent;
use super::view::ObjectView;
use crate::error::{Error, Kind, Result};

/// Bytes that a rank copies at a time.
const BATCH: u64 = 16 << 20;

/// The result of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactionReport {
    /// The number of objects.
    pub objects: u64,
    /// The length of the data before, in bytes.
    pub before: u64,
    /// The length of the data of the new file, in bytes.
    pub after: u64,
}

/// Writes the current objects of the file `name`, in order, to a new file `into`: without the bytes of objects that were overwritten since, and with
/// consecutive objects, which are read fastest. The type is that in the file. The old file is not changed. Collective; the ranks share the work.
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_file::Mode;
/// use aqueduct_object::{ObjectFile, ObjectOpenOptions, compact};
///
/// Launch::threads(2).run(|world| {
///     let file = ObjectFile::create(world, "memfs:grown")?;
///     for round in 0..10 {
///         file.at(world.rank() as u64).all().write(&[format!("{round} of rank {}", world.rank())])?;
///     }
///     file.close()?;
///     let report = compact(world, "memfs:grown", "memfs:compacted")?;
///     assert_eq!((report.objects, 10 * report.after), (2, report.before));
///     let file = ObjectFile::<String>::open(world, "memfs:compacted")?;
///     assert_eq!(file.at(0).read_vec(2)?, ["9 of rank 0", "9 of rank 1"]);
///     file.close()
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
pub fn compact(comm: &Comm, name: impl AsRef<OsStr>, into: impl AsRef<OsStr>) -> Result<CompactionReport> {
    let (name, into) = (name.as_ref(), into.as_ref());
    let old = ObjectOpenOptions::open_any(comm, name)?;
    let slot = old.changes().slot.clone();
    let mine = old.share(&(0..slot.count));
    let entries = match old.size() {
        Some(size) => Ok((mine.start..mine.end).map(|_| size).collect::<Vec<u64>>()),
        None => old
            .entries(&ObjectView::all(), mine.start, mine.end - mine.start)
            .map(|entries| entries.iter().map(|(_, entry)| entry.length).collect()),
    };
    let lengths = old.agree("compact", entries)?;
    let bytes: u64 = lengths.iter().sum();
    let talk = |error: aqueduct_comm::Error| Error::from_comm("compact", name.to_string_lossy(), &error);
    let start = comm.exclusive_scan_one(Op::Sum, bytes).map_err(talk)?.unwrap_or(0);
    let after = comm.allreduce_one(Op::Sum, bytes).map_err(talk)?;
    // Two consecutive batches have more than the bytes of one.
    let steps = comm.allreduce_one(Op::Max, 2 * bytes.div_ceil(BATCH) + 1).map_err(talk)?;
    let options = ObjectOpenOptions::new(Mode::read_write().exclusive()).byte_order(old.order);
    let options = if old.checksums { options } else { options.unchecked() };
    let new = options.open_encoded(comm, into, &old.schema)?;
    let place = Layout::from(Basic::Byte).hindexed([(bytes, start as i64)]);
    let place = place.map_err(|error| old.error(Kind::BadArgument, "compact", error.to_string()));
    new.extend(slot.count, after, &old.agree("compact", place)?)?;
    if old.size().is_none() {
        new.index(mine.start, start, &lengths)?;
    }
    let (mut number, mut at) = (mine.start, 0);
    let view = ObjectView::all();
    for _ in 0..steps {
        let (mut count, mut length) = (0, 0);
        while let Some(next) = lengths.get((number - mine.start + count) as usize)
            && (count == 0 || length + next <= BATCH)
        {
            (count, length) = (count + 1, length + next);
        }
        let batch = copy_batch(&old, &view, number, count);
        match batch {
            Ok(batch) => new.write(at, &batch)?,
            Err(error) => {
                let _ = new.write(at, aqueduct_file::Source::failing(error.clone()));
                return Err(error);
            }
        }
        (number, at) = (number + count, at + length);
    }
    let done = if number == mine.end {
        Ok(())
    } else {
        Err(old.error(Kind::Damaged, "compact", "not all objects were copied"))
    };
    old.agree("compact", done)?;
    new.close()?;
    old.close(Ok(()))?;
    Ok(CompactionReport { objects: slot.count, before: slot.length, after })
}

/// The stored bytes of `count` objects from `number` on, in order.
fn copy_batch(
    old: &super::open_file::OpenObjectFile,
    view: &ObjectView,
    number: u64,
    count: u64,
) -> Result<Vec<u8>> {
    if let Some(size) = old.size() {
        let mut bytes = vec![0; (count * size) as usize];
        old.read_bytes(number * size, &mut bytes)?;
        old.verify(number * size..(number + count) * size)?;
        return Ok(bytes);
    }
    old.read_objects::<Independent, _>(old.entries(view, number, count), |plan, bytes| {
        let parts = plan.entries.iter().map(|(_, entry)| bytes.get(plan.place(*entry)).unwrap_or_default());
        Ok(parts.collect::<Vec<_>>().concat())
    })
}
