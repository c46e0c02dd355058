//! Access to an input file of k-Wave: numbers, fields and lists, checked.

use anyhow::{Context, Result, bail, ensure};
use aqueduct::comm::Comm;
use aqueduct::hdf5::{DatasetId, Datatype, Hdf5File, Hdf5OpenOptions};
use aqueduct::object::Object;

use crate::grid::WaveGrid;
use crate::grid::field_block::FieldBlock;
use crate::problem::{MediumField, ScalarValue};

/// Elements of a list that all ranks read at a time.
const LIST_PORTION: u64 = 1 << 17;
/// Bytes of a table that a rank reads at a time.
const TABLE_PORTION: u64 = 4 << 20;

/// An input file that all ranks have open.
pub struct KwaveFile {
    file: Hdf5File,
    name: String,
}

/// The name of an element type in k-Wave.
fn type_name(datatype: &Datatype) -> String {
    match datatype {
        Datatype::Float(4) => "float".to_owned(),
        Datatype::UInt(8) => "long".to_owned(),
        other => other.to_string(),
    }
}

impl KwaveFile {
    /// Opens a file and checks its kind and version. Collective.
    pub fn open(world: &Comm, name: &str) -> Result<Self> {
        let file = Hdf5OpenOptions::new().open(world, name)?;
        let made = Self { file, name: name.to_owned() };
        let attribute = |key: &str| {
            made.file
                .object("/")
                .ok()?
                .attribute(key)?
                .text()
                .map(|text| text.trim_end_matches('\0').to_owned())
        };
        let kind = attribute("file_type");
        ensure!(
            kind.as_deref() == Some("input"),
            "{name}: its attribute file_type is {}, not \"input\"; it is not an input file of k-Wave",
            kind.map_or("missing".to_owned(), |kind| format!("{kind:?}"))
        );
        let version = [attribute("major_version"), attribute("minor_version")].map(Option::unwrap_or_default);
        ensure!(
            version[0] == "1" && ["0", "1", "2"].contains(&version[1].as_str()),
            "{name}: version {}.{} of the format is not known; 1.0, 1.1 and 1.2 are",
            version[0],
            version[1]
        );
        Ok(made)
    }

    /// The description of the file.
    pub fn description(&self) -> String {
        let root = self.file.object("/").ok();
        let text = root.and_then(|root| root.attribute("file_description")?.text());
        text.unwrap_or_default().trim_end_matches('\0').to_owned()
    }

    /// The name it was opened by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether there is a dataset of this name.
    pub fn has(&self, dataset: &str) -> bool {
        self.file.dataset(&format!("/{dataset}")).is_ok()
    }

    /// Whether there is a field of this name in the whole grid.
    pub fn is_field(&self, dataset: &str, grid: &WaveGrid) -> bool {
        let described = self.file.dataset(&format!("/{dataset}")).and_then(|id| self.file.describe(id));
        described.is_ok_and(|described| described.shape == grid.shape())
    }

    /// Bytes of a dataset in memory; 0 if there is none.
    pub fn stored_bytes(&self, dataset: &str) -> u64 {
        let described = self.file.dataset(&format!("/{dataset}")).and_then(|id| self.file.describe(id));
        described.map_or(0, |described| {
            let sides = described.shape.iter().fold(1u64, |all, side| all.saturating_mul(*side));
            sides.saturating_mul(described.datatype.size())
        })
    }

    /// A dataset of this type, and its shape.
    fn typed(&self, dataset: &str, wanted: &Datatype) -> Result<(DatasetId, [u64; 3])> {
        let name = &self.name;
        let id = self.file.dataset(&format!("/{dataset}"));
        let id = id.with_context(|| format!("{name}: dataset {dataset} is missing"))?;
        let described = self.file.describe(id)?;
        ensure!(
            described.datatype == *wanted,
            "{name}: dataset {dataset} has elements of type {}; it should have {}",
            type_name(&described.datatype),
            type_name(wanted)
        );
        let shape: Option<[u64; 3]> = described.shape.as_slice().try_into().ok();
        let shape = shape.with_context(|| {
            format!(
                "{name}: dataset {dataset} has the shape {:?}; it should have three dimensions",
                described.shape
            )
        })?;
        Ok((id, shape))
    }

