//! `aqueduct compare`: whether two files hold the same, and how far they are apart.

mod elements;
mod metadata;
mod norms;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, ensure};

use self::elements::{ElementDifferences, ElementPair, NumberBlock, Tolerance};
use self::norms::{StepErrors, StepNorms};
use crate::data::{self, Array, Data, Shape};
use crate::out::out;

/// Numbers that are compared at once: the processor's cache holds them.
const AT_ONCE: usize = 4096;

/// Compares arrays element by element, and what is said about them: types, names of dimensions, attributes.
///
/// Two numbers a and b differ if |a − b| is more than ATOL + THRESHOLD · min(|a|, |b|). NaN is the same as NaN, and differs from every number. Norms are
/// told in addition: for each step (the first dimension of arrays with several) the error relative to either side, the worse one, in the Frobenius norm
/// and in the infinity norm (the greatest sum of absolute values of a row).
///
/// Exit status: 0 if nothing differs, 1 if something does, 2 if a file cannot be read.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A file of any kind that the command knows, or a checkpoint store
    one: OsString,
    /// Another one, of any kind
    other: OsString,
    /// This array, or all arrays of this group, only
    #[arg(long)]
    array: Option<String>,
    /// Relative differences up to this one are none
    #[arg(long, visible_alias = "rtol", default_value_t = 0.0)]
    threshold: f64,
    /// Absolute differences up to this one are none
    #[arg(long, default_value_t = 0.0)]
    atol: f64,
    /// Compares values alone: neither types nor names of dimensions nor attributes
    #[arg(long)]
    data_only: bool,
    /// Prints the errors of each step, not only the worst one
    #[arg(long)]
    steps: bool,
    #[command(flatten)]
    raw: Shape,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let is_tolerance = |value: f64| value >= 0.0;
    ensure!(is_tolerance(arguments.threshold), "--threshold must be a number from 0 on");
    ensure!(is_tolerance(arguments.atol), "--atol must be a number from 0 on");
    let same = data::alone(|world| {
        let out = &mut out();
        let [one, other] =
            [&arguments.one, &arguments.other].map(|name| data::open(world, name, &arguments.raw));
        let (one, other) = (one?, other?);
        let names = names(&*one, &*other, arguments.array.as_deref())?;
        let mut found = Vec::new();
        if !arguments.data_only && arguments.array.is_none() {
            found.extend(metadata::of_files(&*one, &*other));
        }
        let mut arrays = 0;
        for name in names {
            let mut comparison = ArrayComparison { name: &name, one: &*one, other: &*other, arguments, out };
            let (same, metadata) = comparison.run()?;
            arrays += u64::from(!same);
            found.extend(metadata);
        }
        for line in &found {
            writeln!(out, "{line}")?;
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

/// The arrays to compare. One that is alone in its file stands for whatever it is compared with.
fn names(one: &dyn Data, other: &dyn Data, wanted: Option<&str>) -> Result<BTreeSet<String>> {
    let named = |file: &dyn Data| -> Result<BTreeSet<String>> {
        let chosen = data::chosen(file.arrays(), wanted)?;
        Ok(chosen.into_iter().map(|at| plain(&file.arrays()[at])).collect())
    };
    let alone = |file: &dyn Data| file.arrays().len() == 1;
    match (alone(one), alone(other)) {
        (true, true) => Ok(one.arrays().iter().map(plain).collect()),
        (true, false) if wanted.is_some() => named(other),
        (false, true) if wanted.is_some() => named(one),
        _ => Ok(named(one)?.into_iter().chain(named(other)?).collect()),
    }
}

/// The name of an array without what formats put around it.
fn plain(array: &Array) -> String {
    array.name.trim_matches('/').replace('/', ".")
}

/// Two arrays of the same name.
struct ArrayComparison<'c, W> {
    name: &'c str,
    one: &'c dyn Data,
    other: &'c dyn Data,
    arguments: &'c Arguments,
    out: &'c mut W,
}

/// The worst step so far.
#[derive(Default)]
struct WorstStep {
    steps: u64,
    /// The greatest error, and in which step.
    frobenius: (f64, u64),
    infinity: (f64, u64),
}

impl<W: Write> ArrayComparison<'_, W> {
    /// Whether the values are the same, and what else differs.
    fn run(&mut self) -> Result<(bool, Vec<String>)> {
        let find = |file: &dyn Data| {
            let only = file.arrays().len() == 1;
            file.arrays().iter().position(|array| only || plain(array) == self.name)
        };
        let name = self.name;
        let (Some(at), Some(there)) = (find(self.one), find(self.other)) else {
            writeln!(self.out, "{name}: in one of them only")?;
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
        let same = if array.element.size == 0 && twin.element.size == 0 {
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
        let numbers = array.element.parts.as_ref().map_or(1, Vec::len).max(1) as u64;
        let columns = array.shape.last().copied().unwrap_or(1).max(1) * numbers;
        let per_step = if array.has_steps() { array.row_elements().max(1) } else { u64::MAX };
        let tolerance = Tolerance { relative: self.arguments.threshold, absolute: self.arguments.atol };
        let (mut found, mut worst, mut step) = <(ElementDifferences, WorstStep, StepNorms)>::default();
        let mut block = NumberBlock::default();
        // Those of the larger elements, which suit memory for both.
        let parts = if array.element.size >= twin.element.size { array.parts() } else { twin.parts() };
        for part in parts {
            let (mine, its) = (self.one.read(at, &part)?, self.other.read(there, &part)?);
            let whole_steps = part.first % per_step == 0 && part.count % per_step == 0;
            if whole_steps && matches!(pair, ElementPair::Same(_)) && mine == its {
                found.add_same(part.count * numbers);
                for _ in 0..part.count / per_step {
                    self.end_step(&mut worst, StepErrors::default())?;
                }
                continue;
            }
            let (mut done, sizes) =
                (0, [array.element.size, twin.element.size].map(|size| size.max(1) as usize));
            while done < part.count {
                let left = per_step - (part.first + done) % per_step;
                let count = (part.count - done).min(left).min((AT_ONCE as u64 / numbers).max(1));
                let cut = |bytes: &[u8], size: usize| {
                    done as usize * size..((done + count) as usize * size).min(bytes.len())
                };
                let (mine, its) = (&mine[cut(&mine, sizes[0])], &its[cut(&its, sizes[1])]);
                match pair {
                    ElementPair::Same(number) if mine == its => {
                        elements::load(*number, mine, &mut block.one);
                        found.add_same(count);
                        step.add_same(&block.one, columns);
                    }
                    _ => {
                        block.fill(pair, mine, its);
                        found.add(&block, tolerance);
                        step.add([&block.one, &block.other], &block.apart, columns);
                    }
                }
                done += count;
                if count == left {
                    self.end_step(&mut worst, std::mem::take(&mut step).errors())?;
                }
            }
        }
        if !step.is_empty() {
            self.end_step(&mut worst, step.errors())?;
        }
        self.tell(array, numbers, &found, &worst)?;
        Ok(found.above == 0)
    }

    /// Prints the errors of the next step, where that is wanted, and keeps the worst.
    fn end_step(&mut self, worst: &mut WorstStep, errors: StepErrors) -> Result<()> {
        let step = worst.steps;
        if self.arguments.steps {
            writeln!(self.out, "{} {step}: {:e} {:e}", self.name, errors.frobenius, errors.infinity)?;
        }
        worst.steps += 1;
        for (worst, error) in
            [(&mut worst.frobenius, errors.frobenius), (&mut worst.infinity, errors.infinity)]
        {
            if error > worst.0 {
                *worst = (error, step);
            }
        }
        Ok(())
    }

    fn tell(
        &mut self,
        array: &Array,
        numbers: u64,
        found: &ElementDifferences,
        worst: &WorstStep,
    ) -> Result<()> {
        let name = self.name;
        let Some(largest) = found.largest else {
            return Ok(writeln!(self.out, "{name}: {} values, all the same", found.values)?);
        };
        let (place, [one, other]) = (place(array, numbers, largest.place), largest.sides);
        writeln!(
            self.out,
            "{name}: {} of {} values differ, {} above the tolerance; largest difference {:e} at {place}: {one:?} and {other:?}; \
             in {} steps Frobenius {:e} (step {}), infinity {:e} (step {})",
            found.differing,
            found.values,
            found.above,
            largest.apart,
            worst.steps,
            worst.frobenius.0,
            worst.frobenius.1,
            worst.infinity.0,
            worst.infinity.1
        )?;
        Ok(())
    }

    /// Whether two arrays that are not made of numbers alone hold the same, byte by byte.
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
                writeln!(self.out, "{name}: {what} differ, the first at {}", place(array, 1, first))?;
                return Ok(false);
            }
        }
        writeln!(self.out, "{name}: {what}, the same byte by byte")?;
        Ok(true)
    }

    /// Whether two arrays of elements of any size are the same as text.
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
                writeln!(self.out, "{name}: {what} differ, the first in row {}", rows.start + first as u64)?;
                return Ok(false);
            }
        }
        writeln!(self.out, "{name}: {what}, the same")?;
        Ok(true)
    }
}

/// The place of a number in an array: its indices, and its field where elements are records.
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
