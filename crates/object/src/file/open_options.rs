//! Collective opening and creation of object files: rank 0 inspects the file, then all ranks open it.

use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex};

use aqueduct_comm::{Comm, PooledComm};
use aqueduct_file::{self as file, File, Mode, OpenOptions, WriterLock};

use super::ObjectFile;
use super::index_list::delete_indices;
use super::meta_file::{
    CommitState, DESCRIPTION, MetaArea, MetaSlot, ObjectFileMetadata, PROVENANCE, SlotError, UNIT, VERSION,
    encode_provenance,
};
use super::open_file::{OpenObjectFile, UncommittedChanges};
use crate::error::{Error, Kind, Result, agree, from_root, wrong_type};
use crate::object::cast;
use crate::schema::{ByteOrder, Migration, Schema, SchemaMismatch, Type};
use crate::{FileProvenance, Object};

/// Options for opening an object file; the same on all ranks.
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_file::OpenOptions;
/// use aqueduct_object::{ObjectOpenOptions, schema::ByteOrder};
///
/// Launch::threads(2).run(|world| {
///     let file = OpenOptions::new().read(true).write(true).create(true).delete_on_close(true);
///     let open = ObjectOpenOptions::new(file).byte_order(ByteOrder::Big);
///     let file = open.open::<f64>(world, "memfs:opened")?;
///     file.at(world.rank() as u64).all().write(&[1.5])?;
///     file.close()
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ObjectOpenOptions {
    /// The options of the data file. With truncation, both files are deleted first.
    file: OpenOptions,
    order: ByteOrder,
    checksums: bool,
    raw: bool,
}

impl ObjectOpenOptions {
    /// Opens with the access and the hints of these options, or with an access mode of MPI. A file that is created gets little-endian bytes
    /// and checksums. Truncation replaces the file, see [`replace`](Self::replace).
    pub fn new(options: impl Into<OpenOptions>) -> Self {
        Self { file: options.into(), order: ByteOrder::Little, checksums: true, raw: false }
    }

    /// Adds a hint for the file layer.
    #[must_use]
    pub fn hint(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.file = self.file.hint(key, value);
        self
    }

    /// The byte order of a new or raw file; an existing file has its own.
    #[must_use]
    pub fn byte_order(mut self, order: ByteOrder) -> Self {
        self.order = order;
        self
    }

    /// Stores no checksums in a new file. Reads do not compare those of an existing one; changes of it are still stored with checksums.
    #[must_use]
    pub fn unchecked(mut self) -> Self {
        self.checksums = false;
        self
    }

    /// Deletes the file of this name first, if there is one and no program is writing it.
    #[must_use]
    pub fn replace(mut self) -> Self {
        self.file = self.file.truncate(true);
        self
    }

    /// A plain array without `.meta`, for exchange with other programs: objects of constant size, no checksums, no commit.
    #[must_use]
    pub fn raw(mut self) -> Self {
        self.raw = true;
        self
    }

    fn mode(&self) -> Mode {
        self.file.mode()
    }

    /// Opens `name` on all ranks of `comm`. Collective: it succeeds on all ranks or on none.
    pub fn open<T: Object>(&self, comm: &Comm, name: impl AsRef<OsStr>) -> Result<ObjectFile<T>> {
        let wanted = T::schema();
        let understand = |shown: &str, metadata: &[u8]| self.check_type(shown, metadata, &wanted);
        let (store, migration) = self.open_inspected(comm, name.as_ref(), &wanted, understand)?;
        let straight = migration.is_none() && store.order == ByteOrder::Little && cast::is_plain::<T>();
        ObjectFile::new(store, migration, straight)
    }

    /// Opens an existing file for reading, with its own schema. Collective.
    pub(crate) fn open_any(comm: &Comm, name: &OsStr) -> Result<OpenObjectFile> {
        let open = Self::new(Mode::read_only());
        let understand = |shown: &str, metadata: &[u8]| open.decoded(shown, metadata);
        let nothing = Schema::new(Type::U8);
        Ok(open.open_inspected(comm, name, &nothing, understand)?.0)
    }

