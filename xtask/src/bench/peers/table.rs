//! The table as people read it, and as CSV.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::cell::{Cell, Family, OPEN_SIZE, size};
use super::goal::Goal;
use super::results::Rate;
use super::verdict::{Ratios, Row, Verdict, over_sizes};

/// Sizes from here on count in the summary.
const LARGE: u64 = 1 << 20;

/// All rows, with a heading.
pub(super) fn table(rows: &[Row]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let names = |names: Vec<&str>| names.join(" / ");
    let ours = names(first.ours.iter().map(|(name, _, _)| *name).collect());
    let peers = names(first.peers.iter().map(|(name, _)| *name).collect());
    let mut text = format!(
        "MB/s of all ranks together, medians; ~: taken over from the largest size that was not too slow; open: µs\n\
         ours: {ours}; peers: {peers}\n\n"
    );
    let titles = ["ours", "peers", "× best peer", "(best times)", "of contiguous"].map(str::to_owned);
    let _ = writeln!(text, "{}", line("", "", "", &titles, "required", "verdict"));
    for row in rows {
        let ours: Vec<String> = row.ours.iter().map(|(_, rate, _)| speed(row, *rate)).collect();
        let peers: Vec<String> = row.peers.iter().map(|(_, rate)| speed(row, *rate)).collect();
        let part = |of: fn(&Ratios) -> Option<f64>| {
            let figures: Vec<String> = row.ours.iter().map(|(_, _, ratios)| ratio(of(ratios))).collect();
            figures.join(" ")
        };
        let columns = [
            ours.join(" "),
            peers.join(" "),
            part(|ratios| ratios.peer),
            part(|ratios| ratios.peer_best),
            part(|ratios| ratios.contiguous),
        ];
        let size = if row.cell.bytes == OPEN_SIZE { String::new() } else { size(row.cell.bytes) };
        let (family, ranks) = (row.cell.family.to_string(), row.ranks.to_string());
        let judged: Vec<_> = row.ours.iter().map(|(name, _, ratios)| (*name, *ratios)).collect();
        let _ = writeln!(
            text,
            "{}",
            line(&family, &ranks, &size, &columns, &required(&row.goal), &verdicts(&judged, &row.goal))
        );
    }
    text
}

fn line(
    family: &str,
    ranks: &str,
    size: &str,
    columns: &[String; 5],
    required: &str,
    verdict: &str,
) -> String {
    let [ours, peers, peer, best, contiguous] = columns;
    let front = format!("{family:41} {ranks:>2} {size:>7}  {ours:>20}  {peers:>20}  {peer:>17}  {best:>17}");
    format!("{front}  {contiguous:>14}  {required:>9}  {verdict}")
}

/// By family and number of ranks, over the larger sizes; then how many rows were met.
pub(super) fn summary(rows: &[Row]) -> String {
    let mut families: BTreeMap<(Family, usize), Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.cell.bytes >= LARGE || row.cell.bytes == OPEN_SIZE) {
        families.entry((row.cell.family, row.ranks)).or_default().push(row);
    }
    let mut text = format!("medians over sizes from {} on\n", size(LARGE));
    let (mut met, mut missed) = (0, 0);
    for ((family, ranks), rows) in &families {
        let (Some(names), Some(goal)) = (rows.first().map(|row| &row.ours), rows.first().map(|row| row.goal))
        else {
            continue;
        };
        let judged: Vec<_> = names.iter().map(|(name, _, _)| (*name, over_sizes(rows, name))).collect();
        let part = |of: fn(&Ratios) -> Option<f64>| {
            judged.iter().map(|(_, ratios)| ratio(of(ratios))).collect::<Vec<_>>().join(" ")
        };
        let (peer, contiguous) = (part(|ratios| ratios.peer), part(|ratios| ratios.contiguous));
        let verdict = verdicts(&judged, &goal);
        met += usize::from(verdict == "ok");
        missed += usize::from(verdict.starts_with("missed"));
        let family = family.to_string();
        let _ = writeln!(
            text,
            "{family:41} {ranks:>2}  {peer:>17}  {contiguous:>14}  {:>9}  {verdict}",
            required(&goal)
        );
    }
    let _ = writeln!(text, "\nfamilies: {met} met, {missed} missed");
    text + &counts(rows)
}

