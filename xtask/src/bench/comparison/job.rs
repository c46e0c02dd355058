//! Running a contender over cells, whatever it does: cells that make it fail, crash or hang are told, the others are done.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use super::candidate::Candidate;
use super::case::ComparisonCase;
use crate::shell::{command, succeeds};

/// Longer than any cell takes.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often a launcher is asked whether it has ended.
const TICK: Duration = Duration::from_millis(50);

/// What became of a cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CaseOutcome {
    /// Seconds of one operation, several times, and what one of them did, where that is told.
    Seconds(Vec<f64>, Option<OperationCounts>),
    /// The sum of the file's bytes.
    Sum(String),
    /// KiB.
    Memory(u64),
    /// Left out because it would take too long.
    Capped,
    Failed(String),
}

/// System calls, bytes copied, messages and allocations of one operation on one rank.
pub(super) type OperationCounts = [u64; 4];

/// What a line of output says, if it is one of ours: about which cell, and what.
pub(super) fn parse(line: &str) -> Option<(&str, CaseOutcome)> {
    let mut words = line.strip_prefix("cell ")?.splitn(3, ' ');
    let (cell, kind) = (words.next()?, words.next()?);
    let rest = words.next().unwrap_or_default();
    let outcome = match kind {
        "seconds" => {
            let (seconds, counted) = rest.split_once(" counted ").unwrap_or((rest, ""));
            let seconds: Vec<f64> =
                seconds.split(',').map(|word| word.parse().ok()).collect::<Option<_>>()?;
            let sound = seconds.iter().all(|seconds| seconds.is_finite() && *seconds > 0.0);
            let counted: Option<Vec<u64>> = counted.split(',').map(|word| word.parse().ok()).collect();
            CaseOutcome::Seconds(
                Some(seconds).filter(|_| sound)?,
                counted.and_then(|counted| counted.try_into().ok()),
            )
        }
        "sum" => CaseOutcome::Sum(rest.to_owned()),
        "memory" => CaseOutcome::Memory(rest.parse().ok()?),
        "capped" => CaseOutcome::Capped,
        "failed" => CaseOutcome::Failed(rest.to_owned()),
        _ => return None,
    };
    Some((cell, outcome))
}

/// The outcomes of all cells. A job that ends early is started again without the cell that ended it and those like it.
pub(super) fn run(
    contender: &Candidate,
    ranks: usize,
    verb: &str,
    file: &Path,
    cells: &[ComparisonCase],
) -> BTreeMap<ComparisonCase, CaseOutcome> {
    let mut outcomes = BTreeMap::new();
    let mut left = cells.to_vec();
    while !left.is_empty() {
        let mut words = vec![verb.to_owned(), file.to_string_lossy().into_owned()];
        words.extend(left.iter().map(ComparisonCase::to_string));
        let (lines, end) = run_once(contender, ranks, &words);
        for (text, outcome) in lines.iter().filter_map(|line| parse(line)) {
            if let Some(cell) = left.iter().find(|cell| cell.to_string() == text) {
                outcomes.insert(*cell, outcome);
            }
        }
        left.retain(|cell| !outcomes.contains_key(cell));
        if let Some(culprit) = left.first().copied() {
            let (same, others) = left.iter().partition(|cell| cell.family.is_like(&culprit.family));
            left = others;
            let same: Vec<ComparisonCase> = same;
            outcomes.extend(same.into_iter().map(|cell| (cell, CaseOutcome::Failed(end.clone()))));
        }
    }
    outcomes
}

/// The lines of one job, and how it ended.
pub(super) fn run_once(contender: &Candidate, ranks: usize, words: &[String]) -> (Vec<String>, String) {
    let mut command = contender.command(ranks, words);
    // Its own group, so that it can be ended as a whole.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => return (Vec::new(), format!("cannot be started: {error}")),
    };
    let (lines, errors) = (listen(child.stdout.take()), listen(child.stderr.take()));
    let mut seen = Vec::new();
    let end = loop {
        match lines.recv_timeout(PATIENCE) {
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

/// The lines of a pipe, as they come. Nobody waits for its end: a lost process may hold it open for ever.
fn listen(pipe: Option<impl Read + Send + 'static>) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = pipe.into_iter().flat_map(|pipe| BufReader::new(pipe).lines().map_while(Result::ok));
        lines.for_each(|line| drop(sender.send(line)));
    });
    lines
}

/// How a launcher ended that has nothing more to say; it is ended if it does not.
fn await_end(child: &mut Child) -> String {
    for _ in 0..PATIENCE.as_millis() / TICK.as_millis() {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(TICK),
            Ok(Some(status)) => return status.to_string(),
            Err(error) => return error.to_string(),
        }
    }
    stop(child);
    "no end".to_owned()
}

/// Ends a launcher and what it launched: it gets a moment to do it itself.
fn stop(child: &mut Child) {
    let group = format!("-{}", child.id());
    for signal in ["-TERM", "-KILL"] {
        succeeds(&mut command("kill", &[signal, "--", &group]));
        for _ in 0..40 {
            if !matches!(child.try_wait(), Ok(None)) {
                break;
            }
            std::thread::sleep(TICK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_output_are_understood() {
        let cell = "tiles:collective:write:65536:cached";
        let parsed = |rest: &str| parse(&format!("cell {cell} {rest}")).map(|(_, outcome)| outcome);
        assert_eq!(parsed("seconds 1e-3,2.5e-03"), Some(CaseOutcome::Seconds(vec![0.001, 0.0025], None)));
        assert_eq!(
            parsed("seconds 2 counted 1,2,3,4"),
            Some(CaseOutcome::Seconds(vec![2.0], Some([1, 2, 3, 4])))
        );
        assert_eq!(parsed("sum 00ff"), Some(CaseOutcome::Sum("00ff".to_owned())));
        assert_eq!(parsed("memory 77"), Some(CaseOutcome::Memory(77)));
        assert_eq!(parsed("capped"), Some(CaseOutcome::Capped));
        assert_eq!(parsed("failed write: no space"), Some(CaseOutcome::Failed("write: no space".to_owned())));
    }

    #[test]
    fn other_lines_and_senseless_figures_are_passed_over() {
        for line in [
            "",
            "cell",
            "cell x",
            "warning: cell",
            "cell x seconds",
            "cell x seconds 1,nan",
            "cell x seconds 0",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