    /// Opens a file of objects of this schema. Collective.
    pub(crate) fn open_schema(&self, comm: &Comm, name: &OsStr, schema: &Schema) -> Result<OpenObjectFile> {
        let understand = |shown: &str, metadata: &[u8]| self.check_type(shown, metadata, schema);
        Ok(self.open_inspected(comm, name, schema, understand)?.0)
    }

    /// Opens the file after all ranks have decoded the metadata that rank 0 has read. A new file gets the schema `wanted`.
    fn open_inspected(
        &self,
        comm: &Comm,
        name: &OsStr,
        wanted: &Schema,
        understand: impl FnOnce(&str, &[u8]) -> Result<AgreedMetadata>,
    ) -> Result<(OpenObjectFile, Option<Migration>)> {
        let shown: Arc<str> = name.to_string_lossy().into();
        let talk = |error: aqueduct_comm::Error| Error::from_comm("open", &shown, &error);
        let own = comm.comm_self();
        let line = PooledComm::acquire(comm).map_err(talk)?;
        let talked = line.traffic();
        let found = if line.rank() == 0 {
            self.inspect_on_root(&own, name, &shown, wanted)
        } else {
            Ok((Vec::new(), None))
        };
        let (found, claim) =
            found.map_or_else(|error| (Err(error), None), |(metadata, claim)| (Ok(metadata), claim));
        let metadata = from_root(&line, "open", &shown, found)?;
        let mine = understand(&shown, &metadata).and_then(|what| Ok((what, self.open_own(&own, name)?)));
        let (AgreedMetadata { longer, slot, schema, order, checksums, migration }, (plain, meta)) =
            agree(&line, "open", &shown, mine)?;
        let (data, numbers) = self.open_all(comm, name, schema.size().is_some())?;
        let changes = UncommittedChanges {
            high: slot.count,
            slot,
            dirty: Vec::new(),
            written: Vec::new(),
            verified: Vec::new(),
            all_verified: false,
        };
        let store = OpenObjectFile {
            name: shown,
            comm: line,
            traffic_at_open: talked,
            data,
            raw_data: plain,
            meta,
            count_pointer: numbers,
            mode: self.mode(),
            schema,
            order,
            checksums: checksums && !self.raw,
            compares: self.checksums,
            writer_lock: claim,
            changes: Mutex::new(changes),
        };
        store.begin(longer)?;
        Ok((store, migration))
    }

    /// Rank 0: the encoded metadata of the existing or created file (a flag for uncommitted data at the end, a slot, a description), and the writer lock.
    fn inspect_on_root(
        &self,
        own: &Comm,
        name: &OsStr,
        shown: &str,
        wanted: &Schema,
    ) -> Result<(Vec<u8>, Option<WriterLock>)> {
        if self.mode().is_sequential() {
            let detail = "object files are accessed by object number; sequential mode is for plain files";
            return Err(Error::new(Kind::Unsupported, "open", shown, detail));
        }
        if wanted.size() == Some(0) {
            let detail = format!("objects of type {} have no bytes to store", wanted.name());
            return Err(Error::new(Kind::Unsupported, "open", shown, detail));
        }
        if self.raw {
            return self.inspect_raw_on_root(own, name, shown, wanted).map(|metadata| (metadata, None));
        }
        if self.file.is_truncate() {
            delete_both(name, shown)?;
        }
        let create = self.mode().is_create();
        match File::open(own, meta_name(name)) {
            // Without the lock: the program that has just created the file may not have taken it yet.
            Ok(_) if create && self.mode().is_exclusive() => {
                let claimed = file::check_unclaimed(meta_name(name)).err();
                Err(claimed.and_then(|error| in_use("open", shown, &error)).unwrap_or_else(|| exists(shown)))
            }
            Ok(meta) => {
                let claim = if self.mode().is_write() { lock_meta("open", name, shown)? } else { None };
                Ok((read_state(&meta, shown, own, name)?, claim))
            }
            Err(error) if error.kind() != Kind::NoSuchFile => Err(map_name_error(&error, shown)),
            Err(_) if create => self.create(own, name, shown, wanted),
            Err(_) => {
                // The file layer reports a missing file.
                File::open(own, name)?;
                let detail = "the file has no .meta, so its type is not known; open it as raw, or repair it";
                Err(Error::new(Kind::NoMetadata, "open", shown, detail))
            }
        }
    }

