//! The report: a table, a summary, and CSV.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::evaluation::{ComparisonRow, SpeedRatios, TargetStatus, over_sizes};
use super::results::{ComparisonResults, OperationRate};
use super::target::SpeedTarget;
use crate::cases::{BenchCase, CaseFamily, OPEN_SIZE, size_with_unit};
use crate::table::TextTable;

/// The smallest size that counts in the summary.
const LARGE: u64 = 1 << 20;

/// All rows, with a heading.
pub(super) fn table(rows: &[ComparisonRow]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let names = |names: Vec<&str>| names.join(" / ");
    let ours = names(first.ours.iter().map(|(name, _, _)| *name).collect());
    let peers = names(first.peers.iter().map(|(name, _)| *name).collect());
    let text = format!(
        "MB/s of all ranks together, medians; ~: bandwidth of the largest size that was measured; open: µs\n\
         ours: {ours}; peers: {peers}\n\n"
    );
    let mut table = TextTable::new(TITLES);
    rows.iter().map(line).for_each(|line| table.add(line));
    text + &table.to_string()
}

const TITLES: [&str; 10] = [
    "",
    "ranks",
    "size",
    "ours",
    "peers",
    "× best peer",
    "(best times)",
    "of contiguous",
    "required",
    "status",
];

fn line(row: &ComparisonRow) -> Vec<String> {
    let ours: Vec<String> = row.ours.iter().map(|(_, rate, _)| speed(row, *rate)).collect();
    let peers: Vec<String> = row.peers.iter().map(|(_, rate)| speed(row, *rate)).collect();
    let evaluated: Vec<_> = row.ours.iter().map(|(name, _, ratios)| (*name, *ratios)).collect();
    let size = if row.case.bytes == OPEN_SIZE { String::new() } else { size_with_unit(row.case.bytes) };
    vec![
        row.case.family.to_string(),
        row.ranks.to_string(),
        size,
        ours.join(" "),
        peers.join(" "),
        figures(&evaluated, |ratios| ratios.peer),
        figures(&evaluated, |ratios| ratios.peer_best),
        figures(&evaluated, |ratios| ratios.contiguous),
        required(&row.target),
        target_status(&evaluated, &row.target),
    ]
}

fn figures(evaluated: &[(&str, SpeedRatios)], of: fn(&SpeedRatios) -> Option<f64>) -> String {
    evaluated.iter().map(|(_, ratios)| ratio(of(ratios))).collect::<Vec<_>>().join(" ")
}

/// The medians of each family and number of ranks over the larger sizes, then the number of rows that meet their targets.
pub(super) fn summary(rows: &[ComparisonRow]) -> String {
    let mut families: BTreeMap<(CaseFamily, usize), Vec<&ComparisonRow>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.case.bytes >= LARGE || row.case.bytes == OPEN_SIZE) {
        families.entry((row.case.family, row.ranks)).or_default().push(row);
    }
    let mut text = format!("medians over sizes from {} on\n", size_with_unit(LARGE));
    let titles = ["", "ranks", "× best peer", "of contiguous", "required", "status"];
    let mut table = TextTable::new(titles);
    let (mut met, mut missed) = (0, 0);
    for ((family, ranks), rows) in &families {
        let Some(first) = rows.first() else { continue };
        let evaluated: Vec<_> =
            first.ours.iter().map(|(name, _, _)| (*name, over_sizes(rows, name))).collect();
        let status = target_status(&evaluated, &first.target);
        met += usize::from(status == "ok");
        missed += usize::from(status.starts_with("missed"));
        table.add(vec![
            family.to_string(),
            ranks.to_string(),
            figures(&evaluated, |ratios| ratios.peer),
            figures(&evaluated, |ratios| ratios.contiguous),
            required(&first.target),
            status,
        ]);
    }
    text += &table.to_string();
    let _ = writeln!(text, "\nfamilies: {met} met, {missed} missed");
    text + &counts(rows)
}

fn counts(rows: &[ComparisonRow]) -> String {
    let mut text = String::new();
    let names: Vec<&str> =
        rows.first().iter().flat_map(|row| row.ours.iter().map(|(name, _, _)| *name)).collect();
    for (at, name) in names.iter().enumerate() {
        let statuses = rows.iter().map(|row| row.ours[at].2.status(&row.target));
        let (mut met, mut missed, mut unknown) = (0, 0, 0);
        statuses.for_each(|status| match status {
            TargetStatus::Met => met += 1,
            TargetStatus::Missed => missed += 1,
            TargetStatus::Unknown => unknown += 1,
        });
        let _ = writeln!(text, "rows, {name}: {met} met, {missed} missed, {unknown} without a peer");
    }
    text
}

/// "ok" if all of ours reach the target, else the names of those that do not.
fn target_status(evaluated: &[(&str, SpeedRatios)], target: &SpeedTarget) -> String {
    let status = |ratios: &SpeedRatios| ratios.status(target);
    let missed: Vec<&str> = evaluated
        .iter()
        .filter(|(_, ratios)| status(ratios) == TargetStatus::Missed)
        .map(|(name, _)| *name)
        .collect();
    if !missed.is_empty() {
        return format!("missed: {}", missed.join(", "));
    }
    let met = evaluated.iter().any(|(_, ratios)| status(ratios) == TargetStatus::Met);
    if met { "ok".to_owned() } else { "n/a".to_owned() }
}

fn required(target: &SpeedTarget) -> String {
    target.contiguous.map_or(target.peer.to_string(), |part| format!("{} | {part}", target.peer))
}

