//! Object files of a type that is known at run time only: for tools, and for writers of encoded objects.

use std::ffi::OsStr;
use std::ops::Range;
use std::sync::Arc;

use aqueduct_comm::Comm;
use aqueduct_file::layout::{Basic, Layout};
use aqueduct_file::{Source, View};

use crate::FileProvenance;
use crate::error::{Kind, Result};
use crate::file::{IndexEntry, ObjectOpenOptions, ObjectView, OpenObjectFile, WrittenObjects};
use crate::schema::{ByteOrder, Schema, swap};

/// An object file that is read by the schema in it; see [`ObjectOpenOptions::open_dyn`](crate::ObjectOpenOptions::open_dyn).
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_object::{ObjectFile, ObjectOpenOptions};
///
/// Launch::threads(1).run(|world| {
///     let file = ObjectFile::<u16>::create(world, "memfs:untyped")?;
///     file.at_pointer().all().write(&[1, 2, 3])?;
///     file.close()?;
///     let file = ObjectOpenOptions::open_dyn(world, "memfs:untyped")?;
///     assert_eq!((file.schema().signature(), file.count()?), ("u16", 3));
///     assert_eq!(file.read(1..3)?, [2, 0, 3, 0]);
///     assert_eq!(file.show(1..3)?, ["2", "3"]);
///     file.verify()
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
pub struct DynObjectFile {
    store: OpenObjectFile,
}

impl ObjectOpenOptions {
    /// Opens `name` for reading with the schema that the file has. Collective.
    pub fn open_dyn(comm: &Comm, name: impl AsRef<OsStr>) -> Result<DynObjectFile> {
        Ok(DynObjectFile { store: Self::open_any(comm, name.as_ref())? })
    }

    /// Opens `name` for objects of this schema that the program has encoded itself. Collective.
    pub fn open_encoded(
        &self,
        comm: &Comm,
        name: impl AsRef<OsStr>,
        schema: &Schema,
    ) -> Result<DynObjectWriter> {
        Ok(DynObjectWriter { store: self.open_schema(comm, name.as_ref(), schema)? })
    }
}

impl DynObjectFile {
    /// The schema of the objects.
    pub fn schema(&self) -> &Schema {
        &self.store.schema
    }

    /// The byte order of numbers.
    pub fn byte_order(&self) -> ByteOrder {
        self.store.order
    }

    /// The program that created the file; none if it was written by an earlier version or is damaged there.
    pub fn written_by(&self) -> Option<FileProvenance> {
        self.store.written_by()
    }

    /// The number of objects.
    pub fn count(&self) -> Result<u64> {
        self.store.count()
    }

    /// The encoded form of objects of constant size, in the byte order of the file. Checksums are compared.
    pub fn read(&self, objects: Range<u64>) -> Result<Vec<u8>> {
        let Some(size) = self.store.schema.size() else {
            let detail = "the objects have variable size; read them with their type, or with `show`";
            return Err(self.store.error(Kind::Unsupported, "read", detail));
        };
        let count = self.count()?;
        if objects.start > objects.end || objects.end > count {
            let detail = format!("objects {objects:?} are out of range, the file has {count}");
            return Err(self.store.error(Kind::BadArgument, "read", detail));
        }
        let bytes = objects.start * size..objects.end * size;
        self.store.verify(bytes.clone())?;
        let mut read = vec![0; (bytes.end - bytes.start) as usize];
        self.store.raw_data.at(bytes.start).read(&mut read)?;
        Ok(read)
    }

    /// Objects of any size as text, fields with their names; see [`Schema::show`]. Checksums are compared.
    pub fn show(&self, objects: Range<u64>) -> Result<Vec<String>> {
        let store = &self.store;
        if let Some(size) = store.schema.size() {
            let mut bytes = self.read(objects.clone())?;
            // Objects without bytes are counted too.
            let one = |(number, at): (u64, u64)| {
                let part = &mut bytes[(at * size) as usize..((at + 1) * size) as usize];
                self.shown(part, number, number * size)
            };
            return objects.zip(0..).map(one).collect();
        }
        let one = |(number, entry): (u64, IndexEntry)| {
            let mut bytes = self.read_entry(entry)?;
            self.shown(&mut bytes, number, entry.offset)
        };
        self.entries(&objects)?.into_iter().map(one).collect()
    }

    /// The encoded form of each object of variable size, with little-endian numbers. Checksums are compared.
    pub fn read_each(&self, objects: Range<u64>) -> Result<Vec<Vec<u8>>> {
        let one = |(number, entry): (u64, IndexEntry)| {
            let mut bytes = self.read_entry(entry)?;
            self.to_little_endian(&mut bytes).map_err(|why| self.wrong_type(number, entry.offset, &why))?;
            Ok(bytes)
        };
        self.entries(&objects)?.into_iter().map(one).collect()
    }

    /// The numbers of these objects that exist, and where they are.
    fn entries(&self, objects: &Range<u64>) -> Result<Vec<(u64, IndexEntry)>> {
        let wanted = objects.end.min(self.count()?).saturating_sub(objects.start);
        self.store.entries(&ObjectView::all(), objects.start, wanted)
    }

    fn read_entry(&self, entry: IndexEntry) -> Result<Vec<u8>> {
        let mut bytes = vec![0; entry.length as usize];
        self.store.read_bytes(entry.offset, &mut bytes)?;
        self.store.verify(entry.offset..entry.offset + entry.length)?;
        Ok(bytes)
    }

    fn to_little_endian(&self, bytes: &mut [u8]) -> std::result::Result<(), String> {
        match self.store.order {
            ByteOrder::Big if !bytes.is_empty() => swap(self.store.schema.root(), ByteOrder::Big, bytes),
            _ => Ok(()),
        }
    }

