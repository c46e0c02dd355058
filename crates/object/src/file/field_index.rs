//! Sorted indices on a field: objects are found by the value of the field.
//!
//! The index of the field `id` of the file `name` is the object file `name.id.index`: the values in order, each with the number of its object.

use std::ffi::{OsStr, OsString};
use std::marker::PhantomData;

use aqueduct_file::Mode;

use super::ObjectFile;
use super::open_options::ObjectOpenOptions;
use super::view::ObjectView;
use crate::Object;
use crate::comm_ext::ObjectCommExt;
use crate::error::{Error, Kind, Result};

/// A value of the field, in the index.
#[derive(Object, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct IndexedValue<F> {
    value: F,
    /// The number of its object.
    object: u64,
    /// The commit that the index belongs to.
    generation: u64,
}

/// A sorted index on a field, open for searches by this rank; see [`ObjectFile::field_index`].
pub struct FieldIndex<'f, T, F> {
    sorted: ObjectFile<IndexedValue<F>>,
    count: u64,
    file: PhantomData<&'f ObjectFile<T>>,
}

impl<T: Object> ObjectFile<T> {
    /// Makes a sorted index on a field, by its path in the file's schema, in place of an older one: the file `<name>.<path>.index`. It holds for the current
    /// commit; after another one it must be made again. Collective: each rank sorts a part of the values.
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
        let (count, generation, is_changed) = {
            let changes = store.changes();
            let is_changed = !changes.dirty.is_empty() || !changes.written.is_empty();
            (changes.slot.count, changes.slot.generation, is_changed || changes.high > changes.slot.count)
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
        let mine = store.share(&(0..count));
        let values = column.all().read(mine.clone())?;
        let entry = |(value, object)| IndexedValue { value, object, generation };
        let mut entries: Vec<_> = values.into_iter().zip(mine).map(entry).collect();
        entries.sort_unstable();
        let sorted = self.exchange_sorted(&entries)?;
        let name = index_name(&store.name, path);
        let index = ObjectFile::replace(store.comm.parent(), name)?;
        index.set_view(&ObjectView::contiguous(&store.comm, sorted.len() as u64)?)?;
        index.at(0).all().write(&sorted)?;
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
    pub fn field_index<F: Object + Ord>(&self, path: &str) -> Result<FieldIndex<'_, T, F>> {
        let store = &self.open_file;
        let name = index_name(&store.name, path);
        let missing = |error: Error| match error.kind() {
            Kind::NoSuchFile => {
                let detail = format!("there is no index on the field {path:?}; make one with `build_index`");
                store.error(Kind::NoSuchFile, "find", detail)
            }
            _ => error,
        };
        let own = store.comm.comm_self();
        let sorted = ObjectOpenOptions::new(Mode::read_only()).open::<IndexedValue<F>>(&own, name);
        let sorted = sorted.map_err(missing)?;
        let (count, slot) = (sorted.count()?, store.changes().slot.clone());
        let first = sorted.at(0).read_vec(1)?;
        if count != slot.count || first.first().is_some_and(|first| first.generation != slot.generation) {
            let detail =
                format!("the index on {path:?} is of an older commit; make it again with `build_index`");
            return Err(store.error(Kind::Incomplete, "find", detail));
        }
        Ok(FieldIndex { sorted, count, file: PhantomData })
    }

    /// The numbers of the objects whose field has this value, ascending: by the index on the field. Not collective.
    pub fn find<F: Object + Ord>(&self, path: &str, value: &F) -> Result<Vec<u64>> {
        self.field_index::<F>(path)?.find(value)
    }
}

impl<T, F: Object + Ord> FieldIndex<'_, T, F> {
    /// The numbers of the objects with this value, ascending.
    pub fn find(&self, value: &F) -> Result<Vec<u64>> {
        let mut at = self.lower_bound(value)?;
        let mut found = Vec::new();
        while let Some(entry) = self.sorted.at(at).read_vec(1)?.pop().filter(|entry| entry.value == *value) {
            found.push(entry.object);
            at += 1;
        }
        Ok(found)
    }

    /// The numbers of the objects whose values are in `from..to`, in the order of the values.
    pub fn find_range(&self, from: &F, to: &F) -> Result<Vec<u64>> {
        let (first, last) = (self.lower_bound(from)?, self.lower_bound(to)?);
        let entries = self.sorted.at(first).read_vec(last.saturating_sub(first))?;
        Ok(entries.into_iter().map(|entry| entry.object).collect())
    }

    /// The number of entries with lower values: by bisection.
    fn lower_bound(&self, value: &F) -> Result<u64> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let entry = self.sorted.at(middle).read_vec(1)?;
            if entry.first().is_some_and(|entry| entry.value < *value) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}

fn index_name(file: &str, path: &str) -> OsString {
    let mut name = OsStr::new(file).to_owned();
    name.push(format!(".{path}.index"));
    name
}
