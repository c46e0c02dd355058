//! Creating and opening, collectively.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::sync::Mutex;

use aqueduct_comm::Comm;
use aqueduct_file::File;
use aqueduct_file::prefetcher::Prefetcher;

use super::file::{Hdf5File, initial_completion};
use super::metadata::metadata_store::{MetadataStore, NewAddresses};
use super::model::definition::Hdf5Definition;
use super::model::link::Hdf5Link;
use super::model::tree::{COMPLETION_ATTRIBUTE, Hdf5Object, ObjectTree};
use super::reader::metadata_source::{MetadataSource, ReadAt};
use super::reader::object_tree;
use crate::error::{Kind, Result};
use crate::format_file::{FormatFile, FormatOpenOptions};

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
        let attributes = [(COMPLETION_ATTRIBUTE.to_owned(), 0u64.into())].into();
        let tree = ObjectTree::from([("/".to_owned(), Hdf5Object { attributes, dataset: None })]);
        let mut container = Hdf5File { reserve: self.reserve, ..assemble(core, tree) };
        if container.is_root() {
            container.metadata = Some(MetadataStore::new());
        }
        let mark = Hdf5Definition::Attribute("/".into(), COMPLETION_ATTRIBUTE.into(), 0u64.into());
        container.commit_metadata("create", &[mark], NewAddresses::default())?;
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
}

impl Default for Hdf5OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl Hdf5OpenOptions {
    /// For reading.
    pub fn new() -> Self {
        Self { options: FormatOpenOptions::new(false) }
    }

    /// For writing too. A change that a program has left half-way is not seen: the file has its metadata from before.
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

    /// Opens `name` on all ranks of `comm`. Rank 0 reads its metadata for all. Collective: it succeeds on all ranks or on none.
    #[doc(alias = "H5Fopen")]
    pub fn open(&self, comm: &Comm, name: impl AsRef<OsStr>) -> Result<Hdf5File> {
        let name = name.as_ref();
        let mut made = assemble(self.options.open(comm, name)?, ObjectTree::new());
        made.created = true;
        let found = if made.is_root() { load_on_root(&made.core) } else { Ok(LoadedFile::default()) };
        let (contents, store, marks) = match found {
            Ok(LoadedFile { contents, metadata, marks }) => (Ok(contents), metadata, marks),
            Err(error) => (Err(error), None, Vec::new()),
        };
        (made.tree, made.links) = made.broadcast_from_root("open", contents)?;
        made.metadata = store;
        let datasets = made.tree.iter().filter(|(_, node)| node.dataset.is_some());
        let datasets: Vec<_> = datasets
            .map(|(path, node)| (path.clone(), initial_completion(node.complete(), node.rows_dimension())))
            .collect();
        datasets.into_iter().for_each(|(path, completion)| made.add_dataset(path, completion));
        made.note_marks(marks);
        made.begin_writing()?;
        Ok(made)
    }
}

impl Hdf5File {
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

/// What rank 0 finds in a file.
#[derive(Default)]
struct LoadedFile {
    contents: (ObjectTree, BTreeMap<String, Hdf5Link>),
    metadata: Option<MetadataStore>,
    marks: Vec<(String, u64)>,
}

impl ReadAt for File {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<u64> {
        Ok(self.at(offset).read_unprefetched(bytes)?.bytes())
    }
}

/// The contents of a file.
fn load_on_root(core: &FormatFile) -> Result<LoadedFile> {
    let file = &core.file;
    let length = file.size()?;
    let mut source = MetadataSource::new(file, length);
    let found = object_tree::read(&mut source).map_err(|what| match source.take_failure() {
        Some(error) => error,
        None => core.error(Kind::Damaged, "open", format!("{what} ({length} bytes)")),
    })?;
    let contents = (found.tree, found.links);
    if !core.writable {
        return Ok(LoadedFile { contents, metadata: None, marks: Vec::new() });
    }
    let (metadata, marks) = MetadataStore::load(file, length, &contents.0)
        .map_err(|why| core.error(Kind::BadArgument, "open", why))?;
    Ok(LoadedFile { contents, metadata: Some(metadata), marks })
}

fn assemble(core: FormatFile, tree: ObjectTree) -> Hdf5File {
    Hdf5File {
        chunk_prefetcher: Mutex::new(Prefetcher::new(core.file.prefetch_cap())),
        core,
        reserve: false,
        tree,
        links: BTreeMap::new(),
        datasets: Vec::new(),
        dataset_numbers: HashMap::new(),
        root_mark_address: None,
        metadata: None,
        new_chunks: Mutex::default(),
        moved_chunks: Mutex::default(),
        filtered_datasets: 0,
        created: false,
        broken: false,
    }
}
