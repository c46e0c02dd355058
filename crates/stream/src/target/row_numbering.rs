//! Rows of steps in arrays. Pure.

use crate::declare::stream::Reduction;
use crate::declare::stream_info::{StreamInfo, StreamRegion};

/// True if a stream is stored more than once.
pub(super) fn is_recorded(about: &StreamInfo) -> bool {
    about.reduction == Reduction::None || about.every.is_some()
}

/// The numbers of the rows of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowNumbering {
    /// Row t is the t-th sampled step, whether it stores the stream or not.
    EveryStep,
    /// Row t is the t-th stored step.
    StoredSteps,
}

impl RowNumbering {
    /// The row of a step that stores the stream.
    pub(super) fn row(self, about: &StreamInfo, step: u64) -> u64 {
        let every = if self == Self::StoredSteps { about.every.unwrap_or(1) } else { 1 };
        step.saturating_sub(about.from) / every
    }

    /// The number of rows of this number of steps, the remainder of a reduction included.
    pub(super) fn rows(self, about: &StreamInfo, steps: u64) -> u64 {
        let sampled = steps.saturating_sub(about.from);
        if self == Self::StoredSteps { sampled.div_ceil(about.every.unwrap_or(1)) } else { sampled }
    }

    /// The number of rows that are complete after this number of steps: up to the last one that stores the stream.
    pub(super) fn complete_rows(self, about: &StreamInfo, steps: u64) -> u64 {
        about.last_stored(steps).map_or(0, |step| self.row(about, step) + 1)
    }
}

/// The arrays of a stream, names and shapes: one for each of its boxes, or one for all points.
pub(super) fn arrays(about: &StreamInfo) -> Vec<(String, Vec<u64>)> {
    let shapes = match &about.region {
        StreamRegion::Points(count) => vec![vec![*count]],
        StreamRegion::Whole => vec![about.shape.clone()],
        StreamRegion::Cuboids(boxes) => boxes.iter().map(|one| one.count.clone()).collect(),
        StreamRegion::List => Vec::new(),
    };
    let name = |number: usize| match (&about.storage.paths[..], &about.region) {
        ([], StreamRegion::Cuboids(_)) => format!("{}.{number}", about.name),
        ([], _) => about.name.clone(),
        (paths, _) => paths[number].clone(),
    };
    shapes.into_iter().enumerate().map(|(number, shape)| (name(number), shape)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::declare::stream::Stream;
    use crate::value::ValueKind;

    #[test]
    fn rows_follow_the_schedule() {
        let about = |stream: Stream| StreamInfo::new(&stream, ValueKind::F32);
        let samples = about(Stream::array("a", [4]).from(2).every(3));
        let rows = |numbering: RowNumbering| [2, 5, 8].map(|step| numbering.row(&samples, step));
        assert_eq!(rows(RowNumbering::EveryStep), [0, 3, 6]);
        assert_eq!(rows(RowNumbering::StoredSteps), [0, 1, 2]);
        let sizes = |steps| {
            (RowNumbering::EveryStep.rows(&samples, steps), RowNumbering::StoredSteps.rows(&samples, steps))
        };
        assert_eq!([sizes(1), sizes(3), sizes(9)], [(0, 0), (1, 1), (7, 3)]);
        assert_eq!(RowNumbering::StoredSteps.complete_rows(&samples, 8), 2);
        // Means of steps 1 to 4 and 5 to 8; the mean of step 9 is stored at the end.
        let means = about(Stream::array("b", [4]).reduce(Reduction::Mean).from(1).every(4));
        let rows = [4, 8, 9].map(|step| RowNumbering::StoredSteps.row(&means, step));
        assert_eq!((rows, RowNumbering::StoredSteps.rows(&means, 10)), ([0, 1, 2], 3));
        assert_eq!(RowNumbering::StoredSteps.complete_rows(&means, 10), 2);
    }

    #[test]
    fn arrays_have_the_names_of_the_program() {
        let boxes = [
            aqueduct_file::hyperslab::Hyperslab::new([0], [2]),
            aqueduct_file::hyperslab::Hyperslab::new([1], [3]),
        ];
        let stream = Stream::array("p", [4]).cuboids(boxes);
        let names = |stream: &Stream| -> Vec<String> {
            arrays(&StreamInfo::new(stream, ValueKind::F32)).into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(names(&stream), ["p.0", "p.1"]);
        assert_eq!(names(&stream.paths(["/p/1", "/p/2"])), ["/p/1", "/p/2"]);
    }
}
