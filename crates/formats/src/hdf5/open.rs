//! Creating and opening, collectively.

use std::ffi::OsStr;
use std::path::Path;

use aqueduct_comm::Comm;
use aqueduct_file as file;
use aqueduct_object::{decode, encode};

use super::completion_attribute;
use super::file::{Hdf5File, initial_completion};
use super::metadata::libhdf5;
use super::metadata::metadata_cow::RetiredBlocks;
use super::metadata::metadata_file::{MetadataFile, MetadataWrite};
use super::metadata::metadata_writer::NewFileMetadata;
use super::metadata::ordered_writes::{self, TRAILER};
use super::model::tree::{Hdf5Object, ObjectTree};
use crate::error::{Error, Kind, Result};
use crate::format_file::{FormatFile, FormatOpenOptions};

/// The largest file that is copied into memory for the library, where it cannot be opened by its name.
const LARGEST_COPY: u64 = 1 << 30;
/// Bytes of one copy.
const PORTION: u64 = 4 << 20;

/// How to create a file; the same on all ranks.
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_formats::hdf5::Hdf5CreateOptions;
///
/// Launch::threads(2).run(|world| Hdf5CreateOptions::new().replace().create(world, "memfs:created.h5")?.close())?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Hdf5CreateOptions {
    options: FormatOpenOptions,
    reserve: bool,
}

impl Default for Hdf5CreateOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl Hdf5CreateOptions {
    /// A file that exists is refused.
    pub fn new() -> Self {
        Self { options: FormatOpenOptions::new(true), reserve: false }
    }

    /// Replaces an existing file.
    #[doc(alias = "H5F_ACC_TRUNC")]
    #[must_use]
    pub fn replace(mut self) -> Self {
        self.options.replace = true;
        self
    }

    /// Commits in order, but leaves it to the system when data reaches the disk: what was committed survives the end of the program by
    /// any means, not that of the machine.
    #[must_use]
    pub fn without_sync(mut self) -> Self {
        self.options.durable = false;
        self
    }

    /// Reserves the space of datasets when they are defined, so that a full disk is noticed then and not when data is written.
    #[must_use]
    pub fn reserve(mut self) -> Self {
        self.reserve = true;
        self
    }

    /// Adds a hint for the file layer.
    #[must_use]
    pub fn hint(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.info.set(key, value);
        self
    }

    /// Creates `name` on all ranks of `comm`: a file with nothing in it. Collective: it succeeds on all ranks or on none.
    #[doc(alias = "H5Fcreate")]
    pub fn create(&self, comm: &Comm, name: impl AsRef<OsStr>) -> Result<Hdf5File> {
        let core = self.options.create(comm, name.as_ref())?;
        let attributes = [(super::model::tree::COMPLETION_ATTRIBUTE.to_owned(), 0u64.into())].into();
        let tree = ObjectTree::from([("/".to_owned(), Hdf5Object { attributes, dataset: None })]);
        let mut container = Hdf5File { reserve: self.reserve, ..assemble(core, tree) };
        let draft = NewFileMetadata::of(&container.tree, 0);
        let draft =
            draft.ok_or_else(|| container.core.error(Kind::Library, "create", "a file without a root"))?;
        container.empty_file_end = Some(draft.length);
        container.write_new_metadata("create", draft, 0)?;
        Ok(container)
    }
}

/// How to open a file; the same on all ranks.
///
/// ```
/// # use aqueduct_comm::Launch;
/// # use aqueduct_formats::hdf5::{Hdf5CreateOptions, Hdf5OpenOptions};
/// # Launch::threads(2).run(|world| {
/// # Hdf5CreateOptions::new().replace().create(world, "memfs:opened.h5")?.close()?;
/// let container = Hdf5OpenOptions::new().open(world, "memfs:opened.h5")?;
/// assert_eq!(container.is_complete(), Some(true));
/// # container.close()
/// # })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Hdf5OpenOptions {
    options: FormatOpenOptions,
    probe: ProbeFn,
}

/// Probes a file of the operating system: its metadata, or an error message.
type ProbeFn = fn(&Path) -> std::result::Result<Vec<u8>, String>;

/// The metadata of the file at `path`, as bytes for [`Hdf5OpenOptions::probe_with`]; libhdf5 reads it in this process.
pub fn probe(path: &Path) -> std::result::Result<Vec<u8>, String> {
    libhdf5::probe_file(path).map(|tree| encode(&tree)).map_err(|error| error.to_string())
}

impl Default for Hdf5OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl Hdf5OpenOptions {
    /// For reading.
    pub fn new() -> Self {
        Self { options: FormatOpenOptions::new(false), probe }
    }

    /// Sets a function that replaces [`probe`]: one that calls it in a separate process, for example. The C library is not
    /// made for damaged bytes, and may end the process that it looks at them in, or never come back.
    #[must_use]
    pub fn probe_with(mut self, look: fn(&Path) -> std::result::Result<Vec<u8>, String>) -> Self {
        self.probe = look;
        self
    }

