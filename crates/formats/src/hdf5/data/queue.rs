//! Queues: many accesses, done as one.

use std::borrow::Cow;

use aqueduct_file::layout::{Basic, Layout, Pattern};
use aqueduct_file::{Source, View};
use aqueduct_object::{Object, encode_all};

use super::filtered_write::FilteredWrite;
use super::read_queue::{QueuedRead, RawDestination, ReadDestination, scatter};
use super::storage_map::{StorageMap, StorageRegion, map_storage};
use super::write_request::{Hdf5WriteRequest, WritePayload, gathered};
use crate::byte_region::ByteRegion;
use crate::error::{Kind, Result};
use crate::hdf5::file::{DatasetId, Hdf5File};
use crate::hdf5::filters::chunk_encode::unwritable;
use crate::hdf5::model::datatype::Datatype;
use crate::hdf5::model::tree::Storage;
use crate::merge::{MergedRegions, merge_regions};
use crate::selection::{ArrayBounds, ResolvedSelection, Selection, ValueExtent};

/// Accesses that wait to be done as one: however many datasets they are to, the file layer sees one write and one read.
///
/// Values are borrowed until then. Writes are done before reads; where they overlap, the last one queued counts.
///
/// ```
/// # use aqueduct_comm::Launch;
/// # use aqueduct_formats::hdf5::Hdf5CreateOptions;
/// # Launch::threads(2).run(|world| {
/// # let mut file = Hdf5CreateOptions::new().replace().create(world, "memfs:queued.h5")?;
/// let datasets = file.define(|file| {
///     (0..3).map(|number| file.dataset::<f64>(&format!("/group/d{number}"), &[8])).collect::<Result<Vec<_>, _>>()
/// })?;
/// let mine = 4 * world.rank() as u64;
/// let values = [[0.5f64; 4], [1.5; 4], [2.5; 4]];
/// let mut queue = file.queue();
/// for (dataset, values) in datasets.iter().zip(&values) {
///     queue.put(*dataset, mine..mine + 4, values);
/// }
/// queue.run_all()?;
/// # file.close()
/// # })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
#[must_use = "nothing is accessed before `run` or `run_all`"]
pub struct Hdf5Queue<'q> {
    pub(super) file: &'q Hdf5File,
    pub(super) puts: Vec<QueuedWrite<'q>>,
    gets: Vec<QueuedRead<'q>>,
    /// Writes to datasets whose chunks have filters.
    pub(super) filtered: Vec<FilteredWrite<'q>>,
    /// The first access that cannot be: kept for the run, where all ranks learn of it.
    pub(super) failed: Result<()>,
}

pub(super) struct QueuedWrite<'q> {
    pub(super) dataset: usize,
    /// The range of its rows.
    pub(super) rows: [u64; 2],
    pub(super) places: Vec<StorageRegion>,
    pub(super) bytes: Cow<'q, [u8]>,
}

