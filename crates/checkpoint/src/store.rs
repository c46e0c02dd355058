//! A folder of checkpoints.

mod array;
mod commit;
mod folder;
mod generation;
mod list;
mod manifest;
mod part;

pub use generation::{Generation, PassedOver};
pub use part::{Block, Checkpoint};

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use aqueduct_comm::Comm;

use crate::error::{Error, Kind, Result, agree, from_first};
use commit::Place;

/// Which generations stay when a new one is committed. The newest always does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// All of them.
    All,
    /// So many, the newest.
    Last(usize),
    /// Those that are not older.
    Younger(Duration),
}

/// A folder of checkpoints, open on all ranks.
///
/// ```
/// use aqueduct_checkpoint::{Block, Checkpoint, Grid, Keep, Molecule, Region, Store};
/// use aqueduct_comm::Launch;
///
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path();
/// Launch::threads(4).run(|world| {
///     let mut store = Store::open(world, path)?.keep(Keep::Last(2));
///     let rank = world.rank() as u64;
///     let grid = Grid::new([4.0, 1.0, 1.0], [4, 1, 1]).expect("a box has a volume");
///     let molecules = [Molecule::new(rank, [rank as f64 + 0.5, 0.5, 0.5], [0.0; 3])];
///     let temperature = vec![rank as f64; 10];
///
///     let mut checkpoint = Checkpoint::new(1000);
///     checkpoint.value("time", &12.5_f64);
///     checkpoint.cells("molecules", &grid, &molecules);
///     checkpoint.array("temperature", &Block::new([40], [10 * rank], [10]), &temperature);
///     checkpoint.objects("notes", &[format!("rank {rank} was here")]);
///     // Here and now; `store.start(checkpoint)` copies what it must and computes on.
///     store.write(&checkpoint)?;
///     Ok::<_, aqueduct_checkpoint::Error>(())
/// })?;
///
/// // Back, on another number of ranks.
/// Launch::threads(3).run(|world| {
///     let store = Store::open(world, path)?;
///     let latest = store.latest()?.expect("there is one");
///     assert_eq!((latest.step(), latest.value::<f64>("time")?), (1000, 12.5));
///     if world.rank() == 0 {
///         assert!(!latest.has("added by a newer program"));
///     }
///     let all = latest.cells::<Molecule>("molecules", &Region::EVERYWHERE)?;
///     assert_eq!(all.len(), 4);
///     let row = latest.array::<f64>("temperature", &Block::new([40], [5], [10]))?;
///     assert_eq!(row, [[0.0; 5], [1.0; 5]].concat());
///     Ok::<_, aqueduct_checkpoint::Error>(())
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
///
/// # What is promised
/// A generation is there as a whole or not at all, whatever kills the program or fills the disk meanwhile; those before it stay. `docs/format-checkpoint.md`
/// has the bytes and the order in which they are written.
#[derive(Debug)]
pub struct Store {
    comm: Comm,
    place: Place,
    keep: Keep,
    /// Held by rank 0 from its first write on.
    lock: Option<std::fs::File>,
    under_way: Option<JoinHandle<Result<u64>>>,
}

impl Store {
    /// Opens a folder, and makes it if it is not there. Collective.
    pub fn open(comm: &Comm, folder: impl AsRef<Path>) -> Result<Self> {
        let path = folder.as_ref().to_owned();
        let shown = path.to_string_lossy().into_owned();
        from_first(comm, "open", &shown, || folder::make(&path).map(|()| Vec::new()))?;
        // The I/O thread talks through a communicator of its own.
        let comm = comm.dup().map_err(|error| Error::talk("open", &shown, &error))?;
        let place = Place { folder: path, through: String::new() };
        Ok(Self { comm, place, keep: Keep::Last(2), lock: None, under_way: None })
    }

    /// Which generations stay; the last two, if nothing is said.
    #[must_use]
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// Accesses files through a device or wrapper that works on files of the operating system: `uring:`, `throttle=100MB/s:`.
    #[must_use]
    pub fn through(mut self, prefix: impl Into<String>) -> Self {
        self.place.through = prefix.into();
        self
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.place.folder
    }

    /// Commits a checkpoint; its generation. When it returns, the generation is durable. Collective.
    pub fn write(&mut self, checkpoint: &Checkpoint<'_>) -> Result<u64> {
        self.settle()?;
        self.lock()?;
        commit::commit(&self.comm, &self.place, self.keep, checkpoint)
    }