    fn inspect_raw_on_root(&self, own: &Comm, name: &OsStr, shown: &str, wanted: &Schema) -> Result<Vec<u8>> {
        let Some(size) = wanted.size() else {
            let detail = format!(
                "objects of type {} have variable size, which needs a .meta with an index; do not open the file as raw",
                wanted.name()
            );
            return Err(Error::new(Kind::Unsupported, "open", shown, detail));
        };
        if self.file.is_truncate()
            && let Err(error) = file::delete(name)
            && error.kind() != Kind::NoSuchFile
        {
            return Err(error);
        }
        let mode = match (self.mode().is_create(), self.mode().is_exclusive()) {
            (false, _) => Mode::read_only(),
            (true, false) => Mode::read_write().create(),
            (true, true) => Mode::read_write().exclusive(),
        };
        let length = OpenOptions::from(mode).open(own, name)?.size()?;
        let description = ObjectFileMetadata::new(wanted, self.order, false).encode();
        let slot = new_slot(CommitState::Complete, &description);
        let slot = MetaSlot { count: length / size, length: 0, ..slot };
        Ok([&[0], &slot.encode()[..], &description].concat())
    }

    fn create(
        &self,
        own: &Comm,
        name: &OsStr,
        shown: &str,
        wanted: &Schema,
    ) -> Result<(Vec<u8>, Option<WriterLock>)> {
        let exclusive = self.mode().is_exclusive();
        let mode = if exclusive { Mode::read_write().exclusive() } else { Mode::read_write().create() };
        let data = OpenOptions::from(mode).open(own, name).map_err(|error| match error.kind() {
            Kind::FileExists => exists(shown),
            _ => error,
        })?;
        if data.size()? > 0 {
            let detail = "the data file exists and has no .meta; open it as raw, repair it, or replace it with `ObjectOpenOptions::replace`";
            return Err(Error::new(Kind::NoMetadata, "open", shown, detail));
        }
        let description = ObjectFileMetadata::new(wanted, self.order, self.checksums).encode();
        let slot = new_slot(CommitState::Changing, &description);
        let meta = OpenOptions::new().read(true).write(true).create(true).open(own, meta_name(name))?;
        let claim = lock_meta("open", name, shown)?;
        if let Some(unit) = encode_provenance(&FileProvenance::now(own)) {
            meta.at(PROVENANCE).write(&unit)?;
        }
        meta.at(DESCRIPTION).write(&description)?;
        meta.at(slot.place()).write(&slot.encode())?;
        meta.sync()?;
        Ok(([&[0], &slot.encode()[..], &description].concat(), claim))
    }

    /// All ranks: decodes the metadata from rank 0 and compares the schema with the program's.
    fn check_type(&self, shown: &str, metadata: &[u8], wanted: &Schema) -> Result<AgreedMetadata> {
        let understood = self.decoded(shown, metadata)?;
        let schema = &understood.schema;
        let migration = Migration::plan(schema, wanted).map_err(|why| wrong_type("open", shown, &why))?;
        if migration.is_some() && self.mode().is_write() {
            let why = "a file can be written with its own type only; read it and write a new file";
            return Err(wrong_type("open", shown, &SchemaMismatch::new(schema, wanted, why)));
        }
        Ok(AgreedMetadata { migration, ..understood })
    }

    /// All ranks: decodes the metadata from rank 0.
    fn decoded(&self, shown: &str, metadata: &[u8]) -> Result<AgreedMetadata> {
        let broken = |why: String| {
            Error::new(Kind::Damaged, "open", shown, format!("the description in the .meta: {why}"))
        };
        let missing = || broken("missing".to_owned());
        let (longer, metadata) = metadata.split_first().ok_or_else(missing)?;
        let (slot, description) = metadata.split_at_checked(UNIT).ok_or_else(missing)?;
        let slot = MetaSlot::decode(slot).map_err(|_| broken("its slot".to_owned()))?;
        let (description, schema) = ObjectFileMetadata::decode(description).map_err(broken)?;
        let order = if self.raw { self.order } else { description.byte_order };
        let (longer, checksums) = (*longer != 0, description.checksums);
        Ok(AgreedMetadata { longer, slot, schema: Arc::new(schema), order, checksums, migration: None })
    }

