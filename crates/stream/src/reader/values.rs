//! The values of a stream in a step: typed, or as bytes of the kind that the stream stores.

use aqueduct_file::View;
use aqueduct_file::hyperslab::Hyperslab;
use aqueduct_file::layout::Layout;
use aqueduct_file::prefetcher::{PrefetchedValues, SequenceRead};

use super::{PartKey, Reader, StoredStep, ValueLocation, byte};
use crate::declare::box_layout::box_layout;
use crate::error::{Kind, Result};
use crate::value::{StreamValue, ValueKind};

impl Reader {
    /// All values of a stream in a step: the array, or the boxes one after the other, values of points, items of a
    /// list.
    ///
    /// The first read of a step, by this call or another, compares all bytes of the step with their checksum.
    pub fn read<T: StreamValue>(&self, stream: &str, stored: &StoredStep) -> Result<Vec<T>> {
        self.whole(stream, stored, Some(T::KIND))?.typed(self, stored)
    }

    /// As [`read`](Self::read), as bytes: values of the [kind](crate::StreamInfo::stored) of the stream, little-endian.
    pub fn read_bytes(&self, stream: &str, stored: &StoredStep) -> Result<Vec<u8>> {
        self.whole(stream, stored, None)?.typed(self, stored)
    }

    /// As [`read_bytes`](Self::read_bytes), into memory of exactly their size.
    pub fn read_bytes_into(&self, stream: &str, stored: &StoredStep, bytes: &mut [u8]) -> Result<()> {
        self.whole(stream, stored, None)?.fill(self, stored, bytes)
    }

    /// The values of a part of a stored box: of the whole array (`number` 0), or of a box. `part` is counted from the
    /// start of the global array, so that any rank can read any block.
    pub fn read_part<T: StreamValue>(
        &self,
        stream: &str,
        stored: &StoredStep,
        number: usize,
        part: &Hyperslab,
    ) -> Result<Vec<T>> {
        self.part(stream, stored, (number, part), Some(T::KIND))?.typed(self, stored)
    }

    /// As [`read_part`](Self::read_part), as bytes into memory of exactly their size.
    pub fn read_part_bytes_into(
        &self,
        stream: &str,
        stored: &StoredStep,
        (number, part): (usize, &Hyperslab),
        bytes: &mut [u8],
    ) -> Result<()> {
        self.part(stream, stored, (number, part), None)?.fill(self, stored, bytes)
    }

    /// The number and kind of a stream; an error if its values are of another kind than the wanted one.
    fn stream_of_kind(&self, stream: &str, wanted: Option<ValueKind>) -> Result<(usize, ValueKind)> {
        let index = self.find(stream)?;
        let kind = self.streams[index].stored();
        if let Some(wanted) = wanted.filter(|wanted| *wanted != kind) {
            let detail = format!("stream {stream:?} has values {kind:?}, not {wanted:?}");
            return Err(self.error(Kind::NoSuchName, detail));
        }
        Ok((index, kind))
    }

    fn whole(
        &self,
        stream: &str,
        stored: &StoredStep,
        wanted: Option<ValueKind>,
    ) -> Result<ValueRead<impl Fn(&StoredStep) -> Result<ValueLocation>>> {
        let (index, kind) = self.stream_of_kind(stream, wanted)?;
        let width = self.streams[index].item_bytes().unwrap_or(0);
        let find = move |stored: &StoredStep| {
            let (start, items) = self.place(index, stored)?;
            let bytes = items.saturating_mul(width) / kind.width() * kind.width();
            let view = self.fits(View::of(start, &byte()), start, bytes, stored)?;
            Ok(ValueLocation { view, bytes })
        };
        self.place(index, stored)?;
        Ok(ValueRead { kind: (index, None), find })
    }