impl Hdf5File {
    /// A queue of accesses.
    pub fn queue(&self) -> Hdf5Queue<'_> {
        Hdf5Queue { file: self, puts: Vec::new(), gets: Vec::new(), filtered: Vec::new(), failed: Ok(()) }
    }

    /// A part of a dataset whose elements are of this type, and as many as it has.
    fn resolve_access(
        &self,
        operation: &'static str,
        id: DatasetId,
        slab: &Selection,
        ty: Option<&Datatype>,
        values: ValueExtent<'_>,
    ) -> Result<(ResolvedSelection, StorageMap)> {
        let writes = operation == "write";
        if writes {
            self.may_write(operation)?;
        }
        let (path, dataset, _) = self.dataset_by_id(operation, id)?;
        let stored = &dataset.datatype;
        if ty.is_some_and(|ty| ty != stored) || (writes && stored.foreign().is_some()) {
            let given = ty.map_or("bytes".to_owned(), ToString::to_string);
            let detail = format!("dataset {path:?} is of type {stored}; {given} is another one");
            return Err(self.core.error(Kind::WrongType, operation, detail));
        }
        let target = ArrayBounds {
            what: "dataset",
            name: path,
            lengths: &dataset.shape,
            extendible: dataset.extendible,
        };
        let bad = |what: String| self.core.error(Kind::BadArgument, operation, what);
        let block = slab.resolve_checked(target, writes, values).map_err(bad)?;
        if writes && self.is_linked(path) {
            let detail =
                format!("dataset {path:?} is reached by a soft link; write to the path that it leads to");
            return Err(self.core.error(Kind::Unsupported, operation, detail));
        }
        if writes && let Storage::ChunkTable(table) = &dataset.storage {
            let why = unwritable(&table.filters).or_else(|| {
                let foreign = !dataset.conversions.is_empty() || table.plain_edges;
                foreign.then(|| "it is big-endian, or has chunks without filters at its edges".to_owned())
            });
            let refused =
                |why| self.core.error(Kind::Unsupported, operation, format!("dataset {path:?}: {why}"));
            return why.map_or(Ok((block, StorageMap::default())), |why| Err(refused(why)));
        }
        let is_table = matches!(dataset.storage, Storage::ChunkTable(_));
        let places = if values.values == 0 || is_table {
            Ok(StorageMap::default())
        } else {
            map_storage(dataset, &block, None)
        };
        let kind = if dataset.unreadable().is_some() { Kind::Unsupported } else { Kind::BadArgument };
        let places =
            places.map_err(|what| self.core.error(kind, operation, format!("dataset {path:?}: {what}")))?;
        if writes && !(dataset.conversions.is_empty() && places.packed.is_empty()) {
            let detail = format!(
                "dataset {path:?} is only read here: it is big-endian, compact or has filters; write to a copy that \
                 `h5repack -f NONE -l CONTI` makes"
            );
            return Err(self.core.error(Kind::Unsupported, operation, detail));
        }
        if writes && !places.gaps.is_empty() {
            let detail = format!(
                "dataset {path:?}: a part of it was never given a place in the file, and is only read here; the program that \
                 made it is to write it once, or to allocate it early"
            );
            return Err(bad(detail));
        }
        Ok((block, places))
    }

    /// How many elements a part has that is to be read.
    pub(crate) fn count(&self, id: DatasetId, slab: &Selection) -> Result<u64> {
        let (path, dataset, _) = self.dataset_by_id("read", id)?;
        let target = ArrayBounds {
            what: "dataset",
            name: path,
            lengths: &dataset.shape,
            extendible: dataset.extendible,
        };
        let count = slab.values(target).map_err(|what| self.core.error(Kind::BadArgument, "read", what))?;
        if let Some(why) = dataset.unreadable() {
            return Err(self.core.error(Kind::Unsupported, "read", format!("dataset {path:?}: {why}")));
        }
        // A description may promise anything; memory is taken for what the file can have, or need not have.
        let bytes = count.saturating_mul(dataset.datatype.size());
        if !dataset.is_sparse() {
            let there = bytes <= self.core.file.size()?;
            return if there { Ok(count) } else { Err(self.core.truncated_error(bytes, 0, "")) };
        }
        let fits =
            usize::try_from(bytes).is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok());
        let detail = || format!("{count} elements of dataset {path:?} do not fit memory; read it in parts");
        if fits { Ok(count) } else { Err(self.core.error(Kind::TooLarge, "read", detail())) }
    }

    fn complete_read(&self, wanted: u64, count: u64) -> Result<()> {
        if count == wanted { Ok(()) } else { Err(self.core.truncated_error(wanted, count, "")) }
    }

    /// All places as one view of the file; none if there are none.
    fn merged_view<'p>(
        &self,
        places: impl Iterator<Item = &'p StorageRegion>,
    ) -> Result<Option<(View, MergedRegions)>> {
        let bad = |error: aqueduct_file::layout::LayoutError| {
            self.core.error(Kind::BadArgument, "access", error.to_string())
        };
        let Some(combined) = merge_regions(places.map(|place| Some(&place.file))).map_err(bad)? else {
            return Ok(None);
        };
        // Places of the program never overlap here: what does comes from the file.
        let view =
            View::new(combined.offset, &Layout::from(Basic::Byte), &combined.layout).map_err(|error| {
                let detail =
                    format!("its metadata gives elements places that overlap, and is damaged: {error}");
                self.core.error(Kind::Damaged, "access", detail)
            })?;
        Ok(Some((view, combined)))
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self, region: &ByteRegion) -> Result<Pattern> {
        let made = region.layout().and_then(|layout| layout.tiled(1)?.shifted(region.offset as i64));
        made.map_err(|error| self.core.error(Kind::BadArgument, "access", error.to_string()))
    }
}

