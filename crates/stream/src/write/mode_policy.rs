//! The rule that chooses the mode of an output when it is created. Pure: it knows neither ranks nor clocks.

/// Which ranks and threads write the steps of an output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OutputMode {
    /// The program itself: `commit` returns when the step is visible.
    Blocking,
    /// One I/O thread per rank, while the program computes.
    Thread,
    /// As with threads, but the ranks of a group send their bytes to a leader, and only leaders open the file.
    Leaders,
    /// I/O servers: see [`split_io_servers`](crate::split_io_servers).
    Servers,
    /// Chosen by a rule when the output is created: servers if there are any, otherwise by the layout.
    #[default]
    Auto,
}

/// Steps below this number of bytes over all ranks are written by the program.
const SMALL_STEP: f64 = 1.5e6;
/// Leaders write from this number of ranks per node on, where each rank has less than this number of bytes.
const RANKS_PER_NODE: usize = 4;
const SMALL_PIECE: f64 = 65536.0;

/// How ranks and data are distributed, as far as the declarations say. The same on all ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DataDistribution {
    pub(crate) ranks: usize,
    pub(crate) nodes: usize,
    /// Ranks with arrays to store.
    pub(crate) writing_ranks: usize,
    /// Bytes of arrays in a step, over all ranks.
    pub(crate) bytes: f64,
    /// There are lists, whose size differs from step to step.
    pub(crate) lists: bool,
}

/// The mode of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModeChoice {
    pub(crate) mode: OutputMode,
    /// An I/O thread writes.
    pub(crate) thread: bool,
    /// Leaders write for their groups.
    pub(crate) gather: bool,
    pub(crate) reason: String,
}

impl ModeChoice {
    /// For an output that the ranks write themselves; `background` says whether I/O threads may communicate.
    pub(crate) fn new(requested: OutputMode, data: &DataDistribution, background: bool) -> Self {
        let gather =
            requested == OutputMode::Leaders || requested == OutputMode::Auto && data.has_small_pieces();
        let (thread, mut reason) = match requested {
            OutputMode::Blocking => (false, "requested".to_owned()),
            _ if !background => {
                let reason =
                    "MPI does not let threads communicate between nodes; request the thread level multiple";
                (false, reason.to_owned())
            }
            OutputMode::Auto => data.thread_or_blocking(),
            _ => (true, "requested".to_owned()),
        };
        if gather && requested == OutputMode::Auto {
            let (ranks, each) = (data.ranks / data.nodes.max(1), data.bytes_per_rank() / 1e3);
            reason = format!("{reason}; {ranks} ranks of a node have {each:.0} kB each: one writes for all");
        }
        let mode = match (thread, gather) {
            (false, _) => OutputMode::Blocking,
            (true, false) => OutputMode::Thread,
            (true, true) => OutputMode::Leaders,
        };
        Self { mode, thread, gather, reason }
    }

    /// For an output that servers write.
    pub(crate) fn served(requested: OutputMode, servers: usize) -> Self {
        let reason = match requested {
            OutputMode::Servers => "requested".to_owned(),
            _ => format!("{servers} of the ranks are I/O servers"),
        };
        Self { mode: OutputMode::Servers, thread: false, gather: false, reason }
    }
}

impl DataDistribution {
    fn bytes_per_rank(&self) -> f64 {
        self.bytes / self.ranks.max(1) as f64
    }

    /// Many small pieces would cross the network between nodes.
    fn has_small_pieces(&self) -> bool {
        let many = self.nodes > 1 && self.ranks >= RANKS_PER_NODE * self.nodes;
        many && !self.lists && self.bytes_per_rank() < SMALL_PIECE
    }

    /// Whether an I/O thread writes, and why.
    fn thread_or_blocking(&self) -> (bool, String) {
        let megabytes = self.bytes / 1e6;
        if self.lists {
            (true, "the size of lists is not known in advance: an I/O thread".to_owned())
        } else if self.bytes < SMALL_STEP {
            (false, format!("steps of {megabytes:.2} MB: an I/O thread pays from 1.5 MB on"))
        } else if self.ranks > 1 && self.writing_ranks == 1 {
            (false, "one rank holds all data".to_owned())
        } else {
            (true, format!("steps of {megabytes:.2} MB: an I/O thread"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVEN: DataDistribution =
        DataDistribution { ranks: 4, nodes: 1, writing_ranks: 4, bytes: 3.2e6, lists: false };

    #[test]
    fn auto_chooses_by_the_layout() {
        let small = DataDistribution { bytes: 1e6, ..EVEN };
        let many = DataDistribution { ranks: 64, nodes: 4, writing_ranks: 64, bytes: 3e6, lists: false };
        let cases = [
            (EVEN, OutputMode::Thread, "steps of 3.20 MB: an I/O thread"),
            (small, OutputMode::Blocking, "steps of 1.00 MB: an I/O thread pays from 1.5 MB on"),
            (DataDistribution { lists: true, ..small }, OutputMode::Thread, "not known in advance"),
            (DataDistribution { writing_ranks: 1, ..EVEN }, OutputMode::Blocking, "one rank holds all data"),
            (DataDistribution { ranks: 1, writing_ranks: 1, ..EVEN }, OutputMode::Thread, "3.20 MB"),
            (many, OutputMode::Leaders, "16 ranks of a node have 47 kB each: one writes for all"),
            (DataDistribution { nodes: 1, ..many }, OutputMode::Thread, "3.00 MB"),
            (DataDistribution { nodes: 17, ..many }, OutputMode::Thread, "3.00 MB"),
            (DataDistribution { bytes: 64.0 * SMALL_PIECE, ..many }, OutputMode::Thread, "4.19 MB"),
        ];
        for (data, mode, reason) in cases {
            let choice = ModeChoice::new(OutputMode::Auto, &data, true);
            assert!(choice.mode == mode && choice.reason.contains(reason), "{data:?}: {choice:?}");
        }
    }

    #[test]
    fn a_requested_mode_is_taken() {
        for mode in [OutputMode::Blocking, OutputMode::Thread, OutputMode::Leaders] {
            let choice = ModeChoice::new(mode, &DataDistribution { bytes: 8.0, ..EVEN }, true);
            assert_eq!((choice.mode, &*choice.reason), (mode, "requested"));
        }
        assert_eq!(ModeChoice::served(OutputMode::Servers, 2).reason, "requested");
        assert_eq!(ModeChoice::served(OutputMode::Auto, 2).mode, OutputMode::Servers);
    }

    #[test]
    fn no_thread_writes_where_threads_may_not_communicate() {
        for mode in [OutputMode::Thread, OutputMode::Leaders, OutputMode::Auto] {
            let choice = ModeChoice::new(mode, &EVEN, false);
            assert!(!choice.thread && choice.mode == OutputMode::Blocking, "{choice:?}");
            assert!(choice.reason.contains("thread level multiple"), "{choice:?}");
            assert_eq!(choice.gather, mode == OutputMode::Leaders);
        }
    }
}
