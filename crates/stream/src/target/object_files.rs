//! Streams as object files.

mod append_range;

use std::collections::HashSet;
use std::sync::Arc;

use aqueduct_comm::{Comm, Op};
use aqueduct_file::{self as file, File, Mode};
use aqueduct_object::schema::{Field, Struct, Type};
use aqueduct_object::{DynObjectWriter, Object, ObjectFile, ObjectOpenOptions, Schema};

use self::append_range::AppendRange;
use super::point_table::write_points;
use super::{ChunkSource, OutputTarget, StepBatch};
use crate::declare::declaration::Declaration;
use crate::declare::stream_info::{StreamInfo, StreamRegion};
use crate::error::{EXISTS, Error, Kind, Result, agree};
use crate::value::{StreamValue, ValueKind, by_kind};

/// The kind of a [`Deposit`].
#[derive(Object, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// A step.
    Step,
    /// The reductions that are stored at the end.
    Closing,
    /// The end of the program: `step` is the number of steps.
    End,
}

/// The data of a stream in a step: an object of the file that has the name of the output.
#[derive(Object, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deposit {
    /// Its kind.
    pub of: Of,
    /// The step, from 0.
    pub step: u64,
    /// The number of the stream in the order of declaration.
    pub stream: u32,
    /// The number of its first object in the stream's file, and the number of objects.
    pub first: u64,
    /// See `first`.
    pub count: u64,
    /// The number of samples of each value.
    pub samples: u64,
}

/// Object files that are being written: one for each stream, and one of the complete steps.
///
/// | file | its objects |
/// |---|---|
/// | `<name>.<stream>` | those of a stream of objects; values of arrays and points, batch after batch; items of a
/// list |
/// | `<name>.<stream>.points` | the points of a stream, by their numbers in the global array |
/// | `<name>.streams` | the description of each stream as in a stream file (JSON): shape, region, reduction … |
/// | `<name>` | [`Deposit`]s: the objects of each stream and step |
///
/// Values of a batch are in the order of a [stream file](super::FileTarget); items of several values are arrays.
///
/// A step is complete when its deposits are committed, after its objects: other objects do not count. Each step is
/// first committed durably in the files of its streams, so that visible steps are durable. That costs several syncs,
/// and one operation per stream: a [stream file](super::FileTarget) needs neither, and stores objects too.
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_object::{Object, ObjectFile};
/// use aqueduct_stream::target::{Deposit, ObjectTarget};
/// use aqueduct_stream::{Options, Stream, Streams};
///
/// #[derive(Object, Clone, Debug, PartialEq)]
/// struct Spark { at: [f32; 3], colour: Option<String> }
///
/// Launch::threads(2).run(|world| {
///     let mut streams = Streams::new();
///     let sparks = streams.add_objects::<Spark>(Stream::objects("sparks"));
///     let mut output = Options::new().create_on(world, "memfs:fire", &streams, |comm, declared| {
///         Ok(Box::new(ObjectTarget::create(comm, "memfs:fire", declared)?))
///     })?;
///     for step in 0..4 {
///         let spark = Spark { at: [step as f32; 3], colour: None };
///         output.step()?.put_objects(sparks, &vec![spark; step]).commit()?;
///     }
///     output.finish()?;
///     let sparks = ObjectFile::<Spark>::open(world, "memfs:fire.sparks")?;
///     let deposits = ObjectFile::<Deposit>::open(world, "memfs:fire")?;
///     let last = deposits.at(3).read_vec(1)?[0];
///     assert_eq!((last.step, last.first, last.count), (3, 6, 6));
///     assert_eq!(sparks.at(last.first).read_vec(last.count)?[5].at, [3.0; 3]);
///     deposits.close()?;
///     sparks.close()?;
///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
pub struct ObjectTarget {
    name: Arc<str>,
    comm: Comm,
    declaration: Arc<Declaration>,
    /// One for each stream; none for lengths of another stream's objects.
    files: Vec<Option<DynObjectWriter>>,
    deposits: ObjectFile<Deposit>,
}

