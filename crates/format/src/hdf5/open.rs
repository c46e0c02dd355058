//! Creating and opening, collectively.

use std::ffi::OsStr;
use std::sync::Arc;

use aqueduct_comm::Comm;
use aqueduct_file::{self as file, File, Info, Mode};
use aqueduct_object::{decode, encode};

use super::container::{Container, begun};
use super::patch::{self, TRAILER};
use super::shadow::{Piece, Shadow};
use super::tree::{Node, Tree};
use super::{library, mark};
use crate::error::{Error, Kind, Result, agree};

/// The largest file that is copied into memory for the library, where it cannot be opened by its name.
const LARGEST_COPY: u64 = 1 << 30;
/// What is copied at once.
const PORTION: u64 = 4 << 20;

/// How to create a file; the same on all ranks.
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_format::hdf5::Create;
///
/// Launch::threads(2).run(|world| Create::new().replace().create(world, "memfs:created.h5")?.close())?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Create {
    info: Info,
    replace: bool,
    durable: bool,
    reserve: bool,
}

impl Default for Create {
    fn default() -> Self {
        Self::new()
    }
}

impl Create {
    /// A file that exists is refused.
    pub fn new() -> Self {
        Self { info: Info::new(), replace: false, durable: true, reserve: false }
    }

    /// Throws away what is under the name, if anything is.
    #[doc(alias = "H5F_ACC_TRUNC")]
    #[must_use]
    pub fn replace(mut self) -> Self {
        self.replace = true;
        self
    }

    /// Commits in order, but leaves it to the system when data reaches the disk: what was committed survives the end of the program by
    /// any means, not that of the machine.
    #[must_use]
    pub fn without_sync(mut self) -> Self {
        self.durable = false;
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
        self.info.set(key, value);
        self
    }

    /// Creates `name` on all ranks of `comm`: a file with nothing in it. Collective: it succeeds on all ranks or on none.
    #[doc(alias = "H5Fcreate")]
    pub fn create(&self, comm: &Comm, name: impl AsRef<OsStr>) -> Result<Container> {
        let name = name.as_ref();
        let shown: Arc<str> = name.to_string_lossy().into();
        let comm = comm.dup().map_err(|error| Error::talk("create", &shown, &error))?;
        let deleted: Result<()> = match (self.replace && comm.rank() == 0).then(|| file::delete(name)) {
            Some(Err(error)) if error.kind() != file::Kind::NoSuchFile => Err(error.into()),
            _ => Ok(()),
        };
        agree(&comm, "create", &shown, deleted)?;
        let open = file::Open::new(Mode::read_write().exclusive()).hints(&self.info);
        let file = open.open(&comm, name).map_err(|error| refused(&error, &shown))?;
        let made = if comm.rank() == 0 { begin(&shown).map(Some) } else { Ok(None) };
        let made = agree(&comm, "create", &shown, made)?;
        let (shadow, root, pieces, length) = match made {
            Some((shadow, root, pieces, length)) => (Some(shadow), Some(root), pieces, length),
            None => (None, None, Vec::new(), 0),
        };
        let mut length = [length];
        comm.broadcast(0, &mut length).map_err(|error| Error::talk("create", &shown, &error))?;
        let attributes = [(super::tree::MARK.to_owned(), 0u64.into())].into();
        let tree = Tree::from([("/".to_owned(), Node { attributes, dataset: None })]);
        let made = assemble(shown, comm, file, tree);
        let options = (self.durable, self.reserve);
        let container =
            Container { writable: true, durable: options.0, reserve: options.1, shadow, root, ..made };
        container.apply("create", pieces, length[0])?;
        Ok(container)
    }
}

