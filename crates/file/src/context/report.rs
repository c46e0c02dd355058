//! The report of a file that is closed: the counters of all ranks.

use std::fmt;

use aqueduct_report::{Report, ReportSource};

use super::counters::Counters;

/// The counters of all ranks.
pub(crate) struct CounterReport {
    pub(crate) ranks: usize,
    pub(crate) all: Counters,
}

impl CounterReport {
    /// Reports them, line by line.
    pub(crate) fn emit(&self, file: &str) {
        let report = Report::new(ReportSource::File).file(file);
        self.to_string().lines().for_each(|line| report.emit(&line));
    }
}

impl fmt::Display for CounterReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ranks, all) = (self.ranks, &self.all);
        let directions = [
            ("wrote", all.written, all.writes, all.write_nanos),
            ("read", all.read, all.reads, all.read_nanos),
        ];
        for (verb, bytes, operations, nanos) in directions.into_iter().filter(|direction| direction.2 > 0) {
            // The ranks work at the same time: the average time of a rank is the elapsed time.
            let seconds = nanos as f64 / 1e9 / ranks as f64;
            let rate = if seconds > 0.0 { bytes as f64 / 1e6 / seconds } else { 0.0 };
            write!(f, "{ranks} ranks {verb} {bytes} bytes in {operations} operations, ")?;
            writeln!(f, "{seconds:.6} s each, {rate:.1} MB/s")?;
        }
        let Counters {
            system_calls, copied, messages, sent, allocations, allocated, locks, lock_waits, ..
        } = all;
        write!(f, "{system_calls} system calls, {copied} bytes copied, {messages} messages ")?;
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
        let report = CounterReport { ranks: 2, all }.to_string();
        assert!(
            report.starts_with("2 ranks wrote 8000000 bytes in 4 operations, 0.002000 s each, 4000.0 MB/s\n"),
            "{report}"
        );
        assert!(!report.contains(" read "), "{report}");
    }
}