    /// The data and the `.meta`, opened by this rank.
    fn open_own(&self, own: &Comm, name: &OsStr) -> Result<(File, Option<File>)> {
        let plain = File::open(own, name)?;
        if self.raw {
            return Ok((plain, None));
        }
        let meta = OpenOptions::from(self.access()).open(own, meta_name(name))?;
        Ok((plain, Some(meta)))
    }

    /// The data, opened on all ranks, and the file whose shared pointer counts objects, if that of the data counts bytes.
    fn open_all(&self, comm: &Comm, name: &OsStr, constant: bool) -> Result<(File, Option<File>)> {
        let deletes = self.mode().is_delete_on_close();
        let mode = if deletes { self.access().delete_on_close() } else { self.access() };
        let data = OpenOptions::from(mode).hints(self.file.info()).open(comm, name)?;
        // A `.meta` that is deleted on close is opened with that mode.
        let needed = !self.raw && (deletes || !constant);
        let numbers = needed.then(|| OpenOptions::from(mode).open(comm, meta_name(name))).transpose()?;
        Ok((data, numbers))
    }

    fn access(&self) -> Mode {
        if self.mode().is_write() { Mode::read_write() } else { Mode::read_only() }
    }
}

/// The metadata from rank 0, decoded.
struct AgreedMetadata {
    longer: bool,
    slot: MetaSlot,
    schema: Arc<Schema>,
    order: ByteOrder,
    checksums: bool,
    migration: Option<Migration>,
}

impl OpenObjectFile {
    /// Truncates uncommitted data, and moves the pointer into the data to the end.
    fn begin(&self, longer: bool) -> Result<()> {
        let length = self.changes().slot.length;
        if longer && self.meta.is_some() && self.mode.is_write() {
            self.data.set_size(length)?;
        }
        if self.size().is_none() {
            self.data.seek_shared(length as i64, file::Whence::Start)?;
        }
        Ok(())
    }
}

/// Takes the writer lock on the `.meta`. None if the file system has no locks, or if the `.meta` cannot be locked for another reason, which opening it
/// for writing reports.
pub(super) fn lock_meta(operation: &'static str, name: &OsStr, shown: &str) -> Result<Option<WriterLock>> {
    match file::claim(meta_name(name)) {
        Ok(claim) => Ok(claim),
        Err(error) => in_use(operation, shown, &error).map_or(Ok(None), Err),
    }
}

/// The error of the `.meta` as one of the file, if another program is writing it.
fn in_use(operation: &'static str, shown: &str, error: &file::Error) -> Option<Error> {
    let is_in_use = error.kind() == Kind::InUse;
    is_in_use.then(|| Error::new(error.kind(), operation, shown, error.detail()))
}

/// Deletes the data and the `.meta`, if they exist and no program is writing them.
fn delete_both(name: &OsStr, shown: &str) -> Result<()> {
    let _claim = lock_meta("open", name, shown)?;
    delete_indices(name)?;
    for part in [meta_name(name), name.to_owned()] {
        match file::delete(&part) {
            Err(error) if error.kind() != Kind::NoSuchFile => {
                return Err(map_name_error(&error, shown));
            }
            _ => {}
        }
    }
    Ok(())
}

fn exists(shown: &str) -> Error {
    let detail =
        "the file exists (exclusive create); replace it with `ObjectOpenOptions::replace`, or open it";
    Error::new(Kind::FileExists, "open", shown, detail)
}

/// The error of the `.meta` as one of the file, if its name cannot be that of a file.
fn map_name_error(error: &file::Error, shown: &str) -> Error {
    match error.kind() {
        Kind::BadName => Error::new(error.kind(), "open", shown, error.detail()),
        _ => error.clone(),
    }
}