/// A file with nothing in it, in memory; where its mark lies, and its bytes.
fn begin(shown: &str) -> Result<(Shadow, u64, Vec<Piece>, u64)> {
    let failed = |what: String| Error::new(Kind::Library, "create", shown, what);
    let io = |error: rustix::io::Errno| failed(format!("a file in memory: {error}"));
    let mut shadow = Shadow::new().map_err(|error| failed(format!("a file in memory: {error}")))?;
    library::create(&shadow.path()).map_err(|error| failed(error.to_string()))?;
    let root = mark::locate(&shadow, &[("/", 0)], 0).map_err(failed)?;
    let (pieces, length) = (shadow.changes().map_err(io)?, shadow.len().map_err(io)?);
    Ok((shadow, root[0], pieces, length))
}

fn refused(error: &file::Error, shown: &str) -> Error {
    if error.kind() != file::Kind::FileExists {
        return error.clone().into();
    }
    let detail = "it exists and was to be created; replace it with `Create::replace`, or open it";
    file::Error::new(file::Kind::FileExists, "create", &shown.into(), detail).into()
}

/// How to open a file; the same on all ranks.
///
/// ```
/// # use aqueduct_comm::Launch;
/// # use aqueduct_format::hdf5::{Create, Open};
/// # Launch::threads(2).run(|world| {
/// # Create::new().replace().create(world, "memfs:opened.h5")?.close()?;
/// let container = Open::new().open(world, "memfs:opened.h5")?;
/// assert_eq!(container.is_complete(), Some(true));
/// # container.close()
/// # })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Open {
    info: Info,
    writable: bool,
    durable: bool,
}

impl Default for Open {
    fn default() -> Self {
        Self::new()
    }
}

impl Open {
    /// For reading.
    pub fn new() -> Self {
        Self { info: Info::new(), writable: false, durable: true }
    }

    /// For writing too. A change that a program has left half-way is finished first.
    #[must_use]
    pub fn writable(mut self) -> Self {
        self.writable = true;
        self
    }

    /// As [`Create::without_sync`].
    #[must_use]
    pub fn without_sync(mut self) -> Self {
        self.durable = false;
        self
    }

    /// Adds a hint for the file layer.
    #[must_use]
    pub fn hint(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.info.set(key, value);
        self
    }

    /// Opens `name` on all ranks of `comm`. Rank 0 has the library look at it for all. Collective: it succeeds on all ranks or on none.
    #[doc(alias = "H5Fopen")]
    pub fn open(&self, comm: &Comm, name: impl AsRef<OsStr>) -> Result<Container> {
        let name = name.as_ref();
        let shown: Arc<str> = name.to_string_lossy().into();
        let talk = |error: aqueduct_comm::Error| Error::talk("open", &shown, &error);
        let comm = comm.dup().map_err(talk)?;
        let mode = if self.writable { Mode::read_write() } else { Mode::read_only() };
        let file = file::Open::new(mode).hints(&self.info).open(&comm, name)?;
        let left = if comm.rank() == 0 { interrupted(&file, &shown) } else { Ok(None) };
        let left = agree(&comm, "open", &shown, left)?;
        let mut made = assemble(Arc::clone(&shown), comm, file, Tree::new());
        (made.writable, made.durable) = (self.writable, self.durable);
        let left = if self.writable { made.finish(left)? } else { left };
        let found = if made.comm.rank() == 0 {
            look(&made.file, name, &shown, left.as_ref(), self.writable)
        } else {
            Ok(None)
        };
        let found = made.agree("open", found)?;
        let (tree, shadow, marks) = match found {
            Some(found) => (found.tree, found.shadow, found.marks),
            None => Default::default(),
        };
        let told = made.comm.broadcast_vec(0, encode(&tree)).map_err(talk)?;
        made.tree =
            decode(&told).map_err(|error| made.error(Kind::Communication, "open", error.to_string()))?;
        made.shadow = shadow;
        let is_set = |node: &&Node| node.dataset.is_some();
        let datasets = made.tree.iter().filter(|(_, node)| is_set(node));
        made.datasets = datasets.map(|(path, node)| (path.clone(), begun(node.complete()))).collect();
        for (path, address) in marks {
            match made.datasets.iter_mut().find(|(known, _)| *known == path) {
                Some((_, progress)) => progress.address = address,
                None => made.root = Some(address),
            }
        }
        made.begin_writing()?;
        Ok(made)
    }
}

