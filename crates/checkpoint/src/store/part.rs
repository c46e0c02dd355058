//! The parts of a checkpoint.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use aqueduct_file::hyperslab::{Hyperslab, volume};
use aqueduct_file::layout::Layout;
use aqueduct_object::{Encoder, Object, Schema, encode, encode_all};

use crate::grid::CellGrid;
use crate::molecule::Particle;
use crate::particle_cells::particle_order::ParticleOrder;

/// A rank's block of a distributed array: the shape of the whole array, and the hyperslab of it that
/// the rank has. The last dimension is the fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArrayBlock {
    /// The shape of the whole array.
    pub shape: Vec<u64>,
    /// The elements of this rank.
    pub slab: Hyperslab,
}

impl ArrayBlock {
    /// `count` elements in each dimension, from `start` on, of an array of this shape.
    pub fn new(shape: impl Into<Vec<u64>>, start: impl Into<Vec<u64>>, count: impl Into<Vec<u64>>) -> Self {
        Self { shape: shape.into(), slab: Hyperslab::new(start, count) }
    }

    /// The number of elements of the block; `None` if it is not inside the array.
    pub(super) fn elements(&self) -> Option<u64> {
        let valid = self.slab.is_inside(&self.shape) && volume(&self.shape).is_some();
        valid.then(|| self.slab.volume()).flatten()
    }

    /// Why the block does not fit the array or this number of values.
    pub(super) fn describe_error(&self, values: u64) -> String {
        let Self { shape, slab: Hyperslab { start, count } } = self;
        match self.elements() {
            Some(elements) => format!("{values} values for a block of {elements}; give one for each element"),
            None => format!(
                "the block of {count:?} from {start:?} on is not inside the array of shape {shape:?}; give a block inside it"
            ),
        }
    }
}

/// A part on this rank.
#[derive(Clone, Debug)]
pub(super) enum CheckpointPart<'a> {
    Cells {
        grid: CellGrid,
        rows: Cow<'a, [u8]>,
        row: u64,
        order: ParticleOrder,
    },
    Array {
        kind: String,
        element: u64,
        block: ArrayBlock,
        bytes: Cow<'a, [u8]>,
    },
    /// The ends of the objects are kept for objects of variable size.
    Objects {
        kind: String,
        size: Option<u64>,
        count: u64,
        bytes: Vec<u8>,
        ends: Vec<u64>,
    },
    Value {
        schema: Arc<Schema>,
        bytes: Vec<u8>,
    },
    /// A part that cannot be stored, and the reason. The error is returned on all ranks when the checkpoint is written.
    Invalid(String),
}

/// The state of a program: named parts, the same names in the same order on all ranks.
///
/// Parts are borrowed where possible. [`Store::write`](crate::Store::write) writes them from where they are,
/// [`Store::start`](crate::Store::start) copies them.
#[derive(Clone, Debug)]
pub struct Checkpoint<'a> {
    pub(super) step: u64,
    pub(super) parts: Vec<(String, CheckpointPart<'a>)>,
}

impl<'a> Checkpoint<'a> {
    /// A checkpoint without parts, of a step of the program.
    pub fn new(step: u64) -> Self {
        Self { step, parts: Vec::new() }
    }

    /// Adds particles. A restart can read any region of them. No two ranks may hold particles of the same cell. The particles may be in any
    /// order: they are sorted by cell while they are written.
    pub fn cells<P: Particle>(&mut self, name: &str, grid: &CellGrid, particles: &'a [P]) -> &mut Self {
        let part = ParticleOrder::of(grid, particles).map_or_else(CheckpointPart::Invalid, |order| {
            let rows = Cow::Borrowed(bytemuck::cast_slice(particles));
            CheckpointPart::Cells { grid: *grid, rows, row: size_of::<P>() as u64, order }
        });
        self.add(name, part)
    }

