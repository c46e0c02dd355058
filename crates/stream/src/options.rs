//! Options of an output: mode, buffers, memory, durability.

use std::path::PathBuf;
use std::sync::Arc;

use aqueduct_comm::agreement::{agree_same, hash_of};
use aqueduct_comm::{Comm, Op};

use crate::aggregate::{LeaderOptions, LeaderTarget, PORTION};
use crate::declare::declaration::Declaration;
use crate::declare::output_plan::OutputPlan;
use crate::declare::stream::Streams;
use crate::declare::stream_info::StreamRegion;
use crate::error::{Error, Kind, Result, agree, with_exists_hint};
use crate::output::Output;
use crate::resume_state::ResumeState;
use crate::server::{BufferGrant, ComputeGroup, OutputClient};
use crate::target::{FileTarget, OutputTarget};
use crate::write::buffer_limits::{BufferLimits, OutputMemory};
use crate::write::chunk_spill::SpillOptions;
use crate::write::free_cores;
use crate::write::mode_policy::{DataDistribution, ModeChoice, OutputMode};

/// Buffers that gathering needs: two for bytes that are passed in other portions than they were packed, two windows,
/// and one for bytes of members that are not contiguous in a window.
pub(crate) const GATHERING: usize = 5;

/// Buffers that spilling needs: one for a chunk on its way to the file, one for a chunk on its way back.
const SPILLING: usize = 2;

/// The smallest slot in bytes, if memory allows it: the lists of a step may be of any size.
const SYMMETRIC: u64 = 1 << 20;

/// Options of an output; the same on all ranks, except for memory and processors.
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_stream::{OutputMode, Options, Stream, Streams};
///
/// Launch::threads(2).run(|world| {
///     let mut streams = Streams::new();
///     let row = world.rank() as u64;
///     let level = streams.add::<f32>(Stream::array("level", [2, 100]).block([row, 0], [1, 100]));
///     let options = Options::new().mode(OutputMode::Thread).buffers(3).memory(1 << 20).durable_every(10);
///     let mut output = options.create(world, "memfs:options", &streams)?;
///     output.step()?.put(level, &[1.0; 100]).commit()?;
///     output.finish().map(drop)
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) mode: OutputMode,
    buffers: usize,
    memory: Option<u64>,
    durable_every: Option<u64>,
    plan: OutputPlan,
    pub(crate) pinned: Vec<usize>,
    group: Option<usize>,
    compute_group: Option<ComputeGroup>,
    server_memory_only: bool,
    free_cores: bool,
    spill: Option<SpillOptions>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: OutputMode::Auto,
            buffers: 2,
            memory: None,
            durable_every: None,
            plan: OutputPlan::default(),
            pinned: Vec::new(),
            group: None,
            compute_group: None,
            server_memory_only: false,
            free_cores: false,
            spill: None,
        }
    }
}

impl Options {
    /// The mode is chosen by the library; two buffers; an eighth of the memory of the process; durable at `flush` and
    /// `finish`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Which ranks and threads write.
    #[must_use]
    pub fn mode(mut self, mode: OutputMode) -> Self {
        self.mode = mode;
        self
    }

    /// The number of buffers. A third one helps only if short and long steps alternate.
    #[must_use]
    pub fn buffers(mut self, buffers: usize) -> Self {
        self.buffers = buffers;
        self
    }

