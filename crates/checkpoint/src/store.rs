//! A folder of checkpoints.

mod array;
mod commit;
mod folder;
mod generation;
mod held_generations;
mod lock;
mod manifest;
mod object_list;
mod outline;
mod part;

pub use generation::{Generation, PartSummary, SkippedGeneration};
pub use part::{ArrayBlock, Checkpoint};

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use aqueduct_comm::{Comm, Op};
use aqueduct_file::write_behind::{BackgroundQueue, BudgetUser, MemoryBudget, OwnerLimits, catch_panic};
use aqueduct_report::{Report, ReportSource};

use crate::error::{Error, Kind, Result, agree, on_root, system};
use commit::{CommitOutcome, StoreLocation};
use held_generations::HeldGenerations;
use lock::StoreLock;

/// Which generations are kept when a new one is committed. The newest is always kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retention {
    /// All of them.
    All,
    /// This number of generations, the newest ones.
    Last(usize),
    /// Those that are not older than this.
    NewerThan(Duration),
}

/// A folder of checkpoints, open on all ranks.
///
/// ```
/// use aqueduct_checkpoint::{ArrayBlock, Checkpoint, CellGrid, Retention, Molecule, SpatialRegion, Store};
/// use aqueduct_comm::Launch;
///
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path();
/// Launch::threads(4).run(|world| {
///     let mut store = Store::open_or_create(world, path)?.retention(Retention::Last(2));
///     let rank = world.rank() as u64;
///     let grid = CellGrid::new([4.0, 1.0, 1.0], [4, 1, 1]).expect("a box has a volume");
///     let molecules = [Molecule::new(rank, [rank as f64 + 0.5, 0.5, 0.5], [0.0; 3])];
///     let temperature = vec![rank as f64; 10];
///
///     let mut checkpoint = Checkpoint::new(1000);
///     checkpoint.value("time", &12.5_f64);
///     checkpoint.cells("molecules", &grid, &molecules);
///     checkpoint.array("temperature", &ArrayBlock::new([40], [10 * rank], [10]), &temperature);
///     checkpoint.objects("notes", &[format!("note of rank {rank}")]);
///     // Returns when it is durable; `store.start(checkpoint)` copies it and returns at once.
///     store.write(&checkpoint)?;
///     Ok::<_, aqueduct_checkpoint::Error>(())
/// })?;
///
/// // Restart on another number of ranks.
/// Launch::threads(3).run(|world| {
///     let store = Store::open(world, path)?;
///     let latest = store.latest()?.expect("a generation");
///     assert_eq!((latest.step(), latest.value::<f64>("time")?), (1000, 12.5));
///     if world.rank() == 0 {
///         assert!(!latest.has("added by a newer program"));
///     }
///     let all = latest.cells::<Molecule>("molecules", &SpatialRegion::EVERYWHERE)?;
///     assert_eq!(all.len(), 4);
///     let row = latest.array::<f64>("temperature", &ArrayBlock::new([40], [5], [10]))?;
///     assert_eq!(row, [[0.0; 5], [1.0; 5]].concat());
///     Ok::<_, aqueduct_checkpoint::Error>(())
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
///
/// # Guarantees
/// A generation is committed atomically: if the program is killed or the disk is full, the previous generations are unchanged.
/// `docs/format-checkpoint.md` specifies the files and the commit protocol.
///
/// Generations can be listed and read while one is being written: reading has its own communicator. Generations that this process has
/// open, in this store or in another one of the same folder, are not removed.
///
/// The next call that waits for a [started](Self::start) checkpoint returns its failure. If there is no such call, the failure is printed
/// when the store is dropped, and [`aqueduct_comm::run`] returns it as an error.
#[derive(Debug)]
pub struct Store {
    /// The communicator of readers.
    comm: Comm,
    /// The communicator of the I/O thread, and of writes without one.
    writer: Comm,
    location: StoreLocation,
    retention: Retention,
    /// The lock, held by rank 0 from its first write on.
    lock: Option<StoreLock>,
    thread: BackgroundQueue,
    pending_commit: Option<Receiver<Result<CommitOutcome>>>,
    /// Warnings that were not taken yet.
    warnings: Vec<String>,
    /// All warnings so far.
    reported_warnings: Vec<String>,
}