    /// Adds this rank's block of a global array of objects of constant size. Every element of the array must belong to exactly one rank. The
    /// values are borrowed if they are trivial (numbers, also complex ones, and structures of them without padding); others, such as `bool`, are encoded.
    pub fn array<T: Object>(&mut self, name: &str, block: &ArrayBlock, values: &'a [T]) -> &mut Self {
        let kind = T::schema().signature().to_owned();
        let part = match T::SIZE.map(|size| size as u64) {
            _ if block.elements() != Some(values.len() as u64) => {
                CheckpointPart::Invalid(block.describe_error(values.len() as u64))
            }
            Some(element) if element > 0 => {
                CheckpointPart::Array { kind, element, block: block.clone(), bytes: encode_all(values) }
            }
            _ => {
                CheckpointPart::Invalid(format!("objects of type {kind} have no constant size; use objects"))
            }
        };
        self.add(name, part)
    }

    /// As [`array`](Self::array), of elements of a type that is known at run time: those that `layout` describes in `bytes`, encoded.
    /// They are borrowed if they are contiguous.
    ///
    /// ```
    /// use aqueduct_checkpoint::{ArrayBlock, Checkpoint, Store};
    /// use aqueduct_comm::Launch;
    /// use aqueduct_file::layout::Layout;
    /// use aqueduct_object::Object;
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let name = folder.path().join("checkpoints");
    /// Launch::threads(2).run(|world| {
    ///     let block = ArrayBlock::new([4], [2 * world.rank() as u64], [2]);
    ///     let bytes = [1i16, 2].map(i16::to_le_bytes).concat();
    ///     let layout = Layout::bytes(4).unwrap();
    ///     let mut store = Store::open_or_create(world, &name)?;
    ///     let mut checkpoint = Checkpoint::new(1);
    ///     checkpoint.array_bytes("field", &block, &i16::schema(), &bytes, &layout);
    ///     store.write(&checkpoint)?;
    ///     let latest = store.latest()?.expect("one was written");
    ///     assert_eq!(latest.array::<i16>("field", &block)?, [1, 2]);
    ///     assert_eq!(latest.array_bytes("field", &block)?, bytes);
    ///     Ok::<_, aqueduct_checkpoint::Error>(())
    /// })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn array_bytes(
        &mut self,
        name: &str,
        block: &ArrayBlock,
        schema: &Schema,
        bytes: &'a [u8],
        layout: &Layout,
    ) -> &mut Self {
        let part = described(bytes, layout).map(|bytes| {
            let (kind, count) = (schema.signature().to_owned(), bytes.len() as u64);
            match schema.size().filter(|size| *size > 0) {
                Some(element) if block.elements().and_then(|all| all.checked_mul(element)) == Some(count) => {
                    CheckpointPart::Array { kind, element, block: block.clone(), bytes }
                }
                Some(element) => CheckpointPart::Invalid(block.describe_error(count / element)),
                None => CheckpointPart::Invalid(format!("objects of type {kind} have no constant size")),
            }
        });
        self.add(name, part.unwrap_or_else(CheckpointPart::Invalid))
    }

    /// As [`objects`](Self::objects), of objects of constant size of a type that is known at run time.
    pub fn objects_bytes(&mut self, name: &str, schema: &Schema, bytes: &[u8], layout: &Layout) -> &mut Self {
        let part = described(bytes, layout).map(|bytes| {
            let kind = schema.signature().to_owned();
            let size = schema.size().filter(|size| *size > 0 && (bytes.len() as u64).is_multiple_of(*size));
            let Some(size) = size else {
                return CheckpointPart::Invalid(format!(
                    "{} bytes are no objects of type {kind}",
                    bytes.len()
                ));
            };
            let count = bytes.len() as u64 / size;
            let bytes = bytes.into_owned();
            CheckpointPart::Objects { kind, size: Some(size), count, bytes, ends: Vec::new() }
        });
        self.add(name, part.unwrap_or_else(CheckpointPart::Invalid))
    }

    /// As [`value`](Self::value), of a type that is known at run time, encoded.
    pub fn value_bytes(&mut self, name: &str, schema: &Arc<Schema>, bytes: &[u8]) -> &mut Self {
        self.add(name, CheckpointPart::Value { schema: Arc::clone(schema), bytes: bytes.to_vec() })
    }

    /// Adds a part that cannot be stored, for this reason: writing the checkpoint fails on all ranks.
    pub fn invalid(&mut self, name: &str, detail: impl Into<String>) -> &mut Self {
        self.add(name, CheckpointPart::Invalid(detail.into()))
    }

    /// Adds this rank's box of a global array. The array in memory has the shape of the box; it is copied if it is transposed or sliced.
    ///
    /// ```
    /// use aqueduct_checkpoint::{ArrayBlock, Checkpoint, Store};
    /// use aqueduct_comm::Launch;
    /// use ndarray::{Array2, s};
    ///
    /// # let folder = tempfile::tempdir()?;
    /// # let name = folder.path().join("checkpoints");
    /// Launch::threads(2).run(|world| {
    ///     let rank = world.rank();
    ///     let block = ArrayBlock::new([4, 3], [2 * rank as u64, 0], [2, 3]);
    ///     // In memory with a border of ghost cells.
    ///     let local = Array2::from_elem((4, 5), rank as f64);
    ///     let mut store = Store::open_or_create(world, &name)?;
    ///     let mut checkpoint = Checkpoint::new(1);
    ///     let inner = local.slice(s![1..3, 1..4]);
    ///     checkpoint.ndarray("field", &block, &inner);
    ///     store.write(&checkpoint)?;
    ///     let mut whole = Array2::<f64>::zeros((4, 3));
    ///     let latest = store.latest()?.expect("one was written");
    ///     latest.read_ndarray("field", &ArrayBlock::new([4, 3], [0, 0], [4, 3]), &mut whole)?;
    ///     assert_eq!(whole.column(1).to_vec(), [0.0, 0.0, 1.0, 1.0]);
    ///     Ok::<_, aqueduct_checkpoint::Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "ndarray")]
    pub fn ndarray<T: Object + Clone, D: ndarray::Dimension>(
        &mut self,
        name: &str,
        block: &ArrayBlock,
        array: &'a ndarray::ArrayRef<T, D>,
    ) -> &mut Self {
        if let Err(detail) = aqueduct_file::array_memory::check_shape(array.shape(), &block.slab.count) {
            return self.add(name, CheckpointPart::Invalid(detail));
        }
        if let Some(values) = array.as_slice() {
            return self.array(name, block, values);
        }
        let values: Vec<T> = array.iter().cloned().collect();
        let mut copied = Checkpoint::new(self.step);
        copied.array(name, block, &values);
        self.parts.extend(copied.into_owned().parts);
        self
    }

    /// Adds a list of objects, in rank order. They are encoded, which is a copy.
    pub fn objects<T: Object>(&mut self, name: &str, objects: &[T]) -> &mut Self {
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        if T::SIZE.is_some() {
            Encoder::new(&mut bytes).put_all(objects);
        } else {
            for object in objects {
                object.encode(&mut Encoder::new(&mut bytes));
                ends.push(bytes.len() as u64);
            }
        }
        let size = T::SIZE.map(|size| size as u64);
        let kind = T::schema().signature().to_owned();
        self.add(name, CheckpointPart::Objects { kind, size, count: objects.len() as u64, bytes, ends })
    }

    /// Adds a value that is the same on all ranks, such as the time or a configuration.
    pub fn value<T: Object>(&mut self, name: &str, value: &T) -> &mut Self {
        self.add(name, CheckpointPart::Value { schema: T::schema(), bytes: encode(value) })
    }

    /// Bytes that [`into_owned`](Self::into_owned) copies.
    pub(super) fn borrowed_bytes(&self) -> u64 {
        let borrowed = |part: &CheckpointPart<'_>| match part {
            CheckpointPart::Cells { rows: Cow::Borrowed(bytes), .. }
            | CheckpointPart::Array { bytes: Cow::Borrowed(bytes), .. } => bytes.len() as u64,
            _ => 0,
        };
        self.parts.iter().map(|(_, part)| borrowed(part)).sum()
    }

    /// Copies all borrowed parts, for an asynchronous checkpoint.
    pub fn into_owned(self) -> Checkpoint<'static> {
        let owned = |part| match part {
            CheckpointPart::Cells { grid, rows, row, order } => {
                CheckpointPart::Cells { grid, rows: Cow::Owned(rows.into_owned()), row, order }
            }
            CheckpointPart::Array { kind, element, block, bytes } => {
                CheckpointPart::Array { kind, element, block, bytes: Cow::Owned(bytes.into_owned()) }
            }
            CheckpointPart::Objects { kind, size, count, bytes, ends } => {
                CheckpointPart::Objects { kind, size, count, bytes, ends }
            }
            CheckpointPart::Value { schema, bytes } => CheckpointPart::Value { schema, bytes },
            CheckpointPart::Invalid(why) => CheckpointPart::Invalid(why),
        };
        let parts = self.parts.into_iter().map(|(name, part)| (name, owned(part))).collect();
        Checkpoint { step: self.step, parts }
    }

    fn add(&mut self, name: &str, part: CheckpointPart<'a>) -> &mut Self {
        self.parts.push((name.to_owned(), part));
        self
    }
}

