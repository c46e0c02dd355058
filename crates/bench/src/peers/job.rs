//! Runs the cases of a candidate. Cases in which it fails, crashes or hangs are recorded; the others are executed.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use super::candidate::Candidate;
use crate::cases::BenchCase;
use crate::tools::succeeds;

/// Longer than any case takes.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The interval at which a launcher is polled for its end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CaseOutcome {
    /// Seconds of one operation, several times, and the counters of one operation if they are printed.
    Seconds(Vec<f64>, Option<OperationCounts>),
    /// The checksum of the file.
    Sum(String),
    /// Seconds of the parts of a lifetime, for each repetition.
    Lifetimes(Vec<Vec<f64>>),
    /// KiB.
    Memory(u64),
    /// Omitted because it would take too long.
    Capped,
    Failed(String),
}

/// System calls, bytes copied, messages and allocations of one operation on one rank.
pub(super) type OperationCounts = [u64; 4];

/// Parses a line of output: a case and its outcome. None for other lines.
pub(super) fn parse(line: &str) -> Option<(&str, CaseOutcome)> {
    let mut words = line.strip_prefix("case ")?.splitn(3, ' ');
    let (case, kind) = (words.next()?, words.next()?);
    let rest = words.next().unwrap_or_default();
    let outcome = match kind {
        "seconds" => {
            let (seconds, counted) = rest.split_once(" counted ").unwrap_or((rest, ""));
            let seconds: Vec<f64> =
                seconds.split(',').map(|word| word.parse().ok()).collect::<Option<_>>()?;
            let valid = seconds.iter().all(|seconds| seconds.is_finite() && *seconds > 0.0);
            let counted: Option<Vec<u64>> = counted.split(',').map(|word| word.parse().ok()).collect();
            CaseOutcome::Seconds(
                Some(seconds).filter(|_| valid)?,
                counted.and_then(|counted| counted.try_into().ok()),
            )
        }
        "lifetime" => {
            let parts =
                |text: &str| -> Option<Vec<f64>> { text.split(',').map(|word| word.parse().ok()).collect() };
            let repetitions: Vec<Vec<f64>> = rest.split(';').map(parts).collect::<Option<_>>()?;
            let valid = |parts: &Vec<f64>| parts.len() == super::lifetime::PARTS && parts[0] > 0.0;
            CaseOutcome::Lifetimes(Some(repetitions).filter(|all| all.iter().all(valid))?)
        }
        "sum" => CaseOutcome::Sum(rest.to_owned()),
        "memory" => CaseOutcome::Memory(rest.parse().ok()?),
        "capped" => CaseOutcome::Capped,
        "failed" => CaseOutcome::Failed(rest.to_owned()),
        _ => return None,
    };
    Some((case, outcome))
}

/// The outcomes of all cases. A job that ends early is started again without the case that ended it and those of its family.
pub(super) fn run(
    candidate: &Candidate,
    ranks: usize,
    verb: &str,
    file: &Path,
    cases: &[BenchCase],
) -> BTreeMap<BenchCase, CaseOutcome> {
    let mut outcomes = BTreeMap::new();
    let mut left = cases.to_vec();
    while !left.is_empty() {
        let mut words = vec![verb.to_owned(), file.to_string_lossy().into_owned()];
        words.extend(left.iter().map(BenchCase::to_string));
        let (lines, end) = run_once(candidate, ranks, &words);
        for (text, outcome) in lines.iter().filter_map(|line| parse(line)) {
            if let Some(case) = left.iter().find(|case| case.to_string() == text) {
                outcomes.insert(*case, outcome);
            }
        }
        left.retain(|case| !outcomes.contains_key(case));
        if let Some(culprit) = left.first().copied() {
            let (same, others) = left.iter().partition(|case| case.family.is_like(&culprit.family));
            left = others;
            let same: Vec<BenchCase> = same;
            outcomes.extend(same.into_iter().map(|case| (case, CaseOutcome::Failed(end.clone()))));
        }
    }
    outcomes
}

/// The lines of one job, and how it ended.
pub(super) fn run_once(candidate: &Candidate, ranks: usize, words: &[String]) -> (Vec<String>, String) {
    let mut command = candidate.command(ranks, words);
    // A process group, so that a signal reaches all its processes.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return (Vec::new(), format!("cannot be started: {error}")),
    };
    let (lines, errors) = (listen(child.stdout.take()), listen(child.stderr.take()));
    let mut seen = Vec::new();
    let end = loop {
        match lines.recv_timeout(TIME_LIMIT) {
            Ok(line) => seen.push(line),
            Err(RecvTimeoutError::Timeout) => {
                stop(&mut child);
                break "hangs".to_owned();
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = await_end(&mut child);
                let last =
                    errors.try_iter().filter(|line| !line.trim().is_empty()).last().unwrap_or_default();
                break format!("ended with {status}: {last}");
            }
        }
    };
    (seen, end)
}

/// The lines of a pipe as they are written. The thread is not joined: an orphaned process may keep the pipe open.
fn listen(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = pipe.into_iter().flat_map(|pipe| BufReader::new(pipe).lines().map_while(Result::ok));
        lines.for_each(|line| drop(sender.send(line)));
    });
    lines
}

/// The exit status of a launcher that closed its output; it is stopped if it does not end.
fn await_end(child: &mut Child) -> String {
    for _ in 0..TIME_LIMIT.as_millis() / POLL_INTERVAL.as_millis() {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(POLL_INTERVAL),
            Ok(Some(status)) => return status.to_string(),
            Err(error) => return error.to_string(),
        }
    }
    stop(child);
    "a time-out after its output ended".to_owned()
}

/// Stops a launcher and its processes, with SIGTERM first.
fn stop(child: &mut Child) {
    let group = format!("-{}", child.id());
    for signal in ["-TERM", "-KILL"] {
        succeeds(Command::new("kill").args([signal, "--", &group]));
        for _ in 0..40 {
            if !matches!(child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_output_are_parsed() {
        let case = "tiles:collective:write:65536:cached";
        let parsed = |rest: &str| parse(&format!("case {case} {rest}")).map(|(_, outcome)| outcome);
        assert_eq!(parsed("seconds 1e-3,2.5e-03"), Some(CaseOutcome::Seconds(vec![0.001, 0.0025], None)));
        assert_eq!(
            parsed("seconds 2 counted 1,2,3,4"),
            Some(CaseOutcome::Seconds(vec![2.0], Some([1, 2, 3, 4])))
        );
        assert_eq!(parsed("sum 00ff"), Some(CaseOutcome::Sum("00ff".to_owned())));
        let lifetime = parsed("lifetime 1,2,3,4,5,6,7,8,9,10;1,2,3,4,5,6,7,8,9,10");
        assert!(matches!(lifetime, Some(CaseOutcome::Lifetimes(repetitions)) if repetitions.len() == 2));
        assert_eq!(parsed("lifetime 1,2"), None);
        assert_eq!(parsed("memory 77"), Some(CaseOutcome::Memory(77)));
        assert_eq!(parsed("capped"), Some(CaseOutcome::Capped));
        assert_eq!(parsed("failed write: no space"), Some(CaseOutcome::Failed("write: no space".to_owned())));
    }

    #[test]
    fn other_lines_and_invalid_figures_are_ignored() {
        for line in [
            "",
            "case",
            "case x",
            "warning: case",
            "case x seconds",
            "case x seconds 1,nan",
            "case x seconds 0",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
