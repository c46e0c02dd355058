//! What a program declares: streams, each with its array, this rank's block, the sampled region, and when it is
//! stored.

use std::marker::PhantomData;
use std::sync::Arc;

use aqueduct_object::{Object, Schema};
use serde::{Deserialize, Serialize};

use crate::declare::array_storage::ArrayStorage;
use crate::declare::stream_info::StreamInfo;
use crate::value::{StreamValue, ValueKind};
use aqueduct_file::hyperslab::Hyperslab;

/// How the samples of a value are reduced over time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reduction {
    /// Each sample is stored.
    #[default]
    None,
    /// The maximum.
    Max,
    /// The minimum.
    Min,
    /// The sum, as `f64`.
    Sum,
    /// The mean, as `f64`.
    Mean,
    /// The root mean square, as `f64`.
    Rms,
    /// The last value. A stream with this reduction is put in any steps: those in which it is not are not sampled.
    Last,
}

impl Reduction {
    /// Whether values of this kind can be reduced so.
    pub(crate) fn suits(self, kind: ValueKind) -> bool {
        match (self, kind) {
            (Self::None | Self::Last, _) => true,
            (_, ValueKind::F16) => false,
            (Self::Sum | Self::Mean, _) => true,
            _ => !kind.is_complex(),
        }
    }

    /// The kind in which samples of this kind are reduced, and stored unless the stream gives another one.
    pub fn stored(self, sampled: ValueKind) -> ValueKind {
        match self {
            Self::None | Self::Max | Self::Min | Self::Last => sampled,
            Self::Sum | Self::Mean if sampled.is_complex() => ValueKind::Complex128,
            Self::Sum | Self::Mean | Self::Rms => ValueKind::F64,
        }
    }
}

/// The sampled region, as this rank declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SampledRegion {
    Whole,
    Cuboids(Vec<Hyperslab>),
    /// The points of this rank, by their numbers in the global array, in the order of the ranks.
    Points(Vec<u64>),
    /// The points of this rank, each with its number in the list, ascending.
    ListedPoints(Vec<(u64, u64)>),
    List,
}

/// The declaration of a stream.
///
/// ```
/// use aqueduct_stream::{Hyperslab, Reduction, Stream};
///
/// // This rank holds the planes 10 to 19 of a 100 × 64 × 64 array, with one plane of halo on both sides.
/// let peak = Stream::array("peak pressure", [100, 64, 64])
///     .block([10, 0, 0], [10, 64, 64])
///     .in_memory([12, 64, 64], [1, 0, 0])
///     .cuboids([Hyperslab::new([0, 0, 0], [50, 8, 8])])
///     .reduce(Reduction::Max)
///     .every(100);
/// ```
#[derive(Clone, Debug)]
pub struct Stream {
    pub(crate) name: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) block: Hyperslab,
    /// The shape of the array in memory, and the start of the block in it.
    pub(crate) memory: Option<Hyperslab>,
    pub(crate) sampled: SampledRegion,
    pub(crate) reduction: Reduction,
    pub(crate) every: Option<u64>,
    /// The first step that is sampled.
    pub(crate) from: u64,
    /// The kind of the stored values, if it is another one than that of the samples or of the reduction.
    pub(crate) stored_as: Option<ValueKind>,
    pub(crate) storage: ArrayStorage,
    /// The schema of the items of a list of objects.
    pub(crate) object: Option<Arc<Schema>>,
}

impl Stream {
    /// A stream of a global array of this shape, the last dimension fastest in memory and file. This rank holds no
    /// element of it without [`block`](Self::block); the whole array is sampled.
    pub fn array(name: impl Into<String>, shape: impl Into<Vec<u64>>) -> Self {
        let shape = shape.into();
        Self {
            name: name.into(),
            block: Hyperslab::empty(shape.len()),
            shape,
            memory: None,
            sampled: SampledRegion::Whole,
            reduction: Reduction::None,
            every: None,
            from: 0,
            stored_as: None,
            storage: ArrayStorage::default(),
            object: None,
        }
    }

    /// A stream of items of `width` values each, such as particles: every rank passes any number of them in a step.
    pub fn list(name: impl Into<String>, width: u64) -> Self {
        Self { sampled: SampledRegion::List, ..Self::array(name, [width]) }
    }

