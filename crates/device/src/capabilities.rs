//! What a device can do, as data: used to plan accesses and to choose tests.

/// How far a lock reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockScope {
    /// No locks.
    None,
    /// All handles of this process exclude one another.
    Process,
    /// All handles of all processes of this machine (or file system) exclude one another.
    System,
}

/// What an open file can do and what it likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent yes or no")]
pub struct Capabilities {
    /// What was synced outlives the process and a restart of the machine. Without it nothing is ever durable, whatever
    /// [`Handle::sync`](crate::Handle::sync) returns.
    pub persistent: bool,
    /// Other processes that open the same name see the same bytes.
    pub shared: bool,
    /// The same through all nodes of a cluster: what is written through one is read through another at once, and parts of one page can be
    /// written through several. Without it ranks on several nodes lock what they access. True by default.
    pub coherent: bool,
    /// A scattered list of pieces costs about as much as one piece of the same size
    /// (memory, or many operations in flight): no sieving needed.
    pub native_lists: bool,
    /// [`Handle::map`](crate::Handle::map) gives parts of the file as memory, coherent with reads and writes of every process that may have it open.
    pub maps: bool,
    /// [`Handle::annotate`](crate::Handle::annotate) is kept, for people.
    pub keeps_annotations: bool,
    /// Space can be reserved ahead of writing.
    pub preallocate: bool,
    /// How far [`Handle::lock`](crate::Handle::lock) reaches.
    pub locks: LockScope,
    /// Offsets, lengths and memory addresses must be multiples of this to avoid a bounce copy; 1 = anything goes.
    pub alignment: u32,
    /// The granule in which the medium works best: a page or a stripe, in bytes.
    pub block: u32,
    /// How many operations are worth having in flight at once.
    pub concurrency: u32,
}

/// The humblest device: promises nothing, likes anything. A device of one's own starts from here:
/// `Capabilities { persistent: true, ..Capabilities::default() }`.
impl Default for Capabilities {
    fn default() -> Self {
        Self {
            persistent: false,
            shared: false,
            coherent: true,
            native_lists: false,
            maps: false,
            keeps_annotations: false,
            preallocate: false,
            locks: LockScope::None,
            alignment: 1,
            block: 4096,
            concurrency: 1,
        }
    }
}

/// The cores of this machine that the process may use. Finding out takes longer than opening a file: it is done once.
pub(crate) fn cores() -> u32 {
    static CORES: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32))
}
