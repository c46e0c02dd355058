//! Access: a part of a dataset, alone or together.

#[cfg(feature = "ndarray")]
use aqueduct_file::array_memory::{with_values, with_values_mut};
use aqueduct_object::{Object, decode_all};
#[cfg(feature = "ndarray")]
use ndarray::{ArrayRef, Dimension};

use crate::error::{Kind, Result};
use crate::hdf5::data::queue::Hdf5Queue;
use crate::hdf5::file::{DatasetId, Hdf5File};
use crate::hdf5::model::datatype::Datatype;
use crate::selection::Selection;
#[cfg(feature = "ndarray")]
use crate::selection::ValueExtent;

impl Hdf5File {
    /// A part of a dataset, for this rank alone; [`all`](DatasetAccess::all) makes it a collective access.
    ///
    /// ```
    /// # use aqueduct_comm::Launch;
    /// # use aqueduct_formats::hdf5::Hdf5CreateOptions;
    /// # use aqueduct_formats::Selection;
    /// # Launch::threads(2).run(|world| {
    /// # let mut file = Hdf5CreateOptions::new().replace().create(world, "memfs:accessed.h5")?;
    /// let grid = file.define(|file| file.dataset::<i32>("grid", &[4, 10]))?;
    /// // Each rank has some columns of a grid of 4 × 10.
    /// let mine = 5 * world.rank() as u64;
    /// file.at(grid, [0..4, mine..mine + 5]).all().write(&[world.rank() as i32; 20])?;
    /// // One row, every third value.
    /// let row: Vec<i32> = file.at(grid, Selection::block([2, 0], [1, 4]).stride([1, 3])).all().read_vec()?;
    /// assert_eq!(row, [0, 0, 1, 1]);
    /// # file.close()
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn at(&self, dataset: DatasetId, slab: impl Into<Selection>) -> DatasetAccess<'_> {
        DatasetAccess { file: self, dataset, slab: slab.into() }
    }
}

/// A part of a dataset, for this rank alone.
#[derive(Clone, Debug)]
#[must_use = "nothing is accessed before `read` or `write`"]
pub struct DatasetAccess<'c> {
    file: &'c Hdf5File,
    dataset: DatasetId,
    slab: Selection,
}

/// A part of a dataset, for all ranks together; each may bring another part, of another dataset too.
#[derive(Clone, Debug)]
#[must_use = "nothing is accessed before `read` or `write`"]
pub struct CollectiveDatasetAccess<'c>(DatasetAccess<'c>);

impl<'c> DatasetAccess<'c> {
    /// Together with all other ranks: a collective access.
    pub fn all(self) -> CollectiveDatasetAccess<'c> {
        CollectiveDatasetAccess(self)
    }

    /// Writes values, those of the last dimension side by side.
    pub fn write<T: Object>(self, values: &[T]) -> Result<()> {
        let mut queue = self.file.queue();
        queue.put(self.dataset, self.slab, values);
        queue.run()
    }

    /// Fills `values`, those of the last dimension side by side.
    pub fn read<T: Object>(self, values: &mut [T]) -> Result<()> {
        let mut queue = self.file.queue();
        queue.get(self.dataset, self.slab, values);
        queue.run()
    }

    /// Reads the values into memory of their own.
    pub fn read_vec<T: Object>(self) -> Result<Vec<T>> {
        let (container, count) = (self.file, self.typed::<T>()?);
        let bytes = self.read_bytes()?;
        decoded(container, &bytes, count)
    }

    /// Reads the values as the bytes that they are in the file, whatever they stand for.
    pub fn read_bytes(self) -> Result<Vec<u8>> {
        let mut bytes = vec![0; self.bytes()?];
        let mut queue = self.file.queue();
        queue.get_bytes(self.dataset, self.slab, &mut bytes);
        queue.run()?;
        Ok(bytes)
    }

    /// How many bytes there are to read.
    fn bytes(&self) -> Result<usize> {
        let count = self.file.count(self.dataset, &self.slab)?;
        let size = self.file.describe(self.dataset)?.datatype.size();
        Ok((count * size) as usize)
    }

    /// How many values of this type there are to read.
    fn typed<T: Object>(&self) -> Result<usize> {
        let stored = &self.file.describe(self.dataset)?.datatype;
        match Datatype::of::<T>() {
            Ok(ty) if ty == *stored => Ok(self.file.count(self.dataset, &self.slab)? as usize),
            Ok(ty) => {
                let detail = format!("the dataset is of type {stored}; {ty} is another one");
                Err(self.file.core.error(Kind::WrongType, "read", detail))
            }
            Err(what) => Err(self.file.core.error(Kind::WrongType, "read", what)),
        }
    }
}

