//! All constants of the cost model and of the learning state: costs of the machine, and thresholds of what is learnt.
//!
//! The costs are documented constants and are not measured at first use, so that the choice of a
//! strategy does not depend on the load of the machine at that moment (decision 38). The
//! [calibration](super::Calibration) corrects them by the measured times of the program's own
//! accesses.

/// Costs of the operations that strategies consist of. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MachineCosts {
    /// A `pread` of few bytes from the page cache.
    pub(crate) read_call: f64,
    /// A `pwrite` of few bytes to pages that exist. On ext4 with large folios it takes up to 4 µs.
    pub(crate) write_call: f64,
    /// A further run in a list, on a device that takes lists.
    pub(crate) list_entry: f64,
    /// A byte between the page cache and memory: 6.7 GB/s.
    pub(crate) byte: f64,
    /// An operation of the medium with `O_DIRECT`: the latency of an SSD.
    pub(crate) direct_call: f64,
    /// A further operation in a list with `O_DIRECT`: the medium works on about ten at a time.
    pub(crate) direct_list_entry: f64,
    /// A byte with `O_DIRECT`: 2.5 GB/s.
    pub(crate) direct_byte: f64,
    /// A mapped page of the page cache made present for reading, with fault-around and large folios.
    pub(crate) read_page: f64,
    /// A mapped page made present for writing, on average over accesses that find it present.
    pub(crate) write_page: f64,
    /// Additional cost of a write call that extends the file or fills a hole: it reserves space, and
    /// the ranks serialise on the inode lock.
    pub(crate) new_call: f64,
    /// Additional cost of a mapped page that is new: the file system allocates pages one by one.
    pub(crate) new_page: f64,
    /// Additional cost of a byte in a new page: it is cleared first, and the ranks serialise.
    pub(crate) new_byte: f64,
    /// A run copied out of a buffer or into it.
    pub(crate) copied_run: f64,
    /// A byte moved through the aggregation buffers of a node: two copies and the write.
    pub(crate) exchanged_byte: f64,
    /// The barriers of a collective call that exchanges data, with more ranks than idle cores.
    pub(crate) barriers: f64,
}

/// Bytes of a page.
pub(super) const PAGE: f64 = 4096.0;

impl MachineCosts {
    /// The costs in use, of the page cache of a common Linux machine. `docs/decisions/0007-mapped-io.md`
    /// has the times of calls and pages that were measured on ext4; the method of measurement of the
    /// other values was not recorded. The test `reference_choices` shows which choices a change alters.
    pub(crate) const DOCUMENTED: Self = Self {
        read_call: 500.0,
        write_call: 1_500.0,
        list_entry: 100.0,
        byte: 0.15,
        direct_call: 80_000.0,
        direct_list_entry: 8_000.0,
        direct_byte: 0.4,
        read_page: 40.0,
        write_page: 300.0,
        new_call: 20_000.0,
        new_page: 4_000.0,
        new_byte: 0.25,
        copied_run: 2.0,
        exchanged_byte: 0.5,
        barriers: 20_000.0,
    };
}

/// Sizes and counts from which a rank's accesses are treated differently. Where a threshold is a break-even point, its doc says of
/// what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thresholds {
    /// Strips of a window from which its number of runs is estimated: counting all could cost more
    /// than the estimate saves.
    pub(crate) sampled_strips: usize,
    /// Shorter accesses, in nanoseconds, are not measured exactly enough to calibrate a strategy.
    pub(crate) shortest_measured_time: u64,
    /// Shorter runs, in bytes, say little about the cost of a byte: the call dominates.
    pub(crate) shortest_measured_run: u64,
    /// Accesses after which a strategy that was not used may be cheaper again: the load or the file
    /// may have changed. It is retried, or its calibration has returned to 1.
    pub(crate) forgotten_after: u32,
    /// Rounds that any two-phase access may take; with more, each round has to move at least a byte.
    pub(crate) many_rounds: u64,
    /// For fewer bytes the device gets no hint before a write to a new file: releasing what it
    /// reserves would take longer than the hint saves.
    pub(crate) shortest_write_hint: u64,
    /// Bytes of the file that are mapped, and in which hot regions are detected.
    pub(crate) region: u64,
    /// The unit, in bytes, in which accesses to a region are counted.
    pub(crate) granule: u64,
    /// Accesses to a granule before it is mapped. Making a page writable costs about as much as
    /// writing it by so many calls.
    pub(crate) hot_accesses: u64,
    /// Small accesses that follow one another before pages are made present ahead of them.
    pub(crate) sequence_start: u32,
    /// The largest distance, in bytes, between accesses of a sequence: ranks that share a file
    /// pointer access the bytes between.
    pub(crate) sequence_gap: u64,
    /// Bytes that are made present ahead of sequential writes. They are written back even if nothing is
    /// stored in them.
    pub(crate) write_ahead: u64,
}

/// The thresholds in use.
pub(crate) const THRESHOLDS: Thresholds = Thresholds {
    sampled_strips: 64,
    shortest_measured_time: 5_000,
    shortest_measured_run: 16 << 10,
    forgotten_after: 100,
    many_rounds: 1024,
    shortest_write_hint: 4 << 20,
    region: 256 << 20,
    granule: 64 << 10,
    hot_accesses: 4,
    sequence_start: 8,
    sequence_gap: 32 << 10,
    write_ahead: 128 << 10,
};