impl Store {
    /// Opens an existing folder. Collective.
    pub fn open(comm: &Comm, folder: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(comm, folder.as_ref(), folder::find)
    }

    /// Opens a folder; creates it and syncs its parents if it does not exist. Collective.
    pub fn open_or_create(comm: &Comm, folder: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(comm, folder.as_ref(), folder::make)
    }

    fn open_with(comm: &Comm, folder: &Path, prepare: fn(&Path) -> Result<()>) -> Result<Self> {
        let shown = folder.to_string_lossy().into_owned();
        on_root(comm, "open", &shown, || prepare(folder).map(|()| Vec::new()))?;
        let own = || comm.dup().map_err(|error| Error::from_comm("open", &shown, &error));
        let (comm, writer) = (own()?, own()?);
        let held = HeldGenerations::of(folder);
        let place = StoreLocation { folder: folder.to_owned(), device_prefix: String::new(), held };
        let (warnings, reported_warnings) = (Vec::new(), Vec::new());
        Ok(Self {
            comm,
            writer,
            location: place,
            retention: Retention::Last(2),
            lock: None,
            thread: BackgroundQueue::new("aqueduct store"),
            pending_commit: None,
            warnings,
            reported_warnings,
        })
    }

    /// Sets which generations are kept; the default is the last two.
    #[must_use]
    pub fn retention(mut self, keep: Retention) -> Self {
        self.retention = keep;
        self
    }

    /// Accesses files through a device or layer on files of the operating system: `uring:`, `throttle=100MB/s:`.
    #[must_use]
    pub fn with_device(mut self, prefix: impl Into<String>) -> Self {
        self.location.device_prefix = prefix.into();
        self
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.location.folder
    }

    /// Commits a checkpoint and returns its generation, which is then durable. Collective.
    pub fn write(&mut self, checkpoint: &Checkpoint<'_>) -> Result<u64> {
        self.wait_for_commit()?;
        self.lock()?;
        let outcome = commit::commit(&self.writer, &self.location, self.retention, checkpoint)?;
        Ok(self.record_outcome(outcome))
    }

    /// Begins to commit a checkpoint, after the one that is being written: copies the borrowed data, and returns. The error of
    /// the one before is returned here. Collective.
    ///
    /// The checkpoint is written at once, without a copy, if background threads cannot communicate for their rank (between nodes,
    /// with an MPI that forbids it), or if the copy of some rank does not fit into the memory budget of its process: half of the
    /// limit, less what other data holds that is written in the background.
    pub fn start(&mut self, checkpoint: Checkpoint<'_>) -> Result<()> {
        self.start_after(checkpoint, || Ok(()))
    }