impl Container {
    /// Finishes a change that a program has left half-way. Collective; rank 0 knows of it.
    fn finish(&self, left: Option<Left>) -> Result<Option<Left>> {
        let end = left.as_ref().map_or(0, |left| left.end);
        let ((), [end]) = self.meet("open", Ok(()), [end])?;
        if end > 0 {
            self.write_pieces("open", &left.map(|left| left.pieces).unwrap_or_default())?;
            self.file.set_size(end)?;
            self.sync()?;
        }
        Ok(None)
    }

    /// Takes back the mark of the whole file, which is about to change; without marks that can be changed, datasets have none. Collective.
    fn begin_writing(&mut self) -> Result<()> {
        if !self.writable {
            return Ok(());
        }
        let ((), [marked]) = self.meet("open", Ok(()), [self.root.is_some().into()])?;
        if marked == 0 {
            for (_, progress) in &mut self.datasets {
                progress.marked = false;
            }
            return Ok(());
        }
        let root: Vec<_> = self.root.map(|address| (address, 0)).into_iter().collect();
        self.write_root("open", &root)
    }
}

/// A change that was left half-way: what is still to be written, and where the file then ends.
struct Left {
    pieces: Vec<Piece>,
    end: u64,
}

fn interrupted(file: &File, shown: &str) -> Result<Option<Left>> {
    let length = file.size()?;
    if length < TRAILER {
        return Ok(None);
    }
    let mut trailer = [0; TRAILER as usize];
    file.at(length - TRAILER).read(&mut trailer)?;
    let Some((end, _)) = patch::found(&trailer, length) else { return Ok(None) };
    let mut journal = vec![0; (length - end) as usize];
    file.at(end).read(&mut journal)?;
    match patch::pieces(&journal) {
        Some(pieces) => Ok(Some(Left { pieces, end })),
        // Not all of it had arrived: nothing in use was changed.
        None if journal.len() as u64 > TRAILER => Ok(Some(Left { pieces: Vec::new(), end })),
        None => Err(Error::new(
            Kind::Damaged,
            "open",
            shown,
            format!("at byte {end} there is a journal of nothing"),
        )),
    }
}

/// What rank 0 finds in a file.
#[derive(Default)]
struct Found {
    tree: Tree,
    shadow: Option<Shadow>,
    marks: Vec<(String, u64)>,
}

fn look(
    file: &File,
    name: &OsStr,
    shown: &str,
    left: Option<&Left>,
    writable: bool,
) -> Result<Option<Found>> {
    let damaged = |what: String| Error::new(Kind::Damaged, "open", shown, what);
    let io = |error: rustix::io::Errno| {
        Error::new(Kind::Library, "open", shown, format!("a file in memory: {error}"))
    };
    let length = file.size()?;
    let mut first = [0; 16];
    let count = file.at(0).read(&mut first)?.bytes();
    let version = library::version_of(&first[..count as usize]);
    let mut shadow = None;
    let tree = match file::path(name).filter(|_| left.is_none()) {
        Some(path) => library::look(&path),
        None => {
            let end = left.map_or(length, |left| left.end);
            let copied = copy_all(file, end, shown)?;
            for (offset, bytes) in left.into_iter().flat_map(|left| &left.pieces) {
                copied.write(*offset, bytes).map_err(io)?;
            }
            let tree = library::look(&copied.path());
            shadow = Some(copied);
            tree
        }
    };
    let tree =
        tree.map_err(|error| damaged(format!("{} ({length} bytes)", explained(&error.to_string(), length))))?;
    if !writable {
        return Ok(Some(Found { tree, shadow: None, marks: Vec::new() }));
    }
    let mut shadow = match shadow {
        Some(shadow) => shadow,
        None => copy_around(file, &tree, length)?,
    };
    shadow.settle().map_err(io)?;
    let marked = tree.get("/").is_some_and(|root| root.complete().is_some());
    if marked && version != Some(0) {
        // Later versions have sums over their descriptions, which a mark that is changed in its place would break.
        let detail = "another program has rewritten it in a later version of the format, in which marks of what is complete cannot be \
                      changed: read it, or delete the attribute \"aqueduct_complete\" of its root to write without them";
        return Err(Error::new(Kind::BadArgument, "open", shown, detail));
    }
    let objects = tree.iter().filter_map(|(path, node)| Some((path.as_str(), node.complete()?)));
    let objects: Vec<(&str, u64)> = if marked { objects.collect() } else { Vec::new() };
    let addresses = mark::locate(&shadow, &objects, u64::from(std::process::id())).map_err(damaged)?;
    let marks = objects.iter().map(|(path, _)| (*path).to_owned()).zip(addresses).collect();
    Ok(Some(Found { tree, shadow: Some(shadow), marks }))
}