impl CheckpointPart<'_> {
    /// The kind in the manifest, and the extension of the file.
    pub(super) fn word(&self) -> &'static str {
        match self {
            CheckpointPart::Cells { .. } => "cells",
            CheckpointPart::Array { .. } => "array",
            CheckpointPart::Objects { .. } => "objects",
            CheckpointPart::Value { .. } | CheckpointPart::Invalid(_) => "value",
        }
    }

    /// The properties that must be the same on all ranks, with names for messages.
    pub(super) fn properties(&self) -> Vec<(&'static str, String)> {
        let mut properties = vec![("kind", self.word().to_owned())];
        match self {
            CheckpointPart::Cells { grid, row, .. } => properties.extend([
                ("box", format!("{:?}", grid.length())),
                ("number of cells", format!("{:?}", grid.cells())),
                ("size of a particle", format!("{row} bytes")),
            ]),
            CheckpointPart::Array { kind, block, .. } => {
                properties.extend([("type", kind.clone()), ("shape", format!("{:?}", block.shape))]);
            }
            CheckpointPart::Objects { kind, .. } => properties.push(("type", kind.clone())),
            CheckpointPart::Value { schema, bytes } => {
                let value = schema.show(bytes).unwrap_or_else(|_| "unreadable".to_owned());
                let encoded = format!("encoded form {}", super::manifest::to_hex(bytes));
                properties.extend([
                    ("type", schema.signature().to_owned()),
                    ("value", value),
                    ("value", encoded),
                ]);
            }
            CheckpointPart::Invalid(_) => {}
        }
        properties
    }
}