fn counts(rows: &[Row]) -> String {
    let mut text = String::new();
    let names: Vec<&str> =
        rows.first().iter().flat_map(|row| row.ours.iter().map(|(name, _, _)| *name)).collect();
    for (at, name) in names.iter().enumerate() {
        let verdicts = rows.iter().map(|row| row.ours[at].2.verdict(&row.goal));
        let (mut met, mut missed, mut unknown) = (0, 0, 0);
        verdicts.for_each(|verdict| match verdict {
            Verdict::Met => met += 1,
            Verdict::Missed => missed += 1,
            Verdict::Unknown => unknown += 1,
        });
        let _ = writeln!(text, "rows, {name}: {met} met, {missed} missed, {unknown} without a peer");
    }
    text
}

/// "ok" where all of ours reach the goal, else who does not.
fn verdicts(judged: &[(&str, Ratios)], goal: &Goal) -> String {
    let verdict = |ratios: &Ratios| ratios.verdict(goal);
    let missed: Vec<&str> = judged
        .iter()
        .filter(|(_, ratios)| verdict(ratios) == Verdict::Missed)
        .map(|(name, _)| *name)
        .collect();
    if !missed.is_empty() {
        return format!("missed: {}", missed.join(", "));
    }
    let met = judged.iter().any(|(_, ratios)| verdict(ratios) == Verdict::Met);
    if met { "ok".to_owned() } else { "n/a".to_owned() }
}

fn required(goal: &Goal) -> String {
    goal.contiguous.map_or(goal.peer.to_string(), |part| format!("{} | {part}", goal.peer))
}

fn speed(row: &Row, rate: Option<Rate>) -> String {
    let Some(rate) = rate else { return "n/a".to_owned() };
    if row.cell.bytes == OPEN_SIZE {
        return format!("{:.0}", 1e6 / rate.median);
    }
    let figure = megabytes(row.ranks, &row.cell, rate.median);
    let mark = if rate.smaller { "~" } else { "" };
    if figure < 10.0 { format!("{mark}{figure:.1}") } else { format!("{mark}{figure:.0}") }
}

fn megabytes(ranks: usize, cell: &Cell, rate: f64) -> f64 {
    rate * (ranks as u64 * cell.bytes) as f64 / 1e6
}

fn ratio(figure: Option<f64>) -> String {
    match figure {
        None => "-".to_owned(),
        Some(figure) if figure < 10.0 => format!("{figure:.2}"),
        Some(figure) => format!("{figure:.0}"),
    }
}

/// A line per row and contender of ours, with all figures in full.
pub(super) fn csv(rows: &[Row]) -> String {
    let mut text = String::from("pattern,coordination,direction,cache,ranks,bytes_per_rank,contender");
    let peers: Vec<&str> =
        rows.first().iter().flat_map(|row| row.peers.iter().map(|(name, _)| *name)).collect();
    text += ",seconds_median,seconds_best";
    for peer in &peers {
        let _ = write!(text, ",{peer}_seconds_median,{peer}_seconds_best,{peer}_from_smaller_size");
    }
    text += ",ratio_to_best_peer,ratio_of_best_times,ratio_to_contiguous,required_of_peer,required_of_contiguous,verdict\n";
    let optional = |figure: Option<f64>| figure.map(|figure| format!("{figure:e}")).unwrap_or_default();
    let seconds = |rate: Option<Rate>| {
        let of = |part: fn(Rate) -> f64| optional(rate.map(|rate| part(rate).recip()));
        format!("{},{}", of(|rate| rate.median), of(|rate| rate.best))
    };
    for row in rows {
        let family = row.cell.family.to_string().replace(':', ",");
        for (name, rate, ratios) in &row.ours {
            let _ = write!(text, "{family},{},{},{name},{}", row.ranks, row.cell.bytes, seconds(*rate));
            for (_, rate) in &row.peers {
                let _ = write!(text, ",{},{}", seconds(*rate), rate.is_some_and(|rate| rate.smaller));
            }
            let (peer, best) = (optional(ratios.peer), optional(ratios.peer_best));
            let _ = write!(text, ",{peer},{best},{}", optional(ratios.contiguous));
            let (goal, verdict) = (row.goal, format!("{:?}", ratios.verdict(&row.goal)).to_lowercase());
            let _ = writeln!(text, ",{},{},{verdict}", goal.peer, optional(goal.contiguous));
        }
    }
    text
}