    fn part(
        &self,
        stream: &str,
        stored: &StoredStep,
        (number, part): (usize, &Hyperslab),
        wanted: Option<ValueKind>,
    ) -> Result<ValueRead<impl Fn(&StoredStep) -> Result<ValueLocation>>> {
        let (index, kind) = self.stream_of_kind(stream, wanted)?;
        self.place(index, stored)?;
        let boxes = self.streams[index].boxes();
        let refuse = |detail: String| Err(self.error(Kind::BadArgument, detail).in_step(stored.step));
        let Some(outer) = boxes.get(number) else {
            return refuse(format!(
                "stream {stream:?} has {} boxes; there is no number {number}",
                boxes.len()
            ));
        };
        let inner = part.relative_to(outer);
        if part.start.len() != outer.start.len()
            || part.intersection(outer) != *part
            || !inner.is_inside(&outer.count)
        {
            let (start, shape) = (&part.start, &part.count);
            return refuse(format!(
                "the block of shape {shape:?} at {start:?} does not lie in box {number} of stream {stream:?}, of shape {:?} at {:?}",
                outer.count, outer.start
            ));
        }
        let before: u64 = boxes[..number].iter().filter_map(Hyperslab::volume).sum();
        let width = kind.width();
        let layout = Layout::bytes(width).and_then(|element| box_layout(&inner, &element, &outer.count));
        let layout = layout.map_err(|error| self.error(Kind::BadArgument, error.to_string()))?;
        let find = move |stored: &StoredStep| {
            let (start, _) = self.place(index, stored)?;
            let start = start.saturating_add(before * width);
            let end = (layout.true_lower_bound() + layout.true_extent()).max(0) as u64;
            let view = self.fits(View::new(start, &byte(), &layout), start, end, stored)?;
            Ok(ValueLocation { view, bytes: layout.size() })
        };
        Ok(ValueRead { kind: (index, Some((number, part.start.clone(), part.count.clone()))), find })
    }
}

/// A read: which values of a step, and where they are in any step.
struct ValueRead<F> {
    kind: PartKey,
    find: F,
}

impl<F: Fn(&StoredStep) -> Result<ValueLocation>> ValueRead<F> {
    /// The values in memory of their own.
    fn typed<T: bytemuck::Pod>(&self, reader: &Reader, stored: &StoredStep) -> Result<Vec<T>> {
        let want = (self.find)(stored)?;
        let mut values = bytemuck::zeroed_vec(want.bytes as usize / size_of::<T>());
        self.fill_from(reader, stored, &want, bytemuck::cast_slice_mut(&mut values))?;
        Ok(values)
    }

    /// The values in memory of the program.
    fn fill(&self, reader: &Reader, stored: &StoredStep, bytes: &mut [u8]) -> Result<()> {
        let want = (self.find)(stored)?;
        if want.bytes != bytes.len() as u64 {
            let (given, wanted) = (bytes.len(), want.bytes);
            let detail = format!("memory of {given} bytes for values of {wanted}; give exactly their size");
            return Err(reader.error(Kind::BadArgument, detail).in_step(stored.step));
        }
        self.fill_from(reader, stored, &want, bytes)
    }

    /// Values that were read ahead, or are read now; requests those that are expected to be read next.
    fn fill_from(
        &self,
        reader: &Reader,
        stored: &StoredStep,
        want: &ValueLocation,
        bytes: &mut [u8],
    ) -> Result<()> {
        let Self { kind, find } = self;
        let read = SequenceRead { kind: kind.clone(), place: stored.record as u64, unit: 1 };
        let early = reader.lock_prefetcher().take(&read);
        let early = early.and_then(PrefetchedValues::wait);
        match early.filter(|early| early.len() == bytes.len()) {
            Some(early) => bytes.copy_from_slice(&early),
            None => reader.read_now(want, stored, bytes)?,
        }
        let whole = kind.1.is_none().then_some((kind.0, &*bytes));
        reader.check(stored, whole)?;
        let next = |record: u64| {
            let stored = reader.stored_steps.iter().find(|stored| stored.record as u64 == record)?;
            find(stored).ok().map(|ValueLocation { view, bytes }| (bytes, view))
        };
        reader.lock_prefetcher().request_next(&reader.comm, &read, next, |view, memory| {
            reader.data.with_view(&view).start_read(memory)
        });
        Ok(())
    }
}
