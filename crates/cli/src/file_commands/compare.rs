//! `aqueduct compare`: compares two files and computes error norms.

mod array_comparison;
mod elements;
mod metadata;
mod norms;
mod step_errors;
mod time_axis;
mod tolerances;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use aqueduct::comm::Comm;
use serde_json::{Value, json};

use self::array_comparison::{ArrayComparison, ComparedFiles};
use self::elements::ElementDifferences;
use self::step_errors::StepCounts;
use self::tolerances::{ArrayTolerance, ToleranceTable, is_selected};
use crate::array_file::{self, Array, ArrayFile, RawShape};
use crate::parallel::{RankCount, agree};
use crate::standard_output::{StandardOutput, root_output};
use crate::terminal::{Palette, TextRole, progress_bar};

/// The most differences of metadata that are listed.
const MOST_METADATA: usize = 100;

#[derive(clap::Args)]
pub(crate) struct CompareArguments {
    /// A file of any known kind, or a checkpoint store
    one: OsString,
    /// Another file, also of another kind
    other: OsString,
    /// Only this array, or all arrays of this group
    #[arg(long)]
    array: Option<String>,
    /// Not this array, or the arrays of this group; * stands for any characters; repeatable
    #[arg(long, value_name = "NAME")]
    exclude: Vec<String>,
    /// Ignore relative differences up to this value
    #[arg(long, visible_alias = "rtol", default_value_t = 0.0)]
    threshold: f64,
    /// Ignore absolute differences up to this value
    #[arg(long, default_value_t = 0.0)]
    atol: f64,
    /// Other tolerances for an array or the arrays of a group, relative and absolute; the last one that fits is used; repeatable
    #[arg(long, value_name = "NAME=RTOL[,ATOL]")]
    tolerance: Vec<ArrayTolerance>,
    /// Compare only values, not types, names of dimensions or attributes
    #[arg(long)]
    data_only: bool,
    /// The dimension that counts steps, from 0 [default: the first after leading dimensions of length 1]
    #[arg(long, value_name = "AXIS")]
    time: Option<usize>,
    /// Print the errors of every step, not only the greatest
    #[arg(long)]
    steps: bool,
    /// Print the first N differences above the tolerance of each array, with their places
    #[arg(long, value_name = "N", default_value_t = 5)]
    first: u64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    raw: RawShape,
    #[command(flatten)]
    ranks: RankCount,
}

