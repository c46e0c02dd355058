//! Reading the `.steps` of a stream file, for readers and for outputs that continue a file.

use aqueduct_file::File;
use aqueduct_object::FileProvenance;

use crate::declare::stream::Reduction;
use crate::declare::stream_info::{FORMAT, StreamFileMetadata, StreamInfo, StreamRegion};
use crate::error::{Error, Kind, Result};
use crate::pack::step_checksum::position_checksum;
use crate::steps_format::{ABSENT, RecordType, StepRecord, StepsHeader, StepsHeaderError, UNIT, record_size};
use crate::value::ValueKind;

/// The longest description that is read: longer than any real one, and small enough for memory.
const LONGEST: u64 = 1 << 30;
/// Bytes that are read at a time to compute checksums.
const WINDOW: usize = 1 << 20;

/// The name of the file beside the data that describes it.
pub(crate) fn steps_name(name: &str) -> String {
    format!("{name}.steps")
}

/// The content of the `.steps`.
pub(crate) struct StepsFileContents {
    pub(crate) header: StepsHeader,
    pub(crate) abouts: Vec<StreamInfo>,
    pub(crate) points: Vec<Vec<u64>>,
    pub(crate) written_by: Option<FileProvenance>,
}

pub(crate) fn read_steps_file(name: &str, steps: &File) -> Result<StepsFileContents> {
    let refuse = |kind, detail: String| Error::new(kind, "open", name, detail);
    let size = steps.size()?;
    let header = read_header(name, steps)?;
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
    let (abouts, written_by) = (description.streams, description.written_by);
    if description.format != FORMAT
        || abouts.len() != header.streams as usize
        || !abouts.iter().all(makes_sense)
        || !(0..abouts.len()).all(|at| has_sound_objects(&abouts[at..]))
    {
        return Err(damaged("the description"));
    }
    let points = find_points(steps, &header, &abouts, size)?.ok_or_else(|| damaged("the table of points"))?;
    Ok(StepsFileContents { header, abouts, points, written_by })
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

/// The bytes of the records from this number up to the end of the file.
pub(crate) fn record_bytes(steps: &File, header: &StepsHeader, first: u64) -> Result<Vec<u8>> {
    let start =
        header.records.saturating_add(first.saturating_mul(record_size(header.streams as usize) as u64));
    read(steps, start, steps.size()?.saturating_sub(start))
}

/// Records from this number on; none for one that is not valid. A torn last record counts: it was being written.
pub(crate) fn decode_records(bytes: &[u8], header: &StepsHeader, first: u64) -> Vec<Option<StepRecord>> {
    let streams = header.streams as usize;
    let records = (first..).zip(bytes.chunks(record_size(streams)));
    records.map(|(number, bytes)| StepRecord::decode(bytes, header.id, number, streams)).collect()
}

/// The number of durable records that these records know of.
pub(crate) fn durable_records(records: &[Option<StepRecord>]) -> u64 {
    records.iter().flatten().map(|record| record.durable.min(record.number)).max().unwrap_or(0)
}

/// The header alone: the description and the points of a file do not change.
pub(crate) fn read_header(name: &str, steps: &File) -> Result<StepsHeader> {
    let unit = read(steps, 0, UNIT.min(steps.size()?))?;
    StepsHeader::decode(&unit).map_err(|problem| header_error(name, problem))
}

fn header_error(name: &str, problem: StepsHeaderError) -> Error {
    let refuse = |kind, detail: &str| Error::new(kind, "open", name, detail);
    match problem {
        StepsHeaderError::Empty => refuse(
            Kind::Incomplete,
            "the program ended before it had begun to write; there is nothing to read",
        ),
        StepsHeaderError::Damaged => {
            let detail = "its .steps does not begin with the header of a stream file: it is torn, or another kind of file";
            refuse(Kind::Damaged, detail)
        }
        StepsHeaderError::Version(version) => {
            let detail = format!(
                "it has version {version} of the format, written by a later version of this library; use that one"
            );
            refuse(Kind::UnknownVersion, &detail)
        }
    }
}

fn read(file: &File, at: u64, length: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; length as usize];
    let count = file.at(at).read(&mut bytes)?;
    bytes.truncate(count.bytes() as usize);
    Ok(bytes)
}

/// True if the data of a record has its checksum; false if data is missing. All values of one stream may be in memory
/// already.
pub(crate) fn checksum_matches(
    data: &File,
    abouts: &[StreamInfo],
    record: &StepRecord,
    known: Option<(usize, &[u8])>,
) -> Result<bool> {
    if record.record_type == RecordType::End {
        return Ok(true);
    }
    let mut total = 0u64;
    let mut window = vec![0; WINDOW];
    let streams = abouts.iter().zip(&record.entries).enumerate();
    for (stream, (about, entry)) in streams.filter(|(_, (_, entry))| entry.start != ABSENT) {
        let bytes = about.item_bytes().and_then(|each| each.checked_mul(entry.items));
        let place = entry.start.checked_sub(record.start);
        let end = bytes.and_then(|bytes| entry.start.checked_add(bytes));
        let (Some(bytes), Some(place), Some(_)) = (bytes, place, end) else { return Ok(false) };
        if about.region != StreamRegion::List && about.items() != Some(entry.items) {
            return Ok(false);
        }
        if let Some((_, values)) =
            known.filter(|(known, values)| *known == stream && values.len() as u64 == bytes)
        {
            total = total.wrapping_add(position_checksum(about.stored().width(), place, values));
            continue;
        }
        let mut done = 0;
        while done < bytes {
            let length = (bytes - done).min(WINDOW as u64);
            let part = &mut window[..length as usize];
            if data.at(entry.start + done).read(&mut *part)?.bytes() < length {
                return Ok(false);
            }
            total = total.wrapping_add(position_checksum(about.stored().width(), place + done, part));
            done += length;
        }
    }
    Ok(total == record.sum)
}
