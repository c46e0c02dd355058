//! Whether a non-blocking write progresses while the ranks compute.

use std::path::Path;

use super::candidate::Candidate;
use super::job;
use crate::table::TextTable;
use crate::timing::median;

const RANKS: usize = 2;
/// The largest ratio of the overlapped time to the longer of write and computation.
const LONGEST: f64 = 1.15;
/// The largest ratio of the time of the non-blocking call to that of the write.
const CALL: f64 = 0.05;

/// A table of all of ours.
pub(super) fn measure(candidates: &[Candidate], file: &Path) -> String {
    let mut table = TextTable::new([
        "",
        "write s",
        "compute s",
        "call s",
        "both s",
        "both/longer (≤ 1.15)",
        "call/write (≤ 0.05)",
        "status",
    ]);
    for candidate in candidates.iter().filter(|candidate| candidate.ours) {
        let words = ["overlap".to_owned(), file.to_string_lossy().into_owned()];
        let (lines, end) = job::run_once(candidate, RANKS, &words);
        let timings: Vec<OverlapTiming> = lines.iter().filter_map(|line| parse(line)).collect();
        let mut row = vec![candidate.name.to_owned()];
        row.extend(check_limits(&timings).unwrap_or_else(|| {
            let mut row = vec![String::new(); 6];
            row.push(format!("n/a: {end}"));
            row
        }));
        table.add(row);
    }
    format!(
        "a collective write of 32 MiB per rank on throttle=200MB/s beside a computation, {RANKS} ranks, medians\n{table}"
    )
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

/// Medians, ratios and status.
fn check_limits(timings: &[OverlapTiming]) -> Option<Vec<String>> {
    let of = |part: fn(&OverlapTiming) -> f64| median(&timings.iter().map(part).collect::<Vec<_>>());
    let both = of(|timing| timing.both / timing.write.max(timing.compute))?;
    let call = of(|timing| timing.call / timing.write)?;
    let seconds = [of(|t| t.write)?, of(|t| t.compute)?, of(|t| t.call)?, of(|t| t.both)?];
    let status = if both <= LONGEST && call <= CALL { "ok" } else { "missed" };
    let mut row: Vec<String> = seconds.iter().map(|figure| format!("{figure:.4}")).collect();
    row.extend([
        format!("{both:.3}"),
        format!("{call:.4}"),
        format!("{status} ({})", timings.first()?.level),
    ]);
    Some(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_of_write_and_computation_counts() {
        let timing = |line: &str| parse(line).unwrap();
        let good = timing("overlap Multiple 1.0 1.1 0.01 1.2");
        assert!(check_limits(&[good]).unwrap()[6].contains("ok (Multiple)"));
        assert!(check_limits(&[timing("overlap threads 1.0 1.0 0.01 2.0")]).unwrap()[6].contains("missed"));
        assert!(check_limits(&[timing("overlap threads 1.0 1.0 0.06 1.1")]).unwrap()[6].contains("missed"));
        assert_eq!((check_limits(&[]), parse("overlap sum 00ff")), (None, None));
    }
}
