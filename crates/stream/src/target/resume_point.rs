//! Where a stream file is continued.

use aqueduct_file::File;

use crate::declare::declaration::Declaration;
use crate::declare::stream_info::StreamInfo;
use crate::error::{Error, Kind, Result};
use crate::steps_file::{checksum_matches, decode_records, durable_records, read_steps_file, record_bytes};
use crate::steps_format::{RecordType, StepRecord};

/// The place in a stream file after a number of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ResumePoint {
    pub(super) id: u64,
    /// The offset of the records, and the number of those that are kept.
    pub(super) records: u64,
    pub(super) count: u64,
    /// The end of their batches.
    pub(super) end: u64,
}

impl ResumePoint {
    /// The place after the first `step` steps, which have to be complete, in a file of these streams.
    pub(super) fn find(
        name: &str,
        steps: &File,
        data: &File,
        declared: &Declaration,
        step: u64,
    ) -> Result<Self> {
        let refuse = |kind, detail: String| Err(Error::new(kind, "resume", name, detail));
        let found = read_steps_file(name, steps)?;
        if found.abouts != declared.streams {
            let detail = "the file has other streams; declare the same ones, or create another file";
            return refuse(Kind::BadArgument, detail.to_owned());
        }
        for (points, all) in declared.points.iter().zip(&found.points) {
            let same = |run: crate::PointRun| {
                let stored = all.get(run.start as usize..run.start as usize + run.count);
                stored == Some(&points.points[run.first..run.first + run.count])
            };
            if !points.runs().into_iter().all(same) {
                let detail = "the file has other points; declare the same ones, or create another file";
                return refuse(Kind::BadArgument, detail.to_owned());
            }
        }
        let records = decode_records(&record_bytes(steps, &found.header, 0)?, &found.header, 0);
        let kept = kept_records(&records, step);
        let expected = batches_before(&found.abouts, step);
        if kept.len() as u64 != expected {
            let detail = format!(
                "of the {expected} batches of the first {step} steps, the file has {}; flush the output before a checkpoint counts",
                kept.len()
            );
            return refuse(Kind::Incomplete, detail);
        }
        for record in kept.iter().skip(durable_records(&records) as usize) {
            if !checksum_matches(data, &found.abouts, record, None)? {
                let detail = format!("the data of step {} does not match its checksum", record.step);
                return refuse(Kind::Incomplete, detail);
            }
        }
        let end = kept.last().map_or(0, |last| last.start.saturating_add(last.length));
        Ok(Self { id: found.header.id, records: found.header.records, count: kept.len() as u64, end })
    }
}

/// The records of the steps before `step`, as far as they are valid.
fn kept_records(records: &[Option<StepRecord>], step: u64) -> Vec<&StepRecord> {
    let is_kept = |record: &&StepRecord| record.record_type == RecordType::Step && record.step < step;
    records.iter().map_while(Option::as_ref).take_while(is_kept).collect()
}

/// The number of batches of the first `steps` steps: steps in which no stream is stored have none.
fn batches_before(abouts: &[StreamInfo], steps: u64) -> u64 {
    let ends = |about: &StreamInfo, step: u64| about.last_stored(step + 1) == Some(step);
    (0..steps).filter(|step| abouts.iter().any(|about| ends(about, *step))).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declare::stream::{Reduction, Stream};
    use crate::value::ValueKind;

    #[test]
    fn the_batches_of_a_schedule_are_counted() {
        let about = |stream: Stream| StreamInfo::new(&stream, ValueKind::F64);
        let all = about(Stream::array("a", [4]).from(3).every(4));
        assert_eq!((0..13).filter(|step| all.is_due(*step, 0)).collect::<Vec<_>>(), [3, 7, 11]);
        let counts: Vec<u64> =
            (0..13).map(|steps| batches_before(std::slice::from_ref(&all), steps)).collect();
        assert_eq!(counts, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3]);
        let means = about(Stream::array("b", [4]).reduce(Reduction::Mean).from(1).every(3));
        assert_eq!(batches_before(&[all, means.clone()], 12), 3 + 3 - 1);
        assert_eq!(
            (means.last_stored(3), means.last_stored(4), means.last_stored(8)),
            (None, Some(3), Some(6))
        );
        let peak = about(Stream::array("c", [4]).reduce(Reduction::Max));
        assert_eq!((batches_before(std::slice::from_ref(&peak), 12), peak.last_stored(12)), (0, None));
    }
}
