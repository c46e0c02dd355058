//! How much memory an operation takes beyond the caller's.

use std::fmt::Write as _;
use std::path::Path;

use super::candidate::Candidate;
use super::case::{CacheMode, ComparisonCase, PATTERNS};
use super::job::{self, CaseOutcome};

/// Bytes per rank: many runs, so that lists of them would be seen.
const BYTES: u64 = 16 << 20;
/// KiB that ours may take, beyond the buffers.
const MOST: u64 = 1024;
const LAYOUTS: [&str; 7] =
    ["contiguous", "round-robin-4", "round-robin-64", "round-robin-4096", "tiles", "blocks", "nested"];

/// A table for all contenders whose ranks are processes.
pub(super) fn measure(contenders: &[Candidate], ranks: &[usize], file: &Path) -> String {
    let contenders: Vec<&Candidate> =
        contenders.iter().filter(|contender| contender.has_processes()).collect();
    let layouts = PATTERNS.iter().filter(|pattern| LAYOUTS.contains(&pattern.name));
    let cells: Vec<ComparisonCase> = layouts.flat_map(|pattern| pattern.cases(&[BYTES])).collect();
    let cells: Vec<ComparisonCase> =
        cells.into_iter().filter(|cell| cell.family.cache == CacheMode::Cached).collect();
    let mut text = format!(
        "peak of resident memory in KiB beyond what was there before the first operation, without mapped pages of files, \
         16 MiB per rank, buffers of 64 KiB by hint; ours at most {MOST}\n{:41}",
        ""
    );
    for contender in &contenders {
        let _ = write!(text, " {:>13}", contender.name);
    }
    text.push('\n');
    for &ranks in ranks {
        let mut columns = Vec::new();
        for contender in &contenders {
            columns.push((contender.ours, job::run(contender, ranks, "memory", file, &cells)));
        }
        for cell in &cells {
            let _ = write!(text, "{:38} {ranks:>2}", cell.family.to_string());
            let mut over = false;
            for (ours, outcomes) in &columns {
                let kib = match outcomes.get(cell) {
                    Some(CaseOutcome::Memory(kib)) => Some(*kib),
                    _ => None,
                };
                over |= *ours && kib.is_none_or(|kib| kib > MOST);
                let _ = write!(text, " {:>13}", kib.map_or("n/a".to_owned(), |kib| kib.to_string()));
            }
            let _ = writeln!(text, "  {}", if over { "missed" } else { "ok" });
        }
    }
    text
}