pub(super) fn meta_name(name: &OsStr) -> OsString {
    let mut name = name.to_owned();
    name.push(".meta");
    name
}

/// The first slot of a file with this description.
pub(super) fn new_slot(state: CommitState, description: &[u8]) -> MetaSlot {
    MetaSlot {
        state,
        generation: 1,
        count: 0,
        length: 0,
        description_length: description.len() as u64,
        description_sum: crc32c::crc32c(description),
        tail: 0,
        index: MetaArea::default(),
        sums: MetaArea::default(),
        end: (DESCRIPTION + description.len() as u64).next_multiple_of(UNIT as u64),
        commit_id: 0,
    }
}

/// The current slot and the description of a `.meta`, if they describe a complete file.
fn read_state(meta: &File, shown: &str, own: &Comm, name: &OsStr) -> Result<Vec<u8>> {
    let slot = read_slot(meta, shown)?;
    if slot.state == CommitState::Changing {
        let detail = "the file is incomplete: it is being written, or its writer ended before the commit; repair it to read its data";
        return Err(Error::new(Kind::Incomplete, "open", shown, detail));
    }
    let description = read_description(meta, &slot, shown)?;
    let length = File::open(own, name)?.size()?;
    if length < slot.length {
        let detail = format!("the data is truncated: it has {length} bytes, {} were committed", slot.length);
        return Err(Error::new(Kind::Damaged, "open", shown, detail));
    }
    let (_, schema) = ObjectFileMetadata::decode(&description).map_err(|why| {
        Error::new(Kind::Damaged, "open", shown, format!("the description in the .meta: {why}"))
    })?;
    if schema.size().is_some_and(|size| slot.count.checked_mul(size) != Some(slot.length)) {
        let detail = format!(
            "{} objects cannot have {} bytes; the .meta does not belong to this data",
            slot.count, slot.length
        );
        return Err(Error::new(Kind::Damaged, "open", shown, detail));
    }
    Ok([&[u8::from(length > slot.length)], &slot.encode()[..], &description].concat())
}

/// The current slot.
pub(super) fn read_slot(meta: &File, shown: &str) -> Result<MetaSlot> {
    let mut best: Option<MetaSlot> = None;
    let (mut empty, mut version) = (0, None);
    for place in [0u64, 4096] {
        let mut bytes = [0; UNIT];
        meta.at(place).read(&mut bytes)?;
        match MetaSlot::decode(&bytes) {
            Ok(slot) if slot.place() != place => {}
            Ok(slot) => best = best.filter(|best| best.generation > slot.generation).or(Some(slot)),
            Err(SlotError::Empty) => empty += 1,
            Err(SlotError::Damaged) => {}
            Err(SlotError::Version(number)) => version = Some(number),
        }
    }
    if let Some(number) = version {
        let detail = format!(
            "the file has version {number} of the format, this library supports {VERSION}; use a newer library"
        );
        return Err(Error::new(Kind::UnknownVersion, "open", shown, detail));
    }
    best.ok_or_else(|| {
        if empty == 2 {
            let detail = "the file is incomplete: its writer ended while creating it; replace it";
            return Error::new(Kind::Incomplete, "open", shown, detail);
        }
        let detail =
            "neither slot of the .meta is valid: it is damaged, or not the .meta of an object file; repair the file";
        Error::new(Kind::Damaged, "open", shown, detail)
    })
}

pub(super) fn read_description(meta: &File, slot: &MetaSlot, shown: &str) -> Result<Vec<u8>> {
    let damaged = |why: &str| {
        Error::new(
            Kind::Damaged,
            "open",
            shown,
            format!("the description in the .meta {why}; repair the file"),
        )
    };
    if meta.size()?.saturating_sub(DESCRIPTION) < slot.description_length {
        return Err(damaged("is truncated"));
    }
    let mut bytes = vec![0; slot.description_length as usize];
    meta.at(DESCRIPTION).read(&mut bytes)?;
    if crc32c::crc32c(&bytes) == slot.description_sum { Ok(bytes) } else { Err(damaged("has changed")) }
}
