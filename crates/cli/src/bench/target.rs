//! On which ranks, on which file and through which functions a benchmark runs.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use aqueduct::Kind;
use aqueduct::comm::{Comm, Launch, Op};
use aqueduct::file::{File, OpenOptions};
use aqueduct_patterns::{FileInterface, MpiIo};

/// The name of files without the option `--file`.
const DEFAULT_FILE: &str = "aqueduct-bench";
/// Bytes that are written at once while a file is created.
const CHUNK: u64 = 4 << 20;

/// Options of the benchmarks that access files themselves.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Ranks and files")]
pub(crate) struct TargetArguments {
    /// Number of ranks, if they are threads [default: `AQUEDUCT_RANKS`, else the number of cores]
    #[arg(long, short = 'n')]
    pub(super) ranks: Option<usize>,
    /// Prefix of the file names, optionally with device and layers: `uring:/scratch/x`, `throttle=11MB/s each:x`. Deleted at the end
    #[arg(long, short, value_name = "NAME", default_value = DEFAULT_FILE)]
    pub(super) file: String,
    /// Replace existing files; their contents are lost
    #[arg(long)]
    overwrite: bool,
    /// A hint for all files: `--hint cb_nodes=2`
    #[arg(long = "hint", value_name = "KEY=VALUE", value_parser = hint)]
    pub(super) hints: Vec<(String, String)>,
    /// Measure the same through other functions too, in turn with the engine
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(super) through: Vec<OtherInterface>,
}

/// Functions `MPI_File_*` that are found at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OtherInterface {
    /// `MPI_File_*` of the MPI library of the job; start the ranks by mpirun
    Mpi,
    /// `MPI_File_*` as programs get them from the preload library; start it under `aqueduct exec`
    Preload,
}

fn hint(text: &str) -> Result<(String, String), String> {
    let split = text.split_once('=').filter(|(key, _)| !key.is_empty());
    split
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .ok_or_else(|| format!("{text} is not KEY=VALUE"))
}

impl TargetArguments {
    /// Runs the benchmark on all ranks.
    pub(super) fn run(&self, job: impl Fn(&Comm) -> Result<()> + Sync) -> Result<()> {
        let launch = Launch::from_env()?;
        let launch = self.ranks.map_or(launch.clone(), |ranks| launch.ranks(ranks));
        launch.run(|world| job(world).map_err(|error| format!("{error:#}")))?;
        Ok(())
    }

    /// The engine and what `--through` names.
    pub(super) fn interfaces(&self, world: &Comm) -> Result<Vec<FileInterface>> {
        let mut all = vec![FileInterface::Engine];
        for other in &self.through {
            ensure!(
                !world.is_one_process() || world.thread_level().is_some(),
                "--through needs ranks that are processes of MPI: mpirun -n {} aqueduct bench …",
                world.size()
            );
            ensure!(
                aqueduct::file::path(&self.file).is_some(),
                "{} is not a plain file, which is all that MPI-IO knows; leave out --through or the device",
                self.file
            );
            all.push(FileInterface::MpiIo(match other {
                OtherInterface::Mpi => MpiIo::of_library()?,
                OtherInterface::Preload => MpiIo::preloaded()?,
            }));
        }
        Ok(all)
    }

    /// Fails if a file exists that is not to be replaced. Collective.
    pub(super) fn refuse_existing(&self, comm: &Comm, name: &Path) -> Result<()> {
        if self.overwrite || self.file == DEFAULT_FILE {
            return Ok(());
        }
        match File::open(comm, name) {
            Ok(file) => {
                file.close()?;
                bail!(
                    "{} exists; choose another name with --file, or replace it with --overwrite",
                    name.display()
                )
            }
            Err(error) if error.kind() == Kind::NoSuchFile => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates a file without holes, of so many bytes for each rank. Collective.
    pub(super) fn create(&self, world: &Comm, name: &Path, bytes: u64) -> Result<()> {
        self.refuse_existing(world, name)?;
        let file = OpenOptions::new().write(true).read(true).create(true).truncate(true).open(world, name)?;
        let zeros = vec![0u8; CHUNK.min(bytes) as usize];
        let first = bytes * world.rank() as u64;
        for at in (0..bytes).step_by(CHUNK as usize) {
            file.at(first + at).write(&zeros[..CHUNK.min(bytes - at) as usize])?;
        }
        Ok(file.close()?)
    }

    /// Deletes a file, if it exists. Collective.
    pub(super) fn delete(world: &Comm, name: &Path) -> Result<()> {
        let deleted = if world.rank() == 0 { delete_one(name) } else { Ok(()) };
        agree(world, deleted)
    }
}

/// Deletes a file, if it exists.
pub(super) fn delete_one(name: &Path) -> Result<()> {
    match aqueduct::file::delete(name) {
        Err(error) if error.kind() != Kind::NoSuchFile => {
            Err(error).with_context(|| format!("deleting {}", name.display()))
        }
        _ => Ok(()),
    }
}

/// The outcome of all ranks: an error if one has failed.
pub(super) fn agree<T>(world: &Comm, outcome: Result<T>) -> Result<T> {
    let failed = world.allreduce_one(Op::Max, u8::from(outcome.is_err()))?;
    match outcome {
        Ok(_) if failed > 0 => bail!("another rank has failed"),
        outcome => outcome,
    }
}
