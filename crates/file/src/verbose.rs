//! What the engine tells when it is asked to: with `AQUEDUCT_VERBOSE` set to anything but 0, the first rank of a file writes to the standard
//! error stream how accesses are done whenever that changes, with the estimates, and what all ranks have done when the file is closed.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use crate::counters::Counters;
use crate::plan::{Choice, Direction, Extent};

/// Whether the engine has been asked to tell.
pub fn is_on() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| {
        std::env::var_os("AQUEDUCT_VERBOSE").is_some_and(|value| !value.is_empty() && value != "0")
    })
}

/// How an access is done: a line for people.
pub(crate) struct Access<'a> {
    pub(crate) direction: Direction,
    pub(crate) together: bool,
    pub(crate) extent: Extent,
    pub(crate) choice: Choice,
    /// All that was weighed.
    pub(crate) prices: &'a [Choice],
}

impl fmt::Display for Access<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = match (self.direction, self.together) {
            (Direction::Read, false) => "read",
            (Direction::Read, true) => "read_all",
            (Direction::Write, false) => "write",
            (Direction::Write, true) => "write_all",
        };
        let Extent { span, bytes, runs, fresh } = self.extent;
        let place = if fresh { ", in new pages" } else { "" };
        write!(f, "{access} of {bytes} bytes, about {runs} runs over {span}{place}: ")?;
        write!(f, "{}", Price(self.choice))?;
        let chosen = self.choice.strategy;
        let others = self.prices.iter().filter(|other| other.strategy != chosen);
        others
            .filter(|other| other.estimate.is_finite())
            .try_for_each(|other| write!(f, "; {}", Price(*other)))
    }
}

/// A way and what it is estimated to take.
struct Price(Choice);

impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.strategy.name();
        if self.0.estimate.is_finite() {
            write!(f, "{name} {:.1?}", Duration::from_nanos(self.0.estimate as u64))
        } else {
            write!(f, "{name}")
        }
    }
}

/// What all ranks have done to a file: lines for people.
pub(crate) struct Report<'a> {
    pub(crate) file: &'a str,
    pub(crate) ranks: usize,
    pub(crate) all: Counters,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, ranks, all) = (self.file, self.ranks, &self.all);
        let ways = [
            ("wrote", all.written, all.writes, all.write_nanos),
            ("read", all.read, all.reads, all.read_nanos),
        ];
        for (verb, bytes, operations, nanos) in ways.into_iter().filter(|way| way.2 > 0) {
            // The ranks work at the same time: on average each has been at it for its share.
            let seconds = nanos as f64 / 1e9 / ranks as f64;
            let rate = if seconds > 0.0 { bytes as f64 / 1e6 / seconds } else { 0.0 };
            write!(f, "aqueduct: {name}: {ranks} ranks {verb} {bytes} bytes in {operations} operations, ")?;
            writeln!(f, "{seconds:.6} s each, {rate:.1} MB/s")?;
        }
        let Counters {
            system_calls, copied, messages, sent, allocations, allocated, locks, lock_waits, ..
        } = all;
        write!(
            f,
            "aqueduct: {name}: {system_calls} system calls, {copied} bytes copied, {messages} messages "
        )?;
        write!(f, "with {sent} bytes, {allocations} buffers of {allocated} bytes, {locks} locks, ")?;
        write!(f, "{lock_waits} of them waited for")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Strategy;

    #[test]
    fn lines_tell_the_choice_and_what_else_there_was() {
        let price = |strategy, estimate| Choice { strategy, estimate };
        let prices =
            [price(Strategy::List, 2e6), price(Strategy::Map, 3e3), price(Strategy::Sieve, f64::NAN)];
        let access = Access {
            direction: Direction::Write,
            together: true,
            extent: Extent { span: 100, bytes: 40, runs: 10, fresh: false },
            choice: prices[1],
            prices: &prices,
        };
        let line = "write_all of 40 bytes, about 10 runs over 100: map 3.0µs; list 2.0ms";
        assert_eq!(access.to_string(), line);
    }

    #[test]
    fn reports_tell_what_was_done() {
        let all = Counters { writes: 4, written: 8_000_000, write_nanos: 4_000_000, ..Counters::default() };
        let report = Report { file: "a", ranks: 2, all }.to_string();
        assert!(
            report.starts_with(
                "aqueduct: a: 2 ranks wrote 8000000 bytes in 4 operations, 0.002000 s each, 4000.0 MB/s\n"
            ),
            "{report}"
        );
        assert!(!report.contains(" read "), "{report}");
    }
}