    /// For writing too. A change that a program has left half-way is finished first.
    #[must_use]
    pub fn writable(mut self) -> Self {
        self.options.writable = true;
        self
    }

    /// As [`Hdf5CreateOptions::without_sync`].
    #[must_use]
    pub fn without_sync(mut self) -> Self {
        self.options.durable = false;
        self
    }

    /// Adds a hint for the file layer.
    #[must_use]
    pub fn hint(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.info.set(key, value);
        self
    }

    /// Opens `name` on all ranks of `comm`. Rank 0 has the library look at it for all. Collective: it succeeds on all ranks or on none.
    #[doc(alias = "H5Fopen")]
    pub fn open(&self, comm: &Comm, name: impl AsRef<OsStr>) -> Result<Hdf5File> {
        let name = name.as_ref();
        let mut made = assemble(self.options.open(comm, name)?, ObjectTree::new());
        let left = if made.is_root() { made.interrupted() } else { Ok(None) };
        let left = made.core.agree("open", left)?;
        if self.options.writable {
            made.finish(left.as_ref())?;
        }
        let left = left.filter(|_| !self.options.writable);
        let found = if made.is_root() {
            probe_on_root(&made.core, name, left.as_ref(), self.probe).map(Some)
        } else {
            Ok(None)
        };
        let empty = ObjectTree::new();
        let tree = found.as_ref().map(|found| found.as_ref().map_or(&empty, |found| &found.tree));
        made.tree = made.broadcast_from_root("open", tree.map_err(Clone::clone))?;
        let (shadow, marks) = found?.map(|found| (found.shadow, found.marks)).unwrap_or_default();
        made.metadata_file = shadow;
        let is_set = |node: &&Hdf5Object| node.dataset.is_some();
        let datasets = made.tree.iter().filter(|(_, node)| is_set(node));
        made.datasets =
            datasets.map(|(path, node)| (path.clone(), initial_completion(node.complete()))).collect();
        made.note_marks(marks);
        made.begin_writing()?;
        Ok(made)
    }
}

impl Hdf5File {
    /// Finishes a change that a program has left half-way. Collective; rank 0 knows of it.
    fn finish(&self, left: Option<&InterruptedCommit>) -> Result<()> {
        let end = left.map_or(0, |left| left.end);
        let ((), [end]) = self.core.agree_with_max("open", Ok(()), [end])?;
        if end > 0 {
            self.write_metadata("open", left.into_iter().flat_map(|left| &left.pieces))?;
            self.core.file.set_size(end)?;
            self.core.sync()?;
        }
        Ok(())
    }

    /// Takes back the mark of the whole file, which is about to change; without marks that can be changed, datasets have none. Collective.
    fn begin_writing(&mut self) -> Result<()> {
        if !self.core.writable {
            return Ok(());
        }
        let ((), [marked]) =
            self.core.agree_with_max("open", Ok(()), [self.root_mark_address.is_some().into()])?;
        if marked == 0 {
            for (_, progress) in &mut self.datasets {
                progress.marked = false;
            }
            return Ok(());
        }
        let root: Vec<_> = self.root_mark_address.map(|address| (address, 0)).into_iter().collect();
        self.write_marks("open", &[&root])
    }
}

/// An interrupted change: the remaining writes, and the length of the file after them.
struct InterruptedCommit {
    pieces: Vec<MetadataWrite>,
    end: u64,
}

impl Hdf5File {
    /// A change that was left half-way, if one was.
    fn interrupted(&self) -> Result<Option<InterruptedCommit>> {
        let file = &self.core.file;
        let length = file.size()?;
        if length < TRAILER {
            return Ok(None);
        }
        let mut trailer = [0; TRAILER as usize];
        file.at(length - TRAILER).read(&mut trailer)?;
        let Some((end, _)) = ordered_writes::find_journal(&trailer, length) else { return Ok(None) };
        let mut journal = vec![0; (length - end) as usize];
        file.at(end).read(&mut journal)?;
        match ordered_writes::decode_journal(&journal) {
            Some(pieces) => Ok(Some(InterruptedCommit { pieces, end })),
            // Not all of it had arrived: nothing in use was changed.
            None if journal.len() as u64 > TRAILER => Ok(Some(InterruptedCommit { pieces: Vec::new(), end })),
            None => Err(self.core.error(
                Kind::Damaged,
                "open",
                format!("at byte {end} there is a journal of nothing"),
            )),
        }
    }
}

/// What rank 0 finds in a file.
#[derive(Default)]
struct ProbedFile {
    tree: ObjectTree,
    shadow: Option<MetadataFile>,
    marks: Vec<(String, u64)>,
}