    fn shaped(&self, dataset: &str, wanted: &Datatype, shape: [u64; 3]) -> Result<DatasetId> {
        let (id, found) = self.typed(dataset, wanted)?;
        let name = &self.name;
        ensure!(
            found == shape,
            "{name}: dataset {dataset} has the shape {found:?}; it should have {shape:?}"
        );
        Ok(id)
    }

    /// A whole number. Collective.
    pub fn long(&self, dataset: &str) -> Result<u64> {
        let id = self.shaped(dataset, &Datatype::UInt(8), [1, 1, 1])?;
        self.read(id, [0, 0, 0], [1, 1, 1]).map(|values: Vec<u64>| values[0])
    }

    /// A whole number, or another one if there is none. Collective.
    pub fn long_or(&self, dataset: &str, otherwise: u64) -> Result<u64> {
        if self.has(dataset) { self.long(dataset) } else { Ok(otherwise) }
    }

    /// A number. Collective.
    pub fn float(&self, dataset: &str) -> Result<f64> {
        let id = self.shaped(dataset, &Datatype::Float(4), [1, 1, 1])?;
        self.read(id, [0, 0, 0], [1, 1, 1]).map(|values: Vec<f32>| f64::from(values[0]))
    }

    /// A finite number above zero. Collective.
    pub fn positive(&self, dataset: &str) -> Result<f64> {
        let value = self.float(dataset)?;
        ensure!(
            value > 0.0 && value.is_finite(),
            "{}: {dataset} is {value}; it should be above 0",
            self.name
        );
        Ok(value)
    }

    fn read<T: Object>(&self, id: DatasetId, start: [u64; 3], count: [u64; 3]) -> Result<Vec<T>> {
        let ranges = [0, 1, 2].map(|at| start[at]..start[at] + count[at]);
        Ok(self.file.at(id, ranges).all().read_vec()?)
    }