    /// The memory of all buffers of this rank in bytes.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory = Some(bytes);
        self
    }

    /// Syncs after each `steps` steps that store data.
    #[must_use]
    pub fn durable_every(mut self, steps: u64) -> Self {
        self.durable_every = Some(steps);
        self
    }

    /// Replaces a file of the same name, if there is one and no program is writing it. Without this, creating a file
    /// that exists fails.
    #[must_use]
    pub fn replace(mut self) -> Self {
        self.plan.replace = true;
        self
    }

    /// The program will commit this number of steps. Files of arrays ([`Hdf5Target`](crate::target::Hdf5Target),
    /// [`NetcdfTarget`](crate::target::NetcdfTarget)) then need no definition and no sync in a step.
    #[must_use]
    pub fn steps(mut self, steps: u64) -> Self {
        self.plan.steps = Some(steps);
        self
    }

    /// Binds this rank's I/O thread to these processors, numbered from 0.
    #[must_use]
    pub fn pin(mut self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.pinned = cpus.into_iter().collect();
        self
    }

    /// Binds the I/O thread of each rank to a processor that no rank of its node is bound to: one of an idle core, else the
    /// sibling (SMT) of the rank's own processor, else any other. If no rank is bound, or all processors are in use, the
    /// system places the thread. [`pin`](Self::pin) has priority.
    #[must_use]
    pub fn free_cores(mut self) -> Self {
        self.free_cores = true;
        self
    }

    /// Chunks that find no buffer are stored in a file in this folder, of up to `bytes` bytes for each rank, until the I/O
    /// thread takes them: `commit` waits for the medium only when that is full too. For a local disk that is faster than the
    /// medium. The file has no name; two more chunks of memory are needed. Without effect where no I/O thread writes.
    #[must_use]
    pub fn spill(mut self, folder: impl Into<PathBuf>, bytes: u64) -> Self {
        self.spill = Some(SpillOptions { folder: folder.into(), bytes });
        self
    }

    /// The number of ranks of a group in which a leader writes; the default is consecutive ranks of a node.
    #[must_use]
    pub fn group(mut self, ranks: usize) -> Self {
        self.group = Some(ranks);
        self
    }

    /// The servers of the compute group write, unless another mode is requested. The output is then created on
    /// [`ComputeGroup::comm`].
    #[must_use]
    pub fn served_by(mut self, compute: &ComputeGroup) -> Self {
        self.compute_group = Some(compute.clone());
        self
    }

    /// Clients of servers have no buffers of their own: each chunk is sent into the memory of the server, which holds it until
    /// it is written. For programs that need all memory of the compute ranks.
    #[must_use]
    pub fn server_memory_only(mut self) -> Self {
        self.server_memory_only = true;
        self
    }

    /// Creates a stream file of this name. Fails if it exists, unless it is to be [replaced](Self::replace).
    /// Collective.
    pub fn create(&self, comm: &Comm, name: &str, streams: &Streams) -> Result<Output> {
        if let (OutputMode::Auto | OutputMode::Servers, Some(compute)) = (self.mode, &self.compute_group) {
            return self.create_served(comm, compute, name, streams);
        }
        let file = |comm: &Comm, declared: &Arc<Declaration>| {
            Ok(Box::new(FileTarget::create(comm, name, declared)?) as Box<dyn OutputTarget>)
        };
        self.create_on(comm, name, streams, file)
    }

    /// Creates an output with a user-defined target, which gets its own communicator; `name` is used in messages.
    /// Collective. Servers create targets by [`Server::serve_into`](crate::Server::serve_into).
    pub fn create_on(
        &self,
        comm: &Comm,
        name: &str,
        streams: &Streams,
        target: impl FnOnce(&Comm, &Arc<Declaration>) -> Result<Box<dyn OutputTarget>>,
    ) -> Result<Output> {
        self.check_same(comm, name, self.check(name))?;
        let declared = Arc::new(self.declare(comm, name, streams)?);
        let target =
            |comm: &Comm, declared: &Arc<Declaration>| target(comm, declared).map_err(with_exists_hint);
        let lost = |error: aqueduct_comm::Error| Error::from_comm("create", name, &error);
        let mode = self.choose_mode(comm, &declared).map_err(lost)?;
        let extra = if mode.gather { GATHERING } else { 0 };
        let extra = if self.spill.is_some() && mode.thread { extra + SPILLING } else { extra };
        let limits = agree(comm, "create", name, self.limits(comm, name, extra));
        let mut limits = BufferLimits { expected: declared.bytes_of_a_step(), ..limits? };
        if mode.gather {
            // A leader requests no more than any of its members has space for.
            limits.capacity = comm.allreduce_one(Op::Min, limits.capacity).map_err(lost)?;
        }
        let own = comm.dup().map_err(lost)?;
        let memory = limits.join(comm, PORTION);
        let target: Box<dyn OutputTarget> = if mode.gather {
            let memory_peak = Arc::clone(&memory.gathered);
            let plan = LeaderOptions { size: self.group, capacity: limits.capacity, memory_peak };
            Box::new(LeaderTarget::create(&own, name, &declared, plan, target)?)
        } else {
            target(&own, &declared)?
        };
        let found = if self.free_cores { free_cores::find(comm).map_err(lost)? } else { Vec::new() };
        let pinned = if self.pinned.is_empty() { &found } else { &self.pinned };
        Output::local(mode, (comm, &own, name), declared, target, (pinned, self.spill.as_ref()), memory)
    }

    /// Continues a stream file after a restart, from the states that a checkpoint has ([`Output::state`]): each rank passes
    /// any number of them, all together those of all ranks. The number of ranks and the blocks may be others than before;
    /// the streams are the same. Steps after the checkpoint are taken back first, then the program continues with step
    /// [`ResumeState::step`]. Collective.
    ///
    /// ```
    /// use aqueduct_comm::Launch;
    /// use aqueduct_stream::{Options, Reduction, Stream, Streams};
    ///
    /// let declare = |rank: u64| {
    ///     let mut streams = Streams::new();
    ///     let level = Stream::array("peak", [2, 8]).block([rank, 0], [1, 8]).reduce(Reduction::Max);
    ///     let peak = streams.add::<f64>(level);
    ///     (streams, peak)
    /// };
    /// let states = Launch::threads(2).run(|world| {
    ///     let (streams, peak) = declare(world.rank() as u64);
    ///     let mut output = Options::new().create(world, "memfs:resumed", &streams)?;
    ///     output.step()?.put(peak, &[7.5; 8]).commit()?;
    ///     output.flush()?;
    ///     let state = output.state(); // … into a checkpoint; then the program is killed
    ///     # output.finish()?;
    ///     state
    /// })?;
    /// Launch::threads(2).run(|world| {
    ///     let (streams, peak) = declare(world.rank() as u64);
    ///     let state = states[world.rank()].clone();
    ///     let mut output = Options::new().resume(world, "memfs:resumed", &streams, &[state])?;
    ///     output.step()?.put(peak, &[2.5; 8]).commit()?;
    ///     assert_eq!(output.finish()?.steps, 2);
    ///     Ok::<_, aqueduct_stream::Error>(())
    /// })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn resume(
        &self,
        comm: &Comm,
        name: &str,
        streams: &Streams,
        states: &[ResumeState],
    ) -> Result<Output> {
        if let (OutputMode::Auto | OutputMode::Servers, Some(_)) = (self.mode, &self.compute_group) {
            let detail = "an output that servers write cannot be continued; use another mode after a restart";
            return Err(Error::new(Kind::Unsupported, "resume", name, detail));
        }
        let (options, step) = self.resuming(comm, name, streams, states)?;
        let mut output = options.create(comm, name, streams)?;
        output.restore(comm, step, states)?;
        Ok(output)
    }

    /// Continues a stream file after its first `steps` steps, without a checkpoint: of streams without reductions the file itself has the state. Later steps
    /// are taken back first. Collective, with the same number on all ranks.
    ///
    /// ```
    /// use aqueduct_comm::Launch;
    /// use aqueduct_stream::{Options, Reader, Stream, Streams};
    ///
    /// Launch::threads(2).run(|world| {
    ///     let mut streams = Streams::new();
    ///     let level = streams.add::<f64>(Stream::array("level", [2]).block([world.rank() as u64], [1]));
    ///     let mut output = Options::new().create(world, "memfs:resumed-after", &streams)?;
    ///     output.step()?.put(level, &[1.0]).commit()?;
    ///     output.finish()?;
    ///     let mut output = Options::new().resume_after(world, "memfs:resumed-after", &streams, 1)?;
    ///     output.step()?.put(level, &[2.0]).commit()?;
    ///     output.finish()?;
    ///     let reader = Reader::open(world, "memfs:resumed-after")?;
    ///     assert_eq!(reader.read::<f64>("level", &reader.stored_steps()[1])?, [2.0; 2]);
    ///     Ok::<_, aqueduct_stream::Error>(())
    /// })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn resume_after(&self, comm: &Comm, name: &str, streams: &Streams, steps: u64) -> Result<Output> {
        let state = ResumeState::without_reductions(comm, name, streams, steps)?;
        self.resume(comm, name, streams, &[state])
    }

    /// As [`resume`](Self::resume), with a user-defined target: the target finds the step in
    /// [`Declaration::resumes_at`](crate::Declaration::resumes_at), and opens its file instead of creating it. Collective.
    pub fn resume_on(
        &self,
        comm: &Comm,
        name: &str,
        streams: &Streams,
        states: &[ResumeState],
        target: impl FnOnce(&Comm, &Arc<Declaration>) -> Result<Box<dyn OutputTarget>>,
    ) -> Result<Output> {
        let (options, step) = self.resuming(comm, name, streams, states)?;
        let mut output = options.create_on(comm, name, streams, target)?;
        output.restore(comm, step, states)?;
        Ok(output)
    }

    /// The options of an output that is continued, and the step. Collective.
    fn resuming(
        &self,
        comm: &Comm,
        name: &str,
        streams: &Streams,
        states: &[ResumeState],
    ) -> Result<(Self, u64)> {
        let declared = Declaration::new(comm, name, streams)?;
        let step = ResumeState::agree_on_step(comm, name, &declared, states)?;
        let plan = OutputPlan { resume_at: Some(step), replace: false, ..self.plan };
        Ok((Self { plan, ..self.clone() }, step))
    }

    /// The mode, the same on all ranks. Collective.
    fn choose_mode(&self, comm: &Comm, declared: &Declaration) -> aqueduct_comm::Result<ModeChoice> {
        let bytes = declared.bytes_of_a_step() as f64;
        let sums = comm.allreduce(Op::Sum, &[bytes, f64::from(u8::from(bytes > 0.0))])?;
        let data = DataDistribution {
            ranks: comm.size(),
            nodes: comm.node_count(),
            writing_ranks: sums[1] as usize,
            bytes: sums[0],
            lists: declared.streams.iter().any(|info| info.region == StreamRegion::List),
        };
        Ok(ModeChoice::new(self.mode, &data, comm.allows_background_collectives()))
    }

    /// An output that servers write. Collective over compute ranks and servers.
    fn create_served(
        &self,
        comm: &Comm,
        compute: &ComputeGroup,
        name: &str,
        streams: &Streams,
    ) -> Result<Output> {
        let same = if comm.size() == compute.comm().size() {
            self.check(name)
        } else {
            let detail = "an output that servers write is created on the communicator of the compute ranks, ComputeGroup::comm";
            Err(Error::new(Kind::BadArgument, "create", name, detail))
        };
        self.check_same(comm, name, same)?;
        let declared = Arc::new(self.declare(comm, name, streams)?);
        let lost = |error: aqueduct_comm::Error| Error::from_comm("create", name, &error);
        let limits = agree(comm, "create", name, self.limits(comm, name, 1))?;
        // The same size on all clients, and no larger than the largest step.
        let largest = comm.allreduce_one(Op::Max, declared.bytes_of_a_step()).map_err(lost)?;
        let least = comm.allreduce_one(Op::Min, limits.capacity).map_err(lost)?;
        let slot = least.min(largest.max(SYMMETRIC));
        let limits = BufferLimits { capacity: slot, ..limits };
        let memory = limits.join(comm, slot);
        // Slots are allocated now: the first one is a part of the minimum, the others as far as there is memory.
        let wanted = if self.server_memory_only { 0 } else { limits.chunks(largest) };
        let slots = (0..wanted).take_while(|_| memory.budget.take(slot)).count().max(wanted.min(1));
        let room = BufferGrant { slots: slots as u32, slot, allowance: 0 };
        let client = OutputClient::open(compute, name, &declared, self.durable_every, room);
        let client = Arc::new(agree(comm, "create", name, client)?);
        // The extra chunk is a message to the server.
        let cap = client.capacity() * (slots + 1) as u64;
        let limits = BufferLimits { capacity: client.capacity(), ..limits };
        let memory = OutputMemory { limits, cap, ..memory };
        let own = comm.dup().map_err(lost)?;
        let mode = ModeChoice::served(self.mode, compute.servers());
        Ok(Output::served(mode, (&own, name), declared, client, memory))
    }

    fn declare(&self, comm: &Comm, name: &str, streams: &Streams) -> Result<Declaration> {
        Ok(Declaration { plan: self.plan, ..Declaration::new(comm, name, streams)? })
    }

    fn check(&self, name: &str) -> Result<()> {
        let refuse = |detail: &str| Err(Error::new(Kind::BadArgument, "create", name, detail));
        if self.buffers == 0 {
            return refuse("an output needs at least one buffer");
        }
        if self.durable_every == Some(0) {
            return refuse("durable_every(0) is invalid; give 1 or more, or omit it");
        }
        if self.mode == OutputMode::Servers && self.compute_group.is_none() {
            return refuse(
                "there are no servers; call split_io_servers, and pass the compute group to Options::served_by",
            );
        }
        if self.group == Some(0) {
            return refuse("group(0) is invalid; give 1 or more ranks, or omit it");
        }
        Ok(())
    }

    /// The limits of this rank's buffers, with `more` buffers for other purposes.
    fn limits(&self, comm: &Comm, name: &str, more: usize) -> Result<BufferLimits> {
        let limits = BufferLimits::new(comm, self.memory, self.buffers, more);
        if limits.capacity < 64 {
            let detail = "the memory is too small: a buffer needs 64 bytes at least";
            return Err(Error::new(Kind::BadArgument, "create", name, detail));
        }
        Ok(BufferLimits { durable_every: self.durable_every, ..limits })
    }

    /// The agreed outcome `mine`; an error if the options differ between ranks. Collective.
    fn check_same(&self, comm: &Comm, name: &str, mine: Result<()>) -> Result<()> {
        let Self { mode, durable_every, group, plan, .. } = self;
        let options = hash_of(&(
            *mode as u64,
            durable_every,
            group,
            self.compute_group.is_some(),
            plan,
            self.free_cores,
        ));
        let what = "mode, group, servers, durability, number of steps or replacement";
        agree_same(comm, "create", name, mine, what, Some(options), []).map(|((), [])| ())
    }
}

impl Output {
    /// Creates a stream file with the default [`Options`]. Fails if it exists; [`Options::replace`] replaces it.
    /// Collective.
    pub fn create(comm: &Comm, name: &str, streams: &Streams) -> Result<Self> {
        Options::new().create(comm, name, streams)
    }
}
