//! `aqueduct compare`: compares two files and computes error norms.

mod elements;
mod metadata;
mod norms;
mod time_axis;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, ensure};

use self::elements::{ElementDifferences, ElementPair, NumberBlock, Tolerance};
use self::norms::{StepErrors, StepNorms};
use self::time_axis::TimeAxis;
use crate::array_file::{self, Array, ArrayFile, RawShape};
use crate::standard_output::lock_stdout;

/// The number of values that are compared at once, which fit the processor's cache.
const AT_ONCE: usize = 4096;

#[derive(clap::Args)]
pub(crate) struct CompareArguments {
    /// A file of any known kind, or a checkpoint store
    one: OsString,
    /// Another file, also of another kind
    other: OsString,
    /// Only this array, or all arrays of this group
    #[arg(long)]
    array: Option<String>,
    /// Ignore relative differences up to this value
    #[arg(long, visible_alias = "rtol", default_value_t = 0.0)]
    threshold: f64,
    /// Ignore absolute differences up to this value
    #[arg(long, default_value_t = 0.0)]
    atol: f64,
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
    #[arg(long, value_name = "N", default_value_t = 0)]
    first: usize,
    #[command(flatten)]
    raw: RawShape,
}

pub(crate) fn run(arguments: &CompareArguments) -> Result<ExitCode> {
    let is_tolerance = |value: f64| value >= 0.0;
    ensure!(is_tolerance(arguments.threshold), "--threshold must be a number greater than or equal to 0");
    ensure!(is_tolerance(arguments.atol), "--atol must be a number greater than or equal to 0");
    let same = array_file::on_one_rank(|world| {
        let out = &mut lock_stdout();
        let [one, other] =
            [&arguments.one, &arguments.other].map(|name| array_file::open(world, name, &arguments.raw));
        let (one, other) = (one?, other?);
        let pairs = pairs(&*one, &*other, arguments.array.as_deref())?;
        let mut found = Vec::new();
        if !arguments.data_only && arguments.array.is_none() {
            found.extend(metadata::of_files(&*one, &*other));
        }
        let (mut arrays, mut totals) = (0, ComparisonTotals::default());
        for ArrayPair { name, places } in pairs {
            let (one, other, totals) = (&*one, &*other, &mut totals);
            let mut comparison = ArrayComparison { name: &name, one, other, arguments, totals, out };
            let (same, metadata) = comparison.run(places)?;
            arrays += u64::from(!same);
            found.extend(metadata);
        }
        for line in &found {
            writeln!(out, "{line}")?;
        }
        if totals.arrays > 1 {
            writeln!(out, "{totals}")?;
        }
        match (arrays, found.len()) {
            (0, 0) => writeln!(out, "no differences")?,
            (arrays, metadata) => {
                writeln!(out, "{arrays} arrays differ, {metadata} differences of metadata")?;
            }
        }
        out.flush()?;
        Ok(arrays == 0 && found.is_empty())
    })?;
    Ok(if same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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

/// The number of steps, and of those whose error is above the relative tolerance, in each norm.
#[derive(Clone, Copy, Default)]
struct StepCounts {
    all: u64,
    frobenius: u64,
    infinity: u64,
}

impl ComparisonTotals {
    fn add(&mut self, found: &ElementDifferences, steps: StepCounts) {
        self.arrays += 1;
        self.values += found.values;
        self.differing += found.differing;
        self.above += found.above;
        self.steps.all += steps.all;
        self.steps.frobenius += steps.frobenius;
        self.steps.infinity += steps.infinity;
    }
}

impl std::fmt::Display for StepCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { all, frobenius, infinity } = self;
        write!(f, "above the threshold in {frobenius} of {all} steps (Frobenius) and {infinity} (infinity)")
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

/// Two arrays of the same name.
struct ArrayComparison<'c, W> {
    name: &'c str,
    one: &'c dyn ArrayFile,
    other: &'c dyn ArrayFile,
    arguments: &'c CompareArguments,
    totals: &'c mut ComparisonTotals,
    out: &'c mut W,
}

/// The values of an array that are compared at once.
#[derive(Default)]
struct NumberComparison {
    block: NumberBlock,
    /// Numbers of an element, and of a row of elements.
    per_element: u64,
    columns: u64,
}

/// The step with the greatest error so far.
#[derive(Default)]
struct WorstStep {
    counts: StepCounts,
    /// The greatest error, and its step.
    frobenius: (f64, u64),
    infinity: (f64, u64),
}

impl<W: Write> ArrayComparison<'_, W> {
    /// Compares values and metadata.
    fn run(&mut self, places: [Option<usize>; 2]) -> Result<(bool, Vec<String>)> {
        let name = self.name;
        let [Some(at), Some(there)] = places else {
            writeln!(self.out, "{name}: in one of the files only")?;
            return Ok((false, Vec::new()));
        };
        let (array, twin) = (&self.one.arrays()[at], &self.other.arrays()[there]);
        let mut metadata = Vec::new();
        if !self.arguments.data_only {
            let both = self.one.holds_metadata() && self.other.holds_metadata();
            metadata = metadata::of_arrays(name, array, twin, both);
        }
        if array.shape != twin.shape {
            writeln!(self.out, "{name}: shapes {:?} and {:?}", array.shape, twin.shape)?;
            return Ok((false, metadata));
        }
        let is_nothing = |array: &Array| array.element.parts.as_ref().is_some_and(Vec::is_empty);
        let same = if is_nothing(array) && is_nothing(twin) {
            // Elements of 0 bytes, the same number on both sides.
            writeln!(self.out, "{name}: {}, equal", array.element.name)?;
            true
        } else if array.element.size == 0 && twin.element.size == 0 {
            self.same_lines(at, there)?
        } else if let Some(pair) = ElementPair::new(&array.element, &twin.element) {
            self.same_numbers(at, there, &pair)?
        } else {
            self.same_bytes(at, there)?
        };
        Ok((same, metadata))
    }

    fn same_numbers(&mut self, at: usize, there: usize, pair: &ElementPair<'_>) -> Result<bool> {
        let (array, twin) = (&self.one.arrays()[at], &self.other.arrays()[there]);
        let time = TimeAxis::of(array, self.arguments.time)?;
        let mut found = ElementDifferences::keeping(self.arguments.first);
        let (mut worst, mut numbers) = <(WorstStep, NumberComparison)>::default();
        numbers.per_element = array.element.parts.as_ref().map_or(1, Vec::len).max(1) as u64;
        numbers.columns = array.shape.last().copied().unwrap_or(1).clamp(1, time.inner) * numbers.per_element;
        // Steps that are not in one piece are all open at once.
        let open = if time.outer > 1 { time.steps } else { 1 };
        let mut norms: Vec<StepNorms> = (0..open).map(|_| StepNorms::default()).collect();
        // The parts of the array with the larger elements fit memory for both.
        let parts = if array.element.size >= twin.element.size { array.parts() } else { twin.parts() };
        for part in parts {
            let (mine, its) = (self.one.read(at, &part)?, self.other.read(there, &part)?);
            let whole_steps = time.outer == 1 && part.first % time.inner == 0 && part.count % time.inner == 0;
            if whole_steps && matches!(pair, ElementPair::Same(_)) && mine == its {
                found.add_same(part.count * numbers.per_element);
                for _ in 0..part.count / time.inner {
                    self.end_step(&mut worst, StepErrors::default())?;
                }
                continue;
            }
            let (mut done, sizes) =
                (0, [array.element.size, twin.element.size].map(|size| size.max(1) as usize));
            while done < part.count {
                let left = time.left(part.first + done);
                let count = (part.count - done).min(left).min((AT_ONCE as u64 / numbers.per_element).max(1));
                let cut = |bytes: &[u8], size: usize| {
                    done as usize * size..((done + count) as usize * size).min(bytes.len())
                };
                let sides = [&mine[cut(&mine, sizes[0])], &its[cut(&its, sizes[1])]];
                let step = if time.outer > 1 { time.step(part.first + done) as usize } else { 0 };
                self.add_numbers(pair, sides, (&mut numbers, &mut found, &mut norms[step]));
                done += count;
                if count == left && time.outer == 1 {
                    self.end_step(&mut worst, std::mem::take(&mut norms[0]).errors())?;
                }
            }
        }
        for step in norms.into_iter().filter(|step| !step.is_empty()) {
            self.end_step(&mut worst, step.errors())?;
        }
        self.totals.add(&found, worst.counts);
        self.print_summary(array, numbers.per_element, &found, &worst)?;
        Ok(found.above == 0)
    }

    /// Compares a few elements of a step.
    fn add_numbers(
        &self,
        pair: &ElementPair<'_>,
        [mine, its]: [&[u8]; 2],
        (numbers, found, norms): (&mut NumberComparison, &mut ElementDifferences, &mut StepNorms),
    ) {
        let tolerance = Tolerance { relative: self.arguments.threshold, absolute: self.arguments.atol };
        let block = &mut numbers.block;
        match pair {
            ElementPair::Same(number) if mine == its => {
                elements::load(*number, mine, &mut block.one);
                found.add_same(block.one.len() as u64);
                norms.add_same(&block.one, numbers.columns);
            }
            _ => {
                block.fill(pair, mine, its);
                found.add(block, tolerance);
                norms.add([&block.one, &block.other], &block.distances, numbers.columns);
            }
        }
    }

    /// Prints the errors of the next step if requested, and keeps the greatest.
    fn end_step(&mut self, worst: &mut WorstStep, errors: StepErrors) -> Result<()> {
        let step = worst.counts.all;
        if self.arguments.steps {
            writeln!(self.out, "{} {step}: {:e} {:e}", self.name, errors.frobenius, errors.infinity)?;
        }
        worst.counts.all += 1;
        worst.counts.frobenius += u64::from(errors.frobenius > self.arguments.threshold);
        worst.counts.infinity += u64::from(errors.infinity > self.arguments.threshold);
        for (worst, error) in
            [(&mut worst.frobenius, errors.frobenius), (&mut worst.infinity, errors.infinity)]
        {
            if error > worst.0 {
                *worst = (error, step);
            }
        }
        Ok(())
    }

    fn print_summary(
        &mut self,
        array: &Array,
        numbers: u64,
        found: &ElementDifferences,
        worst: &WorstStep,
    ) -> Result<()> {
        let name = self.name;
        let Some(largest) = found.largest else {
            return Ok(writeln!(self.out, "{name}: {} values, all equal", found.values)?);
        };
        let (place, [one, other]) = (place(array, numbers, largest.place), largest.sides);
        writeln!(
            self.out,
            "{name}: {} of {} values differ, {} above the tolerance; largest difference {:e} at {place}: {one:?} and {other:?}; \
             in {} steps Frobenius {:e} (step {}), infinity {:e} (step {}); {}",
            found.differing,
            found.values,
            found.above,
            largest.distance,
            worst.counts.all,
            worst.frobenius.0,
            worst.frobenius.1,
            worst.infinity.0,
            worst.infinity.1,
            worst.counts
        )?;
        for difference in &found.first {
            let (place, [one, other]) = (self::place(array, numbers, difference.place), difference.sides);
            writeln!(self.out, "{name} {place}: {one:?} and {other:?}")?;
        }
        Ok(())
    }

    /// Compares two arrays whose elements are not only numbers, byte by byte.
    fn same_bytes(&mut self, at: usize, there: usize) -> Result<bool> {
        let (array, twin) = (&self.one.arrays()[at], &self.other.arrays()[there]);
        let (name, what) = (self.name, &array.element.name);
        if array.element.size != twin.element.size || array.element.size == 0 {
            writeln!(self.out, "{name}: elements {what} and {} cannot be compared", twin.element.name)?;
            return Ok(false);
        }
        for part in array.parts() {
            let (mine, its) = (self.one.read(at, &part)?, self.other.read(there, &part)?);
            if let Some(byte) = mine.iter().zip(&its).position(|(one, other)| one != other) {
                let first = part.first + byte as u64 / array.element.size;
                writeln!(self.out, "{name}: {what} differ, first at {}", place(array, 1, first))?;
                return Ok(false);
            }
        }
        writeln!(self.out, "{name}: {what}, equal byte by byte")?;
        Ok(true)
    }

    /// Compares two arrays of variable-size elements as text.
    fn same_lines(&mut self, at: usize, there: usize) -> Result<bool> {
        let (array, twin) = (&self.one.arrays()[at], &self.other.arrays()[there]);
        let (name, what) = (self.name, &array.element.name);
        for rows in
            (0..array.rows()).step_by(AT_ONCE).map(|from| from..array.rows().min(from + AT_ONCE as u64))
        {
            let (Some(mine), Some(its)) =
                (self.one.lines(at, rows.clone()), self.other.lines(there, rows.clone()))
            else {
                writeln!(self.out, "{name}: elements {what} and {} cannot be compared", twin.element.name)?;
                return Ok(false);
            };
            let (mine, its) = (mine?, its?);
            let first = mine.iter().zip(&its).position(|(one, other)| one != other);
            if let Some(first) = first.or((mine.len() != its.len()).then_some(mine.len().min(its.len()))) {
                writeln!(self.out, "{name}: {what} differ, first in row {}", rows.start + first as u64)?;
                return Ok(false);
            }
        }
        writeln!(self.out, "{name}: {what}, equal")?;
        Ok(true)
    }
}

/// The position of a number in an array: its indices, and its field if elements are records.
fn place(array: &Array, numbers: u64, number: u64) -> String {
    let mut rest = number / numbers;
    let mut indices: Vec<u64> = array
        .shape
        .iter()
        .rev()
        .map(|length| {
            let index = rest % (*length).max(1);
            rest /= (*length).max(1);
            index
        })
        .collect();
    indices.reverse();
    let field = array.element.parts.as_ref().and_then(|parts| parts.get((number % numbers) as usize));
    match field.filter(|(_, name, _)| numbers > 1 && !name.is_empty()) {
        Some((_, name, _)) => format!("{indices:?}.{name}"),
        None => format!("{indices:?}"),
    }
}
