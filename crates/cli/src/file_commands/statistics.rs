//! Minimum, maximum, mean and the number of NaN of arrays of numbers, computed on all ranks.

use anyhow::Result;
use aqueduct::comm::Comm;
use aqueduct::object::{Object, decode, encode};
use indicatif::ProgressBar;
use serde_json::{Value, json};

use crate::array_file::{ArrayFile, ArrayPart, NumberType};
use crate::file_commands::json::number;
use crate::parallel::in_order;

/// Statistics of the numbers so far. NaN count only in `nan`, fill values only in `fill`; infinite values are numbers.
#[derive(Clone, Debug, Default, PartialEq, Object)]
pub(super) struct NumberStatistics {
    values: u64,
    nan: u64,
    fill: u64,
    min: Option<f64>,
    max: Option<f64>,
    /// Exact for integers of 64 bits, which `f64` is not.
    exact: Option<(i128, i128)>,
    mean: f64,
}

impl NumberStatistics {
    /// Of the numbers of one type; the others of an element are skipped.
    fn of(kind: NumberType, at: usize, size: usize, bytes: &[u8], fill: Option<&[u8]>) -> Self {
        let all = bytes.chunks_exact(size).map(|element| &element[at..at + kind.size() as usize]);
        let each = all.clone().filter(|number| fill != Some(*number));
        let found = match kind {
            NumberType::I8 => Self::of_integers(each, i8::from_le_bytes),
            NumberType::I16 => Self::of_integers(each, i16::from_le_bytes),
            NumberType::I32 => Self::of_integers(each, i32::from_le_bytes),
            NumberType::I64 => Self::of_integers(each, i64::from_le_bytes),
            NumberType::U8 | NumberType::Char => Self::of_integers(each, u8::from_le_bytes),
            NumberType::U16 => Self::of_integers(each, u16::from_le_bytes),
            NumberType::U32 => Self::of_integers(each, u32::from_le_bytes),
            NumberType::U64 => Self::of_integers(each, u64::from_le_bytes),
            NumberType::F32 => Self::of_floats(each, |bytes| f64::from(f32::from_le_bytes(bytes))),
            NumberType::F64 => Self::of_floats(each, f64::from_le_bytes),
        };
        let values = all.len() as u64;
        Self { values, fill: values - found.values, ..found }
    }

    /// The number of values that minimum, maximum and mean are about.
    fn numbers(&self) -> u64 {
        self.values - self.nan - self.fill
    }

    fn of_integers<'b, const N: usize, T: Copy + Ord + Into<i128>>(
        each: impl Iterator<Item = &'b [u8]>,
        decode: impl Fn([u8; N]) -> T,
    ) -> Self {
        let (mut range, mut sum, mut values) = (None::<(T, T)>, 0i128, 0);
        for value in each.filter_map(|bytes| Some(decode(bytes.try_into().ok()?))) {
            range = Some(range.map_or((value, value), |(min, max)| (min.min(value), max.max(value))));
            sum += value.into();
            values += 1;
        }
        let exact = range.map(|(min, max)| (min.into(), max.into()));
        let [min, max] = [exact.map(|range| range.0 as f64), exact.map(|range| range.1 as f64)];
        Self { values, nan: 0, fill: 0, min, max, exact, mean: sum as f64 / (values as f64).max(1.0) }
    }

    fn of_floats<'b, const N: usize>(
        each: impl Iterator<Item = &'b [u8]>,
        decode: impl Fn([u8; N]) -> f64,
    ) -> Self {
        let (mut min, mut max, mut sum) = (f64::INFINITY, f64::NEG_INFINITY, 0.0);
        let (mut values, mut nan) = (0u64, 0);
        for value in each.filter_map(|bytes| Some(decode(bytes.try_into().ok()?))) {
            values += 1;
            if value.is_nan() {
                nan += 1;
                continue;
            }
            (min, max, sum) = (f64::min(min, value), f64::max(max, value), sum + value);
        }
        let some = |value: f64| (values > nan).then_some(value);
        let mean = sum / ((values - nan) as f64).max(1.0);
        Self { values, nan, fill: 0, min: some(min), max: some(max), exact: None, mean }
    }

    /// Adds the statistics of other values.
    fn merge(&mut self, other: &Self) {
        let (mine, its) = (self.numbers() as f64, other.numbers() as f64);
        if its > 0.0 {
            // The weighted mean does not overflow.
            self.mean = self.mean * (mine / (mine + its)) + other.mean * (its / (mine + its));
        }
        let joined = |one: Option<f64>, other: Option<f64>, join: fn(f64, f64) -> f64| match (one, other) {
            (Some(one), Some(other)) => Some(join(one, other)),
            (one, other) => one.or(other),
        };
        self.min = joined(self.min, other.min, f64::min);
        self.max = joined(self.max, other.max, f64::max);
        self.exact = match (self.exact, other.exact) {
            (Some(one), Some(other)) => Some((one.0.min(other.0), one.1.max(other.1))),
            (one, other) => one.or(other),
        };
        self.values += other.values;
        self.nan += other.nan;
        self.fill += other.fill;
    }

    /// Minimum and maximum, if there are numbers.
    pub(super) fn range(&self) -> Option<(f64, f64)> {
        self.min.zip(self.max)
    }

    pub(super) fn mean(&self) -> f64 {
        self.mean
    }

    pub(super) fn json(&self) -> Value {
        let range = match (self.exact, self.min, self.max) {
            // Numbers of JSON have at most 64 bits here.
            (Some((min, max)), ..) => [min, max]
                .map(|value| i64::try_from(value).map_or_else(|_| json!(value as u64), |value| json!(value))),
            (None, Some(min), Some(max)) => [number(min), number(max)],
            _ => [Value::Null, Value::Null],
        };
        let mean = self.min.map_or(Value::Null, |_| number(self.mean));
        let [min, max] = range;
        json!({"values": self.values, "nan": self.nan, "fill": self.fill, "min": min, "max": max, "mean": mean})
    }
}