pub(crate) fn run(arguments: &CompareArguments) -> Result<ExitCode> {
    let is_tolerance = |value: f64| value >= 0.0;
    ensure!(is_tolerance(arguments.threshold), "--threshold must be a number greater than or equal to 0");
    ensure!(is_tolerance(arguments.atol), "--atol must be a number greater than or equal to 0");
    let files = [&*arguments.one, &*arguments.other];
    let same = arguments.ranks.run(&files, |world| compare(world, arguments))?;
    Ok(if same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Compares the files; whether they are the same, which all ranks know. Rank 0 prints.
fn compare(world: &Comm, arguments: &CompareArguments) -> Result<bool> {
    let [one, other] = [&arguments.one, &arguments.other]
        .map(|name| agree(world, array_file::open(world, name, &arguments.raw)));
    let (one, other) = (one?, other?);
    let mut pairs = pairs(&*one, &*other, arguments.array.as_deref())?;
    pairs.retain(|pair| !arguments.exclude.iter().any(|name| is_selected(&pair.name, name)));
    let bytes = pairs.iter().map(|pair| bytes_of(&*one, pair.places[0])).fold(0, u64::saturating_add);
    let bar = progress_bar(world, bytes);
    let files = ComparedFiles { world, one: &*one, other: &*other, bar: &bar };
    agree(world, one.prepare().and_then(|()| other.prepare()))?;
    let tolerances = ToleranceTable::new(arguments);
    let mut found = Vec::new();
    if !arguments.data_only && arguments.array.is_none() {
        found.extend(metadata::of_files(&*one, &*other));
    }
    let (mut arrays, mut totals) = (0, ComparisonTotals::default());
    let mut listed = Vec::new();
    let out = &mut root_output(world);
    for ArrayPair { name, places } in pairs {
        let tolerance = tolerances.of(&name);
        let mut comparison = ArrayComparison::new(&files, &name, arguments, tolerance, &mut totals);
        let (outcome, metadata) = comparison.run(places, out)?;
        arrays += u64::from(!outcome.is_same);
        listed.push(outcome.json);
        found.extend(metadata);
    }
    bar.finish_and_clear();
    let counts = ComparisonCounts { arrays, metadata: found.len() };
    let printed =
        if world.rank() == 0 { counts.print(arguments, &found, &totals, &listed, out) } else { Ok(()) };
    agree(world, printed)?;
    Ok(arrays == 0 && found.is_empty())
}

/// The size of an array.
fn bytes_of(file: &dyn ArrayFile, at: Option<usize>) -> u64 {
    at.map_or(0, |at| file.arrays()[at].rows().saturating_mul(file.arrays()[at].row()))
}

/// The numbers of arrays that differ and of differences of metadata.
struct ComparisonCounts {
    arrays: u64,
    metadata: usize,
}

impl ComparisonCounts {
    /// Prints what follows the results of the arrays, or all as JSON.
    fn print(
        &self,
        arguments: &CompareArguments,
        found: &[String],
        totals: &ComparisonTotals,
        listed: &[Value],
        out: &mut StandardOutput,
    ) -> Result<()> {
        if arguments.json {
            let files = [&arguments.one, &arguments.other].map(|name| name.to_string_lossy());
            let shown = &found[..found.len().min(MOST_METADATA)];
            let all = json!({
                "files": files, "same": self.arrays == 0 && self.metadata == 0, "arrays": listed, "metadata": shown,
                "arrays_that_differ": self.arrays, "differences_of_metadata": self.metadata,
            });
            writeln!(out, "{all:#}")?;
            return Ok(out.flush()?);
        }
        let palette = Palette::of_stdout();
        for line in found.iter().take(MOST_METADATA) {
            writeln!(out, "{line}")?;
        }
        if found.len() > MOST_METADATA {
            writeln!(out, "… and {} more differences of metadata", found.len() - MOST_METADATA)?;
        }
        if totals.arrays > 1 {
            writeln!(out, "{totals}")?;
        }
        let text = match (self.arrays, self.metadata) {
            (0, 0) => palette.paint(TextRole::Good, "no differences"),
            (arrays, metadata) => palette
                .paint(TextRole::Bad, &format!("{arrays} arrays differ, {metadata} differences of metadata")),
        };
        writeln!(out, "{text}")?;
        Ok(out.flush()?)
    }
}

/// Two arrays that are compared, by index; `None` if a file has no array of this name.
struct ArrayPair {
    name: String,
    places: [Option<usize>; 2],
}

/// The arrays to compare: those of the same name. The only array of a file is also compared with an array of another name if one of the
/// files has no array names, or if one array was selected.
fn pairs(one: &dyn ArrayFile, other: &dyn ArrayFile, wanted: Option<&str>) -> Result<Vec<ArrayPair>> {
    let files = [one, other];
    let nameless = files.map(|file| !file.names_arrays());
    let found = files.map(|file| array_file::select_arrays(file.arrays(), wanted));
    let by_name = [found[0].is_ok(), found[1].is_ok()];
    let mut chosen = Vec::new();
    for (side, found) in found.into_iter().enumerate() {
        // The counterpart of the selected array.
        let stands = files[side].arrays().len() == 1 && (by_name.contains(&true) || nameless == [true, true]);
        chosen.push(if stands { found.unwrap_or_else(|_| vec![0]) } else { found? });
    }
    if let [&[at], &[there]] = [&chosen[0][..], &chosen[1][..]]
        && (by_name != [true, true] || nameless.contains(&true))
    {
        let named = [0, 1].into_iter().find(|side| by_name[*side] && !nameless[*side]).unwrap_or(0);
        let name = plain(&files[named].arrays()[[at, there][named]]);
        return Ok(vec![ArrayPair { name, places: [Some(at), Some(there)] }]);
    }
    let mut pairs = BTreeMap::<String, [Option<usize>; 2]>::new();
    for (side, (file, chosen)) in files.into_iter().zip(chosen).enumerate() {
        for at in chosen {
            let array = &file.arrays()[at];
            let taken = pairs.get(&plain(array)).is_some_and(|places| places[side].is_some());
            // Two paths of a file may have the same plain name.
            let name = if taken { array.name.clone() } else { plain(array) };
            pairs.entry(name).or_default()[side] = Some(at);
        }
    }
    Ok(pairs.into_iter().map(|(name, places)| ArrayPair { name, places }).collect())
}

/// The name of an array without the prefix and suffix of its format.
fn plain(array: &Array) -> String {
    array.name.trim_matches('/').replace('/', ".")
}

/// Totals over all arrays of numbers that were compared.
#[derive(Default)]
struct ComparisonTotals {
    arrays: u64,
    values: u64,
    differing: u64,
    above: u64,
    steps: StepCounts,
}

impl ComparisonTotals {
    fn add(&mut self, found: &ElementDifferences, steps: StepCounts) {
        self.arrays += 1;
        self.values += found.values;
        self.differing += found.differing;
        self.above += found.above;
        self.steps.add(steps);
    }
}

impl std::fmt::Display for ComparisonTotals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { arrays, values, differing, above, steps } = self;
        write!(
            f,
            "total of {arrays} arrays: {differing} of {values} values differ, {above} above the tolerance; {steps}"
        )
    }
}
