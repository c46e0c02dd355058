//! Values of a kind that is known at run time: bytes anywhere in memory, which a layout describes.

use aqueduct_file::layout::{Layout, LayoutError, Pattern};

use super::OutputStep;
use crate::declare::stream::StreamKindKey;
use crate::error::{Error, Kind};
use crate::pack::accumulator::Accumulator;
use crate::pack::encoder::StepInput;

impl<'d> OutputStep<'_, 'd> {
    /// As [`put`](Self::put), of a stream of [`Streams::add_kind`](crate::Streams::add_kind): this rank's values are those
    /// that `layout` describes in `bytes`, in this order. They are not copied before the step is packed, unless only a part
    /// of the array is sampled and they are not contiguous.
    pub fn put_bytes(mut self, key: StreamKindKey, bytes: &'d [u8], layout: &Layout) -> Self {
        let width = key.kind.width();
        let objection = self.object(key.index, key.kind, layout.size() / width);
        let input = objection.map_or_else(|| self.input(key.index, width, bytes, layout), Err);
        let input = input.unwrap_or_else(|detail| {
            let error = self.refuse(detail);
            self.objection.get_or_insert(error);
            StepInput::Values(&[])
        });
        if let Some(place) = self.data.get_mut(key.index) {
            *place = Some(input);
        }
        self
    }

    /// Makes this step fail for this reason: [`commit`](Self::commit) returns it, and the other ranks learn of it when the step
    /// is written.
    pub fn fail(mut self, kind: Kind, detail: impl Into<String>) -> Self {
        let error = Error::new(kind, "commit", &self.output.name, detail).in_step(self.output.steps);
        self.objection.get_or_insert(error);
        self
    }

    /// The values, or why they cannot be used.
    fn input(
        &self,
        index: usize,
        width: u64,
        bytes: &'d [u8],
        layout: &Layout,
    ) -> Result<StepInput<'d>, String> {
        let name = &self.output.declaration.streams[index].name;
        let unusable = |error: LayoutError| format!("stream {name:?}: {error}");
        let pattern = layout.tiled(1).map_err(unusable)?;
        let (low, high, size) = (pattern.lowest(), pattern.highest(), pattern.size());
        if low < 0 || high as u64 > bytes.len() as u64 {
            let length = bytes.len();
            return Err(format!("stream {name:?}: the layout describes bytes {low} to {high} of {length}"));
        }
        if !size.is_multiple_of(width) {
            return Err(format!(
                "stream {name:?}: {size} bytes are not a multiple of the {width} of a value"
            ));
        }
        if pattern.is_contiguous() {
            return Ok(StepInput::Values(&bytes[low as usize..][..size as usize]));
        }
        let share = &self.output.declaration.shares[index];
        if share.expected.is_none() || (share.memory.is_contiguous() && share.memory.size() == size) {
            return Ok(StepInput::Placed(bytes, pattern));
        }
        let mut array = vec![0; size as usize];
        pattern.gather(bytes, 0, &mut array).map_err(unusable)?;
        let mut sampled = vec![0; share.memory.size() as usize];
        share.memory.gather(&array, 0, &mut sampled).map_err(unusable)?;
        Ok(StepInput::Gathered(sampled))
    }
}

/// Adds the values of a step to a reduction; `sampled` finds them in an array that is passed as a whole.
pub(super) fn add_sample(
    accumulator: &mut Accumulator,
    input: Option<&StepInput<'_>>,
    sampled: &Pattern,
) -> Result<(), LayoutError> {
    match input {
        Some(StepInput::Values(array)) => accumulator.add(array, sampled),
        Some(StepInput::Placed(memory, pattern)) => accumulator.add(memory, pattern),
        Some(StepInput::Gathered(values)) => {
            accumulator.add(values, &Layout::bytes(values.len() as u64)?.tiled(1)?)
        }
        // Objects are not reduced.
        None | Some(StepInput::Encoded(_)) => accumulator.add(&[], sampled),
    }
}