/// What the library says, with the way out where there is one.
fn explained(what: &str, length: u64) -> String {
    if length == 0 {
        return "it is empty: a program ended before it had created it".to_owned();
    }
    format!("the HDF5 library cannot read it: {what}; is it an HDF5 file, and all of it?")
}

fn portion(file: &File, shadow: &Shadow, range: std::ops::Range<u64>) -> Result<()> {
    let mut at = range.start;
    while at < range.end {
        let mut bytes = vec![0; PORTION.min(range.end - at) as usize];
        let count = file.at(at).read(&mut bytes)?.bytes();
        let written = shadow.write(at, &bytes[..count as usize]);
        written.map_err(|error| {
            Error::new(Kind::Library, "open", file.name(), format!("a file in memory: {error}"))
        })?;
        at += bytes.len() as u64;
    }
    Ok(())
}

/// All of a file, in memory.
fn copy_all(file: &File, length: u64, shown: &str) -> Result<Shadow> {
    if length > LARGEST_COPY {
        let detail = format!(
            "it has {length} bytes; without a path of the operating system, or after a change that was left half-way, \
             more than {LARGEST_COPY} are not read: open it for writing once, or copy it to a file with a path"
        );
        return Err(Error::new(Kind::TooLarge, "open", shown, detail));
    }
    let shadow = sized(shown, length)?;
    portion(file, &shadow, 0..length)?;
    Ok(shadow)
}

/// All of a file but its data, in memory.
fn copy_around(file: &File, tree: &Tree, length: u64) -> Result<Shadow> {
    let mut data: Vec<(u64, u64)> = tree
        .values()
        .filter_map(|node| node.dataset.as_ref())
        .flat_map(super::tree::Dataset::extents)
        .collect();
    data.sort_unstable();
    let shadow = sized(file.name(), length)?;
    let mut at = 0;
    for (start, bytes) in data {
        portion(file, &shadow, at..start.min(length).max(at))?;
        at = at.max(start.saturating_add(bytes).min(length));
    }
    portion(file, &shadow, at..length)?;
    Ok(shadow)
}

fn sized(shown: &str, length: u64) -> Result<Shadow> {
    let failed = |error: std::io::Error| {
        Error::new(Kind::Library, "open", shown, format!("a file in memory: {error}"))
    };
    let shadow = Shadow::new().map_err(failed)?;
    shadow.set_len(length).map_err(|error| failed(error.into()))?;
    Ok(shadow)
}

fn assemble(name: Arc<str>, comm: Comm, file: File, tree: Tree) -> Container {
    Container {
        name,
        comm,
        file,
        writable: false,
        durable: true,
        reserve: false,
        tree,
        datasets: Vec::new(),
        root: None,
        shadow: None,
        broken: false,
        session: 0,
    }
}
