//! What a program declares: streams, each with its array, this rank's block, the sampled region, and when it is
//! stored.

use std::marker::PhantomData;
use std::sync::Arc;

use aqueduct_object::{Object, Schema};
use serde::{Deserialize, Serialize};

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
}

impl Reduction {
    /// The kind of the stored values for samples of this kind.
    pub fn stored(self, sampled: ValueKind) -> ValueKind {
        match self {
            Self::None | Self::Max | Self::Min => sampled,
            Self::Sum | Self::Mean | Self::Rms => ValueKind::F64,
        }
    }
}

/// The sampled region, as this rank declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SampledRegion {
    Whole,
    Cuboids(Vec<Hyperslab>),
    /// The points of this rank, by their numbers in the global array.
    Points(Vec<u64>),
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

    /// Reduces the samples over time; without [`every`](Self::every), until the end.
    #[must_use]
    pub fn reduce(mut self, reduction: Reduction) -> Self {
        self.reduction = reduction;
        self
    }

    /// Stores every `steps` steps: without a reduction steps 0, `steps`, 2 · `steps` …, with one the reduction of
    /// that many samples.
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