    fn wrong_type(&self, number: u64, offset: u64, why: &str) -> crate::Error {
        let place = format!("object {number}, from byte {offset} of the data on");
        let name = self.store.schema.name();
        self.store.error(Kind::Damaged, "read", format!("{place}: {why}; the data is not of type {name}"))
    }

    /// The text of the object whose stored bytes begin at `offset`.
    fn shown(&self, bytes: &mut [u8], number: u64, offset: u64) -> Result<String> {
        let turned = self.to_little_endian(bytes);
        let shown = turned.and_then(|()| self.store.schema.show(bytes).map_err(|error| error.to_string()));
        shown.map_err(|why| self.wrong_type(number, offset, &why))
    }

    /// Compares all data with its checksums, the ranks sharing the work. Collective.
    pub fn verify(&self) -> Result<()> {
        self.store.verify_all()
    }
}

/// An object file that is written with encoded objects of a schema: they are appended after the committed ones, and committed; see
/// [`ObjectOpenOptions::open_encoded`](crate::ObjectOpenOptions::open_encoded).
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_file::Mode;
/// use aqueduct_file::layout::{Layout, Member};
/// use aqueduct_object::{Object, ObjectFile, ObjectOpenOptions, encode};
///
/// Launch::threads(2).run(|world| {
///     let open = ObjectOpenOptions::new(Mode::read_write().exclusive());
///     let file = open.open_encoded(world, "memfs:written", &String::schema())?;
///     // Each rank has one text of ten bytes; that of rank 1 follows that of rank 0.
///     let (rank, text) = (world.rank() as u64, encode(&format!("r{}", world.rank())));
///     let layout = Layout::bytes(10).unwrap();
///     let place = Layout::structure([Member { count: 1, displacement: 10 * rank as i64, layout }]).unwrap();
///     file.extend(2, 20, &place)?;
///     file.index(rank, 10 * rank, &[10])?;
///     file.write(0, &text)?;
///     file.close()?;
///     let file = ObjectFile::<String>::open(world, "memfs:written")?;
///     assert_eq!(file.at(0).read_vec(2)?, ["r0", "r1"]);
///     file.close()
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
pub struct DynObjectWriter {
    store: OpenObjectFile,
}

impl DynObjectWriter {
    /// The number of committed objects.
    pub fn count(&self) -> u64 {
        self.store.changes().slot.count
    }

    /// Appends space for `count` objects of all ranks, `bytes` in total, after the committed ones. `mine` describes this rank's bytes in it. Called once
    /// between two commits. Collective.
    pub fn extend(&self, count: u64, bytes: u64, mine: &Layout) -> Result<()> {
        let (first, start) = {
            let changes = self.store.changes();
            (changes.slot.count, changes.slot.length)
        };
        let ends = start.checked_add(bytes).zip(first.checked_add(count));
        let fits = self.store.size().is_none_or(|size| count.checked_mul(size) == Some(bytes));
        let view = match ends.filter(|(end, _)| fits && i64::try_from(*end).is_ok()) {
            Some((end, high)) => self.store.mark_dirty(start..end, false).map(|()| {
                self.store.record_write(written_objects(high, 0, Vec::new(), high));
                let mine = if mine.size() == 0 { &Layout::empty() } else { mine };
                View::new(start, &Layout::from(Basic::Byte), mine)
            }),
            None => {
                let detail = format!(
                    "{count} objects cannot have {bytes} bytes, or the end exceeds the maximum file size (2^63-1 bytes)"
                );
                Err(self.store.error(Kind::BadArgument, "write", detail))
            }
        };
        match view.and_then(|view| view) {
            Ok(view) => self.store.data.set_view(&view),
            Err(error) => {
                // The other ranks fail when they set their views.
                let _ = self.store.data.refuse_view(error.clone());
                Err(error)
            }
        }
    }

    /// Writes this rank's bytes, from byte `at` of its part of the new space on. Collective.
    pub fn write<'a>(&self, at: u64, bytes: impl Into<Source<'a>>) -> Result<()> {
        self.store.data.at(at).all().write(bytes).map(drop)
    }

    /// Adds this rank's new objects to the index: they follow each other, the first is number `first` of the new ones and begins at byte `start` of the
    /// new space. For objects of variable size only.
    pub fn index(&self, first: u64, start: u64, lengths: &[u64]) -> Result<()> {
        if self.store.size().is_some() {
            let detail = "objects of constant size have no index";
            return Err(self.store.error(Kind::BadArgument, "write", detail));
        }
        let (count, length) = {
            let changes = self.store.changes();
            (changes.slot.count, changes.slot.length)
        };
        let ends = lengths.iter().scan(0u64, |end, length| {
            *end = end.saturating_add(*length);
            Some(*end)
        });
        let high = count.saturating_add(first).saturating_add(lengths.len() as u64);
        let written =
            written_objects(count.saturating_add(first), length.saturating_add(start), ends.collect(), high);
        self.store.record_write(written);
        Ok(())
    }

    /// Makes everything that all ranks have written durable, and visible to readers at once. Collective.
    pub fn commit(&self) -> Result<()> {
        self.store.commit()
    }

    /// Commits and closes. Collective.
    pub fn close(self) -> Result<()> {
        let committed = self.commit();
        self.store.close(committed)
    }
}

/// A record of objects that were written without a view.
fn written_objects(start: u64, offset: u64, ends: Vec<u64>, high: u64) -> WrittenObjects {
    WrittenObjects { view: Arc::new(ObjectView::all()), start, offset, ends, high }
}