fn speed(row: &ComparisonRow, rate: Option<OperationRate>) -> String {
    let Some(rate) = rate else { return "n/a".to_owned() };
    if row.case.bytes == OPEN_SIZE {
        return format!("{:.0}", 1e6 / rate.median);
    }
    let figure = megabytes(row.ranks, &row.case, rate.median);
    let mark = if rate.from_smaller_size { "~" } else { "" };
    if figure < 10.0 { format!("{mark}{figure:.1}") } else { format!("{mark}{figure:.0}") }
}

fn megabytes(ranks: usize, case: &BenchCase, rate: f64) -> f64 {
    rate * (ranks as u64 * case.bytes) as f64 / 1e6
}

fn ratio(figure: Option<f64>) -> String {
    match figure {
        None => "-".to_owned(),
        Some(figure) if figure < 10.0 => format!("{figure:.2}"),
        Some(figure) => format!("{figure:.0}"),
    }
}

/// A line for each row and candidate of ours, with all figures.
pub(super) fn csv(rows: &[ComparisonRow], results: &ComparisonResults) -> String {
    let mut text = String::from("pattern,coordination,direction,cache,ranks,bytes_per_rank,candidate");
    let peers: Vec<&str> =
        rows.first().iter().flat_map(|row| row.peers.iter().map(|(name, _)| *name)).collect();
    text += ",seconds_median,seconds_best,system_calls,bytes_copied,messages,allocations";
    for peer in &peers {
        let _ = write!(text, ",{peer}_seconds_median,{peer}_seconds_best,{peer}_from_smaller_size");
    }
    text += ",ratio_to_best_peer,ratio_of_best_times,ratio_to_contiguous,required_of_peer,required_of_contiguous,status\n";
    let optional = |figure: Option<f64>| figure.map(|figure| format!("{figure:e}")).unwrap_or_default();
    let seconds = |rate: Option<OperationRate>| {
        let of = |part: fn(OperationRate) -> f64| optional(rate.map(|rate| part(rate).recip()));
        format!("{},{}", of(|rate| rate.median), of(|rate| rate.best))
    };
    for row in rows {
        let family = row.case.family.to_string().replace(':', ",");
        for (name, rate, ratios) in &row.ours {
            let _ = write!(text, "{family},{},{},{name},{}", row.ranks, row.case.bytes, seconds(*rate));
            let counted = results.counted(name, row.ranks, &row.case);
            for at in 0..4 {
                let _ =
                    write!(text, ",{}", counted.map(|counted| counted[at].to_string()).unwrap_or_default());
            }
            for (_, rate) in &row.peers {
                let _ =
                    write!(text, ",{},{}", seconds(*rate), rate.is_some_and(|rate| rate.from_smaller_size));
            }
            let (peer, best) = (optional(ratios.peer), optional(ratios.peer_best));
            let _ = write!(text, ",{peer},{best},{}", optional(ratios.contiguous));
            let (target, status) = (row.target, format!("{:?}", ratios.status(&row.target)).to_lowercase());
            let _ = writeln!(text, ",{},{},{status}", target.peer, optional(target.contiguous));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::job::CaseOutcome;
    use super::*;
    use crate::cases::PATTERNS;

    const BYTES: u64 = 1 << 20;

    fn results() -> (ComparisonResults, Vec<ComparisonRow>) {
        let mut results = ComparisonResults::default();
        let cases = PATTERNS[0].cases(&[BYTES]);
        results.add("ours", 2, cases[0], CaseOutcome::Seconds(vec![0.002], Some([1, 2, 3, 4])));
        results.add("peer", 2, cases[0], CaseOutcome::Seconds(vec![0.001], None));
        results.add("ours", 2, cases[1], CaseOutcome::Seconds(vec![0.001], None));
        results.add("peer", 2, cases[1], CaseOutcome::Failed("hangs".to_owned()));
        let rows = cases[..2]
            .iter()
            .map(|case| ComparisonRow::new(&results, 2, *case, &["ours"], &["peer"]))
            .collect();
        (results, rows)
    }

    #[test]
    fn table_names_missed_targets_and_missing_results() {
        let text = table(&results().1);
        let write = text.lines().find(|line| line.starts_with("contiguous:independent:write")).unwrap();
        let words: Vec<&str> = write.split_whitespace().collect();
        assert_eq!(
            words[1..],
            ["2", "1", "MiB", "1049", "2097", "0.50", "0.50", "1.00", "0.95", "missed:", "ours"]
        );
        let read = text.lines().find(|line| line.starts_with("contiguous:independent:read")).unwrap();
        assert!(read.contains("n/a") && read.ends_with("n/a"), "{read}");
    }

    #[test]
    fn summary_counts_met_and_missed_targets() {
        let text = summary(&results().1);
        assert!(text.contains("families: 0 met, 1 missed"), "{text}");
        assert!(text.contains("rows, ours: 0 met, 1 missed, 1 without a peer"), "{text}");
    }

    #[test]
    fn every_line_of_the_csv_has_all_columns() {
        let (results, rows) = results();
        let text = csv(&rows, &results);
        let counts: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
        assert_eq!(counts, [22, 22, 22]);
        assert!(
            text.contains(",2,1048576,ours,2e-3,2e-3,1,2,3,4,1e-3,1e-3,false,5e-1,5e-1,1e0,0.95,,missed"),
            "{text}"
        );
    }
}