impl<'q> Hdf5Queue<'q> {
    /// Queues writing values to a part of a dataset. One that cannot be fails the run.
    #[doc(alias = "H5Dwrite")]
    pub fn put<T: Object>(
        &mut self,
        id: DatasetId,
        slab: impl Into<Selection>,
        values: &'q [T],
    ) -> &mut Self {
        self.put_values(id, &slab.into(), values, values.len().into())
    }

    pub(super) fn put_values<T: Object>(
        &mut self,
        id: DatasetId,
        slab: &Selection,
        values: &'q [T],
        extent: ValueExtent<'_>,
    ) -> &mut Self {
        let ty = Datatype::of::<T>().map_err(|what| self.file.core.error(Kind::WrongType, "write", what));
        let cut = ty.and_then(|ty| self.file.resolve_access("write", id, slab, Some(&ty), extent));
        self.add_put(id, cut, || encode_all(values))
    }

    /// The same with bytes as they lie in the file, whatever they stand for.
    pub fn put_bytes(&mut self, id: DatasetId, slab: impl Into<Selection>, bytes: &'q [u8]) -> &mut Self {
        let cut = self
            .elements("write", id, bytes.len())
            .and_then(|count| self.file.resolve_access("write", id, &slab.into(), None, count.into()));
        self.add_put(id, cut, || Cow::Borrowed(bytes))
    }

    fn add_put(
        &mut self,
        id: DatasetId,
        cut: Result<(ResolvedSelection, StorageMap)>,
        bytes: impl FnOnce() -> Cow<'q, [u8]>,
    ) -> &mut Self {
        match cut {
            Ok((block, StorageMap { regions: places, .. })) => {
                let dimension = self.file.rows_dimension(id);
                let rows = [block.start.get(dimension).copied().unwrap_or(0), block.rows_along(dimension)];
                if !places.is_empty() {
                    self.puts.push(QueuedWrite { dataset: id.0, rows, places, bytes: bytes() });
                } else if self.file.is_filtered(id) && !block.count.contains(&0) {
                    self.filtered.push(FilteredWrite { dataset: id.0, rows: rows[1], block, bytes: bytes() });
                }
            }
            Err(error) => self.failed = self.failed.clone().and(Err(error)),
        }
        self
    }

    /// Queues filling values from a part of a dataset. One that cannot be fails the run.
    #[doc(alias = "H5Dread")]
    pub fn get<T: Object>(
        &mut self,
        id: DatasetId,
        slab: impl Into<Selection>,
        values: &'q mut [T],
    ) -> &mut Self {
        let extent = values.len().into();
        self.get_values(id, &slab.into(), values, extent)
    }

    pub(super) fn get_values<T: Object>(
        &mut self,
        id: DatasetId,
        slab: &Selection,
        values: &'q mut [T],
        extent: ValueExtent<'_>,
    ) -> &mut Self {
        let ty = Datatype::of::<T>().map_err(|what| self.file.core.error(Kind::WrongType, "read", what));
        let count = values.len();
        let cut = ty.and_then(|ty| {
            let cut = self.file.resolve_access("read", id, slab, Some(&ty), extent)?;
            Ok((cut, count * ty.size() as usize))
        });
        self.add_get(id, cut, Box::new(values))
    }

    /// The same with bytes as they lie in the file, whatever they stand for.
    pub fn get_bytes(&mut self, id: DatasetId, slab: impl Into<Selection>, bytes: &'q mut [u8]) -> &mut Self {
        let length = bytes.len();
        let cut = self.elements("read", id, length).and_then(|count| {
            Ok((self.file.resolve_access("read", id, &slab.into(), None, count.into())?, length))
        });
        self.add_get(id, cut, Box::new(RawDestination(bytes)))
    }

    fn add_get(
        &mut self,
        id: DatasetId,
        cut: Result<((ResolvedSelection, StorageMap), usize)>,
        values: Box<dyn ReadDestination + 'q>,
    ) -> &mut Self {
        let number = id.0;
        let get = cut.and_then(|((block, places), bytes)| {
            let (_, dataset, _) = self.file.dataset_by_id("read", id)?;
            let chunked = Some(block).filter(|_| matches!(dataset.storage, Storage::ChunkTable(_)));
            Ok(QueuedRead { places, chunked, number, bytes, dataset, values })
        });
        match get {
            Ok(get) if get.bytes > 0 => self.gets.push(get),
            Ok(_) => {}
            Err(error) => self.failed = self.failed.clone().and(Err(error)),
        }
        self
    }

