//! Objects of a step: any of them, on any rank.

use std::ops::Range;

use aqueduct_file::View;
use aqueduct_object::{Object, SchemaDecoder};

use super::prefetcher::ValueLocation;
use super::{Reader, StoredStep, byte};
use crate::declare::stream_info::StreamInfo;
use crate::error::{Error, Kind, Result};

/// The objects of a stream in a step; see [`Reader::objects`].
pub struct StepObjects<'r, T> {
    reader: &'r Reader,
    parcel: StoredStep,
    decoding: SchemaDecoder<T>,
    /// Where the first one begins in the data.
    start: u64,
    count: u64,
    extents: ObjectExtents,
}

/// Where objects lie, counted from the first.
enum ObjectExtents {
    /// All are of so many bytes.
    Constant(u64),
    /// Where each ends.
    Ends(Vec<u64>),
}

impl Reader {
    /// The objects of a stream in a parcel, as values of type `T`: the type that was stored, or one whose rules about older files lead from it.
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
    pub fn objects<T: Object>(&self, stream: &str, parcel: &StoredStep) -> Result<StepObjects<'_, T>> {
        let index = self.find(stream)?;
        let refuse = |detail: String| self.error(Kind::NoSuchName, detail);
        let schema = self.streams[index].object.as_ref();
        let schema = schema.ok_or_else(|| refuse(format!("stream {stream:?} has values, no objects")))?;
        let decoding = SchemaDecoder::new(schema)
            .map_err(|both| refuse(format!("objects of stream {stream:?}: {both}")))?;
        let (start, items) = self.place(index, parcel)?;
        let (count, extents) = match schema.size() {
            Some(size) => (items, ObjectExtents::Constant(size)),
            None => {
                let lengths = self.read::<u64>(&StreamInfo::lengths_of(stream), parcel)?;
                (lengths.len() as u64, ObjectExtents::Ends(self.ends(stream, parcel, &lengths, items)?))
            }
        };
        Ok(StepObjects { reader: self, parcel: parcel.clone(), decoding, start, count, extents })
    }

    /// Where objects of these lengths end, if together they are all that is there.
    fn ends(&self, stream: &str, parcel: &StoredStep, lengths: &[u64], bytes: u64) -> Result<Vec<u64>> {
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
                format!("the lengths of the objects of {stream:?} are not those of its {bytes} bytes");
            self.error(Kind::Damaged, detail).in_step(parcel.step)
        })
    }
}

impl<T: Object> StepObjects<'_, T> {
    /// How many there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The part of one of so many ranks, which all together have each once.
    pub fn share(&self, rank: usize, ranks: usize) -> Range<u64> {
        let border =
            |rank: usize| (u128::from(self.count) * rank.min(ranks) as u128 / ranks.max(1) as u128) as u64;
        border(rank)..border(rank.saturating_add(1))
    }

    /// Reads some of them, by their numbers from 0: those of rank 0 come first, then those of rank 1 ….
    pub fn read(&self, numbers: Range<u64>) -> Result<Vec<T>> {
        let (reader, parcel) = (self.reader, &self.parcel);
        if numbers.start > numbers.end || numbers.end > self.count {
            let detail = format!("objects {numbers:?} are asked for, there are {}", self.count);
            return Err(reader.error(Kind::BadArgument, detail).in_step(parcel.step));
        }
        let (first, last) = (self.border(numbers.start), self.border(numbers.end));
        let place = self.start.saturating_add(first);
        let view = reader.fits(View::of(place, &byte()), place, last - first, parcel)?;
        let bytes = reader.read_now::<u8>(&ValueLocation { view, bytes: last - first }, parcel)?;
        reader.check(parcel, None)?;
        let count = (numbers.end - numbers.start) as usize;
        self.decoding.decode(&bytes, count).map_err(|error| self.decode_error(&error, place))
    }

    /// Where so many objects end.
    fn border(&self, count: u64) -> u64 {
        match &self.extents {
            ObjectExtents::Constant(size) => count.saturating_mul(*size),
            ObjectExtents::Ends(ends) => count.checked_sub(1).map_or(0, |last| ends[last as usize]),
        }
    }

    fn decode_error(&self, error: &aqueduct_object::DecodeError, place: u64) -> Error {
        let detail = format!("{error}, counted from byte {place} of the data: it is not what was written");
        self.reader.error(Kind::Damaged, detail).in_step(self.parcel.step)
    }
}
