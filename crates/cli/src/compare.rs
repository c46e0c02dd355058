//! `aqueduct compare`: how far two files are apart, step by step.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use anyhow::{Result, ensure};

use crate::data::{self, Array, Data, Shape, Value};
use crate::out::out;

/// For each step, the first dimension of arrays with several or that grow, the error relative to either side, the worse one: in the Frobenius norm,
/// and in the infinity norm (the greatest sum of absolute values of a row). Fails if a step is above the threshold, if shapes differ, or an array is missing.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// A file
    one: OsString,
    /// Another one, of any format
    other: OsString,
    /// This array, or all arrays of this group, only
    #[arg(long)]
    array: Option<String>,
    /// Relative errors above it count as differences
    #[arg(long, default_value_t = 0.0)]
    threshold: f64,
    /// Prints each step, not only the worst one
    #[arg(long)]
    steps: bool,
    #[command(flatten)]
    raw: Shape,
}

/// The errors of one step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Errors {
    frobenius: f64,
    infinity: f64,
}

/// What is known of an array's steps.
#[derive(Debug, Default, PartialEq)]
struct Worst {
    steps: u64,
    /// Those above the threshold.
    over: u64,
    /// The greatest error, and in which step.
    frobenius: (f64, u64),
    infinity: (f64, u64),
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    ensure!(!arguments.threshold.is_nan(), "--threshold must be a number: nothing is above what is none");
    let differences = data::alone(|world| {
        let out = &mut out();
        let [one, other] =
            [&arguments.one, &arguments.other].map(|name| data::open(world, name, &arguments.raw));
        let (one, other) = (one?, other?);
        let names = names(&*one, &*other, arguments.array.as_deref())?;
        let mut differences = 0;
        for name in names {
            differences += u64::from(!same(&name, &*one, &*other, arguments, out)?);
        }
        match differences {
            0 => writeln!(out, "no differences")?,
            some => writeln!(out, "{some} arrays differ")?,
        }
        out.flush()?;
        Ok(differences)
    })?;
    Ok(if differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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

fn same(
    name: &str,
    one: &dyn Data,
    other: &dyn Data,
    arguments: &Arguments,
    out: &mut impl Write,
) -> Result<bool> {
    let find = |file: &dyn Data| {
        let only = file.arrays().len() == 1;
        file.arrays().iter().position(|array| only || plain(array) == name)
    };
    let (Some(at), Some(there)) = (find(one), find(other)) else {
        writeln!(out, "{name}: in one of them only")?;
        return Ok(false);
    };
    let (array, twin) = (&one.arrays()[at], &other.arrays()[there]);
    if array.shape != twin.shape {
        writeln!(out, "{name}: shapes {:?} and {:?}", array.shape, twin.shape)?;
        return Ok(false);
    }
    let mut worst = Worst::default();
    let columns = array.shape.last().copied().unwrap_or(1).max(1);
    // What has no steps is one, in as many pieces as suit memory.
    let mut step = Apart::default();
    for rows in array.portions() {
        let count = if steps(array) { (rows.end - rows.start).max(1) as usize } else { 1 };
        let (mine, its) = (one.read(at, rows.clone())?, other.read(there, rows)?);
        let (Some(mine), Some(its)) = (array.element.numbers(&mine), twin.element.numbers(&its)) else {
            return same_bytes(name, (one, at), (other, there), out);
        };
        if mine.len() != its.len() {
            writeln!(out, "{name}: elements {} and {}", array.element.name, twin.element.name)?;
            return Ok(false);
        }
        let length = (mine.len() / count).max(1);
        for (mine, its) in mine.chunks(length).zip(its.chunks(length)) {
            step.add(mine, its, columns);
            if steps(array) {
                worst.take(std::mem::take(&mut step).errors(), name, arguments, out)?;
            }
        }
    }
    if !step.is_empty() {
        worst.take(step.errors(), name, arguments, out)?;
    }
    let Worst { steps, over, frobenius, infinity } = worst;
    writeln!(
        out,
        "{name}: {steps} steps, Frobenius {:e} (step {}), infinity {:e} (step {}), {over} over {:e}",
        frobenius.0, frobenius.1, infinity.0, infinity.1, arguments.threshold
    )?;
    Ok(over == 0)
}

/// Whether two arrays that are not made of numbers alone hold the same, byte by byte.
fn same_bytes(
    name: &str,
    (one, at): (&dyn Data, usize),
    (other, there): (&dyn Data, usize),
    out: &mut impl Write,
) -> Result<bool> {
    let (array, twin) = (&one.arrays()[at], &other.arrays()[there]);
    if array.element != twin.element {
        writeln!(out, "{name}: elements {} and {}", array.element.name, twin.element.name)?;
        return Ok(false);
    }
    for rows in array.portions() {
        if one.read(at, rows.clone())? != other.read(there, rows.clone())? {
            writeln!(out, "{name}: {} differ in rows {rows:?}", array.element.name)?;
            return Ok(false);
        }
    }
    writeln!(out, "{name}: {}, the same byte by byte", array.element.name)?;
    Ok(true)
}

/// Whether the first dimension of an array is its steps.
fn steps(array: &Array) -> bool {
    array.shape.len() > 1 || array.grows
}

impl Worst {
    /// Tells the errors of the next step, where that is wanted, and keeps the worst.
    fn take(
        &mut self,
        errors: Errors,
        name: &str,
        arguments: &Arguments,
        out: &mut impl Write,
    ) -> Result<()> {
        if arguments.steps {
            writeln!(out, "{name} {}: {:e} {:e}", self.steps, errors.frobenius, errors.infinity)?;
        }
        self.add(errors, arguments.threshold);
        Ok(())
    }

    fn add(&mut self, errors: Errors, threshold: f64) {
        let step = self.steps;
        self.steps += 1;
        self.over += u64::from(errors.frobenius > threshold || errors.infinity > threshold);
        for (worst, error) in [(&mut self.frobenius, errors.frobenius), (&mut self.infinity, errors.infinity)]
        {
            if error > worst.0 {
                *worst = (error, step);
            }
        }
    }
}

/// What is known of a step whose values come piece by piece: the norms of the difference and of either side.
#[derive(Default)]
struct Apart {
    difference: Norms,
    sides: [Norms; 2],
}

impl Apart {
    /// The next values of both sides, in rows of so many.
    fn add(&mut self, one: &[Value], other: &[Value], columns: u64) {
        let apart: Vec<f64> = one.iter().zip(other).map(|(one, other)| difference(*one, *other)).collect();
        self.difference.add(&apart, columns);
        // What is not finite is the same on both sides, or apart enough: the norm is of the rest.
        let finite = |value: &Value| if value.nearest.is_finite() { value.nearest } else { 0.0 };
        for (norms, side) in self.sides.iter_mut().zip([one, other]) {
            norms.add(&side.iter().map(finite).collect::<Vec<_>>(), columns);
        }
    }

    fn is_empty(&self) -> bool {
        self.difference.values == 0
    }

    /// The errors relative to either side, the worse one.
    fn errors(&self) -> Errors {
        let worse = |norm: &dyn Fn(&Norms) -> f64| {
            let far = norm(&self.difference);
            self.sides.iter().map(|side| relative(far, norm(side))).fold(0.0, f64::max)
        };
        Errors { frobenius: worse(&Norms::frobenius), infinity: worse(&Norms::infinity) }
    }
}

/// The norms of values so far.
#[derive(Default)]
struct Norms {
    values: u64,
    /// The greatest of them.
    greatest: f64,
    /// The sum of squares, each divided by that of the greatest: squares of very large and very small ones are no numbers any more.
    squares: f64,
    /// The greatest sum of a row, and that of the row that has begun.
    widest: f64,
    row: f64,
}

impl Norms {
    /// More values, in rows of so many.
    fn add(&mut self, values: &[f64], columns: u64) {
        let greatest = values.iter().fold(self.greatest, |greatest, value| greatest.max(value.abs()));
        if greatest.is_finite() && greatest > 0.0 {
            let more = values.iter().map(|value| (value / greatest).powi(2)).sum::<f64>();
            self.squares = self.squares * (self.greatest / greatest).powi(2) + more;
        }
        self.greatest = greatest;
        let mut rest = values;
        while !rest.is_empty() {
            let left = usize::try_from(columns - self.values % columns).unwrap_or(usize::MAX);
            let (now, later) = rest.split_at(left.min(rest.len()));
            self.row += now.iter().map(|value| value.abs()).sum::<f64>();
            self.widest = self.widest.max(self.row);
            self.values += now.len() as u64;
            if self.values.is_multiple_of(columns) {
                self.row = 0.0;
            }
            rest = later;
        }
    }

    fn frobenius(&self) -> f64 {
        if self.greatest == 0.0 || self.greatest.is_infinite() {
            return self.greatest;
        }
        self.greatest * self.squares.sqrt()
    }

    fn infinity(&self) -> f64 {
        self.widest
    }
}

/// How far two values are apart. The same, NaN and infinity too, is no difference; one that is not a number on one side alone is the greatest.
fn difference(one: Value, other: Value) -> f64 {
    let far = ((one.nearest - other.nearest) + (one.rest - other.rest)).abs();
    let same = one.nearest.total_cmp(&other.nearest).is_eq() && one.rest.total_cmp(&other.rest).is_eq();
    if same || (one.nearest.is_nan() && other.nearest.is_nan()) {
        0.0
    } else if far.is_nan() {
        f64::INFINITY
    } else {
        far
    }
}

fn relative(far: f64, whole: f64) -> f64 {
    if far == 0.0 {
        0.0
    } else if far.is_infinite() || whole.is_nan() || whole <= 0.0 {
        f64::INFINITY
    } else {
        far / whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(one: &[f64], other: &[f64], columns: u64) -> Errors {
        in_pieces(one, other, columns, one.len().max(1))
    }

    /// The errors of values that come so many at once.
    fn in_pieces(one: &[f64], other: &[f64], columns: u64, piece: usize) -> Errors {
        let values = |side: &[f64]| side.iter().copied().map(Value::from).collect::<Vec<_>>();
        let mut apart = Apart::default();
        for (one, other) in one.chunks(piece).zip(other.chunks(piece)) {
            apart.add(&values(one), &values(other), columns);
        }
        apart.errors()
    }

    #[test]
    fn pieces_add_up() {
        let one: Vec<f64> = (0..60).map(|at| f64::from(at * at - 700) * 10f64.powi(at % 7)).collect();
        let mut other = one.clone();
        other[7] += 3e5;
        other[58] -= 1e9;
        for columns in [1, 4, 15, 60] {
            let whole = in_pieces(&one, &other, columns, 60);
            for piece in 1..60 {
                let Errors { frobenius, infinity } = in_pieces(&one, &other, columns, piece);
                let near = |sum: f64, whole: f64| (sum / whole - 1.0).abs() < 1e-12;
                assert!(
                    near(frobenius, whole.frobenius) && near(infinity, whole.infinity),
                    "{columns} {piece}"
                );
            }
        }
        other[3] = f64::NAN;
        assert!(in_pieces(&one, &other, 60, 7).frobenius.is_infinite());
        assert!(in_pieces(&one, &other, 60, 7).infinity.is_infinite());
    }

    #[test]
    fn errors_are_relative_to_the_worse_side() {
        let Errors { frobenius, infinity } = errors(&[3.0, 4.0], &[3.0, 0.0], 2);
        assert!((frobenius - 4.0 / 3.0).abs() < 1e-15 && (infinity - 4.0 / 3.0).abs() < 1e-15);
        // Two rows: their sums are 3 and 7, the differences 0 and 1.
        let Errors { frobenius, infinity } = errors(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 3.0, 5.0], 2);
        assert!((infinity - 1.0 / 7.0).abs() < 1e-15 && (frobenius - 1.0 / 30f64.sqrt()).abs() < 1e-15);
    }

    #[test]
    fn what_is_no_number_is_the_same_or_far() {
        let nothing = Errors::default();
        assert_eq!(errors(&[f64::NAN, f64::INFINITY], &[f64::NAN, f64::INFINITY], 2), nothing);
        assert_eq!(errors(&[0.0], &[0.0], 1), nothing);
        assert!(errors(&[f64::NAN], &[1.0], 1).frobenius.is_infinite());
        assert!(errors(&[0.0], &[1.0], 1).infinity.is_infinite());
        let found = errors(&[f64::INFINITY, f64::NAN, 1.0], &[f64::INFINITY, f64::NAN, 2.0], 3);
        let whole = Errors { frobenius: 1.0, infinity: 1.0 };
        assert_eq!(found, whole, "what is finite beside it is still compared");
    }

    #[test]
    fn the_smallest_and_the_largest_numbers_have_a_norm() {
        for size in [1e-300, 1e300] {
            let Errors { frobenius, infinity } =
                errors(&[3.0 * size, 4.0 * size], &[3.0 * size, 5.0 * size], 2);
            assert!((frobenius - 0.2).abs() < 1e-12, "{frobenius}");
            assert!((infinity - 1.0 / 7.0).abs() < 1e-12, "{infinity}");
        }
    }
}
