//! The table of strategies: the first access to a file with the strategy that the engine chooses, against every strategy that a hint can
//! force. The engine has seen no access to the file before, so its choice rests on the cost model alone.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};

use super::candidate::Candidate;
use super::lifetime::{DIRECTIONS, Lifetimes};
use super::options::Options;
use crate::cases::{BenchCase, Coordination, size_with_unit};
use crate::table::TextTable;

/// The engine's own choice, and the strategies that a hint forces.
const NAMES: [&str; 5] = ["automatic", "list", "sieve", "map", "two-phase"];
/// By how much the engine's choice may be slower than the best strategy.
const ALLOWED: f64 = 1.3;
/// Patterns of many runs, of which a strategy has to be chosen.
const PATTERNS: [&str; 6] =
    ["round-robin-4", "round-robin-64", "round-robin-4096", "tiles", "blocks", "nested"];
/// The access and the close, which finishes it.
const PARTS: std::ops::Range<usize> = 3..5;

/// Measures and prints the table.
pub(super) fn compare(options: &Options, folder: &Path, file: &Path) -> Result<()> {
    let candidates = NAMES.map(|name| candidate(name, folder)).into_iter().collect::<Result<Vec<_>>>()?;
    let mut lifetimes = Lifetimes::default();
    for _ in 0..options.rounds {
        lifetimes.measure(&candidates, options, file, |case| PATTERNS.contains(&case.family.pattern));
    }
    println!("{}", table(&lifetimes));
    Ok(())
}

/// Our program with a strategy, by a file of hints.
fn candidate(name: &'static str, folder: &Path) -> Result<Candidate> {
    let mut environment = Vec::new();
    if name != NAMES[0] {
        let hints = folder.join(format!("{name}.hints"));
        std::fs::write(&hints, format!("aqueduct_strategy {name}\n"))
            .with_context(|| format!("writing {}", hints.display()))?;
        environment.push(("AQUEDUCT_HINTS", hints.to_string_lossy().into_owned()));
    }
    Candidate::threads(name, environment)
}

fn table(lifetimes: &Lifetimes) -> String {
    let mut text = String::from(
        "strategies: first access and close, ms of the slowest rank, shortest times (medians); regret: the \
         automatic choice divided by the best strategy\n\n",
    );
    let titles = ["", "ranks", "size", "automatic", "list", "sieve", "map", "two-phase", "regret", ""];
    let mut table = TextTable::new(titles);
    let cases: BTreeSet<(BenchCase, usize)> = lifetimes.cases().collect();
    let (mut right, mut all, mut worst) = (0, 0, 0.0f64);
    for (case, ranks) in cases {
        for (direction, first) in DIRECTIONS {
            let time = |name| {
                let is_collective = case.family.coordination == Coordination::Collective;
                let exists = name != "two-phase" || is_collective;
                let parts = PARTS.start + first..PARTS.end + first;
                exists.then(|| lifetimes.time(name, ranks, case, parts)).flatten()
            };
            let times = NAMES.map(time);
            let best = times[1..].iter().flatten().map(|time| time[0]).min_by(f64::total_cmp);
            let (Some(chosen), Some(best)) = (times[0], best) else { continue };
            let regret = chosen[0] / best;
            (right, all, worst) = (right + usize::from(regret <= ALLOWED), all + 1, worst.max(regret));
            let milliseconds = |time: Option<[f64; 2]>| {
                time.map_or("-".to_owned(), |[best, median]| {
                    format!("{:.2} ({:.2})", best * 1e3, median * 1e3)
                })
            };
            let coordination = format!("{:?}", case.family.coordination).to_lowercase();
            let name =
                format!("{}:{coordination}:{direction}:{}", case.family.pattern, case.family.state.name());
            let mut entries = vec![name, ranks.to_string(), size_with_unit(case.bytes)];
            entries.extend(times.into_iter().map(milliseconds));
            let verdict = if regret > ALLOWED { "MISSED" } else { "" };
            entries.extend([format!("{regret:.2}"), verdict.to_owned()]);
            table.add(entries);
        }
    }
    let _ = writeln!(text, "{table}");
    let _ =
        writeln!(text, "{right} of {all} choices are within {ALLOWED} of the best; the worst is {worst:.2}");
    text
}
