//! The description of a stream in the `.steps` file.

use aqueduct_object::FileProvenance;
use aqueduct_object::Schema;
use serde::{Deserialize, Serialize};

use crate::declare::array_storage::ArrayStorage;
use crate::declare::stream::{Reduction, SampledRegion, Stream};
use crate::value::ValueKind;
use aqueduct_file::hyperslab::{Hyperslab, volume};

/// The region of an array that is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StreamRegion {
    /// The whole array.
    Whole,
    /// Boxes, one after the other.
    Cuboids(Vec<Hyperslab>),
    /// This number of points.
    Points(u64),
    /// Not an array: a list, with another number of items in each step.
    List,
}

/// A stream of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamInfo {
    /// Its name.
    pub name: String,
    /// The values that were sampled.
    pub kind: ValueKind,
    /// The shape of the global array; for a list, the number of values of an item.
    pub shape: Vec<u64>,
    /// The stored region.
    pub region: StreamRegion,
    /// How samples are reduced over time.
    pub reduction: Reduction,
    /// The stream is stored every so many steps.
    pub every: Option<u64>,
    /// The first step that is sampled.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub from: u64,
    /// The kind of the stored values, if it is another one than that of the samples or of the reduction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_as: Option<ValueKind>,
    /// How the stream is stored in files of arrays.
    #[serde(default, skip_serializing_if = "ArrayStorage::is_default")]
    pub storage: ArrayStorage,
    /// The schema of the items of a list of objects, which are encoded one after the other. If their sizes differ,
    /// the next stream has their [lengths](Self::lengths_of).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<Schema>,
}

impl StreamInfo {
    pub(crate) fn new(stream: &Stream, kind: ValueKind) -> Self {
        let region = match &stream.sampled {
            SampledRegion::Whole => StreamRegion::Whole,
            SampledRegion::Cuboids(cuboids) => StreamRegion::Cuboids(cuboids.clone()),
            // The points of all ranks are counted when the output is created.
            SampledRegion::Points(_) | SampledRegion::ListedPoints(_) => StreamRegion::Points(0),
            SampledRegion::List => StreamRegion::List,
        };
        Self {
            name: stream.name.clone(),
            kind,
            shape: stream.shape.clone(),
            region,
            reduction: stream.reduction,
            every: stream.every,
            from: stream.from,
            stored_as: stream.stored_as,
            storage: stream.storage.clone(),
            object: stream.object.as_deref().cloned(),
        }
    }

