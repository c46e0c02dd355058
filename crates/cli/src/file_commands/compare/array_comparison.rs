//! Comparison of two arrays on all ranks: parts are compared by one rank each, rank 0 combines the results in their order.

use std::io::Write;

use anyhow::Result;
use aqueduct::comm::Comm;
use aqueduct::object::{Object, decode, encode};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use super::elements::{self, ElementDifference, ElementDifferences, ElementPair, NumberBlock, Tolerance};
use super::norms::{StepErrors, StepNorms};
use super::step_errors::{PartSteps, StepSequence, WorstStep};
use super::time_axis::TimeAxis;
use super::{CompareArguments, ComparisonTotals, metadata};
use crate::array_file::{Array, ArrayFile, ArrayPart};
use crate::file_commands::json::number;
use crate::parallel::{agree, in_order};

/// The number of values that are compared at once, which fit the processor's cache.
const AT_ONCE: usize = 4096;
/// In place of the number of a row: the rows cannot be compared.
const INCOMPARABLE: u64 = u64::MAX;

/// Two open files.
pub(super) struct ComparedFiles<'f> {
    pub(super) world: &'f Comm,
    pub(super) one: &'f dyn ArrayFile,
    pub(super) other: &'f dyn ArrayFile,
    pub(super) bar: &'f ProgressBar,
}

/// Two arrays of the same name.
pub(super) struct ArrayComparison<'c> {
    files: &'c ComparedFiles<'c>,
    name: &'c str,
    arguments: &'c CompareArguments,
    tolerance: Tolerance,
    totals: &'c mut ComparisonTotals,
}

/// The result for two arrays; the JSON only on rank 0.
pub(super) struct ArrayOutcome {
    pub(super) is_same: bool,
    pub(super) json: Value,
}

/// The comparison of a part.
#[derive(Debug, Default, Object)]
struct PartComparison {
    found: ElementDifferences,
    steps: PartSteps,
}

/// The values of an array that are compared at once.
#[derive(Default)]
struct NumberComparison {
    block: NumberBlock,
    /// Numbers of an element, and of a row of elements.
    per_element: u64,
    columns: u64,
}

impl<'c> ArrayComparison<'c> {
    pub(super) fn new(
        files: &'c ComparedFiles<'c>,
        name: &'c str,
        arguments: &'c CompareArguments,
        tolerance: Tolerance,
        totals: &'c mut ComparisonTotals,
    ) -> Self {
        Self { files, name, arguments, tolerance, totals }
    }

    /// Compares values and metadata. Whether the arrays are the same is known to all ranks. Collective.
    pub(super) fn run(
        &mut self,
        places: [Option<usize>; 2],
        out: &mut impl Write,
    ) -> Result<(ArrayOutcome, Vec<String>)> {
        let (name, ComparedFiles { one, other, .. }) = (self.name, self.files);
        let [Some(at), Some(there)] = places else {
            let outcome = self.outcome(false, "in one of the files only", out)?;
            return Ok((outcome, Vec::new()));
        };
        let (array, twin) = (&one.arrays()[at], &other.arrays()[there]);
        let mut metadata = Vec::new();
        if !self.arguments.data_only {
            let both = one.holds_metadata() && other.holds_metadata();
            metadata = metadata::of_arrays(name, array, twin, both);
        }
        let is_nothing = |array: &Array| array.element.parts.as_ref().is_some_and(Vec::is_empty);
        let outcome = if array.shape != twin.shape {
            self.outcome(false, &format!("shapes {:?} and {:?}", array.shape, twin.shape), out)
        } else if is_nothing(array) && is_nothing(twin) {
            // Elements of 0 bytes, the same number on both sides.
            self.outcome(true, &format!("{}, equal", array.element.name), out)
        } else if array.element.size == 0 && twin.element.size == 0 {
            self.same_lines(at, there, out)
        } else if let Some(pair) = ElementPair::new(&array.element, &twin.element) {
            self.same_numbers(at, there, &pair, out)
        } else {
            self.same_bytes(at, there, out)
        };
        Ok((outcome?, metadata))
    }

    /// The result for arrays that are not compared as numbers: a text.
    fn outcome(&self, is_same: bool, text: &str, out: &mut impl Write) -> Result<ArrayOutcome> {
        if !self.arguments.json {
            writeln!(out, "{}: {text}", self.name)?;
        }
        Ok(ArrayOutcome { is_same, json: json!({"name": self.name, "same": is_same, "text": text}) })
    }

