//! `aqueduct bench b_eff_io`: the effective I/O bandwidth.
//!
//! R. Rabenseifner, A. E. Koniges, "Effective File-I/O Bandwidth Benchmark", Euro-Par 2000, <https://doi.org/10.1007/3-540-44520-X_179>.
//! Written from the public description of patterns, scheduling and figure; it shares no text with the original program.

mod effective_figure;
mod effective_pattern;
mod partition_run;
mod result_tables;

use std::time::Duration;

use anyhow::{Result, ensure};
use aqueduct::comm::Comm;
use aqueduct::device::units::ByteSize;

use super::output::{BenchResult, OutputArguments, system_facts};
use super::target::TargetArguments;
use effective_figure::PartitionFigures;
use effective_pattern::{EffectivePattern, effective_patterns};
use partition_run::PartitionRun;

/// The least scheduled time of a result that is valid for comparison.
const VALID_SECONDS: f64 = 1800.0;
const QUICK_SECONDS: f64 = 30.0;

#[derive(Clone, Debug, clap::Args)]
pub(crate) struct EffectiveArguments {
    /// The scheduled time of everything, such as 30m or 45s; a result is valid for comparison from 30m on
    #[arg(long, default_value = "30m", value_name = "DURATION", value_parser = duration)]
    time: Duration,
    /// Schedule 30 seconds; the result is not valid for comparison
    #[arg(long, conflicts_with = "time")]
    quick: bool,
    /// Memory of each rank; the largest chunk is a 128th of it, at least 2MiB, at most 1GiB [default: the memory of this machine by its ranks]
    #[arg(long, value_name = "SIZE")]
    memory: Option<ByteSize>,
    /// Numbers of ranks [default: all, 2^(0.7 log2 ranks), 2^(0.35 log2 ranks)]
    #[arg(long, value_delimiter = ',', value_name = "RANKS")]
    partitions: Vec<usize>,
    /// Rewrite in all types, not only in type 0
    #[arg(long)]
    rewrite: bool,
    #[command(flatten)]
    target: TargetArguments,
    #[command(flatten)]
    output: OutputArguments,
}

/// What is done with a file, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EffectiveMethod {
    Write,
    Rewrite,
    Read,
}

impl EffectiveMethod {
    const ALL: [Self; 3] = [Self::Write, Self::Rewrite, Self::Read];

    fn name(self) -> &'static str {
        ["write", "rewrite", "read"][self as usize]
    }
}

/// A pattern type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EffectiveType {
    Scatter,
    Shared,
    Separate,
    Segmented,
    SegmentedCollective,
}

impl EffectiveType {
    const ALL: [Self; 5] =
        [Self::Scatter, Self::Shared, Self::Separate, Self::Segmented, Self::SegmentedCollective];

    fn name(self) -> &'static str {
        ["0 scatter", "1 shared", "2 separate", "3 segmented", "4 seg-coll"][self as usize]
    }
}

/// What was done in one pattern by one method, by all ranks of a partition.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PatternMeasurement {
    pattern: EffectivePattern,
    method: EffectiveMethod,
    repetitions: u64,
    bytes: u64,
    seconds: f64,
    /// Numbers that were not read as they were written.
    errors: u64,
}

/// The time of a type by a method, with opening and closing.
#[derive(Clone, Copy, Debug, PartialEq)]
struct TypeMeasurement {
    kind: EffectiveType,
    method: EffectiveMethod,
    bytes: u64,
    seconds: f64,
}

fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text} is not a duration; write a number and s, m or h: 30m");
    let split = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').ok_or_else(wrong)?;
    let number: f64 = text[..split].parse().map_err(|_| wrong())?;
    let unit = match &text[split..] {
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(number * unit).ok().filter(|time| !time.is_zero()).ok_or_else(wrong)
}

pub(super) fn run(arguments: &EffectiveArguments) -> Result<()> {
    arguments.target.run(|world| job(world, arguments))
}

/// The numbers of ranks of the partitions, the largest first.
fn partitions(ranks: usize, wanted: &[usize]) -> Vec<usize> {
    let power = |share: f64| 1usize << ((ranks as f64).log2() * share).round() as u32;
    let mut all = match (wanted, ranks) {
        ([], 1) => vec![1],
        ([], 2) => vec![2, 1],
        ([], 3) => vec![3, power(0.70), 1],
        ([], 4) => vec![4, 3, power(0.35)],
        ([], _) => vec![ranks, power(0.70), power(0.35)],
        (wanted, _) => wanted.to_vec(),
    };
    all.sort_unstable_by(|one, other| other.cmp(one));
    all.dedup();
    all
}

/// The largest chunk for so much memory per rank: the size M of the patterns.
fn largest_chunk(memory: u64) -> u64 {
    (memory / 128).clamp(2 << 20, 1 << 30) / 8 * 8
}

