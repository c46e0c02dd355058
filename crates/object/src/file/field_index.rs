//! Sorted indices on a field: objects are found by the value of the field.
//!
//! The index of the field `id` of the file `name` is the object file `name.id.index`: the values in order, each with the number of its object. Every 512th of
//! them is repeated after them, every 512th of these again, and so on: a search reads one block of each of these levels.

use std::ffi::OsStr;
use std::marker::PhantomData;
use std::ops::Range;

use aqueduct_comm::Op;
use aqueduct_file::{Counters, Mode};

use super::ObjectFile;
use super::index_list::{index_name, record_index};
use super::meta_file::CommitState;
use super::open_options::ObjectOpenOptions;
use super::view::ObjectView;
use crate::Object;
use crate::comm_ext::ObjectCommExt;
use crate::error::{Error, Kind, Result};

/// Entries of a level for which the level above has one: a search reads so many entries of each level.
const FANOUT: u64 = 512;

/// A value of the field, in the index.
#[derive(Object, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct IndexedValue<F> {
    value: F,
    /// The number of its object.
    object: u64,
    /// The commit that the index belongs to.
    commit: u64,
}

/// A sorted index on a field, open for searches by this rank; see [`ObjectFile::field_index`].
pub struct FieldIndex<'f, T, F> {
    sorted: ObjectFile<IndexedValue<F>>,
    levels: Vec<Range<u64>>,
    /// The entries of the highest level.
    top: Vec<IndexedValue<F>>,
    file: PhantomData<&'f ObjectFile<T>>,
}

/// The entries of each level of an index: all, then every 512th of the level below, up to a level of at most 512.
fn levels(count: u64) -> Vec<Range<u64>> {
    let below = |level: &Range<u64>| {
        let entries = level.end - level.start;
        (entries > FANOUT).then(|| level.end..level.end + entries.div_ceil(FANOUT))
    };
    std::iter::successors(Some(0..count), below).collect()
}

impl<T: Object> ObjectFile<T> {
    /// Builds a sorted index on a field, by its path in the file's schema, in place of an older one: the file `<name>.<path>.index`. It is valid for the
    /// current commit; after another one, or if the file is replaced, searches are refused until it is built again. The file must be open for writing.
    /// Collective: each rank sorts a part of the values.
    ///
    /// ```
    /// use aqueduct_comm::Launch;
    /// use aqueduct_object::{Object, ObjectFile};
    ///
    /// #[derive(Object, Clone)]
    /// struct Particle { id: u64, path: Vec<[f64; 3]> }
    ///
    /// Launch::threads(3).run(|world| {
    ///     let file = ObjectFile::create(world, "memfs:indexed")?;
    ///     let ids = (0..1000).map(|at| 4000 + 7919 * (1000 * world.rank() as u64 + at) % 3000);
    ///     let mine: Vec<Particle> = ids.map(|id| Particle { id, path: vec![] }).collect();
    ///     file.shared().all().write(&mine)?;
    ///     file.commit()?;
    ///     file.build_index::<u64>("id")?;
    ///     let found = file.find("id", &4711u64)?;
    ///     assert_eq!(found.len(), 1);
    ///     assert_eq!(file.at(found[0]).read_vec(1)?[0].id, 4711);
    ///     file.close()
    /// })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn build_index<F: Object + Ord + Clone>(&self, path: &str) -> Result<()> {
        let store = &self.open_file;
        let (count, is_changed) = {
            let changes = store.changes();
            let is_changed = !changes.dirty.is_empty() || !changes.written.is_empty();
            let is_complete = changes.slot.state == CommitState::Complete;
            (changes.slot.count, is_changed || !is_complete || changes.high > changes.slot.count)
        };
        let refused = if store.meta.is_none() {
            Err(store.error(Kind::Unsupported, "build_index", "a raw file has no commits, and so no index"))
        } else if is_changed {
            Err(store.error(Kind::BadArgument, "build_index", "there are uncommitted changes; commit first"))
        } else {
            Ok(())
        };
        store.agree("build_index", refused)?;
        let column = self.field_in_view::<F>(path, ObjectView::all().into())?;
        let commit = store.identify_commit("build_index")?;
        let mine = store.share(&(0..count));
        let values = column.all().read(mine.clone())?;
        let entry = |(value, object)| IndexedValue { value, object, commit };
        let mut entries: Vec<_> = values.into_iter().zip(mine).map(entry).collect();
        entries.sort_unstable();
        let mut level = self.exchange_sorted(&entries)?;
        drop(entries);
        let name = OsStr::new(&*store.name);
        let own = store.comm.comm_self();
        let recorded = if store.comm.rank() == 0 { record_index(&own, name, path) } else { Ok(()) };
        store.agree("build_index", recorded)?;
        let index = ObjectFile::replace(store.comm.parent(), index_name(name, path))?;
        let first = store.comm.exclusive_scan_one(Op::Sum, level.len() as u64);
        let mut first = store.map_comm_error("build_index", first)?.unwrap_or(0);
        for range in levels(count) {
            index.at(range.start + first).all().write(&level)?;
            // Of each group of the level its first entry is in the next one.
            let skipped = first.next_multiple_of(FANOUT) - first;
            level = level.into_iter().skip(skipped as usize).step_by(FANOUT as usize).collect();
            first = first.div_ceil(FANOUT);
        }
        index.close()
    }

    /// Sorts the entries of all ranks, each of which passes sorted ones: this rank's part of the whole. Samples of all ranks divide the values.
    fn exchange_sorted<F: Object + Ord + Clone>(
        &self,
        entries: &[IndexedValue<F>],
    ) -> Result<Vec<IndexedValue<F>>> {
        let (comm, ranks) = (&self.open_file.comm, self.open_file.comm.size());
        let step = (entries.len() / ranks).max(1);
        let samples: Vec<_> = entries.iter().step_by(step).cloned().collect();
        let mut samples = comm.allgather_objects(&samples)?.concat();
        samples.sort_unstable();
        let bound = |rank: usize| samples.get(rank * samples.len() / ranks);
        let place = |rank: usize| match bound(rank) {
            _ if rank == 0 => 0,
            Some(bound) => entries.partition_point(|entry| entry < bound),
            None => entries.len(),
        };
        let end = |rank: usize| if rank == ranks { entries.len() } else { place(rank) };
        let parts: Vec<&[_]> = (0..ranks).map(|rank| &entries[place(rank)..end(rank + 1)]).collect();
        let mut sorted = comm.all_to_all_objects(&parts)?.concat();
        sorted.sort_unstable();
        Ok(sorted)
    }

    /// Opens the index on a field for searches by this rank.
    pub fn field_index<F: Object + Ord + Clone>(&self, path: &str) -> Result<FieldIndex<'_, T, F>> {
        let store = &self.open_file;
        let missing = |error: Error| match error.kind() {
            Kind::NoSuchFile => {
                let detail = format!("there is no index on the field {path:?}; build it with `build_index`");
                store.error(Kind::NoSuchFile, "find", detail)
            }
            _ => error,
        };
        let (own, name) = (store.comm.comm_self(), index_name(OsStr::new(&*store.name), path));
        let sorted = ObjectOpenOptions::new(Mode::read_only()).open::<IndexedValue<F>>(&own, name);
        let sorted = sorted.map_err(missing)?;
        let slot = store.changes().slot.clone();
        let levels = levels(slot.count);
        let top = levels.last().cloned().unwrap_or(0..0);
        let is_whole = sorted.count()? == top.end;
        // An index of another size is not read.
        let entries = if is_whole { sorted.at(top.start).read_vec(top.end - top.start)? } else { Vec::new() };
        if !is_whole || entries.iter().any(|entry| entry.commit != slot.commit_id) {
            let detail = format!(
                "the index on {path:?} does not belong to this commit of the file; build it again with `build_index`"
            );
            return Err(store.error(Kind::Incomplete, "find", detail));
        }
        Ok(FieldIndex { sorted, levels, top: entries, file: PhantomData })
    }

    /// The numbers of the objects whose field has this value, ascending: by the index on the field. Not collective. [`field_index`](ObjectFile::field_index)
    /// opens the index once for several searches.
    pub fn find<F: Object + Ord + Clone>(&self, path: &str, value: &F) -> Result<Vec<u64>> {
        self.field_index::<F>(path)?.find(value)
    }
}

