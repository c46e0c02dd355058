//! Lists of objects in a checkpoint, in rank order.

use aqueduct_comm::{Comm, Op};
use aqueduct_file::{File, Mode};

use super::commit::sums;
use super::manifest::ManifestEntry;
use crate::error::{Error, Kind, Result, agree};
use crate::existing_file::ExistingFile;

/// Writes the objects, and for objects of variable size the index of their ends.
pub(super) fn write(
    comm: &Comm,
    name: &str,
    kind: &str,
    size: Option<u64>,
    count: u64,
    bytes: &[u8],
    ends: &[u64],
) -> Result<ManifestEntry> {
    let comm_error = |error| Error::from_comm("write", name, &error);
    let mine = [bytes.len() as u64, count];
    let before = comm.exclusive_scan(Op::Sum, &mine).map_err(comm_error)?.unwrap_or_else(|| vec![0, 0]);
    let total = comm.allreduce(Op::Sum, &mine).map_err(comm_error)?;
    let index = size.is_none().then_some(total[0]);
    let length = total[0] + index.map_or(0, |_| 8 * total[1]);
    let file = ExistingFile::Replace.create_options(Mode::read_write()).open(comm, name)?;
    file.set_size(length)?;
    file.at(before[0]).all().write(bytes)?;
    if index.is_some() {
        let ends: Vec<u8> = ends.iter().flat_map(|end| (before[0] + end).to_le_bytes()).collect();
        file.at(total[0] + 8 * before[1]).all().write(&ends)?;
    }
    file.sync()?;
    let sums = sums(comm, &file, length)?;
    file.close()?;
    Ok(ManifestEntry {
        bytes: length,
        signature: kind.into(),
        count: Some(total[1]),
        index,
        sums,
        ..ManifestEntry::default()
    })
}

/// The encoded objects from `first` to `end`, and the offsets between them.
pub(super) fn read(
    file: &File,
    size: Option<u64>,
    entry: &ManifestEntry,
    first: u64,
    end: u64,
) -> Result<(Vec<u8>, Vec<usize>)> {
    let damaged = |detail: String| Error::new(Kind::Damaged, "read", file.name(), detail);
    let count = entry.count.unwrap_or(0);
    let claimed = match (size, entry.index) {
        (Some(size), None) => count.checked_mul(size),
        (None, Some(index)) => count.checked_mul(8).and_then(|index_size| index.checked_add(index_size)),
        _ => None,
    };
    // The length of the file bounds the allocations below.
    if claimed != Some(entry.bytes) || file.size()? != entry.bytes {
        let detail = format!(
            "{count} objects do not match the {} bytes of the manifest or the length of the file",
            entry.bytes
        );
        return Err(damaged(detail));
    }
    let borders = match (size, entry.index) {
        (Some(size), None) => {
            (first..=end).map(|number| number.checked_mul(size)).collect::<Option<Vec<u64>>>()
        }
        (None, Some(index)) => Some(borders(file, index, first, end)?),
        _ => None,
    };
    let borders = borders.ok_or_else(|| damaged("the manifest has no offset of the index".into()))?;
    let (start, stop) = (borders[0], borders[borders.len() - 1]);
    if !borders.is_sorted() || stop > entry.index.unwrap_or(entry.bytes) {
        return Err(damaged(format!("byte {start}: the objects are not adjacent")));
    }
    let mut bytes = vec![0; (stop - start) as usize];
    if file.at(start).read(&mut bytes)?.bytes() < stop - start {
        return Err(damaged(format!("the file ends before byte {stop}")));
    }
    Ok((bytes, borders.iter().map(|border| (border - start) as usize).collect()))
}

/// The offsets of the objects, and of the end of the last one.
fn borders(file: &File, index: u64, first: u64, end: u64) -> Result<Vec<u64>> {
    // An object begins at the end of the previous one.
    let from = first.saturating_sub(1);
    let mut bytes = vec![0; 8 * (end - from) as usize];
    let read = file.at(index + 8 * from).read(&mut bytes)?.bytes();
    if read < bytes.len() as u64 {
        let detail = format!("byte {}: the index ends here", index + 8 * from + read);
        return Err(Error::new(Kind::Damaged, "read", file.name(), detail));
    }
    let ends =
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.first_chunk().copied().unwrap_or_default()));
    Ok((first == 0).then_some(0).into_iter().chain(ends).collect())
}

/// Opens a file, runs `work` on it, and agrees on the outcome.
pub(super) fn with_file<T>(comm: &Comm, name: &str, work: impl FnOnce(&File) -> Result<T>) -> Result<T> {
    let file = File::open(comm, name)?;
    let outcome = work(&file);
    let outcome = agree(comm, "read", name, outcome)?;
    file.close()?;
    Ok(outcome)
}
