//! What a device can do, as data: used to plan accesses and to choose tests.

use std::time::Duration;

use crate::units::ByteRate;

/// The scope of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockScope {
    /// No locks.
    None,
    /// All handles of this process exclude one another.
    Process,
    /// All handles of all processes of this machine (or file system) exclude one another.
    System,
}

/// Features and preferences of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent yes or no")]
pub struct Capabilities {
    /// What was synced outlives the process and a restart of the machine. Without it nothing is ever durable, whatever
    /// [`Handle::sync`](crate::Handle::sync) returns.
    pub persistent: bool,
    /// Other processes that open the same name see the same bytes.
    pub shared: bool,
    /// All nodes of a cluster see the same bytes: data written through one node is read through another at once, and parts of one page can be
    /// written through several nodes. If false, ranks on several nodes lock the ranges they access. True by default.
    pub coherent: bool,
    /// A scattered list of segments costs about as much as one segment of the same size
    /// (memory, or many operations in flight): data sieving is not needed.
    pub native_lists: bool,
    /// [`Handle::write_strips`](crate::Handle::write_strips) and [`Handle::read_strips`](crate::Handle::read_strips) take about as long as an access to
    /// one segment of the same size, however short the runs are.
    pub native_strips: bool,
    /// [`Handle::map`](crate::Handle::map) gives parts of the file as memory, coherent with reads and writes of every process that may have it open.
    pub maps: bool,
    /// [`Handle::annotate`](crate::Handle::annotate) is recorded, for readers of a trace.
    pub keeps_annotations: bool,
    /// Space can be reserved ahead of writing.
    pub preallocate: bool,
    /// The scope of [`Handle::lock`](crate::Handle::lock).
    pub locks: LockScope,
    /// Offsets, lengths and memory addresses must be multiples of this to avoid a bounce copy; 1: no requirement.
    pub alignment: u32,
    /// The preferred size of accesses: a page or a stripe, in bytes.
    pub block: u32,
    /// The useful number of concurrent operations.
    pub concurrency: u32,
    /// The time that an access takes however small it is, such as the round trip to a server; none: about that of a system call.
    pub latency: Option<Duration>,
    /// The bytes per second of a large access; none: about those of the page cache.
    pub bandwidth: Option<ByteRate>,
}

/// No features and no preferences: the starting point for a custom device:
/// `Capabilities { persistent: true, ..Capabilities::default() }`.
impl Default for Capabilities {
    fn default() -> Self {
        Self {
            persistent: false,
            shared: false,
            coherent: true,
            native_lists: false,
            native_strips: false,
            maps: false,
            keeps_annotations: false,
            preallocate: false,
            locks: LockScope::None,
            alignment: 1,
            block: 4096,
            concurrency: 1,
            latency: None,
            bandwidth: None,
        }
    }
}

/// The number of cores that the process may use. Cached, because the query takes longer than opening a file.
pub(crate) fn cores() -> u32 {
    static CORES: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32))
}
