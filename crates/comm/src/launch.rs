//! Start of a parallel program: on threads of this process, or as one of the processes of an MPI job.

mod comm_attribute;
mod host_comm;

pub use comm_attribute::{HostComm, before_finalize};
pub use host_comm::{Host, abandon_mpi, prepare_finalize};

use std::any::Any;
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::collective::CollectiveCall;
use crate::collective_id::{CollectiveId, CollectiveKind};
use crate::comm::CommInner;
use crate::transport::Transport;
use crate::transport::mpi::{self, MpiSelection, MpiSession, ThreadLevel};
use crate::transport::threads::ThreadWorld;
use crate::{Comm, Error, Kind, Result};

/// The error of a rank's program.
type AnyError = Box<dyn std::error::Error + Send + Sync>;

/// The most ranks as threads. Each rank has data about all others, so the memory and time of a start grow with the square of their number.
const MAX_THREADS: usize = 1024;

/// The stack size of a rank. Enough for programs with arrays on the stack; it costs address space only.
const STACK: usize = 16 << 20;

/// Time that an MPI rank with an induced failure waits, so that the rank that failed first can abort the job with its message.
const ABORT_DELAY: Duration = Duration::from_secs(1);

/// Runs `program` on every rank, and returns the results of the ranks of this process.
///
/// Started by an MPI launcher (`mpirun`, `mpiexec`, `srun`), this process is one rank of the job. Otherwise `AQUEDUCT_RANKS` threads
/// of this process are the ranks, by default one per core.
///
/// A failure that a rank [reports](Comm::report_failure), for example of a checkpoint in the background, is the error of that rank.
///
/// A launcher that starts several processes without PMI (`srun` without a PMI plugin, and likewise Flux, PALS, ALPS and MVAPICH) is an
/// error of kind [`NoMpi`](Kind::NoMpi) that names the remedy: each process would otherwise run the whole job.
///
/// If a rank panics or returns an error, ranks that wait for it get an error of kind [`RankFailed`](Kind::RankFailed), and `run` returns
/// the error of the first rank that failed. A failing MPI rank aborts the job with its message and a non-zero status.
///
/// ```
/// let sums = aqueduct_comm::run(|world| world.allreduce_one(aqueduct_comm::Op::Sum, world.rank() as u64))?;
/// assert!(sums.iter().all(|sum| *sum == sums[0]));
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
///
/// | variable | meaning |
/// |---|---|
/// | `AQUEDUCT_RANKS` | the number of threads that are ranks |
/// | `AQUEDUCT_NODE_RANKS` | simulate nodes of this many consecutive ranks |
/// | `AQUEDUCT_MPI` | `openmpi`, `mpich`, `abi`, the path of a libmpi, or `none` |
/// | `AQUEDUCT_MPI_THREADS` | the thread level to request from MPI: `single`, `funneled`, `serialized`, `multiple` (default) |
/// | `AQUEDUCT_CHECK` | `1`: compare collective calls between nodes in release builds too |
pub fn run<T, E>(program: impl Fn(&Comm) -> std::result::Result<T, E> + Sync) -> Result<Vec<T>>
where
    T: Send,
    E: Into<AnyError>,
{
    Launch::from_env()?.run(program)
}

/// Options for starting a parallel program.
///
/// ```
/// use aqueduct_comm::Launch;
/// let ranks = Launch::threads(3).run(|world| Ok::<_, aqueduct_comm::Error>(world.rank()))?;
/// assert_eq!(ranks, [0, 1, 2]);
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Launch {
    mpi: MpiSelection,
    ranks: usize,
    node_ranks: Option<usize>,
}

impl Launch {
    /// The options from the environment; see [`run`].
    pub fn from_env() -> Result<Self> {
        let ranks = count("AQUEDUCT_RANKS")?.unwrap_or_else(cores);
        Ok(Self { mpi: MpiSelection::from_env(), ranks, node_ranks: node_ranks()? })
    }

    /// `ranks` threads of this process, all on one node.
    pub fn threads(ranks: usize) -> Self {
        Self { mpi: MpiSelection::None, ranks, node_ranks: None }
    }

    /// Sets the number of threads that are ranks; in an MPI job the launcher determines it.
    #[must_use]
    pub fn ranks(mut self, ranks: usize) -> Self {
        self.ranks = ranks;
        self
    }

    /// Simulates nodes of this many consecutive ranks: other ranks are reached by messages.
    #[must_use]
    pub fn node_ranks(mut self, ranks: usize) -> Self {
        self.node_ranks = Some(ranks);
        self
    }

    /// Runs `program` on every rank; the results of the ranks of this process, in rank order.
    pub fn run<T, E>(&self, program: impl Fn(&Comm) -> std::result::Result<T, E> + Sync) -> Result<Vec<T>>
    where
        T: Send,
        E: Into<AnyError>,
    {
        if self.ranks == 0 || self.node_ranks == Some(0) {
            return Err(Error::new(Kind::InvalidArgument, "run", "a program needs at least one rank"));
        }
        if self.mpi == MpiSelection::None && self.ranks > MAX_THREADS {
            let detail =
                format!("{} ranks as threads of one process; at most {MAX_THREADS}: use MPI", self.ranks);
            return Err(Error::new(Kind::InvalidArgument, "run", detail));
        }
        match &self.mpi {
            MpiSelection::None => self.run_threads(program),
            MpiSelection::Refused(reason) => Err(Error::new(Kind::NoMpi, "run", reason.as_str())),
            MpiSelection::FirstOf(names) => {
                run_mpi(&*mpi::start(names, wanted_level()?)?, self.node_ranks, program)
            }
        }
    }

