//! Opening a stream file: the header, the description, and the valid records.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use aqueduct_comm::{Comm, Op};
use aqueduct_file::{self as file, File};

use super::{IncompleteStep, Reader, StoredStep, checksum_matches};
use crate::declare::stream::Reduction;
use crate::declare::stream_info::{FORMAT, StreamFileMetadata, StreamInfo, StreamRegion};
use crate::error::{Error, Kind, Result, agree};
use crate::pack::step_checksum::position_checksum;
use crate::steps_format::{RecordType, StepRecord, StepsHeader, StepsHeaderError, UNIT, record_size};
use crate::target::steps_name;
use crate::value::ValueKind;

/// The longest description that is read: longer than any real one, and small enough for memory.
const LONGEST: u64 = 1 << 30;

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

/// The content of the `.steps`.
struct StepsFileContents {
    abouts: Vec<StreamInfo>,
    points: Vec<Vec<u64>>,
    /// None for a record that is not valid.
    records: Vec<Option<StepRecord>>,
    /// The number of durable records.
    durable: u64,
}

fn read_steps_file(name: &str, steps: &File) -> Result<StepsFileContents> {
    let refuse = |kind, detail: String| Error::new(kind, "open", name, detail);
    let size = steps.size()?;
    let unit = read(steps, 0, UNIT.min(size))?;
    let header = StepsHeader::decode(&unit).map_err(|problem| match problem {
        StepsHeaderError::Empty => {
            let detail = "the program ended before it had begun to write; there is nothing to read";
            refuse(Kind::Incomplete, detail.to_owned())
        }
        StepsHeaderError::Damaged => {
            let detail = "its .steps does not begin with the header of a stream file: it is torn, or another kind of file";
            refuse(Kind::Damaged, detail.to_owned())
        }
        StepsHeaderError::Version(version) => {
            let detail = format!("it has version {version} of the format, written by a later version of this library; use that one");
            refuse(Kind::UnknownVersion, detail)
        }
    })?;
    let damaged = |what: &str| refuse(Kind::Damaged, format!("{what} of its .steps is damaged"));
    if header.description_length > LONGEST.min(size) {
        return Err(damaged("the description"));
    }
    let description = read(steps, UNIT, header.description_length)?;
    if crc32c::crc32c(&description) != header.description_sum {
        return Err(damaged("the description"));
    }
    let description: StreamFileMetadata = serde_json::from_slice(&description).map_err(|error| {
        refuse(Kind::Damaged, format!("the description of its .steps is invalid: {error}"))
    })?;
    let abouts = description.streams;
    if description.format != FORMAT
        || abouts.len() != header.streams as usize
        || !abouts.iter().all(makes_sense)
        || !(0..abouts.len()).all(|at| has_sound_objects(&abouts[at..]))
    {
        return Err(damaged("the description"));
    }
    let points = find_points(steps, &header, &abouts, size)?.ok_or_else(|| damaged("the table of points"))?;
    let records = find_records(steps, &header, abouts.len(), size)?;
    let durable = records.iter().flatten().map(|record| record.durable.min(record.number)).max().unwrap_or(0);
    Ok(StepsFileContents { abouts, points, records, durable })
}

fn makes_sense(about: &StreamInfo) -> bool {
    let boxes = about.boxes();
    !about.shape.is_empty()
        && about.every != Some(0)
        && about.item_bytes().is_some_and(|bytes| bytes > 0)
        && about.items().is_some()
        && boxes.iter().all(|cuboid| cuboid.is_inside(&about.shape))
}

/// True if the first of these streams, if it has objects, stores them as a list of their size, or as bytes with
/// lengths in the next stream.
fn has_sound_objects(abouts: &[StreamInfo]) -> bool {
    let Some((about, schema)) = abouts.first().and_then(|about| Some((about, about.object.as_ref()?))) else {
        return true;
    };
    let is_list =
        |about: &StreamInfo| about.region == StreamRegion::List && about.reduction == Reduction::None;
    let lengths = abouts.get(1).filter(|next| {
        next.name == StreamInfo::lengths_of(&about.name) && is_list(next) && next.every == about.every
    });
    let sound = match schema.size() {
        Some(size) => about.item_bytes() == Some(size),
        None => about.item_bytes() == Some(1) && lengths.is_some_and(|next| next.kind == ValueKind::U64),
    };
    sound && is_list(about)
}

/// The tables of points; none if they are damaged.
fn find_points(
    steps: &File,
    header: &StepsHeader,
    abouts: &[StreamInfo],
    size: u64,
) -> Result<Option<Vec<Vec<u64>>>> {
    let mut place = header.tables;
    let mut total = 0u64;
    let mut tables = Vec::new();
    for about in abouts {
        let count = if let StreamRegion::Points(count) = about.region { count } else { 0 };
        let end = count.checked_mul(8).and_then(|bytes| place.checked_add(bytes));
        let Some(end) = end.filter(|end| count == 0 || *end <= size) else { return Ok(None) };
        let mut points = vec![0u64; count as usize];
        if count > 0 && steps.at(place).read(&mut points)?.bytes() < 8 * count {
            return Ok(None);
        }
        total =
            total.wrapping_add(position_checksum(8, place - header.tables, bytemuck::cast_slice(&points)));
        tables.push(points);
        place = end;
    }
    Ok((total == header.tables_sum).then_some(tables))
}

/// All records up to the end of the file.
fn find_records(
    steps: &File,
    header: &StepsHeader,
    streams: usize,
    size: u64,
) -> Result<Vec<Option<StepRecord>>> {
    let each = record_size(streams) as u64;
    // A torn last record counts: it was being written.
    let count = size.saturating_sub(header.records).div_ceil(each);
    let mut records = Vec::new();
    for number in 0..count {
        let at = header.records + number * each;
        let bytes = read(steps, at, each.min(size - at))?;
        records.push(StepRecord::decode(&bytes, header.id, number, streams));
    }
    Ok(records)
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

fn read(file: &File, at: u64, length: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length as usize];
    let count = file.at(at).read(&mut bytes)?;
    bytes.truncate(count.bytes() as usize);
    Ok(bytes)
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