impl<T, F: Object + Ord + Clone> FieldIndex<'_, T, F> {
    /// The numbers of the objects with this value, ascending.
    pub fn find(&self, value: &F) -> Result<Vec<u64>> {
        let (mut at, mut block) = self.search(value)?;
        let mut found = Vec::new();
        loop {
            let equal = block.partition_point(|entry| entry.value == *value);
            found.extend(block[..equal].iter().map(|entry| entry.object));
            at += block.len() as u64;
            if equal < block.len() || at >= self.levels[0].end {
                return Ok(found);
            }
            block = self.read(0, at..at + FANOUT)?;
        }
    }

    /// The numbers of the objects whose values are in `from..to`, in the order of the values.
    pub fn find_range(&self, from: &F, to: &F) -> Result<Vec<u64>> {
        let (first, last) = (self.search(from)?.0, self.search(to)?.0);
        let entries = self.read(0, first..last.max(first))?;
        Ok(entries.into_iter().map(|entry| entry.object).collect())
    }

    /// The accesses to the index.
    pub fn counters(&self) -> Counters {
        self.sorted.counters()
    }

    /// The number of entries with lower values, and some of the entries after them; none only at the end. One read per level below the highest.
    fn search(&self, value: &F) -> Result<(u64, Vec<IndexedValue<F>>)> {
        let mut at = self.top.partition_point(|entry| entry.value < *value);
        let mut after = self.top[at..].to_vec();
        let mut number = at as u64;
        for level in (0..self.levels.len() - 1).rev() {
            // The last of the lower values of the level above, up to the first of the others.
            let start = number.saturating_sub(1) * FANOUT;
            let block = self.read(level, start..number * FANOUT + 1)?;
            at = block.partition_point(|entry| entry.value < *value);
            number = start + at as u64;
            after = block[at..].to_vec();
        }
        Ok((number, after))
    }

    /// Entries of a level; fewer at its end.
    fn read(&self, level: usize, entries: Range<u64>) -> Result<Vec<IndexedValue<F>>> {
        let level = &self.levels[level];
        let (start, end) = (level.start + entries.start, level.end.min(level.start + entries.end));
        self.sorted.at(start).read_vec(end.saturating_sub(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_level_has_at_most_512_entries() {
        assert_eq!((levels(0).len(), levels(512).len()), (1, 1));
        assert_eq!(levels(513), [0..513, 513..515]);
        assert_eq!(
            levels(1 << 20),
            [0..1 << 20, 1 << 20..(1 << 20) + 2048, (1 << 20) + 2048..(1 << 20) + 2052]
        );
    }
}
