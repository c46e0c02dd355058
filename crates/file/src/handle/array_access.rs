//! A box of a global array in a file, written from and read into arrays of the crate `ndarray`.

use std::marker::PhantomData;

use aqueduct_comm::Plain;
use ndarray::{ArrayRef, Dimension};

use super::file::File;
use super::request::Count;
use crate::error::{Kind, Result};
use crate::hyperslab::Hyperslab;
use crate::layout::{ElementLayout, Layout, Order};
use crate::memory::array_memory::{check_shape, with_sink, with_source};
use crate::memory::{Sink, Source};
use crate::view::View;

/// A box of a global array in a file, for an independent access; see [`File::array`].
#[derive(Clone, Debug)]
#[must_use = "nothing is accessed before `read` or `write`"]
pub struct ArrayAccess<'f, T> {
    file: &'f File,
    /// An error here fails the access, so that the other ranks of a collective one fail too.
    view: Result<View>,
    count: Vec<u64>,
    elements: PhantomData<fn() -> T>,
}

/// A box of a global array in a file, for a collective access.
#[derive(Clone, Debug)]
#[must_use = "nothing is accessed before `read` or `write`"]
pub struct CollectiveArrayAccess<'f, T>(ArrayAccess<'f, T>);

impl File {
    /// A box of a global array of this shape, whose elements begin at byte `displacement` of the file, the last dimension the fastest. The file's view
    /// does not matter. Arrays in memory may be transposed or sliced; their shape must be that of the box.
    ///
    /// ```
    /// use aqueduct_comm::Launch;
    /// use aqueduct_file::File;
    /// use aqueduct_file::hyperslab::Hyperslab;
    /// use ndarray::{Array2, s};
    ///
    /// Launch::threads(2).run(|world| {
    ///     // Each rank has two rows of a 4 × 3 array, in memory with a border of ghost cells.
    ///     let rank = world.rank() as u64;
    ///     let slab = Hyperslab::new([2 * rank, 0], [2, 3]);
    ///     let local = Array2::from_elem((4, 5), rank as f64);
    ///     let file = File::create(world, "memfs:array")?;
    ///     file.array::<f64>(0, &[4, 3], &slab).all().write(&local.slice(s![1..3, 1..4]))?;
    ///     let mut column = Array2::<f64>::zeros((4, 1));
    ///     file.array(0, &[4, 3], &Hyperslab::new([0, 1], [4, 1])).all().read(&mut column)?;
    ///     assert_eq!(column.column(0).to_vec(), [0.0, 0.0, 1.0, 1.0]);
    ///     file.close()
    /// })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn array<T: ElementLayout + Plain>(
        &self,
        displacement: u64,
        shape: &[u64],
        slab: &Hyperslab,
    ) -> ArrayAccess<'_, T> {
        let element = Layout::of::<T>();
        let filetype = element.subarray(shape, slab, Order::C);
        let filetype =
            filetype.map_err(|error| self.cx().error(Kind::BadLayout, "access", error.to_string()));
        let view = filetype.and_then(|filetype| View::new(displacement, &element, &filetype));
        ArrayAccess { file: self, view, count: slab.count.clone(), elements: PhantomData }
    }
}

impl<'f, T: Plain> ArrayAccess<'f, T> {
    /// A collective access, each rank with its own box.
    pub fn all(self) -> CollectiveArrayAccess<'f, T> {
        CollectiveArrayAccess(self)
    }

    /// Writes the array; how much was written.
    pub fn write<D: Dimension>(self, array: &ArrayRef<T, D>) -> Result<Count> {
        let view = self.checked_view("write", array.shape())?;
        with_source(array, |source| self.file.with_view(&view).write(source))
    }

    /// Fills the array; how much was read, less at the end of the file.
    pub fn read<D: Dimension>(self, array: &mut ArrayRef<T, D>) -> Result<Count> {
        let view = self.checked_view("read", array.shape())?;
        with_sink(array, |sink| self.file.with_view(&view).read(sink))
    }

    fn checked_view(&self, operation: &'static str, array: &[usize]) -> Result<View> {
        check_shape(array, &self.count)
            .map_err(|detail| self.file.cx().error(Kind::BadArgument, operation, detail))?;
        self.view.clone()
    }
}

impl<T: Plain> CollectiveArrayAccess<'_, T> {
    /// As [`ArrayAccess::write`]. Collective.
    pub fn write<D: Dimension>(self, array: &ArrayRef<T, D>) -> Result<Count> {
        let file = self.0.file;
        match self.0.checked_view("write", array.shape()) {
            Ok(view) => with_source(array, |source| file.with_view(&view).all().write(source)),
            Err(error) => file.with_view(&View::default()).all().write(Source::failing(error)),
        }
    }

    /// As [`ArrayAccess::read`]. Collective.
    pub fn read<D: Dimension>(self, array: &mut ArrayRef<T, D>) -> Result<Count> {
        let file = self.0.file;
        match self.0.checked_view("read", array.shape()) {
            Ok(view) => with_sink(array, |sink| file.with_view(&view).all().read(sink)),
            Err(error) => file.with_view(&View::default()).all().read(Sink::failing(error)),
        }
    }
}
