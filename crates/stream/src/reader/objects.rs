//! Objects of a step: any of them, on any rank.

use std::ops::Range;

use aqueduct_file::View;
use aqueduct_object::{Object, SchemaDecoder};

use super::{Reader, StoredStep, ValueLocation, byte};
use crate::declare::stream_info::StreamInfo;
use crate::error::{Error, Kind, Result};

/// The objects of a stream in a step; see [`Reader::objects`].
pub struct StepObjects<'r, T> {
    reader: &'r Reader,
    stored: StoredStep,
    decoding: SchemaDecoder<T>,
    /// The start of the first object in the data.
    start: u64,
    count: u64,
    extents: ObjectExtents,
}

/// The places of objects, relative to the first.
enum ObjectExtents {
    /// All have this number of bytes.
    Constant(u64),
    /// The end of each.
    Ends(Vec<u64>),
}

impl Reader {
    /// The objects of a stream in a step, as values of type `T`: the stored type, or one that can read it by its
    /// rules for older files.
    ///
    /// ```
    /// use aqueduct_comm::Launch;
    /// use aqueduct_object::Object;
    /// use aqueduct_stream::{Output, Reader, Stream, Streams};
    ///
    /// #[derive(Object, Clone, Debug, PartialEq)]
    /// struct Droplet { id: u64, path: Vec<[f64; 3]> }
    ///
    /// Launch::threads(3).run(|world| {
    ///     let mut streams = Streams::new();
    ///     let droplets = streams.add_objects::<Droplet>(Stream::objects("droplets"));
    ///     let mut output = Output::create(world, "memfs:droplets", &streams)?;
    ///     for step in 0..4 {
    ///         // Rank 0 never has any, rank 1 one of them, rank 2 two.
    ///         let droplet = Droplet { id: world.rank() as u64, path: vec![[0.5; 3]; step] };
    ///         output.step()?.put_objects(droplets, &vec![droplet; world.rank()]).commit()?;
    ///     }
    ///     output.finish().map(drop)
    /// })?;
    /// // Another program, on another number of ranks.
    /// Launch::threads(2).run(|world| {
    ///     let reader = Reader::open(world, "memfs:droplets")?;
    ///     let droplets = reader.objects::<Droplet>("droplets", reader.step(3).unwrap())?;
    ///     assert_eq!(droplets.count(), 3);
    ///     let mine = droplets.read(droplets.share(world.rank(), world.size()))?;
    ///     assert!(mine.iter().all(|droplet| droplet.id > 0 && droplet.path.len() == 3));
    ///     Ok::<_, aqueduct_stream::Error>(())
    /// })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn objects<T: Object>(&self, stream: &str, stored: &StoredStep) -> Result<StepObjects<'_, T>> {
        let index = self.find(stream)?;
        let refuse = |detail: String| self.error(Kind::NoSuchName, detail);
        let schema = self.streams[index].object.as_ref();
        let schema = schema.ok_or_else(|| refuse(format!("stream {stream:?} has values, not objects")))?;
        let decoding = SchemaDecoder::new(schema)
            .map_err(|both| refuse(format!("objects of stream {stream:?}: {both}")))?;
        let (start, items) = self.place(index, stored)?;
        let (count, extents) = match schema.size() {
            Some(size) => (items, ObjectExtents::Constant(size)),
            None => {
                let lengths = self.read::<u64>(&StreamInfo::lengths_of(stream), stored)?;
                (lengths.len() as u64, ObjectExtents::Ends(self.ends(stream, stored, &lengths, items)?))
            }
        };
        Ok(StepObjects { reader: self, stored: stored.clone(), decoding, start, count, extents })
    }

    /// The ends of objects of these lengths, if their sum is the size of the data.
    fn ends(&self, stream: &str, stored: &StoredStep, lengths: &[u64], bytes: u64) -> Result<Vec<u64>> {
        let mut end = Some(0u64);
        let ends: Option<Vec<u64>> = lengths
            .iter()
            .map(|length| {
                end = end?.checked_add(*length);
                end
            })
            .collect();
        let whole = |ends: &Vec<u64>| ends.last().copied().unwrap_or(0) == bytes;
        ends.filter(whole).ok_or_else(|| {
            let detail =
                format!("the lengths of the objects of {stream:?} do not add up to its {bytes} bytes");
            self.error(Kind::Damaged, detail).in_step(stored.step)
        })
    }
}

impl<T: Object> StepObjects<'_, T> {
    /// The number of objects.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The part of one of this number of ranks; the parts of all ranks cover every object once.
    pub fn share(&self, rank: usize, ranks: usize) -> Range<u64> {
        let border =
            |rank: usize| (u128::from(self.count) * rank.min(ranks) as u128 / ranks.max(1) as u128) as u64;
        border(rank)..border(rank.saturating_add(1))
    }

    /// Reads some objects, by their numbers from 0: those of rank 0 come first, then those of rank 1 ….
    pub fn read(&self, numbers: Range<u64>) -> Result<Vec<T>> {
        let (reader, stored) = (self.reader, &self.stored);
        if numbers.start > numbers.end || numbers.end > self.count {
            let detail = format!("objects {numbers:?} were requested, there are {}", self.count);
            return Err(reader.error(Kind::BadArgument, detail).in_step(stored.step));
        }
        let (first, last) = (self.border(numbers.start), self.border(numbers.end));
        let place = self.start.saturating_add(first);
        let view = reader.fits(View::of(place, &byte()), place, last - first, stored)?;
        let mut bytes = vec![0; (last - first) as usize];
        reader.read_now(&ValueLocation { view, bytes: last - first }, stored, &mut bytes)?;
        reader.check(stored, None)?;
        let count = (numbers.end - numbers.start) as usize;
        self.decoding.decode(&bytes, count).map_err(|error| self.decode_error(&error, place))
    }

    /// The end of the object of this number.
    fn border(&self, count: u64) -> u64 {
        match &self.extents {
            ObjectExtents::Constant(size) => count.saturating_mul(*size),
            ObjectExtents::Ends(ends) => count.checked_sub(1).map_or(0, |last| ends[last as usize]),
        }
    }

    fn decode_error(&self, error: &aqueduct_object::DecodeError, place: u64) -> Error {
        let detail = format!("{error}, counted from byte {place} of the data, which is damaged");
        self.reader.error(Kind::Damaged, detail).in_step(self.stored.step)
    }
}