    /// Its form in the description of a stream file.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).expect("names, numbers and lists of them are JSON")
    }

    /// The name of the stream that has the lengths of another one's objects.
    pub fn lengths_of(name: &str) -> String {
        format!("{name}.lengths")
    }

    /// True if the next stream has the lengths of its objects.
    pub fn is_indexed(&self) -> bool {
        self.object.as_ref().is_some_and(|schema| schema.size().is_none())
    }

    /// The kind of the stored values.
    pub fn stored(&self) -> ValueKind {
        self.stored_as.unwrap_or(self.accumulated())
    }

    /// The kind of the values that are packed: samples, or their reduction.
    pub(crate) fn accumulated(&self) -> ValueKind {
        self.reduction.stored(self.kind)
    }

    /// True if a step is sampled.
    pub(crate) fn is_sampled(&self, step: u64) -> bool {
        step >= self.from
    }

    /// True if the program has to put the stream in this step.
    pub(crate) fn is_required(&self, step: u64) -> bool {
        match self.reduction {
            Reduction::None => self.is_due(step, 0),
            Reduction::Last => false,
            _ => self.is_sampled(step),
        }
    }

    /// The last of the first `steps` steps in which the stream was stored; none if there is none. The remainder of a
    /// reduction that is stored at the end does not count.
    pub(crate) fn last_stored(&self, steps: u64) -> Option<u64> {
        let sampled = steps.checked_sub(self.from).filter(|sampled| *sampled > 0)?;
        match (self.reduction, self.every) {
            (Reduction::None, every) => {
                let every = every.unwrap_or(1);
                Some(self.from + (sampled - 1) / every * every)
            }
            (_, None) => None,
            (_, Some(every)) => (sampled >= every).then(|| self.from + sampled / every * every - 1),
        }
    }

    /// The number of arrays in files of arrays: one for each box, or one for all points.
    pub(crate) fn array_count(&self) -> usize {
        match &self.region {
            StreamRegion::Whole | StreamRegion::Points(_) => 1,
            StreamRegion::Cuboids(boxes) => boxes.len(),
            StreamRegion::List => 0,
        }
    }

    /// The boxes of the array that are stored, in order; none for points and lists.
    pub fn boxes(&self) -> Vec<Hyperslab> {
        match &self.region {
            StreamRegion::Whole => vec![Hyperslab::whole(&self.shape[..])],
            StreamRegion::Cuboids(cuboids) => cuboids.clone(),
            StreamRegion::Points(_) | StreamRegion::List => Vec::new(),
        }
    }

    /// The number of items in a batch, if it is always the same; none if it exceeds `u64`.
    pub(crate) fn items(&self) -> Option<u64> {
        match &self.region {
            StreamRegion::Whole => volume(&self.shape),
            StreamRegion::Cuboids(cuboids) => {
                cuboids.iter().try_fold(0u64, |sum, cuboid| sum.checked_add(cuboid.volume()?))
            }
            StreamRegion::Points(count) => Some(*count),
            StreamRegion::List => Some(0),
        }
    }

    /// Bytes of an item; none if they exceed `u64`.
    pub(crate) fn item_bytes(&self) -> Option<u64> {
        let values = if self.region == StreamRegion::List { self.shape.first().copied()? } else { 1 };
        self.stored().width().checked_mul(values)
    }

    /// True if it is stored in this step, after this number of samples.
    pub(crate) fn is_due(&self, step: u64, samples: u64) -> bool {
        match (self.reduction, self.every) {
            (Reduction::None, every) => {
                step.checked_sub(self.from).is_some_and(|sampled| sampled.is_multiple_of(every.unwrap_or(1)))
            }
            (_, None) => false,
            (_, Some(every)) => samples >= every,
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The description of all streams.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StreamFileMetadata {
    pub(crate) format: String,
    pub(crate) version: u32,
    pub(crate) streams: Vec<StreamInfo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) written_by: Option<FileProvenance>,
}

pub(crate) const FORMAT: &str = "aqueduct-stream";

impl StreamFileMetadata {
    pub(crate) fn encode(streams: &[StreamInfo], written_by: Option<FileProvenance>) -> Vec<u8> {
        let description = Self {
            format: FORMAT.to_owned(),
            version: crate::steps_format::VERSION,
            streams: streams.to_vec(),
            written_by,
        };
        serde_json::to_vec(&description).expect("names, numbers and lists of them are JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_has_the_documented_form() {
        let stream = Stream::array("p", [4, 5]).cuboids([Hyperslab::new([1, 2], [3, 1])]).every(3);
        let about = StreamInfo::new(&stream, ValueKind::F32);
        let text = serde_json::to_string(&about).unwrap();
        let expected = r#"{"name":"p","kind":"f32","shape":[4,5],"region":{"cuboids":[{"start":[1,2],"shape":[3,1]}]},"reduction":"none","every":3}"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<StreamInfo>(expected).unwrap(), about);
        let list = StreamInfo {
            region: StreamRegion::List,
            reduction: Reduction::Rms,
            every: None,
            ..about.clone()
        };
        assert!(
            serde_json::to_string(&list)
                .unwrap()
                .contains(r#""region":"list","reduction":"rms","every":null"#)
        );
        assert_eq!((about.items(), about.item_bytes(), list.item_bytes()), (Some(3), Some(4), Some(32)));
        assert!(about.is_due(0, 0) && !about.is_due(1, 9) && about.is_due(3, 0) && !list.is_due(0, 9));
    }
}