impl std::fmt::Display for NumberStatistics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.exact, self.min, self.max) {
            (Some((min, max)), ..) => write!(f, "min {min}, max {max}, mean {}", self.mean)?,
            (None, Some(min), Some(max)) => write!(f, "min {min}, max {max}, mean {}", self.mean)?,
            _ => f.write_str("no numbers")?,
        }
        if self.nan > 0 {
            write!(f, ", {} of {} values are NaN", self.nan, self.values)?;
        }
        if self.fill > 0 {
            write!(f, ", {} of {} are the fill value", self.fill, self.values)?;
        }
        Ok(())
    }
}

/// The statistics of all numbers of some rows, on this rank alone; `None` if the elements are not numbers.
pub(super) fn of_rows(
    file: &dyn ArrayFile,
    at: usize,
    rows: std::ops::Range<u64>,
) -> Result<Option<NumberStatistics>> {
    let array = &file.arrays()[at];
    let Some(parts) = &array.element.parts else { return Ok(None) };
    let size = array.element.size.max(1) as usize;
    let mut all = NumberStatistics::default();
    for part in array.parts_of_rows(rows) {
        let bytes = file.read(at, &part)?;
        for (place, _, kind) in parts {
            all.merge(&NumberStatistics::of(*kind, *place as usize, size, &bytes, array.fill_value()));
        }
    }
    Ok(Some(all))
}

/// The statistics of each number of the elements of an array, with its name, on rank 0. Empty if the elements are not numbers. Collective.
pub(super) fn of_array(
    world: &Comm,
    file: &dyn ArrayFile,
    at: usize,
    bar: &ProgressBar,
) -> Result<Vec<(String, NumberStatistics)>> {
    let array = &file.arrays()[at];
    let is_text = array.element.as_number() == Some(NumberType::Char);
    let Some(parts) = array.element.parts.as_ref().filter(|_| file.is_stored(at) && !is_text) else {
        return Ok(Vec::new());
    };
    let mut all = vec![NumberStatistics::default(); parts.len()];
    let size = array.element.size.max(1) as usize;
    let read = |part: &ArrayPart| {
        let bytes = file.read(at, part)?;
        let each = parts.iter().map(|(place, _, kind)| {
            NumberStatistics::of(*kind, *place as usize, size, &bytes, array.fill_value())
        });
        Ok(encode(&each.collect::<Vec<_>>()))
    };
    let merge = |part: &ArrayPart, result: Vec<u8>| {
        let found: Vec<NumberStatistics> = decode(&result)?;
        all.iter_mut().zip(&found).for_each(|(all, found)| all.merge(found));
        bar.inc(part.count * array.element.size);
        Ok(())
    };
    in_order(world, file.readers(), array.parts(), read, merge)?;
    Ok(parts.iter().map(|(_, name, _)| name.clone()).zip(all).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_statistics_are_those_of_all_values() {
        let values = [3.0, f64::NAN, -1.5, 8.0, f64::NAN, 2.5];
        let bytes = |some: &[f64]| some.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
        let of = |some: &[f64]| NumberStatistics::of(NumberType::F64, 0, 8, &bytes(some), None);
        for cut in 0..=6 {
            let mut merged = NumberStatistics::default();
            [&values[..cut], &values[cut..]].iter().for_each(|some| merged.merge(&of(some)));
            assert_eq!((merged.values, merged.nan, merged.min, merged.max), (6, 2, Some(-1.5), Some(8.0)));
            assert!((merged.mean - 3.0).abs() < 1e-15, "{cut}: {}", merged.mean);
        }
        assert_eq!(of(&[f64::NAN]).to_string(), "no numbers, 1 of 1 values are NaN");
        let large = NumberStatistics::of(NumberType::U64, 0, 8, &u64::MAX.to_le_bytes(), None);
        assert_eq!(large.json()["max"], json!(u64::MAX));
    }
}