    /// A stream of typed objects, such as particles with their histories: every rank passes any number of them in a
    /// step. [`Streams::add_objects`] adds it.
    pub fn objects(name: impl Into<String>) -> Self {
        Self::list(name, 1)
    }

    /// The block of the array that this rank holds.
    #[must_use]
    pub fn block(mut self, start: impl Into<Vec<u64>>, shape: impl Into<Vec<u64>>) -> Self {
        self.block = Hyperslab::new(start, shape);
        self
    }

    /// The array that this rank passes is larger than its block: its shape is `shape`, and the block begins at
    /// `start` in it.
    #[must_use]
    pub fn in_memory(mut self, shape: impl Into<Vec<u64>>, start: impl Into<Vec<u64>>) -> Self {
        self.memory = Some(Hyperslab::new(start, shape));
        self
    }

    /// Samples these boxes of the array; the same on all ranks.
    #[must_use]
    pub fn cuboids(mut self, cuboids: impl IntoIterator<Item = Hyperslab>) -> Self {
        self.sampled = SampledRegion::Cuboids(cuboids.into_iter().collect());
        self
    }

    /// Samples points of this rank's block, by their numbers in the global array, the last dimension fastest; each
    /// rank gives its own, in any order.
    #[must_use]
    pub fn points(mut self, points: impl IntoIterator<Item = u64>) -> Self {
        self.sampled = SampledRegion::Points(points.into_iter().collect());
        self
    }

    /// Samples points of this rank's block, each with its number in the list of all points: the file has them in the order
    /// of the list, however the array is divided among the ranks. A point may be in the list several times. Each number
    /// from 0 to the number of points of all ranks is given once.
    ///
    /// ```
    /// use aqueduct_stream::Stream;
    ///
    /// // A mask of an array of 100 values, of which this rank holds the second half.
    /// let mask = [7, 93, 51, 8, 93];
    /// let mine = mask.iter().enumerate().filter(|(_, point)| (50..100).contains(*point));
    /// let sensor = Stream::array("sensor", [100])
    ///     .block([50], [50])
    ///     .listed_points(mine.map(|(number, point)| (number as u64, *point)));
    /// ```
    #[must_use]
    pub fn listed_points(mut self, points: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let mut points: Vec<(u64, u64)> = points.into_iter().collect();
        points.sort_unstable();
        self.sampled = SampledRegion::ListedPoints(points);
        self
    }

    /// Samples from this step on; the steps before are neither stored nor reduced.
    #[must_use]
    pub fn from(mut self, step: u64) -> Self {
        self.from = step;
        self
    }

    /// Stores values as `T`, `f32` or `f64`, whatever kind of floating-point numbers is sampled or reduced: sums, means and
    /// root mean squares are accumulated as `f64` nevertheless.
    #[must_use]
    pub fn stored_as<T: StreamValue>(mut self) -> Self {
        self.stored_as = Some(T::KIND);
        self
    }

    /// As [`stored_as`](Self::stored_as), of a kind that is known at run time.
    #[must_use]
    pub fn stored_as_kind(mut self, kind: ValueKind) -> Self {
        self.stored_as = Some(kind);
        self
    }

    /// Reduces the samples over time; without [`every`](Self::every), until the end.
    #[must_use]
    pub fn reduce(mut self, reduction: Reduction) -> Self {
        self.reduction = reduction;
        self
    }

    /// Stores every `steps` steps: without a reduction the first sampled step, and each `steps` steps after it, with one
    /// the reduction of that many samples.
    #[must_use]
    pub fn every(mut self, steps: u64) -> Self {
        self.every = Some(steps);
        self
    }
}

/// The streams of a program, in the order in which they are stored. The same on all ranks, except for blocks and
/// points.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    pub(crate) streams: Vec<(Stream, ValueKind)>,
}

impl Streams {
    /// No streams.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a stream of values of type `T`; returns the key for [`OutputStep::put`](crate::OutputStep::put). An
    /// invalid declaration is an error when the output is created.
    pub fn add<T: StreamValue>(&mut self, stream: Stream) -> StreamKey<T> {
        self.streams.push((stream, T::KIND));
        StreamKey { index: self.streams.len() - 1, values: PhantomData }
    }