    /// The number of ranks that compare.
    fn workers(&self) -> usize {
        self.files.one.readers().min(self.files.other.readers())
    }

    fn same_numbers(
        &mut self,
        at: usize,
        there: usize,
        pair: &ElementPair<'_>,
        out: &mut impl Write,
    ) -> Result<ArrayOutcome> {
        let ComparedFiles { world, one, other, bar } = *self.files;
        let (array, twin) = (&one.arrays()[at], &other.arrays()[there]);
        let time = TimeAxis::of(array, self.arguments.time)?;
        let mut numbers = NumberComparison::default();
        numbers.per_element = array.element.parts.as_ref().map_or(1, Vec::len).max(1) as u64;
        numbers.columns = array.shape.last().copied().unwrap_or(1).clamp(1, time.inner) * numbers.per_element;
        let per_element = numbers.per_element;
        // Steps that are not in one piece are all open at once, on one rank.
        let (open, workers) = if time.outer > 1 { (time.steps, 1) } else { (0, self.workers()) };
        let mut norms: Vec<StepNorms> = (0..open).map(|_| StepNorms::default()).collect();
        // The parts of the array with the larger elements fit memory for both.
        let parts = if array.element.size >= twin.element.size { array.parts() } else { twin.parts() };
        let mut found = ElementDifferences::keeping(self.arguments.first);
        let (mut steps, mut step) = (StepSequence::default(), 0u64);
        let (mut listed, mut all_listed) = (Vec::new(), Vec::new());
        let this = &*self;
        let compare = |part: &ArrayPart| {
            let sides = [one.read(at, part)?, other.read(there, part)?];
            let sides = [&sides[0][..], &sides[1]];
            let sizes = [array.element.size, twin.element.size].map(|size| size.max(1) as usize);
            let values = PartValues { part, sides, sizes };
            Ok(encode(&this.compare_part(&values, pair, time, &mut numbers, &mut norms)))
        };
        let take = |part: &ArrayPart, result: Vec<u8>| {
            let part_result: PartComparison = decode(&result)?;
            found.append(part_result.found);
            steps.append(part_result.steps, this.tolerance.relative, &mut listed, this.arguments.steps);
            for errors in listed.drain(..) {
                this.list_step(step, errors, &mut all_listed, out)?;
                step += 1;
            }
            bar.inc(part.count * array.element.size);
            Ok(())
        };
        in_order(world, workers, parts, compare, take)?;
        for errors in norms.iter().filter(|step| !step.is_empty()).map(StepNorms::errors) {
            steps.worst.end_step(errors, self.tolerance.relative);
            if self.arguments.steps {
                self.list_step(steps.worst.counts.all - 1, errors, &mut all_listed, out)?;
            }
        }
        self.totals.add(&found, steps.worst.counts);
        if !self.arguments.json {
            self.print_summary(array, per_element, &found, &steps.worst, out)?;
        }
        let mut json = self.summary_json(array, per_element, &found, &steps.worst);
        if self.arguments.steps {
            json["errors_of_steps"] = all_listed.into();
        }
        // Only rank 0 has the result.
        let is_same = world.broadcast_vec(0, vec![u8::from(found.above == 0)])? == [1];
        Ok(ArrayOutcome { is_same, json })
    }

    /// Prints the errors of a step, or keeps them for the JSON.
    fn list_step(
        &self,
        step: u64,
        errors: StepErrors,
        listed: &mut Vec<Value>,
        out: &mut impl Write,
    ) -> Result<()> {
        let StepErrors { frobenius, infinity } = errors;
        if self.arguments.json {
            listed.push(json!({"step": step, "frobenius": number(frobenius), "infinity": number(infinity)}));
            return Ok(());
        }
        Ok(writeln!(out, "{} {step}: {frobenius:e} {infinity:e}", self.name)?)
    }