/// Has somebody look at a file, with what was left of a change to it.
fn probe_on_root(
    core: &FormatFile,
    name: &OsStr,
    left: Option<&InterruptedCommit>,
    look: ProbeFn,
) -> Result<ProbedFile> {
    let file = &core.file;
    let damaged = |what: String| core.error(Kind::Damaged, "open", what);
    let length = file.size()?;
    let mut first = [0; 16];
    let count = file.at(0).read(&mut first)?.bytes();
    let version = libhdf5::version_of(&first[..count as usize]);
    let mut shadow = None;
    let tree = match file::path(name).filter(|_| left.is_none()) {
        Some(path) => look(&path),
        None => {
            let end = left.map_or(length, |left| left.end);
            let copied = copy_all(core, end)?;
            for (offset, bytes) in left.into_iter().flat_map(|left| &left.pieces) {
                copied.write(*offset, bytes).map_err(|error| metadata_file_error(core, error))?;
            }
            let tree = look(&copied.path());
            shadow = Some(copied);
            tree
        }
    };
    let tree =
        tree.map_err(|error| damaged(format!("{} ({length} bytes)", explain_library_error(&error, length))))?;
    let tree: ObjectTree =
        decode(&tree).map_err(|error| damaged(format!("what was found in it: {error}")))?;
    if !core.writable {
        return Ok(ProbedFile { tree, shadow: None, marks: Vec::new() });
    }
    let mut shadow = match shadow {
        Some(shadow) => shadow,
        None => copy_around(core, &tree, length)?,
    };
    shadow.mark_synced().map_err(|error| metadata_file_error(core, error))?;
    let marked = tree.get("/").is_some_and(|root| root.complete().is_some());
    if marked && version != Some(0) {
        // Later versions have sums over their descriptions, which a mark that is changed in its place would break.
        let detail = "another program has rewritten it in a later version of the format, in which completion attributes cannot be \
                      changed: read it, or delete the attribute \"aqueduct_complete\" of its root to write without them";
        return Err(core.error(Kind::BadArgument, "open", detail));
    }
    let objects = tree.iter().filter_map(|(path, node)| Some((path.as_str(), node.complete()?)));
    let objects: Vec<(&str, u64)> = if marked { objects.collect() } else { Vec::new() };
    let addresses = completion_attribute::locate_marks(&shadow, &objects, u64::from(std::process::id()))
        .map_err(damaged)?;
    let marks = objects.iter().map(|(path, _)| (*path).to_owned()).zip(addresses).collect();
    Ok(ProbedFile { tree, shadow: Some(shadow), marks })
}

/// The error of libhdf5, with the remedy if there is one.
fn explain_library_error(what: &str, length: u64) -> String {
    if length == 0 {
        return "it is empty: a program ended before it had created it".to_owned();
    }
    format!("the HDF5 library cannot read it: {what}; is it an HDF5 file, and all of it?")
}

/// The metadata of the file in memory.
fn metadata_file_error(core: &FormatFile, error: impl std::fmt::Display) -> Error {
    core.error(Kind::Library, "open", format!("a file in memory: {error}"))
}

fn portion(core: &FormatFile, shadow: &MetadataFile, range: std::ops::Range<u64>) -> Result<()> {
    let mut at = range.start;
    while at < range.end {
        let mut bytes = vec![0; PORTION.min(range.end - at) as usize];
        let count = core.file.at(at).read(&mut bytes)?.bytes();
        shadow.write(at, &bytes[..count as usize]).map_err(|error| metadata_file_error(core, error))?;
        at += bytes.len() as u64;
    }
    Ok(())
}

/// All of a file, in memory.
fn copy_all(core: &FormatFile, length: u64) -> Result<MetadataFile> {
    if length > LARGEST_COPY {
        let detail = format!(
            "it has {length} bytes; without a path of the operating system, or after a change that was left half-way, \
             more than {LARGEST_COPY} are not read: open it for writing once, or copy it to a file with a path"
        );
        return Err(core.error(Kind::TooLarge, "open", detail));
    }
    let shadow = sized(core, length)?;
    portion(core, &shadow, 0..length)?;
    Ok(shadow)
}

/// All of a file but its data, in memory.
pub(super) fn copy_around(core: &FormatFile, tree: &ObjectTree, length: u64) -> Result<MetadataFile> {
    let mut data: Vec<(u64, u64)> = tree
        .values()
        .filter_map(|node| node.dataset.as_ref())
        .flat_map(super::model::tree::Dataset::extents)
        .collect();
    data.sort_unstable();
    let shadow = sized(core, length)?;
    let mut at = 0;
    for (start, bytes) in data {
        portion(core, &shadow, at..start.min(length).max(at))?;
        at = at.max(start.saturating_add(bytes).min(length));
    }
    portion(core, &shadow, at..length)?;
    Ok(shadow)
}

fn sized(core: &FormatFile, length: u64) -> Result<MetadataFile> {
    let shadow = MetadataFile::new().map_err(|error| metadata_file_error(core, error))?;
    shadow.set_len(length).map_err(|error| metadata_file_error(core, error))?;
    Ok(shadow)
}

fn assemble(core: FormatFile, tree: ObjectTree) -> Hdf5File {
    Hdf5File {
        core,
        reserve: false,
        tree,
        datasets: Vec::new(),
        root_mark_address: None,
        empty_file_end: None,
        metadata_file: None,
        retired_blocks: RetiredBlocks::default(),
        broken: false,
        session: 0,
    }
}