    /// Adds a stream of values of a kind that is known at run time; returns its key, for
    /// [`OutputStep::put_bytes`](crate::OutputStep::put_bytes).
    ///
    /// ```
    /// use aqueduct_comm::Launch;
    /// use aqueduct_file::layout::Layout;
    /// use aqueduct_stream::{Output, Reader, Stream, Streams, ValueKind};
    ///
    /// Launch::threads(1).run(|world| {
    ///     let mut streams = Streams::new();
    ///     let spectrum = streams.add_kind(Stream::array("spectrum", [2]).block([0], [2]), ValueKind::Complex64);
    ///     let mut output = Output::create(world, "memfs:spectrum", &streams)?;
    ///     // Two complex numbers, 16 bytes apart in memory.
    ///     let memory: Vec<u8> = [1.0f32, 2.0, 9.0, 9.0, 3.0, 4.0].iter().flat_map(|part| part.to_le_bytes()).collect();
    ///     let layout = Layout::bytes(8).and_then(|value| value.resized(0, 16)?.contiguous(2)).unwrap();
    ///     output.step()?.put_bytes(spectrum, &memory, &layout).commit()?;
    ///     output.finish()?;
    ///
    ///     let reader = Reader::open(world, "memfs:spectrum")?;
    ///     assert_eq!(reader.streams()[0].stored(), ValueKind::Complex64);
    ///     let bytes = reader.read_bytes("spectrum", &reader.stored_steps()[0])?;
    ///     assert_eq!(bytes, [1.0f32, 2.0, 3.0, 4.0].map(f32::to_le_bytes).concat());
    ///     Ok::<_, aqueduct_stream::Error>(())
    /// })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn add_kind(&mut self, stream: Stream, kind: ValueKind) -> StreamKindKey {
        self.streams.push((stream, kind));
        StreamKindKey { index: self.streams.len() - 1, kind }
    }

    /// Adds a stream of objects of type `T`, made by [`Stream::objects`]; returns its key. The type and its schema
    /// are stored in the file. Objects of different sizes have their lengths in another stream, `<name>.lengths`.
    pub fn add_objects<T: Object>(&mut self, mut stream: Stream) -> ObjectKey<T> {
        let (kind, values) = words(T::SIZE.map_or(1, |size| size as u64));
        let lengths = T::SIZE
            .is_none()
            .then(|| Stream { name: StreamInfo::lengths_of(&stream.name), ..stream.clone() });
        stream.object = Some(T::schema());
        if stream.sampled == SampledRegion::List {
            stream.shape = vec![values];
        }
        self.streams.push((stream, kind));
        let index = self.streams.len() - 1;
        self.streams.extend(lengths.map(|lengths| (lengths, ValueKind::U64)));
        ObjectKey { index, objects: PhantomData }
    }
}

/// Objects of a fixed size as values: the widest kind that divides the size, because a checksum takes the same time
/// for any width; and the number of values.
fn words(size: u64) -> (ValueKind, u64) {
    let kinds = [ValueKind::U64, ValueKind::U32, ValueKind::U16];
    let kind = kinds.into_iter().find(|kind| size.is_multiple_of(kind.width())).unwrap_or(ValueKind::U8);
    (kind, size / kind.width())
}

/// The key of a stream of an output whose kind of values is known at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamKindKey {
    pub(crate) index: usize,
    pub(crate) kind: ValueKind,
}

impl StreamKindKey {
    /// The kind of its values.
    pub fn kind(self) -> ValueKind {
        self.kind
    }
}

/// The key of a stream of objects of an output.
#[derive(Debug)]
pub struct ObjectKey<T> {
    pub(crate) index: usize,
    objects: PhantomData<fn() -> T>,
}

impl<T> Clone for ObjectKey<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for ObjectKey<T> {}

/// The key of a stream of an output.
#[derive(Debug)]
pub struct StreamKey<T> {
    pub(crate) index: usize,
    values: PhantomData<fn() -> T>,
}

impl<T> Clone for StreamKey<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for StreamKey<T> {}