    /// Compares the values of a part. `norms` has the steps if they are not in one piece.
    fn compare_part(
        &self,
        values: &PartValues<'_>,
        pair: &ElementPair<'_>,
        time: TimeAxis,
        numbers: &mut NumberComparison,
        norms: &mut [StepNorms],
    ) -> PartComparison {
        let mut result = PartComparison {
            found: ElementDifferences::keeping(self.arguments.first),
            ..PartComparison::default()
        };
        let (part, threshold) = (values.part, self.tolerance.relative);
        let end_step = |steps: &mut PartSteps, errors: StepErrors| {
            steps.whole.end_step(errors, threshold);
            if self.arguments.steps {
                steps.listed.push(errors);
            }
        };
        let is_contiguous = time.outer == 1;
        let whole_steps = is_contiguous && part.first % time.inner == 0 && part.count % time.inner == 0;
        if whole_steps && matches!(pair, ElementPair::Same(_)) && values.sides[0] == values.sides[1] {
            result.found.add_same(part.count * numbers.per_element);
            (0..part.count / time.inner).for_each(|_| end_step(&mut result.steps, StepErrors::default()));
            return result;
        }
        let (mut done, mut before) = (0, part.first % time.inner);
        let mut piece = StepNorms::starting_at(before * numbers.per_element);
        while done < part.count {
            let left = time.left(part.first + done);
            let count = (part.count - done).min(left).min((AT_ONCE as u64 / numbers.per_element).max(1));
            let sides = values.elements(done, count);
            let step =
                if is_contiguous { &mut piece } else { &mut norms[time.step(part.first + done) as usize] };
            self.add_numbers(pair, sides, (&mut *numbers, &mut result.found, step));
            done += count;
            if count == left && is_contiguous {
                let piece = std::mem::take(&mut piece);
                if before > 0 {
                    (result.steps.head, result.steps.ends_head, before) = (Some(piece), true, 0);
                } else {
                    end_step(&mut result.steps, piece.errors());
                }
            }
        }
        if is_contiguous && !piece.is_empty() {
            let rest = if before > 0 { &mut result.steps.head } else { &mut result.steps.tail };
            *rest = Some(piece);
        }
        result
    }

    /// Compares a few elements of a step.
    fn add_numbers(
        &self,
        pair: &ElementPair<'_>,
        [mine, its]: [&[u8]; 2],
        (numbers, found, norms): (&mut NumberComparison, &mut ElementDifferences, &mut StepNorms),
    ) {
        let block = &mut numbers.block;
        match pair {
            ElementPair::Same(number) if mine == its => {
                elements::load(*number, mine, &mut block.one);
                found.add_same(block.one.len() as u64);
                norms.add_same(&block.one, numbers.columns);
            }
            _ => {
                block.fill(pair, mine, its);
                found.add(block, self.tolerance);
                norms.add([&block.one, &block.other], &block.distances, numbers.columns);
            }
        }
    }

    fn print_summary(
        &self,
        array: &Array,
        numbers: u64,
        found: &ElementDifferences,
        worst: &WorstStep,
        out: &mut impl Write,
    ) -> Result<()> {
        let name = self.name;
        let Some(largest) = found.largest else {
            return Ok(writeln!(out, "{name}: {} values, all equal", found.values)?);
        };
        let (place, [one, other]) = (place(array, numbers, largest.place), largest.sides);
        writeln!(
            out,
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
            writeln!(out, "{name} {place}: {one:?} and {other:?}")?;
        }
        Ok(())
    }

    fn summary_json(
        &self,
        array: &Array,
        numbers: u64,
        found: &ElementDifferences,
        worst: &WorstStep,
    ) -> Value {
        let difference = |difference: &ElementDifference| {
            let (index, field) = indices(array, numbers, difference.place);
            let [one, other] = difference.sides.map(number);
            json!({"index": index, "field": field, "one": one, "other": other, "difference": number(difference.distance)})
        };
        let norm = |(error, step): (f64, u64), above: u64| json!({"greatest": number(error), "step": step, "steps_above": above});
        json!({
            "name": self.name, "same": found.above == 0, "values": found.values, "differing": found.differing,
            "above_tolerance": found.above, "largest": found.largest.as_ref().map(difference),
            "first": found.first.iter().map(difference).collect::<Vec<_>>(), "steps": worst.counts.all,
            "frobenius": norm(worst.frobenius, worst.counts.frobenius),
            "infinity": norm(worst.infinity, worst.counts.infinity),
        })
    }