    fn run_threads<T: Send, E: Into<AnyError>>(
        &self,
        program: impl Fn(&Comm) -> std::result::Result<T, E> + Sync,
    ) -> Result<Vec<T>> {
        let world = ThreadWorld::new(self.ranks);
        let results = thread::scope(|scope| {
            let mut started = Vec::with_capacity(self.ranks);
            for rank in 0..self.ranks {
                let (world, program) = (&world, &program);
                let builder = thread::Builder::new().name(format!("rank {rank}")).stack_size(STACK);
                let rank_thread =
                    builder.spawn_scoped(scope, move || run_rank(world, rank, self.node_ranks, program));
                if let Err(source) = &rank_thread {
                    // The ranks already started would wait for this one.
                    let cause = format!("its thread could not be started: {source}");
                    world.fail(rank, cause.into());
                }
                started.push(rank_thread.ok());
            }
            let joined = started.into_iter().map(|thread| thread?.join().ok()?);
            joined.collect::<Vec<Option<T>>>()
        });
        match world.take_failure() {
            Some((rank, error)) => Err(program_error(rank, error)),
            None => Ok(results.into_iter().flatten().collect()),
        }
    }
}

impl Comm {
    /// A communicator of this process alone, without [`run`]: a world of one rank.
    ///
    /// ```
    /// let alone = aqueduct_comm::Comm::single()?;
    /// assert_eq!((alone.rank(), alone.size()), (0, 1));
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn single() -> Result<Self> {
        let transport: Arc<dyn Transport> = ThreadWorld::new(1).transport(0);
        CommInner::world(&transport, None)
    }
}

fn run_rank<T, E: Into<AnyError>>(
    world: &Arc<ThreadWorld>,
    rank: usize,
    node_ranks: Option<usize>,
    program: &(impl Fn(&Comm) -> std::result::Result<T, E> + Sync),
) -> Option<T> {
    let transport: Arc<dyn Transport> = world.transport(rank);
    // Dropped only after a failure is recorded: ranks that wait for this one then get the reason.
    let mut handle = None;
    let outcome =
        catch_panic(|| run_program(handle.insert(CommInner::world(&transport, node_ranks)?), program));
    outcome.map_err(|error| world.fail(rank, error)).ok()
}

/// Runs the program, deferred work and the last collective call.
fn run_program<T, E: Into<AnyError>>(
    world: &Comm,
    program: impl Fn(&Comm) -> std::result::Result<T, E>,
) -> std::result::Result<T, AnyError> {
    let transport = &world.inner.transport;
    let deferred = transport.run_end().accept_deferred();
    let value = program(world).map_err(Into::into)?;
    deferred.finish();
    if let Some(message) = transport.run_end().reported_failure() {
        return Err(message.into());
    }
    transport.depart(world.inner.node_exchange.block())?;
    finish(world)?;
    transport.depart(None)?;
    Ok(value)
}

fn run_mpi<T, E: Into<AnyError>>(
    session: &dyn MpiSession,
    node_ranks: Option<usize>,
    program: impl Fn(&Comm) -> std::result::Result<T, E>,
) -> Result<Vec<T>> {
    let transport = session.transport();
    // Dropped only after the message is printed: otherwise a rank that waits for this one would report its error first.
    let mut handle = None;
    let outcome =
        catch_panic(|| run_program(handle.insert(CommInner::world(&transport, node_ranks)?), program));
    match outcome {
        Ok(value) => session.close().map(|()| vec![value]),
        Err(error) => {
            if transport.has_induced_failure() {
                thread::sleep(ABORT_DELAY);
            }
            session.abort(&format!("rank {} failed: {error}", transport.rank()));
            Err(program_error(transport.rank(), error))
        }
    }
}

/// The last barrier: a rank that waits in another call gets an error instead of waiting forever.
fn finish(world: &Comm) -> Result<()> {
    CollectiveCall::begin(&world.inner, CollectiveId::new(CollectiveKind::Finish))?.barrier()
}

/// A panic as an error.
fn catch_panic<T>(
    body: impl FnOnce() -> std::result::Result<T, AnyError>,
) -> std::result::Result<T, AnyError> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| Err(panic_text(&*panic).into()))
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("panicked: {}", text.unwrap_or_else(|| "without a message".to_owned()))
}

fn program_error(rank: usize, error: AnyError) -> Error {
    Error::new(Kind::Program, "run", format!("rank {rank} failed")).caused_by(rank).with_source(error)
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn node_ranks() -> Result<Option<usize>> {
    count("AQUEDUCT_NODE_RANKS")
}

fn wanted_level() -> Result<ThreadLevel> {
    env::var("AQUEDUCT_MPI_THREADS").map_or(Ok(ThreadLevel::Multiple), |level| level.parse())
}

/// A positive number from the environment; none if the variable is absent or empty.
fn count(variable: &str) -> Result<Option<usize>> {
    let Some(text) = env::var_os(variable).filter(|text| !text.is_empty()) else { return Ok(None) };
    let number = text.to_str().and_then(|text| text.parse().ok()).filter(|number| *number > 0);
    let detail = || format!("{variable}={} is not a number of ranks; give 1 or more", text.display());
    number.map(Some).ok_or_else(|| Error::new(Kind::InvalidArgument, "run", detail()))
}
