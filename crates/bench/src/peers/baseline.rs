//! The engine against an earlier build of itself: `--baseline PROGRAM` is the program `aqueduct-bench` of another checkout. Both time the
//! same cases in turn; a family of cases must not have become slower by more than noise explains.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Result, ensure};

use super::candidate::Candidate;
use super::options::Options;
use super::results::ComparisonResults;
use crate::cases::{BenchCase, CaseFamily};
use crate::table::TextTable;

/// The speed that each family has to keep, relative to the baseline.
const REQUIRED: f64 = 0.95;

/// Measures and prints the table. The program of the baseline and this one take turns in each pattern.
pub(super) fn compare(options: &Options, program: &Path, file: &Path) -> Result<()> {
    ensure!(program.exists(), "there is no program {}", program.display());
    let pairs = Candidate::with_baseline(program)?;
    let mut results = ComparisonResults::default();
    for round in 0..options.rounds {
        for &ranks in &options.ranks {
            for pattern in options.patterns() {
                let cases = pattern.cases(&options.sizes);
                for pair in &pairs {
                    // The first of a pair finds the page cache as the other one has left it.
                    let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
                    for which in order {
                        super::time(&pair[which..=which], ranks, &cases, file, &mut results);
                    }
                }
            }
        }
        println!("round {} of {}", round + 1, options.rounds);
    }
    println!("\n{}", table(options, &pairs, &results));
    for (name, ranks, case, why) in results.failures() {
        println!("n/a: {name}, {ranks} ranks, {case}: {why}");
    }
    Ok(())
}

/// The ratios of speeds, this build / baseline, of one family.
#[derive(Default)]
struct FamilyRatios {
    best: Vec<f64>,
    median: Vec<f64>,
    slowest: Option<(f64, String)>,
}

fn table(options: &Options, pairs: &[[Candidate; 2]], results: &ComparisonResults) -> String {
    let mut families: BTreeMap<CaseFamily, FamilyRatios> = BTreeMap::new();
    let cases: Vec<BenchCase> =
        options.patterns().flat_map(|pattern| pattern.cases(&options.sizes)).collect();
    for [baseline, ours] in pairs {
        for (ranks, case) in
            options.ranks.iter().flat_map(|ranks| cases.iter().map(move |case| (*ranks, case)))
        {
            let rates = [ours, baseline].map(|candidate| results.rate(candidate.name, ranks, case));
            let [Some(ours), Some(before)] = rates else { continue };
            let family = families.entry(case.family).or_default();
            let ratio = ours.best / before.best;
            family.best.push(ratio);
            family.median.push(ours.median / before.median);
            if family.slowest.as_ref().is_none_or(|(slowest, _)| ratio < *slowest) {
                family.slowest =
                    Some((ratio, format!("{}, {ranks} ranks, {} bytes", baseline.name, case.bytes)));
            }
        }
    }
    let titles = ["family", "cells", "speed / baseline", "(medians)", "slowest cell", ""];
    let mut table = TextTable::new(titles);
    let mut missed = 0;
    for (family, ratios) in &families {
        let best = geometric_mean(&ratios.best);
        missed += usize::from(best < REQUIRED);
        let (slowest, cell) = ratios.slowest.clone().unwrap_or_default();
        table.add(vec![
            family.to_string(),
            ratios.best.len().to_string(),
            format!("{best:.2}"),
            format!("{:.2}", geometric_mean(&ratios.median)),
            format!("{slowest:.2}"),
            format!("{cell}{}", if best < REQUIRED { "; MISSED" } else { "" }),
        ]);
    }
    let mut text = format!("{table}");
    let _ = writeln!(
        text,
        "{} of {} families keep {REQUIRED} of the speed of the baseline (shortest times, geometric mean)",
        families.len() - missed,
        families.len()
    );
    text
}

fn geometric_mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len().max(1) as f64).exp()
}

#[cfg(test)]
mod tests {
    use super::geometric_mean;

    #[test]
    fn a_mean_of_ratios_is_geometric() {
        assert!((geometric_mean(&[0.5, 2.0]) - 1.0).abs() < 1e-12);
        assert!((geometric_mean(&[0.25]) - 0.25).abs() < 1e-12);
    }
}