impl ObjectTarget {
    /// Creates the files. Fails if one exists, unless the output [replaces](Declaration::replaces) them. Collective.
    pub fn create(comm: &Comm, name: &str, declared: &Arc<Declaration>) -> Result<Self> {
        check_names(name, declared)?;
        if declared.resumes_at().is_some() {
            let detail = "an output into object files cannot be continued; use a stream file, netCDF or HDF5";
            return Err(Error::new(Kind::Unsupported, "resume", name, detail));
        }
        if !declared.replaces() {
            let free = if comm.rank() == 0 { check_free(&comm.comm_self(), name, declared) } else { Ok(()) };
            agree(comm, "create", name, free)?;
        }
        // Without deposits, objects of older files do not count.
        let create = ObjectOpenOptions::new(Mode::read_write().exclusive());
        let create = if declared.replaces() { create.replace() } else { create };
        let deposits = create.open(comm, name)?;
        deposits.commit()?;
        let texts: Vec<String> = declared.streams().iter().map(StreamInfo::to_json).collect();
        let streams = create.open(comm, format!("{name}.streams"))?;
        streams.at(0).all().write(if comm.rank() == 0 { &texts[..] } else { &[] })?;
        streams.close()?;
        let mut files = Vec::new();
        for (stream, about) in declared.streams().iter().enumerate() {
            if let StreamRegion::Points(_) = about.region {
                let points = create.open(comm, format!("{name}.{}.points", about.name))?;
                write_points(comm, name, declared, stream, |start, mine| {
                    points.at(start).all().write(mine).map(drop)
                })?;
                points.close()?;
            }
            let file = format!("{name}.{}", about.name);
            let made = schema_of(declared.streams(), stream)
                .map(|schema| create.open_encoded(comm, file, &schema))
                .transpose()?;
            if let Some(file) = &made {
                file.commit()?;
            }
            files.push(made);
        }
        Ok(Self { name: name.into(), comm: comm.clone(), declaration: Arc::clone(declared), files, deposits })
    }

    /// The place of this rank's part of each stream of a batch. Collective.
    fn append_ranges(&self, batch: &StepBatch) -> Result<Vec<AppendRange>> {
        let lost = |error: aqueduct_comm::Error| Error::from_comm("write", &self.name, &error);
        let mine: Vec<u64> = batch.entries.iter().map(|entry| entry.items).collect();
        let before = self.comm.exclusive_scan(Op::Sum, &mine).map_err(lost)?;
        let before = before.unwrap_or_else(|| vec![0; mine.len()]);
        let totals = self.comm.allreduce(Op::Sum, &mine).map_err(lost)?;
        let rooms = (0..batch.entries.len())
            .map(|at| AppendRange::new(&self.declaration, batch, at, &before, &totals));
        let refused = |error: aqueduct_file::layout::LayoutError| {
            Error::new(Kind::BadArgument, "write", &self.name, error.to_string())
        };
        agree(&self.comm, "write", &self.name, rooms.collect::<Result<_, _>>().map_err(refused))
    }

    /// Writes this rank's part of a chunk that begins after `done` bytes; lengths are kept. Collective.
    fn store(&self, rooms: &[AppendRange], lengths: &mut [Vec<u64>], done: u64, chunk: &[u8]) -> Result<()> {
        let parts = AppendRange::parts(rooms, done, chunk);
        let mine: Vec<u64> = parts.iter().map(|(_, part)| u64::from(!part.is_empty())).collect();
        let lost = |error: aqueduct_comm::Error| Error::from_comm("write", &self.name, &error);
        // A file to which no rank writes needs no collective call.
        let any = self.comm.allreduce(Op::Max, &mine).map_err(lost)?;
        for (((room, lengths), (first, part)), any) in rooms.iter().zip(lengths).zip(parts).zip(any) {
            match &self.files[room.stream] {
                Some(file) if any > 0 => file.write(first, part)?,
                Some(_) => {}
                None => lengths.extend(part.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes))),
            }
        }
        Ok(())
    }

    /// Writes the deposits: the step is complete. Collective.
    fn write_deposits(&self, deposits: &[Deposit]) -> Result<()> {
        let mine = if self.comm.rank() == 0 { deposits } else { &[] };
        let end = self.deposits.count()?;
        self.deposits.at(end).all().write(mine)?;
        self.deposits.commit()
    }
}

/// The schema of the objects of a stream's file; none for the lengths of another stream.
fn schema_of(abouts: &[StreamInfo], stream: usize) -> Option<Schema> {
    let about = &abouts[stream];
    if stream > 0 && abouts[stream - 1].is_indexed() {
        return None;
    }
    if let Some(schema) = &about.object {
        return Some(schema.clone());
    }
    let value = type_of_kind(about.stored());
    let values = if about.region == StreamRegion::List { about.shape[0] } else { 1 };
    Some(Schema::new(if values == 1 { value } else { Type::Array { of: Box::new(value), len: values } }))
}

fn type_of_kind(kind: ValueKind) -> Type {
    match kind {
        ValueKind::Bool => Type::Bool,
        ValueKind::F16 => Type::F16,
        ValueKind::Complex64 | ValueKind::Complex128 => {
            let part = by_kind!(kind, type_of());
            let fields = ["r", "i"].map(|name| Field::new(name, part.clone()));
            Type::Struct(Struct { name: "Complex".to_owned(), fields: fields.to_vec(), removed: Vec::new() })
        }
        kind => by_kind!(kind, type_of()),
    }
}

