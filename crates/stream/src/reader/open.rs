//! Opening a stream file: the header, the description, and the valid records.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use aqueduct_comm::{Comm, Op};
use aqueduct_file::{self as file, File};

use super::{IncompleteStep, Reader, StoredStep};
use crate::error::{Error, Result, agree};
use crate::steps_file::{StepsFileContents, checksum_matches, read_steps_file, steps_name};
use crate::steps_format::{RecordType, StepRecord};

impl Reader {
    /// Opens a stream file and determines the complete steps. Collective; reading is independent.
    pub fn open(comm: &Comm, name: &str) -> Result<Self> {
        let open = |name: &str| File::open(comm, name);
        let steps = open(&steps_name(name)).map_err(|error| missing(comm, name, error))?;
        let data = open(name).map_err(|error| without_data(name, error))?;
        let found = agree(comm, "open", name, read_steps_file(name, &steps))?;
        let believed = check_complete(comm, name, &data, &found)?;
        let size = one_size(comm, name, &data)?;
        steps.close()?;
        let mut reader = Self {
            name: name.into(),
            data,
            streams: found.abouts,
            points: found.points,
            records: Vec::new(),
            stored_steps: Vec::new(),
            incomplete_steps: Vec::new(),
            finished: false,
            checked: true,
            verified: Mutex::default(),
            prefetcher: Mutex::default(),
        };
        let places = places(&found.records, size);
        for (number, (record, complete)) in found.records.into_iter().zip(believed).enumerate() {
            let was_durable = (number as u64) < found.durable;
            reader.enter(number as u64, record, complete, was_durable, &places[number]);
        }
        let rest = places[places.len() - 1].clone();
        let is_new = reader.incomplete_steps.last().is_none_or(|last| last.bytes.end < rest.end);
        if !reader.finished && is_new && !rest.is_empty() {
            let record = places.len() as u64 - 1;
            reader.incomplete_steps.push(IncompleteStep {
                record,
                step: None,
                was_durable: false,
                bytes: rest,
            });
        }
        Ok(reader)
    }

    /// Adds a record.
    fn enter(
        &mut self,
        number: u64,
        record: Option<StepRecord>,
        complete: bool,
        was_durable: bool,
        bytes: &Range<u64>,
    ) {
        let step = record.as_ref().map(|record| record.step);
        let Some(record) = record.filter(|_| complete) else {
            self.incomplete_steps.push(IncompleteStep {
                record: number,
                step,
                was_durable,
                bytes: bytes.clone(),
            });
            return;
        };
        match record.record_type {
            RecordType::End => self.finished = true,
            of => {
                let (step, is_closing) = (record.step, of == RecordType::Closing);
                self.stored_steps.push(StoredStep { step, is_closing, record: self.records.len() });
                self.records.push(record);
                // Records that were not durable were compared with their checksums already.
                self.verified.get_mut().unwrap_or_else(PoisonError::into_inner).push(!was_durable);
            }
        }
    }
}

/// The bytes of the data that belong to each record, as far as they exist; last those without a record. For a record
/// that cannot be read, the bytes between its neighbours.
fn places(records: &[Option<StepRecord>], size: u64) -> Vec<Range<u64>> {
    let bytes = |record: &StepRecord| record.start..record.start.saturating_add(record.length);
    places_of(records.len(), size, |number| records[number].as_ref().map(bytes))
}

/// The same for this number of records, each of which is visited twice: `bytes` returns the bytes of a record, unless
/// it cannot be read.
fn places_of(count: usize, size: u64, bytes: impl Fn(usize) -> Option<Range<u64>>) -> Vec<Range<u64>> {
    // The start of the bytes after all earlier records, and the end of the bytes before all later ones.
    let (mut places, mut begin) = (Vec::with_capacity(count + 1), 0);
    for number in 0..count {
        let own = bytes(number);
        places.push(begin..size);
        begin = own.map_or(begin, |own| own.end.min(size).max(begin));
    }
    places.push(begin..size);
    let mut end = size;
    for (number, place) in places.iter_mut().enumerate().take(count).rev() {
        match bytes(number) {
            Some(own) => {
                *place = own.start.min(size)..own.end.min(size);
                end = end.min(own.start);
            }
            None => place.end = end.max(place.start),
        }
    }
    places
}