fn job(world: &Comm, arguments: &EffectiveArguments) -> Result<()> {
    let scheduled = if arguments.quick { QUICK_SECONDS } else { arguments.time.as_secs_f64() };
    let partitions = partitions(world.size(), &arguments.partitions);
    ensure!(
        partitions.iter().all(|ranks| (1..=world.size()).contains(ranks)),
        "--partitions are numbers of ranks from 1 to {}",
        world.size()
    );
    let of_machine = aqueduct::device::available_memory();
    let ranks_of_node = world.ranks_of_node(world.node_of(world.rank())).len().max(1) as u64;
    let memory = arguments.memory.map_or(of_machine / ranks_of_node, |memory| memory.0);
    let chunk = world.allreduce_one(aqueduct::comm::Op::Min, largest_chunk(memory))?;
    let patterns = effective_patterns(chunk);
    let units: u64 = {
        let all: u64 = patterns.iter().map(|pattern| pattern.units).sum();
        let scatter = patterns.iter().filter(|pattern| pattern.kind == EffectiveType::Scatter);
        2 * all + if arguments.rewrite { all } else { scatter.map(|pattern| pattern.units).sum() }
    };
    let mut all = Vec::new();
    for interface in arguments.target.interfaces(world)? {
        for &ranks in &partitions {
            // MPI-IO is asked for the world or for one rank.
            if !interface.has_objects() && ranks != world.size() && ranks != 1 {
                continue;
            }
            let run = PartitionRun {
                world,
                interface: &interface,
                ranks,
                target: &arguments.target,
                unit_seconds: scheduled / partitions.len() as f64 / units as f64,
                rewrites_all: arguments.rewrite,
            };
            let (measurements, types) = run.execute(&patterns)?;
            all.push(PartitionFigures { interface: interface.name().to_owned(), ranks, measurements, types });
        }
    }
    if world.rank() != 0 {
        return Ok(());
    }
    let mut result = describe(&all, chunk, scheduled);
    result.facts = system_facts(Some(world), &arguments.target.file, &arguments.target.hints);
    result.publish(&arguments.output)
}

fn describe(all: &[PartitionFigures], chunk: u64, scheduled: f64) -> BenchResult {
    let mut notes = vec![
        format!("M is {}, the scheduled time {scheduled} s; MB = 10⁶ bytes", ByteSize(chunk)),
        "rule: writing = mean of first write of types 0 to 4 and rewrite of type 0; reading = mean of types 0, 0, 1, 2, 3, 4; \
         partition = √(writing · reading); b_eff_io = the largest partition"
            .to_owned(),
    ];
    let errors: u64 = all.iter().map(PartitionFigures::errors).sum();
    let mut names: Vec<&str> = all.iter().map(|figures| figures.interface.as_str()).collect();
    names.dedup();
    for name in names {
        let of_interface = all.iter().filter(|figures| figures.interface == name);
        let best = of_interface.max_by(|one, other| one.effective().total_cmp(&other.effective()));
        if let Some(best) = best {
            notes.push(format!(
                "b_eff_io of {name} = {:.1} MB/s on {} ranks",
                best.effective() / 1e6,
                best.ranks
            ));
        }
    }
    notes.push(match (errors, scheduled >= VALID_SECONDS) {
        (0, true) => "valid for comparison: all data was read as it was written, and the scheduled time is 30 minutes or more".to_owned(),
        (0, false) => "not valid for comparison: the scheduled time is less than 30 minutes; all data was read as it was written".to_owned(),
        (errors, _) => format!("not valid: {errors} numbers were not read as they were written"),
    });
    BenchResult {
        title: "Effective I/O bandwidth (b_eff_io)".to_owned(),
        figures: result_tables::figures(all),
        tables: result_tables::tables(all, chunk),
        plots: result_tables::plots(all, chunk),
        notes,
        ..BenchResult::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_follow_the_published_rule() {
        assert_eq!(partitions(1, &[]), [1]);
        assert_eq!(partitions(2, &[]), [2, 1]);
        assert_eq!(partitions(3, &[]), [3, 2, 1]);
        assert_eq!(partitions(4, &[]), [4, 3, 2]);
        assert_eq!(partitions(64, &[]), [64, 16, 4]);
        assert_eq!(partitions(64, &[8, 64, 8]), [64, 8]);
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("30m"), Ok(Duration::from_secs(1800)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        for wrong in ["", "30", "m", "0s", "-1s", "1d", "1e400s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_largest_chunk_is_bounded() {
        assert_eq!([1 << 20, 1 << 30, 1 << 60].map(largest_chunk), [2 << 20, 8 << 20, 1 << 30]);
    }
}