impl Checkpoint<'_> {
    /// A hash of these properties, equal on all ranks if the parts are.
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.step.hash(&mut hasher);
        for (name, part) in &self.parts {
            (name, part.word()).hash(&mut hasher);
            match part {
                CheckpointPart::Value { schema, bytes } => (schema.signature(), bytes).hash(&mut hasher),
                other => other.properties().hash(&mut hasher),
            }
        }
        hasher.finish()
    }
}

/// The bytes that a layout describes, or why there are none; borrowed if they are contiguous.
fn described<'a>(bytes: &'a [u8], layout: &Layout) -> Result<Cow<'a, [u8]>, String> {
    let pattern = layout.tiled(1).map_err(|error| error.to_string())?;
    let (low, high, size) = (pattern.lowest(), pattern.highest(), pattern.size() as usize);
    if low < 0 || high as u64 > bytes.len() as u64 {
        return Err(format!("the layout describes bytes {low} to {high} of {}", bytes.len()));
    }
    if pattern.is_contiguous() {
        return Ok(Cow::Borrowed(&bytes[low as usize..][..size]));
    }
    let mut gathered = vec![0; size];
    pattern.gather(bytes, 0, &mut gathered).map_err(|error| error.to_string())?;
    Ok(Cow::Owned(gathered))
}

/// Whether the name of a part is valid: it becomes the name of a file.
pub(super) fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (1..=100).contains(&name.len()) && !name.starts_with('.') && name.chars().all(allowed)
}