    /// How many elements so many bytes are.
    fn elements(&self, operation: &'static str, id: DatasetId, bytes: usize) -> Result<u64> {
        let (path, dataset, _) = self.file.dataset_by_id(operation, id)?;
        let size = dataset.datatype.size().max(1);
        if (bytes as u64).is_multiple_of(size) {
            return Ok(bytes as u64 / size);
        }
        let detail = format!("{bytes} bytes are no whole elements of dataset {path:?}, which have {size}");
        Err(self.file.core.error(Kind::BadArgument, operation, detail))
    }

    /// How many accesses wait.
    pub fn len(&self) -> usize {
        self.puts.len() + self.filtered.len() + self.gets.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Does all accesses, for this rank alone. Rows that are complete are not written alone: others could not know.
    pub fn run(mut self) -> Result<()> {
        let container = self.file;
        container.locate_reads_alone(&mut self.gets)?;
        let (puts, gets) = self.plan()?;
        if !self.filtered.is_empty() {
            let detail = "chunks with filters are written together; write them with `all` or `run_all`";
            return Err(container.core.error(Kind::BadArgument, "write", detail));
        }
        if let (_, true) = self.find_overwritten() {
            let detail = "rows that are complete would change; write them together, with `all` or `run_all`";
            return Err(container.core.error(Kind::BadArgument, "write", detail));
        }
        if let Some((view, combined)) = &puts {
            let items = self.items()?;
            self.source(combined, &items, |source| container.core.file.with_view(view).write(source))?;
            self.note_rows_written();
        }
        let mut bytes = Vec::new();
        if let Some((view, combined)) = &gets {
            bytes.resize(combined.bytes as usize, 0);
            let count = container.core.file.with_view(view).read(&mut bytes)?.bytes();
            container.complete_read(combined.bytes, count)?;
        }
        scatter(container, &mut self.gets, gets.as_ref().map(|(_, combined)| combined), &bytes)
    }

    /// Does the accesses of all ranks as one collective write and one collective read. Collective; a rank may have nothing to do.
    pub fn run_all(mut self) -> Result<()> {
        let container = self.file;
        let filtered = self.encode_filtered()?;
        let planned = self.plan().and_then(|(puts, gets)| Ok((puts, gets, self.items()?)));
        let (lowest, undone) = self.find_overwritten();
        let unlocated = self.gets.iter().any(|get| get.chunked.is_some());
        let numbers =
            [(!self.puts.is_empty()).into(), (!self.gets.is_empty()).into(), undone.into(), unlocated.into()];
        let ((puts, gets, items), [any_puts, any_gets, undone, unlocated]) =
            container.core.agree_with_max("queue", planned, numbers)?;
        if undone > 0 {
            container.lower_marks(&lowest)?;
        }
        let nothing = View::default();
        if any_puts > 0 {
            let file = &container.core.file;
            match &puts {
                Some((view, combined)) => {
                    self.source(combined, &items, |source| file.with_view(view).all().write(source))?
                }
                None => file.with_view(&nothing).all().write(&[0u8; 0])?,
            };
            self.note_rows_written();
            container.publish_chunks(filtered);
        }
        if unlocated > 0 {
            let located = container.locate_reads(&mut self.gets);
            container.core.agree("queue", located)?;
        }
        if any_gets > 0 {
            let view = gets.as_ref().map_or(&nothing, |(view, _)| view);
            self.read_all(view, gets.as_ref().map(|(_, combined)| combined))?;
        }
        Ok(())
    }

    fn read_all(&mut self, view: &View, combined: Option<&MergedRegions>) -> Result<()> {
        let container = self.file;
        // One place that is whole in memory is read straight into it.
        if let [get] = self.gets.as_mut_slice()
            && let Some(memory) = get.straight()
        {
            let wanted = memory.len() as u64;
            let count = container.core.file.with_view(view).all().read(memory)?.bytes();
            return container.core.agree("queue", container.complete_read(wanted, count));
        }
        let mut bytes = vec![0; combined.map_or(0, |combined| combined.bytes) as usize];
        let count = container.core.file.with_view(view).all().read(&mut bytes)?.bytes();
        let outcome = container.complete_read(bytes.len() as u64, count);
        let outcome = outcome.and_then(|()| scatter(container, &mut self.gets, combined, &bytes));
        container.core.agree("queue", outcome)
    }

    /// Begins the writes of all ranks as one collective write, done by the file's own threads while the program goes on. Collective. Values are copied;
    /// reads are not begun like that.
    #[doc(alias = "H5Dwrite_async")]
    pub fn start_all(mut self) -> Result<Hdf5WriteRequest<'q>> {
        let container = self.file;
        let filtered = self.encode_filtered()?;
        let planned = self.plan().and_then(|(puts, _)| {
            if !self.gets.is_empty() {
                return Err(container.core.error(
                    Kind::BadArgument,
                    "queue",
                    "reads wait; `run_all` does them",
                ));
            }
            let items = self.items()?;
            let bytes = puts.as_ref().map(|(_, combined)| gathered(combined, &items));
            Ok((puts, bytes.unwrap_or_default()))
        });
        let (lowest, undone) = self.find_overwritten();
        let ((puts, bytes), [undone]) = container.core.agree_with_max("queue", planned, [undone.into()])?;
        if undone > 0 {
            container.lower_marks(&lowest)?;
        }
        let nothing = View::default();
        let view = puts.as_ref().map_or(&nothing, |(view, _)| view);
        let request = container.core.file.with_view(view).all().start_write(bytes)?;
        let direct = self.puts.iter().map(|put| (put.dataset, put.rows[1]));
        let compressed = self.filtered.iter().map(|write| (write.dataset, write.rows));
        let written = direct.chain(compressed).collect();
        Ok(Hdf5WriteRequest { file: container, request, written, filtered })
    }