    /// As [`start`](Self::start), for a checkpoint that counts only with other data: nothing is written before `ready` has returned, in the
    /// background, on all ranks. Its error is that of the checkpoint. Collective.
    ///
    /// ```
    /// # use aqueduct_checkpoint::{Checkpoint, Store};
    /// # use aqueduct_comm::Launch;
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path();
    /// # Launch::threads(2).run(|world| {
    /// let mut store = Store::open_or_create(world, path)?;
    /// let mut checkpoint = Checkpoint::new(7);
    /// checkpoint.value("time", &0.5_f64);
    /// // For example `PendingFlush::wait` of the output of the program.
    /// store.start_after(checkpoint, || Ok(()))?;
    /// assert_eq!(store.wait()?, Some(1));
    /// # Ok::<_, aqueduct_checkpoint::Error>(())
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn start_after(
        &mut self,
        checkpoint: Checkpoint<'_>,
        ready: impl FnOnce() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        self.wait_for_commit()?;
        self.lock()?;
        let memory = self.take_copy_memory(&checkpoint)?;
        let Some(memory) = memory.filter(|_| self.comm.allows_background_collectives()) else {
            agree(&self.writer, "write", &self.location.folder.to_string_lossy(), ready())?;
            let outcome = commit::commit(&self.writer, &self.location, self.retention, &checkpoint)?;
            self.record_outcome(outcome);
            return Ok(());
        };
        let started = self.thread.start().map_err(|error| system("start", &self.location.folder, error));
        // The thread of one rank would wait for that of another one that has none.
        agree(&self.comm, "start", &self.location.folder.to_string_lossy(), started)?;
        let (comm, location, retention, owned) =
            (self.writer.clone(), self.location.clone(), self.retention, checkpoint.into_owned());
        let (sender, outcome) = channel();
        let commit = move || {
            let panicked = |detail| {
                Err(Error::new(Kind::Communication, "write", location.folder.to_string_lossy(), detail))
            };
            let commit = || {
                agree(&comm, "write", &location.folder.to_string_lossy(), ready())?;
                commit::commit(&comm, &location, retention, &owned)
            };
            let outcome = catch_panic(commit).unwrap_or_else(panicked);
            drop((owned, memory));
            _ = sender.send(outcome);
        };
        self.thread
            .submit(move |_| commit())
            .map_err(|error| system("start", &self.location.folder, error))?;
        self.pending_commit = Some(outcome);
        Ok(())
    }

    /// Takes the memory of the copy of a checkpoint; none if there is too little on some rank. Collective.
    fn take_copy_memory(&self, checkpoint: &Checkpoint<'_>) -> Result<Option<BudgetUser>> {
        let budget = MemoryBudget::of_process(&self.comm);
        let limits = OwnerLimits { cap: budget.level().cap / 2, ..OwnerLimits::default() };
        let memory = budget.join(limits);
        let fits = u8::from(memory.take(checkpoint.borrowed_bytes()));
        let fits = self.comm.allreduce_one(Op::Min, fits);
        let folder = self.location.folder.to_string_lossy();
        let fits = fits.map_err(|error| Error::from_comm("start", folder, &error))?;
        Ok((fits == 1).then_some(memory))
    }

    /// Whether a checkpoint is being written on this rank.
    pub fn is_busy(&self) -> bool {
        !self.thread.is_idle()
    }

    /// Waits for the checkpoint that is being written, and returns its generation, if there was one. Collective.
    pub fn wait(&mut self) -> Result<Option<u64>> {
        self.wait_for_commit()
    }

    /// The numbers of all committed generations, ascending. Collective.
    pub fn generations(&self) -> Result<Vec<u64>> {
        let path = &self.location.folder;
        let bytes = on_root(&self.comm, "list", &path.to_string_lossy(), || {
            Ok(encode_numbers(&folder::list(path)?.generations))
        })?;
        Ok(decode_numbers(&bytes))
    }

    /// A committed generation. Only its manifest is read; parts are verified when they are read, all of them by [`Generation::verify`].
    /// Collective.
    pub fn generation(&self, number: u64) -> Result<Generation> {
        Generation::open(&self.comm, &self.location, number)
    }

    /// The newest complete generation, after all of its checksums were verified. Damaged ones are skipped, and listed by
    /// [`Generation::skipped`]; if all are damaged, the error of the newest is returned. Collective.
    pub fn latest(&self) -> Result<Option<Generation>> {
        let mut all = self.candidates()?;
        loop {
            let mut skipped = Vec::new();
            for number in all.iter().rev().copied() {
                let found =
                    self.generation(number).and_then(|generation| generation.verify().map(|()| generation));
                match found {
                    Ok(generation) => return Ok(Some(generation.with_skipped(skipped))),
                    // After a communication failure an older generation cannot be read either.
                    Err(error) if error.kind() == Kind::Communication => return Err(error),
                    Err(error) => skipped.push(SkippedGeneration { generation: number, error }),
                }
            }
            // A checkpoint that is being written may have replaced all of them.
            let now = self.candidates()?;
            if now == all {
                return skipped.into_iter().next().map_or(Ok(None), |first| Err(first.error));
            }
            all = now;
        }
    }