/// The length of the data, the same on all ranks: the file may be growing. Collective.
fn one_size(comm: &Comm, name: &str, data: &File) -> Result<u64> {
    let mut size = [agree(comm, "open", name, data.size())?];
    comm.broadcast(0, &mut size).map_err(|error| Error::from_comm("open", name, &error))?;
    Ok(size[0])
}

/// The error of a missing `.steps` as an error of the stream file. All ranks have the same error.
fn missing(comm: &Comm, name: &str, error: file::Error) -> Error {
    let refuse = |detail: &str| Error::new(error.kind(), "open", name, detail);
    match error.kind() {
        file::Kind::NoSuchFile if File::open(&comm.comm_self(), name).is_ok() => refuse(
            "there is no .steps beside it: it is not a stream file, or was moved without it; move both together",
        ),
        file::Kind::NoSuchFile => refuse("the stream file does not exist; check its name"),
        file::Kind::BadName => refuse(error.detail()),
        _ => error,
    }
}

/// The error of missing data.
fn without_data(name: &str, error: file::Error) -> Error {
    if error.kind() != file::Kind::NoSuchFile {
        return error;
    }
    let detail = "only its .steps exists, the data is gone; move both files together";
    Error::new(error.kind(), "open", name, detail)
}

/// The records of complete batches. The ranks compare checksums in turn. Collective.
fn check_complete(comm: &Comm, name: &str, data: &File, found: &StepsFileContents) -> Result<Vec<bool>> {
    let mut complete: Vec<u64> = vec![0; found.records.len()];
    let mut outcome = Ok(());
    let undecided = found.records.iter().enumerate().filter_map(|(at, record)| Some((at, record.as_ref()?)));
    for (turn, (at, record)) in undecided.enumerate() {
        if turn % comm.size() != comm.rank() {
            continue;
        }
        let right = (at as u64) < found.durable
            || checksum_matches(data, &found.abouts, record, None).unwrap_or_else(|error| {
                outcome = Err(error);
                false
            });
        complete[at] = u64::from(right);
    }
    agree(comm, "open", name, outcome)?;
    let all = comm.allreduce(Op::Max, &complete).map_err(|error| Error::from_comm("open", name, &error))?;
    Ok(all.into_iter().map(|complete| complete == 1).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use aqueduct_testkit::rng::SeededRng;
    use std::cell::Cell;

    /// The places by their definition.
    fn model(records: &[Option<Range<u64>>], size: u64) -> Vec<Range<u64>> {
        let between = |number: usize| {
            let before = records[..number].iter().flatten().map(|own| own.end).max().unwrap_or(0).min(size);
            let after = records[number..].iter().flatten().map(|own| own.start).min();
            before..after.unwrap_or(size).clamp(before, size)
        };
        let place = |number: usize| match records.get(number) {
            Some(Some(own)) => own.start.min(size)..own.end.min(size),
            Some(None) | None => between(number),
        };
        (0..=records.len()).map(place).collect()
    }

    #[test]
    fn places_of_random_records_are_those_of_the_model() {
        for number in 0..2000 {
            let mut seed = SeededRng::new(number);
            let size = seed.number() % 50;
            let count = seed.below(8);
            let records: Vec<Option<Range<u64>>> = (0..count)
                .map(|_| {
                    let start = seed.number() % 60;
                    let end = start + seed.number() % 20;
                    (seed.below(2) == 0).then_some(start..end)
                })
                .collect();
            let found = places_of(count, size, |number| records[number].clone());
            assert_eq!(found, model(&records, size), "seed {number}: {records:?} of {size} bytes");
        }
    }

    /// A tail of zeros, as a file system may leave it: each record is visited twice, whatever their number.
    #[test]
    fn unreadable_records_have_constant_cost() {
        const COUNT: usize = 100_000;
        let looks = Cell::new(0);
        let places = places_of(COUNT, 1 << 20, |number| {
            looks.set(looks.get() + 1);
            (number == 0).then_some(0..512)
        });
        assert_eq!((places.len(), looks.get()), (COUNT + 1, 2 * COUNT));
        assert_eq!(
            (&places[0], &places[COUNT - 1], &places[COUNT]),
            (&(0..512), &(512..1 << 20), &(512..1 << 20))
        );
    }
}