    #[expect(clippy::type_complexity, reason = "writes and reads, taken apart at once")]
    fn plan(&mut self) -> Result<(Option<(View, MergedRegions)>, Option<(View, MergedRegions)>)> {
        std::mem::replace(&mut self.failed, Ok(()))?;
        let puts = self.file.merged_view(self.puts.iter().flat_map(|put| &put.places))?;
        let gets = self.file.merged_view(self.gets.iter().flat_map(|get| &get.places.regions))?;
        Ok((puts, gets))
    }

    fn find_overwritten(&self) -> (Vec<u64>, bool) {
        self.file.find_overwritten(self.puts.iter().map(|put| (put.dataset, put.rows[0])))
    }

    fn note_rows_written(&self) {
        for put in &self.puts {
            self.file.note_rows_written(put.dataset, put.rows[1]);
        }
        for write in &self.filtered {
            self.file.note_rows_written(write.dataset, write.rows);
        }
    }

    /// The one write there is, if its bytes lie in memory as in the file.
    fn straight(&self) -> Option<&[u8]> {
        let [QueuedWrite { places, bytes, .. }] = self.puts.as_slice() else { return None };
        let [place] = places.as_slice() else { return None };
        place.memory.strides.is_empty().then_some(bytes)
    }

    /// The bytes of all writes, laid out in memory.
    fn items(&self) -> Result<Vec<WritePayload<'_>>> {
        let places = self.puts.iter().flat_map(|put| put.places.iter().map(|place| (place, &*put.bytes)));
        let item = |(place, memory): (&StorageRegion, _)| {
            let pattern = self.file.memory(&place.memory)?;
            let checked = pattern.check_memory(<[u8]>::len(memory));
            checked.map_err(|error| self.file.core.error(Kind::BadArgument, "write", error.to_string()))?;
            Ok(WritePayload { pattern, memory })
        };
        places.map(item).collect()
    }

    /// Hands over the bytes of all writes, in the order of the file: as they lie, or as they are wanted, unless some are to overwrite others.
    fn source<R>(
        &self,
        combined: &MergedRegions,
        items: &[WritePayload<'_>],
        write: impl FnOnce(Source<'_>) -> R,
    ) -> R {
        if let Some(bytes) = self.straight() {
            return write(Source::from(bytes));
        }
        if !combined.is_ordered() {
            return write(Source::from(&gathered(combined, items)));
        }
        let make = |from: u64, out: &mut [u8]| {
            for (item, bytes, at) in combined.parts_within(from..from + out.len() as u64) {
                let length = (bytes.end - bytes.start) as usize;
                items[item].gather(bytes.start, &mut out[at..at + length]);
            }
        };
        write(Source::generated(combined.bytes, &make))
    }
}