impl CollectiveDatasetAccess<'_> {
    /// As [`DatasetAccess::write`]. Collective.
    pub fn write<T: Object>(self, values: &[T]) -> Result<()> {
        let mut queue = self.0.file.queue();
        queue.put(self.0.dataset, self.0.slab, values);
        queue.run_all()
    }

    /// As [`DatasetAccess::read`]. Collective.
    pub fn read<T: Object>(self, values: &mut [T]) -> Result<()> {
        let mut queue = self.0.file.queue();
        queue.get(self.0.dataset, self.0.slab, values);
        queue.run_all()
    }

    /// Reads the values into memory of their own. Collective.
    pub fn read_vec<T: Object>(self) -> Result<Vec<T>> {
        let container = self.0.file;
        let count = container.core.agree("read", self.0.typed::<T>())?;
        let bytes = self.read_bytes()?;
        container.core.agree("read", decoded(container, &bytes, count))
    }

    /// As [`DatasetAccess::read_bytes`]. Collective.
    pub fn read_bytes(self) -> Result<Vec<u8>> {
        let container = self.0.file;
        let mut bytes = vec![0; container.core.agree("read", self.0.bytes())?];
        let mut queue = container.queue();
        queue.get_bytes(self.0.dataset, self.0.slab, &mut bytes);
        queue.run_all()?;
        Ok(bytes)
    }
}

impl Hdf5Queue<'_> {
    /// Queues an access that cannot be, for this reason: the run fails, on all ranks if it is collective.
    pub fn fail(&mut self, error: crate::Error) -> &mut Self {
        self.failed = self.failed.clone().and(Err(error));
        self
    }
}

#[cfg(feature = "ndarray")]
impl DatasetAccess<'_> {
    /// Writes an array, which has the shape of the selection and may be transposed or sliced.
    pub fn write_array<T: Object + Clone, D: Dimension>(self, array: &ArrayRef<T, D>) -> Result<()> {
        with_values(array, |values| {
            let mut queue = self.file.queue();
            queue.put_values(self.dataset, &self.slab, values, array.into());
            queue.run()
        })
    }

    /// Fills an array, which has the shape of the selection and may be transposed or sliced.
    pub fn read_array<T: Object + Clone, D: Dimension>(self, array: &mut ArrayRef<T, D>) -> Result<()> {
        let shape = array.shape().to_vec();
        with_values_mut(array, |values| {
            let extent = ValueExtent { values: values.len() as u64, shape: Some(&shape) };
            let mut queue = self.file.queue();
            queue.get_values(self.dataset, &self.slab, values, extent);
            queue.run()
        })
    }
}

#[cfg(feature = "ndarray")]
impl CollectiveDatasetAccess<'_> {
    /// As [`DatasetAccess::write_array`]. Collective.
    ///
    /// ```
    /// # use aqueduct_comm::Launch;
    /// # use aqueduct_formats::hdf5::Hdf5CreateOptions;
    /// # use ndarray::Array2;
    /// # Launch::threads(2).run(|world| {
    /// # let mut file = Hdf5CreateOptions::new().replace().create(world, "memfs:arrays.h5")?;
    /// # let grid = file.define(|file| file.dataset::<f64>("grid", &[4, 6]))?;
    /// // Each rank has three columns of a 4 × 6 dataset, in memory with the first dimension the fastest.
    /// let local = Array2::from_shape_fn((3, 4), |(x, y)| (10 * y + x) as f64);
    /// let start = 3 * world.rank() as u64;
    /// file.at(grid, [0..4, start..start + 3]).all().write_array(&local.t())?;
    /// let mut row = Array2::<f64>::zeros((1, 6));
    /// file.at(grid, [2..3, 0..6]).all().read_array(&mut row)?;
    /// assert_eq!(row.row(0).to_vec(), [20.0, 21.0, 22.0, 20.0, 21.0, 22.0]);
    /// # file.close()
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn write_array<T: Object + Clone, D: Dimension>(self, array: &ArrayRef<T, D>) -> Result<()> {
        with_values(array, |values| {
            let mut queue = self.0.file.queue();
            queue.put_values(self.0.dataset, &self.0.slab, values, array.into());
            queue.run_all()
        })
    }

    /// As [`DatasetAccess::read_array`]. Collective.
    pub fn read_array<T: Object + Clone, D: Dimension>(self, array: &mut ArrayRef<T, D>) -> Result<()> {
        let shape = array.shape().to_vec();
        with_values_mut(array, |values| {
            let extent = ValueExtent { values: values.len() as u64, shape: Some(&shape) };
            let mut queue = self.0.file.queue();
            queue.get_values(self.0.dataset, &self.0.slab, values, extent);
            queue.run_all()
        })
    }
}

fn decoded<T: Object>(container: &Hdf5File, bytes: &[u8], count: usize) -> Result<Vec<T>> {
    decode_all(bytes, count).map_err(|error| container.core.error(Kind::Damaged, "read", error.to_string()))
}