    /// Begins to commit a checkpoint, after the one that is under way: copies what is still borrowed, and returns. Where threads cannot talk for a
    /// rank (an MPI that forbids it, between nodes), it is written at once. An error of the one before is told here. Collective.
    pub fn start(&mut self, checkpoint: Checkpoint<'_>) -> Result<()> {
        self.settle()?;
        self.lock()?;
        if !self.comm.serves_threads() {
            return commit::commit(&self.comm, &self.place, self.keep, &checkpoint).map(|_| ());
        }
        let (comm, place, keep, owned) =
            (self.comm.clone(), self.place.clone(), self.keep, checkpoint.into_owned());
        let (go, may_go) = mpsc::channel::<()>();
        let work = move || match may_go.recv() {
            Ok(()) => commit::commit(&comm, &place, keep, &owned),
            Err(_) => Err(Error::new(
                Kind::Communication,
                "start",
                &place.folder.to_string_lossy(),
                "another rank could start no thread, and says why; `Store::write` needs none",
            )),
        };
        let started = thread::Builder::new().name("checkpoint".into()).spawn(work);
        let started = started.map_err(|error| Error::system("start", &self.place.folder, &error));
        // Where one rank has no thread, those of the others would wait for it: none begins before all are there.
        let thread = agree(&self.comm, "start", &self.place.folder.to_string_lossy(), started)?;
        let _ = go.send(());
        self.under_way = Some(thread);
        Ok(())
    }

    /// Whether one is under way on this rank.
    pub fn is_busy(&self) -> bool {
        self.under_way.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Waits for the checkpoint that is under way; its generation, if there was one. Collective.
    pub fn wait(&mut self) -> Result<Option<u64>> {
        self.settle()
    }

    /// The numbers of all committed generations, ascending. Collective.
    pub fn generations(&self) -> Result<Vec<u64>> {
        let path = &self.place.folder;
        let bytes = from_first(&self.comm, "list", &path.to_string_lossy(), || {
            Ok(folder::generations(path)?.iter().flat_map(|number| number.to_le_bytes()).collect())
        })?;
        Ok(bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.first_chunk().copied().unwrap_or_default()))
            .collect())
    }

    /// A committed generation, as its manifest has it; its parts are checked as they are read, all of them by [`Generation::verify`]. Collective.
    pub fn generation(&self, number: u64) -> Result<Generation> {
        Generation::open(&self.comm, &self.place, number)
    }

    /// The newest generation that is whole: all checksums are compared. Damaged ones are passed over, and
    /// [`Generation::passed_over`] tells which and why; if all are, that is the error. Collective.
    pub fn latest(&self) -> Result<Option<Generation>> {
        let mut passed = Vec::new();
        for number in self.generations()?.into_iter().rev() {
            let found =
                self.generation(number).and_then(|generation| generation.verify().map(|()| generation));
            match found {
                Ok(generation) => return Ok(Some(generation.after(passed))),
                // Ranks that cannot talk will not find an older one either.
                Err(error) if error.kind() == Kind::Communication => return Err(error),
                Err(error) => passed.push(PassedOver { generation: number, error }),
            }
        }
        passed.into_iter().next().map_or(Ok(None), |first| Err(first.error))
    }

    /// Removes generations that are not to be kept; which. Done after each commit, too. Collective.
    pub fn prune(&mut self) -> Result<Vec<u64>> {
        self.settle()?;
        self.lock()?;
        commit::prune(&self.comm, &self.place, self.keep)
    }

    fn settle(&mut self) -> Result<Option<u64>> {
        let Some(thread) = self.under_way.take() else { return Ok(None) };
        let gone = |_| {
            Error::new(
                Kind::Communication,
                "write",
                &self.place.folder.to_string_lossy(),
                "the I/O thread panicked, and has said why; the generations before are whole",
            )
        };
        thread.join().map_err(gone).flatten().map(Some)
    }

    /// Makes sure that no other program writes here.
    fn lock(&mut self) -> Result<()> {
        let mine = if self.comm.rank() == 0 && self.lock.is_none() {
            folder::lock(&self.place.folder).map(Some)
        } else {
            Ok(None)
        };
        let name = self.place.folder.to_string_lossy();
        if let Some(lock) = agree(&self.comm, "lock", &name, mine)? {
            self.lock = Some(lock);
        }
        Ok(())
    }
}

impl Drop for Store {
    /// What is under way is finished; its error has nobody to be told to.
    fn drop(&mut self) {
        let _ = self.settle();
    }
}

/// The path of a generation's part.
fn part_path(folder: &Path, name: &str, kind: &str) -> PathBuf {
    folder.join(format!("{name}.{kind}"))
}