    /// The numbers of committed generations, and of folders with names of generations but without a manifest, ascending. A check of a store
    /// covers all of them. Collective.
    pub fn candidates(&self) -> Result<Vec<u64>> {
        let path = &self.location.folder;
        let bytes = on_root(&self.comm, "list", &path.to_string_lossy(), || {
            let listing = folder::list(path)?;
            let mut all = [listing.generations, listing.without_manifest].concat();
            all.sort_unstable();
            Ok(encode_numbers(&all))
        })?;
        Ok(decode_numbers(&bytes))
    }

    /// Removes generations by the retention rule, as each commit does, and returns their numbers. Collective.
    pub fn prune(&mut self) -> Result<Vec<u64>> {
        self.wait_for_commit()?;
        self.lock()?;
        commit::prune(&self.writer, &self.location, self.retention)
    }

    /// Problems that did not make a checkpoint fail: old generations or leftovers that could not be removed, unrelated entries of the folder.
    /// Each is reported once, at rank 0. Warnings that were not taken are printed when the store is dropped.
    pub fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    fn record_outcome(&mut self, outcome: CommitOutcome) -> u64 {
        for warning in outcome.warnings {
            if !self.reported_warnings.contains(&warning) {
                self.reported_warnings.push(warning.clone());
                self.warnings.push(warning);
            }
        }
        outcome.generation
    }

    fn wait_for_commit(&mut self) -> Result<Option<u64>> {
        let Some(pending) = self.pending_commit.take() else { return Ok(None) };
        self.thread.drain();
        match pending.recv() {
            Ok(outcome) => Ok(Some(self.record_outcome(outcome?))),
            // The thread sends before a job ends.
            Err(_) => Ok(None),
        }
    }

    /// Excludes other programs from writing to this store. The first checkpoint does so too; a program that changes other files together with
    /// its checkpoints calls it before. Collective.
    pub fn lock(&mut self) -> Result<()> {
        let mine = if self.comm.rank() == 0 && self.lock.is_none() {
            StoreLock::acquire(&self.location.folder).map(Some)
        } else {
            Ok(None)
        };
        let name = self.location.folder.to_string_lossy();
        if let Some(lock) = agree(&self.comm, "lock", &name, mine)? {
            self.lock = Some(lock);
        }
        Ok(())
    }
}

impl Drop for Store {
    /// Waits for the checkpoint that is being written. Its failure is printed, and is the error of [`aqueduct_comm::run`].
    fn drop(&mut self) {
        if let Err(error) = self.wait_for_commit() {
            // Printed only on the rank where it happened.
            if error.rank().is_none() {
                let message = format!("a background checkpoint failed: {error}");
                Report::new(ReportSource::Checkpoint).warn(&message);
            }
            self.comm.report_failure(error.to_string());
        }
        if self.comm.rank() == 0 {
            self.warnings.iter().for_each(|warning| Report::new(ReportSource::Checkpoint).warn(warning));
        }
    }
}

/// Numbers as bytes, for messages to other ranks.
fn encode_numbers(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn decode_numbers(bytes: &[u8]) -> Vec<u64> {
    let number = |word: &[u8]| u64::from_le_bytes(word.first_chunk().copied().unwrap_or_default());
    bytes.chunks_exact(8).map(number).collect()
}

/// The path of a generation's part.
fn part_path(folder: &Path, name: &str, kind: &str) -> PathBuf {
    folder.join(format!("{name}.{kind}"))
}