    /// Compares two arrays whose elements are not only numbers, byte by byte.
    fn same_bytes(&self, at: usize, there: usize, out: &mut impl Write) -> Result<ArrayOutcome> {
        let ComparedFiles { world, one, other, bar } = *self.files;
        let (array, twin) = (&one.arrays()[at], &other.arrays()[there]);
        let what = &array.element.name;
        if array.element.size != twin.element.size || array.element.size == 0 {
            let text = format!("elements {what} and {} cannot be compared", twin.element.name);
            return self.outcome(false, &text, out);
        }
        let mut found: Option<u64> = None;
        let compare = |part: &ArrayPart| {
            let (mine, its) = (one.read(at, part)?, other.read(there, part)?);
            let byte = mine.iter().zip(&its).position(|(one, other)| one != other);
            Ok(byte.map_or(Vec::new(), |byte| encode(&(part.first + byte as u64 / array.element.size))))
        };
        let take = |part: &ArrayPart, result: Vec<u8>| {
            if found.is_none() && !result.is_empty() {
                found = Some(decode(&result)?);
            }
            bar.inc(part.count * array.element.size);
            Ok(())
        };
        in_order(world, self.workers(), array.parts(), compare, take)?;
        let first = world.broadcast_vec(0, vec![found.unwrap_or(u64::MAX)])?;
        match first.first().filter(|first| **first != u64::MAX) {
            Some(first) => {
                let text = format!("{what} differ, first at {}", place(array, 1, *first));
                self.outcome(false, &text, out)
            }
            None => self.outcome(true, &format!("{what}, equal byte by byte"), out),
        }
    }

    /// Compares two arrays of variable-size elements as text. Every rank compares all of them.
    fn same_lines(&self, at: usize, there: usize, out: &mut impl Write) -> Result<ArrayOutcome> {
        let ComparedFiles { world, one, other, .. } = *self.files;
        let first = agree(world, self.first_different_line(at, there))?;
        let (what, its) = (&one.arrays()[at].element.name, &other.arrays()[there].element.name);
        match first {
            Some(INCOMPARABLE) => {
                self.outcome(false, &format!("elements {what} and {its} cannot be compared"), out)
            }
            Some(row) => self.outcome(false, &format!("{what} differ, first in row {row}"), out),
            None => self.outcome(true, &format!("{what}, equal"), out),
        }
    }

    /// The first row that differs, `u64::MAX` if the rows cannot be compared.
    fn first_different_line(&self, at: usize, there: usize) -> Result<Option<u64>> {
        let ComparedFiles { one, other, .. } = *self.files;
        let all = one.arrays()[at].rows();
        for rows in (0..all).step_by(AT_ONCE).map(|from| from..all.min(from + AT_ONCE as u64)) {
            let (Some(mine), Some(its)) = (one.lines(at, rows.clone()), other.lines(there, rows.clone()))
            else {
                return Ok(Some(INCOMPARABLE));
            };
            let (mine, its) = (mine?, its?);
            let first = mine.iter().zip(&its).position(|(one, other)| one != other);
            if let Some(first) = first.or((mine.len() != its.len()).then_some(mine.len().min(its.len()))) {
                return Ok(Some(rows.start + first as u64));
            }
        }
        Ok(None)
    }
}

/// The values of a part on both sides.
struct PartValues<'v> {
    part: &'v ArrayPart,
    sides: [&'v [u8]; 2],
    /// The sizes of elements.
    sizes: [usize; 2],
}

impl<'v> PartValues<'v> {
    /// Some elements of both sides.
    fn elements(&self, from: u64, count: u64) -> [&'v [u8]; 2] {
        [0, 1].map(|side| {
            let (bytes, size) = (self.sides[side], self.sizes[side]);
            let end = ((from + count) as usize * size).min(bytes.len());
            &bytes[(from as usize * size).min(end)..end]
        })
    }
}

/// The indices of a number in an array, and its field if elements are records.
fn indices(array: &Array, numbers: u64, number: u64) -> (Vec<u64>, Option<&str>) {
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
    (indices, field.map(|(_, name, _)| &**name).filter(|name| numbers > 1 && !name.is_empty()))
}

/// The position of a number in an array as text.
fn place(array: &Array, numbers: u64, number: u64) -> String {
    match indices(array, numbers, number) {
        (indices, Some(field)) => format!("{indices:?}.{field}"),
        (indices, None) => format!("{indices:?}"),
    }
}