fn type_of<T: StreamValue + Object>() -> Type {
    T::schema().root().clone()
}

/// The endings of the names of a stream's files.
fn endings(declared: &Declaration, stream: usize) -> Vec<String> {
    let about = &declared.streams()[stream];
    let points = matches!(about.region, StreamRegion::Points(_)).then(|| format!(".{}.points", about.name));
    let own = schema_of(declared.streams(), stream).map(|_| format!(".{}", about.name));
    own.into_iter().chain(points).collect()
}

/// The endings of the files of any output: the deposits, and the descriptions.
fn common_endings() -> [String; 2] {
    [String::new(), ".streams".to_owned()]
}

/// Fails if one of the files exists: otherwise some would be created before another one fails.
fn check_free(own: &Comm, name: &str, declared: &Declaration) -> Result<()> {
    let streams = (0..declared.streams().len()).flat_map(|stream| endings(declared, stream));
    for file in common_endings().into_iter().chain(streams).map(|ending| format!("{name}{ending}")) {
        let meta = format!("{file}.meta");
        // An error of opening that is not this one is also an error of creating it.
        if [&meta, &file].iter().all(|part| File::open(own, part).is_err()) {
            continue;
        }
        let refuse = |kind, detail: &str| Err(Error::new(kind, "create", file, detail));
        return match file::check_unclaimed(&meta) {
            Err(error) if error.kind() == file::Kind::InUse => refuse(error.kind(), error.detail()),
            _ => refuse(file::Kind::FileExists, EXISTS),
        };
    }
    Ok(())
}

/// Fails if two files have the same name, or a name is invalid.
fn check_names(name: &str, declared: &Declaration) -> Result<()> {
    let mut names = HashSet::new();
    for own in common_endings() {
        names.extend([format!("{own}.meta"), own]);
    }
    for (stream, about) in declared.streams().iter().enumerate() {
        let own = endings(declared, stream);
        let all = own.iter().flat_map(|own| [own.clone(), format!("{own}.meta")]);
        let twice: Vec<String> = all.filter(|own| !names.insert(own.clone())).collect();
        if !own.is_empty() && (about.name.contains(['/', '\0']) || !twice.is_empty()) {
            let detail = format!(
                "stream {:?} cannot have its own file: the name is used by another file, or is not a file name; give it another name",
                about.name
            );
            return Err(Error::new(Kind::BadArgument, "create", name, detail));
        }
    }
    Ok(())
}

impl OutputTarget for ObjectTarget {
    fn write(&mut self, batch: &StepBatch, source: &mut dyn ChunkSource) -> Result<()> {
        let lost = |error: aqueduct_comm::Error| Error::from_comm("write", &self.name, &error);
        let rounds = self.comm.allreduce_one(Op::Max, source.chunks()).map_err(lost)?;
        let rooms = self.append_ranges(batch)?;
        let mut deposits = Vec::new();
        for (room, entry) in rooms.iter().zip(&batch.entries) {
            let Some(file) = &self.files[room.stream] else { continue };
            let of = if batch.closing { Of::Closing } else { Of::Step };
            let (stream, first, count) = (room.stream as u32, file.count(), room.count);
            deposits.push(Deposit { of, step: batch.step, stream, first, count, samples: entry.samples });
            file.extend(room.count, room.bytes, &room.place)?;
        }
        let (mut lengths, mut done) = (vec![Vec::new(); rooms.len()], 0);
        for _ in 0..rounds {
            let chunk = agree(&self.comm, "write", &self.name, source.next())?;
            self.store(&rooms, &mut lengths, done, chunk)?;
            done += chunk.len() as u64;
        }
        for (at, room) in rooms.iter().enumerate() {
            let Some(file) = &self.files[room.stream] else { continue };
            if let Some(lengths) = lengths.get(at + 1).filter(|_| room.is_indexed) {
                file.index(rooms[at + 1].before, room.before, lengths)?;
            }
            file.commit()?;
        }
        self.write_deposits(&deposits)
    }

    fn is_persistent(&self) -> bool {
        self.deposits.is_persistent()
    }

    /// Stored data is durable already.
    fn sync(&mut self) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>, steps: u64) -> Result<()> {
        self.write_deposits(&[Deposit {
            of: Of::End,
            step: steps,
            stream: 0,
            first: 0,
            count: 0,
            samples: 0,
        }])?;
        for file in self.files.into_iter().flatten() {
            file.close()?;
        }
        self.deposits.close()
    }
}