    /// The values of a field in a block. Collective.
    pub fn block(&self, dataset: &str, block: &FieldBlock) -> Result<Vec<f32>> {
        let [x, y, z] = block.points.map(|points| points as u64);
        let id = self.shaped(dataset, &Datatype::Float(4), [z, y, x])?;
        let values: Vec<f32> = self.read(id, block.start(), block.shape())?;
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            bail!("{}: {dataset} is {} at {}", self.name, values[at], place(block, at));
        }
        Ok(values)
    }

    /// A property of the medium, of one value or of one per point; `least` is its lower bound, or must be exceeded. Collective.
    pub fn medium(&self, dataset: &str, block: &FieldBlock, above: Option<f64>) -> Result<MediumField> {
        let check = |value: f64| value.is_finite() && above.is_none_or(|above| value > above);
        let wanted = above.map_or("finite".to_owned(), |above| format!("above {above}"));
        if self.typed(dataset, &Datatype::Float(4))?.1 == [1, 1, 1] {
            let value = self.float(dataset)?;
            ensure!(check(value), "{}: {dataset} is {value}; it should be {wanted}", self.name);
            return Ok(MediumField::Uniform(value));
        }
        let values = self.block(dataset, block)?;
        if let Some(at) = values.iter().position(|value| !check(f64::from(*value))) {
            bail!(
                "{}: {dataset} is {} at {}; it should be {wanted}",
                self.name,
                values[at],
                place(block, at)
            );
        }
        Ok(MediumField::Block(values))
    }

    /// The length of a list of whole numbers.
    pub fn list_length(&self, dataset: &str) -> Result<u64> {
        let (_, [one, other, count]) = self.typed(dataset, &Datatype::UInt(8))?;
        ensure!(
            one == 1 && other == 1,
            "{}: dataset {dataset} has the shape [{one}, {other}, {count}]; it should have [1, 1, n]",
            self.name
        );
        Ok(count)
    }

    /// Calls a function with the elements of a list of whole numbers, in portions: the position of the first one, and the values. Collective.
    pub fn for_each_portion(
        &self,
        dataset: &str,
        mut visit: impl FnMut(u64, &[u64]) -> Result<()>,
    ) -> Result<()> {
        let count = self.list_length(dataset)?;
        let (id, _) = self.typed(dataset, &Datatype::UInt(8))?;
        for first in (0..count).step_by(LIST_PORTION as usize) {
            let length = LIST_PORTION.min(count - first);
            visit(first, &self.read::<u64>(id, [0, 0, first], [1, 1, length])?)?;
        }
        Ok(())
    }

    /// The corners of boxes: 1-based, inclusive, x1 y1 z1 x2 y2 z2. Collective.
    pub fn corners(&self, dataset: &str) -> Result<Vec<[u64; 6]>> {
        let (id, [one, boxes, six]) = self.typed(dataset, &Datatype::UInt(8))?;
        ensure!(
            one == 1 && six == 6,
            "{}: dataset {dataset} has the shape [{one}, {boxes}, {six}]; it should have [1, boxes, 6]",
            self.name
        );
        let values: Vec<u64> = self.read(id, [0, 0, 0], [1, boxes, 6])?;
        Ok(values.as_chunks::<6>().0.to_vec())
    }

    /// A list of numbers, on all ranks. Collective.
    pub fn floats(&self, dataset: &str) -> Result<Vec<f32>> {
        let (id, [one, other, count]) = self.typed(dataset, &Datatype::Float(4))?;
        ensure!(
            one == 1 && other == 1,
            "{}: dataset {dataset} has the shape [{one}, {other}, {count}]; it should have [1, 1, n]",
            self.name
        );
        self.read(id, [0, 0, 0], [1, 1, count])
    }

    /// The columns of a table (1, steps, points) at these positions, steps one after another. Collective.
    pub fn columns(&self, dataset: &str, [steps, points]: [u64; 2], positions: &[u64]) -> Result<Vec<f32>> {
        let (id, found) = self.typed(dataset, &Datatype::Float(4))?;
        ensure!(
            found[0] == 1 && found[1] >= steps && found[2] == points,
            "{}: dataset {dataset} has the shape {found:?}; it should have [1, {steps}, {points}]",
            self.name
        );
        let first = positions.iter().min().copied().unwrap_or(0);
        let end = positions.iter().max().map_or(0, |last| last + 1);
        let width = (end - first) as usize;
        // The same on all ranks.
        let portion = (TABLE_PORTION / (4 * points).max(1)).clamp(1, steps.max(1));
        let mut values = Vec::with_capacity(steps as usize * positions.len());
        for step in (0..steps).step_by(portion as usize) {
            let count = portion.min(steps - step);
            let rows: Vec<f32> = self.read(id, [0, step, first], [1, count, width as u64])?;
            for row in rows.chunks_exact(width.max(1)) {
                values.extend(positions.iter().map(|position| row[(position - first) as usize]));
            }
        }
        Ok(values)
    }

    /// All numbers of the file, by name. Collective.
    pub fn scalars(&self) -> Result<Vec<(String, ScalarValue)>> {
        let single = |id: DatasetId| {
            let described = self.file.describe(id).ok()?;
            (described.shape == [1, 1, 1]).then(|| described.datatype.clone())
        };
        let found: Vec<(DatasetId, String, Datatype)> = self
            .file
            .datasets()
            .filter_map(|(id, path)| Some((id, path.trim_start_matches('/').to_owned(), single(id)?)))
            .collect();
        let mut scalars = Vec::new();
        for (id, name, datatype) in found {
            let value = match datatype {
                Datatype::UInt(8) => ScalarValue::Long(self.read::<u64>(id, [0; 3], [1; 3])?[0]),
                Datatype::Float(4) => ScalarValue::Float(self.read::<f32>(id, [0; 3], [1; 3])?[0]),
                _ => continue,
            };
            scalars.push((name, value));
        }
        Ok(scalars)
    }
}

/// A position in a block, for messages: 1-based as in files.
fn place(block: &FieldBlock, local: usize) -> String {
    let index = block.global(local);
    let [nx, ny, _] = block.points;
    format!("({}, {}, {})", index % nx + 1, index / nx % ny + 1, index / nx / ny + 1)
}
