//! Reports: with `AQUEDUCT_VERBOSE` set to anything but 0, rank 0 of a file prints to the standard error stream the strategy of accesses whenever
//! it changes, with the estimates, and the counters of all ranks when the file is closed.

use std::fmt;
use std::sync::OnceLock;

use super::counters::Counters;

/// True if reports are on.
pub fn is_on() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| {
        std::env::var_os("AQUEDUCT_VERBOSE").is_some_and(|value| !value.is_empty() && value != "0")
    })
}

/// The counters of all ranks, as lines of text.
pub(crate) struct CounterReport<'a> {
    pub(crate) file: &'a str,
    pub(crate) ranks: usize,
    pub(crate) all: Counters,
}

impl fmt::Display for CounterReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, ranks, all) = (self.file, self.ranks, &self.all);
        let ways = [
            ("wrote", all.written, all.writes, all.write_nanos),
            ("read", all.read, all.reads, all.read_nanos),
        ];
        for (verb, bytes, operations, nanos) in ways.into_iter().filter(|way| way.2 > 0) {
            // The ranks work at the same time: the time of each is its part on average.
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

    #[test]
    fn a_report_has_bytes_operations_and_rate() {
        let all = Counters { writes: 4, written: 8_000_000, write_nanos: 4_000_000, ..Counters::default() };
        let report = CounterReport { file: "a", ranks: 2, all }.to_string();
        assert!(
            report.starts_with(
                "aqueduct: a: 2 ranks wrote 8000000 bytes in 4 operations, 0.002000 s each, 4000.0 MB/s\n"
            ),
            "{report}"
        );
        assert!(!report.contains(" read "), "{report}");
    }
}
