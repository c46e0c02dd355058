//! The memory that an operation needs in addition to the buffers of the caller.

use std::path::Path;

use super::candidate::Candidate;
use super::job::{self, CaseOutcome};
use crate::cases::{BenchCase, FileState, PATTERNS};
use crate::table::TextTable;

/// Bytes per rank: many runs, so that memory for lists of runs is visible.
const BYTES: u64 = 16 << 20;
/// KiB that ours may need in addition to its buffers.
const MOST: u64 = 1024;
const LAYOUTS: [&str; 7] =
    ["contiguous", "round-robin-4", "round-robin-64", "round-robin-4096", "tiles", "blocks", "nested"];

/// A table of all candidates whose ranks are processes.
pub(super) fn measure(candidates: &[Candidate], ranks: &[usize], file: &Path) -> String {
    let candidates: Vec<&Candidate> =
        candidates.iter().filter(|candidate| candidate.has_processes()).collect();
    let layouts = PATTERNS.iter().filter(|pattern| LAYOUTS.contains(&pattern.name));
    let cases: Vec<BenchCase> = layouts.flat_map(|pattern| pattern.cases(&[BYTES])).collect();
    let cases: Vec<BenchCase> =
        cases.into_iter().filter(|case| case.family.state == FileState::Cached).collect();
    let names = candidates.iter().map(|candidate| candidate.name);
    let mut table = TextTable::new(["", "ranks"].into_iter().chain(names).chain(["status"]));
    for &ranks in ranks {
        let mut columns = Vec::new();
        for candidate in &candidates {
            columns.push((candidate.ours, job::run(candidate, ranks, "memory", file, &cases)));
        }
        for case in &cases {
            let mut row = vec![case.family.to_string(), ranks.to_string()];
            let mut over = false;
            for (ours, outcomes) in &columns {
                let kib = match outcomes.get(case) {
                    Some(CaseOutcome::Memory(kib)) => Some(*kib),
                    _ => None,
                };
                over |= *ours && kib.is_none_or(|kib| kib > MOST);
                row.push(kib.map_or("n/a".to_owned(), |kib| kib.to_string()));
            }
            row.push(if over { "missed" } else { "ok" }.to_owned());
            table.add(row);
        }
    }
    format!(
        "peak of resident memory during the first operation less the memory before it, in KiB, without mapped pages of files, \
         16 MiB per rank, buffers of 64 KiB by hint; ours at most {MOST}\n{table}"
    )
}
