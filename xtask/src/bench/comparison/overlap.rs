//! Whether a write goes on while ranks compute.

use std::fmt::Write as _;
use std::path::Path;

use super::candidate::Candidate;
use super::job;
use super::results::median;

const RANKS: usize = 2;
const LONGEST: f64 = 1.15;
const CALL: f64 = 0.05;

/// A table for all of ours.
pub(super) fn measure(contenders: &[Candidate], file: &Path) -> String {
    let mut text = format!(
        "a collective write of 32 MiB per rank on throttle=200MB/s beside computation, {RANKS} ranks, medians\n\
         {:14} {:>10} {:>10} {:>10} {:>10}  {:>22}  {:>14}\n",
        "", "write s", "compute s", "call s", "both s", "both/longer (≤ 1.15)", "call/write (≤ 0.05)"
    );
    for contender in contenders.iter().filter(|contender| contender.ours) {
        let words = ["overlap".to_owned(), file.to_string_lossy().into_owned()];
        let (lines, end) = job::run_once(contender, RANKS, &words);
        let trials: Vec<OverlapTiming> = lines.iter().filter_map(|line| parse(line)).collect();
        let line = check_limits(&trials).unwrap_or_else(|| format!("n/a: {end}"));
        let _ = writeln!(text, "{:14} {line}", contender.name);
    }
    text
}

#[derive(Debug, PartialEq)]
struct OverlapTiming {
    level: String,
    write: f64,
    compute: f64,
    call: f64,
    both: f64,
}

fn parse(line: &str) -> Option<OverlapTiming> {
    let words: Vec<&str> = line.strip_prefix("overlap ")?.split(' ').collect();
    let [level, write, compute, call, both] = words[..] else { return None };
    let number = |word: &str| word.parse().ok();
    Some(OverlapTiming {
        level: level.to_owned(),
        write: number(write)?,
        compute: number(compute)?,
        call: number(call)?,
        both: number(both)?,
    })
}

fn check_limits(trials: &[OverlapTiming]) -> Option<String> {
    let of = |part: fn(&OverlapTiming) -> f64| median(&trials.iter().map(part).collect::<Vec<_>>());
    let together = of(|trial| trial.both / trial.write.max(trial.compute))?;
    let call = of(|trial| trial.call / trial.write)?;
    let figures = [of(|t| t.write)?, of(|t| t.compute)?, of(|t| t.call)?, of(|t| t.both)?];
    let figures: Vec<String> = figures.iter().map(|figure| format!("{figure:>10.4}")).collect();
    let verdict = if together <= LONGEST && call <= CALL { "ok" } else { "missed" };
    let level = &trials.first()?.level;
    Some(format!("{}  {together:>22.3}  {call:>19.4}  {verdict} ({level})", figures.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_of_the_two_counts() {
        let trial = |line: &str| parse(line).unwrap();
        let good = trial("overlap Multiple 1.0 1.1 0.01 1.2");
        assert!(check_limits(&[good]).unwrap().contains("ok (Multiple)"));
        assert!(check_limits(&[trial("overlap threads 1.0 1.0 0.01 2.0")]).unwrap().contains("missed"));
        assert!(check_limits(&[trial("overlap threads 1.0 1.0 0.06 1.1")]).unwrap().contains("missed"));
        assert_eq!((check_limits(&[]), parse("overlap sum 00ff")), (None, None));
    }
}
