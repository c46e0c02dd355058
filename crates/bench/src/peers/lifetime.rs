//! The first table: the lifetime of a file. It is created or opened, every rank writes it once, it is closed; then it is opened, and
//! every rank reads what another one wrote. Programs do that; the table of repeated accesses shows the steady state.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

use super::candidate::Candidate;
use super::job::{self, CaseOutcome};
use super::options::Options;
use super::target::is_comparable;
use crate::cases::{BenchCase, CaseFamily, Coordination, size_with_unit};
use crate::table::TextTable;
use crate::timing::best_and_median;

/// The whole and its parts (open, view, access, close), first of writing and then of reading.
pub(super) const PARTS: usize = 10;
pub(super) const DIRECTIONS: [(&str, usize); 2] = [("write", 0), ("read", PARTS / 2)];
/// The ratio to the best peer that every case has to reach.
const REQUIRED: f64 = 0.95;

/// The lifetimes of all repetitions of all rounds, by candidate, number of ranks and case.
#[derive(Default)]
pub(super) struct Lifetimes {
    seconds: BTreeMap<(&'static str, usize, BenchCase), Vec<Vec<f64>>>,
    failures: BTreeMap<(&'static str, usize, BenchCase), String>,
}

/// The cases of a lifetime in these states, each once: it has both directions.
fn cases(options: &Options) -> Vec<BenchCase> {
    let mut cases = Vec::new();
    for pattern in options.patterns() {
        for (&bytes, &state) in options
            .lifetime_sizes
            .iter()
            .flat_map(|bytes| options.states.iter().map(move |state| (bytes, state)))
        {
            cases.extend(pattern.lifetimes(bytes, state));
        }
    }
    cases.sort();
    cases
}

impl Lifetimes {
    /// One round of all cases, the candidates in turn.
    pub(super) fn measure(
        &mut self,
        candidates: &[Candidate],
        options: &Options,
        file: &Path,
        wants: impl Fn(&BenchCase) -> bool,
    ) {
        let mut families: BTreeMap<CaseFamily, Vec<BenchCase>> = BTreeMap::new();
        cases(options)
            .into_iter()
            .filter(wants)
            .for_each(|case| families.entry(case.family).or_default().push(case));
        for &ranks in &options.lifetime_ranks {
            for family in families.values() {
                for candidate in candidates {
                    for (case, outcome) in job::run(candidate, ranks, "lifetime", file, family) {
                        self.add((candidate.name, ranks, case), outcome);
                    }
                }
            }
        }
    }

    fn add(&mut self, key: (&'static str, usize, BenchCase), outcome: CaseOutcome) {
        match outcome {
            CaseOutcome::Lifetimes(repetitions) => self.seconds.entry(key).or_default().extend(repetitions),
            CaseOutcome::Failed(why) => drop(self.failures.insert(key, why)),
            _ => {}
        }
    }

    /// All cases that were measured, with their numbers of ranks.
    pub(super) fn cases(&self) -> impl Iterator<Item = (BenchCase, usize)> {
        self.seconds.keys().map(|(_, ranks, case)| (*case, *ranks))
    }

    /// The shortest time and the median of consecutive parts.
    pub(super) fn time(
        &self,
        name: &'static str,
        ranks: usize,
        case: BenchCase,
        parts: Range<usize>,
    ) -> Option<[f64; 2]> {
        let repetitions = self.seconds.get(&(name, ranks, case))?;
        let sum = |all: &Vec<f64>| all.get(parts.clone()).map(|parts| parts.iter().sum());
        let times: Vec<f64> = repetitions.iter().filter_map(sum).collect();
        (!times.is_empty()).then(|| best_and_median(&times))
    }

    /// The table, and how many cases reach the required ratio.
    pub(super) fn table(&self, candidates: &[Candidate]) -> String {
        let names = |ours: bool| -> Vec<&'static str> {
            candidates.iter().filter(|one| one.ours == ours).map(|one| one.name).collect()
        };
        let (ours, peers) = (names(true), names(false));
        let mut text = format!(
            "lifetime of a file: open, set the view, access, close; ms of the slowest rank, shortest times\n\
             ours: {}; peers: {}\n\n",
            ours.join(" / "),
            peers.join(" / ")
        );
        let titles =
            ["", "ranks", "size", "ours", "peers", "× best peer", "(medians)", "required", "missed by"];
        let mut table = TextTable::new(titles);
        let rows = self.rows(&ours, &peers);
        rows.iter().for_each(|row| table.add(row.entries.clone()));
        let _ = writeln!(text, "{table}");
        for ((name, ranks, case), why) in &self.failures {
            let _ = writeln!(text, "n/a: {name}, {ranks} ranks, {case}: {why}");
        }
        let ratios: Vec<f64> = rows.iter().flat_map(|row| row.ratios.iter().copied()).collect();
        let missed: usize = rows.iter().map(|row| row.missed).sum();
        let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len().max(1) as f64).exp();
        let (met, all) = (ratios.len() - missed, ratios.len());
        let _ = writeln!(
            text,
            "{met} of {all} cases reach the required ratio; geometric mean {mean:.2} × the best peer"
        );
        text
    }

    fn rows(&self, ours: &[&'static str], peers: &[&'static str]) -> Vec<LifetimeRow> {
        let mut places: Vec<(BenchCase, usize)> = self.cases().collect();
        places.sort_unstable();
        places.dedup();
        let both = places.iter().flat_map(|place| DIRECTIONS.map(|direction| (*place, direction)));
        both.map(|(place, direction)| self.row(place, direction, ours, peers)).collect()
    }

    fn row(
        &self,
        (case, ranks): (BenchCase, usize),
        (direction, part): (&str, usize),
        ours: &[&'static str],
        peers: &[&'static str],
    ) -> LifetimeRow {
        let time = |name: &&'static str| self.time(name, ranks, case, part..part + 1);
        let ratio = |name: &&'static str| {
            let comparable = peers.iter().filter(|peer| is_comparable(&case.family, name, peer));
            let best = |at: usize| {
                comparable.clone().filter_map(|peer| Some(time(peer)?[at])).min_by(f64::total_cmp)
            };
            time(name).and_then(|mine| Some([best(0)? / mine[0], best(1)? / mine[1]]))
        };
        let ratios: Vec<Option<[f64; 2]>> = ours.iter().map(ratio).collect();
        let required = required(&case.family);
        let fails = |ratio: &Option<[f64; 2]>| ratio.is_some_and(|ratio| ratio[0] < required);
        let failing: Vec<&str> =
            ours.iter().zip(&ratios).filter(|(_, ratio)| fails(ratio)).map(|(name, _)| *name).collect();
        let milliseconds = |names: &[&'static str]| {
            let one = |name| time(name).map_or("n/a".to_owned(), |time| format!("{:.2}", time[0] * 1e3));
            names.iter().map(one).collect::<Vec<_>>().join(" ")
        };
        let figures = |at: usize| {
            let one =
                |ratio: &Option<[f64; 2]>| ratio.map_or("-".to_owned(), |ratio| format!("{:.2}", ratio[at]));
            ratios.iter().map(one).collect::<Vec<_>>().join(" ")
        };
        let CaseFamily { pattern, coordination, state, .. } = case.family;
        let coordination = format!("{coordination:?}").to_lowercase();
        LifetimeRow {
            entries: vec![
                format!("{pattern}:{coordination}:{direction}:{}", state.name()),
                ranks.to_string(),
                size_with_unit(case.bytes),
                milliseconds(ours),
                milliseconds(peers),
                figures(0),
                figures(1),
                required.to_string(),
                failing.join(", "),
            ],
            missed: failing.len(),
            ratios: ratios.iter().flatten().map(|ratio| ratio[0]).collect(),
        }
    }

    /// All repetitions with all parts.
    pub(super) fn csv(&self) -> String {
        let mut text = String::from("case,ranks,candidate");
        for (direction, _) in DIRECTIONS {
            for part in ["total", "open", "view", "access", "close"] {
                let _ = write!(text, ",{direction}_{part}");
            }
        }
        text.push('\n');
        for ((name, ranks, case), repetitions) in &self.seconds {
            for parts in repetitions {
                let parts: Vec<String> = parts.iter().map(|part| format!("{part:e}")).collect();
                let _ = writeln!(text, "{case},{ranks},{name},{}", parts.join(","));
            }
        }
        text
    }
}

/// A row of the table: its entries, the ratios of our candidates, and how many of them are too low.
struct LifetimeRow {
    entries: Vec<String>,
    ratios: Vec<f64>,
    missed: usize,
}

fn required(family: &CaseFamily) -> f64 {
    match (family.pattern, family.coordination) {
        ("round-robin-4", Coordination::Collective) => 40.0,
        ("round-robin-64", Coordination::Collective) => 8.0,
        ("shared", _) => 2.0,
        _ => REQUIRED,
    }
}
