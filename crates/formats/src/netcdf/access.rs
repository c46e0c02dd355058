//! Access: a part of a variable, alone or together.

use aqueduct_file::layout::{Basic, Layout};
use aqueduct_file::{Source, View};

use super::file::NetcdfFile;
use super::header::VariableId;
use super::slab_bytes::SlabBytes;
use super::value::{self, NetcdfValue, RawValues};
use crate::error::{Kind, Result};
use crate::merge::{MergedRegions, merge_regions};
use crate::selection::{Selection, ValueExtent};

impl NetcdfFile {
    /// A part of a variable, for this rank alone; [`all`](VariableAccess::all) makes it a collective access.
    ///
    /// ```
    /// # use aqueduct_comm::Launch;
    /// # use aqueduct_formats::netcdf::{NetcdfCreateOptions, Selection, NcType};
    /// # Launch::threads(2).run(|world| {
    /// # let mut dataset = NetcdfCreateOptions::new().replace().create(world, "memfs:accessed.nc")?;
    /// # let grid = dataset.define(|file| {
    /// #     let (y, x) = (file.dimension("y", 4)?, file.dimension("x", 10)?);
    /// #     file.variable("grid", NcType::Int, &[y, x])
    /// # })?;
    /// // Each rank has some columns of a grid of 4 × 10.
    /// let mine = 5 * world.rank() as u64;
    /// dataset.at(grid, [0..4, mine..mine + 5]).all().write(&[world.rank() as i32; 20])?;
    /// // One row, every third value.
    /// let mut row = [9; 4];
    /// dataset.at(grid, Selection::block([2, 0], [1, 4]).stride([1, 3])).all().read(&mut row)?;
    /// assert_eq!(row, [0, 0, 1, 1]);
    /// # dataset.close()
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    #[doc(alias = "ncmpi_put_vars")]
    #[doc(alias = "ncmpi_get_vars")]
    #[doc(alias = "ncmpi_put_vara")]
    #[doc(alias = "ncmpi_get_vara")]
    pub fn at(&self, variable: VariableId, slab: impl Into<Selection>) -> VariableAccess<'_> {
        VariableAccess { file: self, variable, slab: slab.into() }
    }
}

/// A part of a variable, for this rank alone.
#[derive(Clone, Debug)]
#[must_use = "nothing is accessed before `read` or `write`"]
pub struct VariableAccess<'d> {
    file: &'d NetcdfFile,
    variable: VariableId,
    slab: Selection,
}

/// A part of a variable, for all ranks together; each may bring another part, of another variable too.
#[derive(Clone, Debug)]
#[must_use = "nothing is accessed before `read` or `write`"]
pub struct CollectiveVariableAccess<'d>(VariableAccess<'d>);

impl<'d> VariableAccess<'d> {
    /// Together with all other ranks: a collective access.
    pub fn all(self) -> CollectiveVariableAccess<'d> {
        CollectiveVariableAccess(self)
    }

    /// Writes values, those of the last dimension side by side.
    pub fn write<T: NetcdfValue>(self, values: &[T]) -> Result<()> {
        self.write_values(values, values.len().into())
    }

    pub(super) fn write_values<T: NetcdfValue>(self, values: &[T], extent: ValueExtent<'_>) -> Result<()> {
        let cut = self.file.resolve_access::<T>("write", self.variable, &self.slab, true, extent)?;
        let view = self.file.view("write", &cut)?;
        self.file.core.file.with_view(&view).write(stored(values, &store(values.into())))?;
        if !values.is_empty() {
            self.file.note_records(cut.records);
        }
        Ok(())
    }

    /// Fills `values`, those of the last dimension side by side. Unwritten values are zero, or the fill value of the file.
    pub fn read<T: NetcdfValue>(self, values: &mut [T]) -> Result<()> {
        let extent = values.len().into();
        self.read_values(values, extent)
    }

    pub(super) fn read_values<T: NetcdfValue>(self, values: &mut [T], extent: ValueExtent<'_>) -> Result<()> {
        let cut = self.file.resolve_access::<T>("read", self.variable, &self.slab, false, extent)?;
        let view = self.file.view("read", &cut)?;
        let bytes = bytemuck::cast_slice_mut::<T, u8>(values);
        let count = self.file.core.file.with_view(&view).read(&mut *bytes)?.bytes();
        self.file.zero_unread(bytes, count)?;
        value::swap_in_place(values);
        Ok(())
    }

    /// Reads the values into memory of their own.
    pub fn read_vec<T: NetcdfValue>(self) -> Result<Vec<T>> {
        let mut values = self.file.fitting("read", self.variable, &self.slab)?;
        self.read(&mut values)?;
        Ok(values)
    }
}

impl CollectiveVariableAccess<'_> {
    /// As [`VariableAccess::write`]. Collective: all ranks then know of the records that any of them has written.
    pub fn write<T: NetcdfValue>(self, values: &[T]) -> Result<()> {
        self.write_values(values, values.len().into())
    }

    pub(super) fn write_values<T: NetcdfValue>(self, values: &[T], extent: ValueExtent<'_>) -> Result<()> {
        let Self(VariableAccess { file: dataset, variable, slab }) = self;
        let cut = dataset.resolve_access::<T>("write", variable, &slab, true, extent);
        let reach = cut.and_then(|cut| Ok((dataset.view("write", &cut)?, cut.records)));
        let mine = reach.as_ref().map_or(0, |(_, records)| *records);
        let ((view, _), [records]) = dataset.agree_with_max("write", reach, [mine])?;
        dataset.core.file.with_view(&view).all().write(stored(values, &store(values.into())))?;
        dataset.note_records(records);
        Ok(())
    }

    /// As [`VariableAccess::read`]. Collective.
    pub fn read<T: NetcdfValue>(self, values: &mut [T]) -> Result<()> {
        let extent = values.len().into();
        self.read_values(values, extent)
    }

    pub(super) fn read_values<T: NetcdfValue>(self, values: &mut [T], extent: ValueExtent<'_>) -> Result<()> {
        let Self(VariableAccess { file: dataset, variable, slab }) = self;
        let cut = dataset.resolve_access::<T>("read", variable, &slab, false, extent);
        let view = dataset.core.agree("read", cut.and_then(|cut| dataset.view("read", &cut)))?;
        dataset.read_all(&view, values)
    }

    /// Reads the values into memory of their own. Collective.
    pub fn read_vec<T: NetcdfValue>(self) -> Result<Vec<T>> {
        let Self(VariableAccess { file: dataset, variable, slab }) = self;
        let ready = dataset.fitting("read", variable, &slab).and_then(|values: Vec<T>| {
            let cut = dataset.resolve_access::<T>("read", variable, &slab, false, values.len().into())?;
            Ok((dataset.view("read", &cut)?, values))
        });
        let (view, mut values) = dataset.core.agree("read", ready)?;
        dataset.read_all(&view, &mut values)?;
        Ok(values)
    }
}

fn view_of(offset: u64, layout: &Layout) -> Result<View> {
    View::new(offset, &Layout::from(Basic::Byte), layout)
}

/// Values as they lie in a file, made when they are wanted.
fn stored<'a, T: NetcdfValue>(values: &[T], make: &'a dyn Fn(u64, &mut [u8])) -> Source<'a> {
    Source::generated(size_of_val(values) as u64, make)
}

fn store(values: RawValues<'_>) -> impl Fn(u64, &mut [u8]) {
    move |from, out| values.store(from as usize..from as usize + out.len(), out)
}

impl NetcdfFile {
    /// Reads together what the ranks see, once they know that each of them can.
    fn read_all<T: NetcdfValue>(&self, view: &View, values: &mut [T]) -> Result<()> {
        let bytes = bytemuck::cast_slice_mut::<T, u8>(values);
        let count = self.core.file.with_view(view).all().read(&mut *bytes)?.bytes();
        self.core.agree("read", self.zero_unread(bytes, count))?;
        value::swap_in_place(values);
        Ok(())
    }

    /// The bytes of a part of a variable, if the values are of its type and as many as it has.
    pub(super) fn resolve_access<T: NetcdfValue>(
        &self,
        operation: &'static str,
        variable: VariableId,
        slab: &Selection,
        writes: bool,
        values: ValueExtent<'_>,
    ) -> Result<SlabBytes> {
        if writes {
            self.core.may_write(operation)?;
        }
        let target = self.accessed_variable(operation, variable, writes)?;
        let kind = target.variable.kind;
        if !T::TYPES.contains(&kind) {
            let (name, given) = (&target.variable.name, std::any::type_name::<T>());
            let detail = format!("variable {name:?} is of type {kind}; {given} is another one");
            return Err(self.core.error(Kind::WrongType, operation, detail));
        }
        let cut = target.slab_bytes(slab, writes, values);
        cut.map_err(|what| self.core.error(Kind::BadArgument, operation, what))
    }

    /// The bytes of a part of a variable, and those of a value, if so many bytes of values of its type are as many as it has.
    pub(super) fn resolve_bytes(
        &self,
        operation: &'static str,
        variable: VariableId,
        slab: &Selection,
        writes: bool,
        bytes: usize,
    ) -> Result<(SlabBytes, usize)> {
        if writes {
            self.core.may_write(operation)?;
        }
        let target = self.accessed_variable(operation, variable, writes)?;
        let width = target.variable.kind.size() as usize;
        if !bytes.is_multiple_of(width) {
            let name = &target.variable.name;
            let detail = format!(
                "variable {name:?}: {bytes} bytes are not a multiple of {width}, the size of a value"
            );
            return Err(self.core.error(Kind::BadArgument, operation, detail));
        }
        let cut = target.slab_bytes(slab, writes, (bytes / width).into());
        let cut = cut.map_err(|what| self.core.error(Kind::BadArgument, operation, what))?;
        Ok((cut, width))
    }

    /// Memory for the values of a part that is to be read.
    fn fitting<T: NetcdfValue>(
        &self,
        operation: &'static str,
        variable: VariableId,
        slab: &Selection,
    ) -> Result<Vec<T>> {
        let target = self.accessed_variable(operation, variable, false)?;
        let count =
            target.values(slab).map_err(|what| self.core.error(Kind::BadArgument, operation, what))?;
        // A header may promise anything; memory is taken for what the file can have.
        let bytes = count.saturating_mul(size_of::<T>() as u64);
        if !self.core.writable && bytes > self.core.file.size()? {
            return Err(self.core.truncated_error(bytes, 0, ", or they were never written"));
        }
        let mut values = Vec::new();
        let room = usize::try_from(count)
            .ok()
            .and_then(|count| values.try_reserve_exact(count).ok().map(|()| count));
        let Some(count) = room else {
            let detail = format!("{count} values of variable {:?} do not fit memory", target.variable.name);
            return Err(self.core.error(Kind::BadArgument, operation, detail));
        };
        values.resize(count, T::zeroed());
        Ok(values)
    }

    /// One region of the file as a view of it.
    fn view(&self, operation: &'static str, cut: &SlabBytes) -> Result<View> {
        let Some(region) = &cut.region else { return Ok(View::default()) };
        let layout = region
            .layout()
            .map_err(|error| self.core.error(Kind::BadArgument, operation, error.to_string()))?;
        view_of(region.offset, &layout)
    }

    /// Several regions of the file as one view of it; none if they have no bytes.
    pub(super) fn merged_view<'c>(
        &self,
        operation: &'static str,
        cuts: impl Iterator<Item = &'c SlabBytes>,
    ) -> Result<Option<(View, MergedRegions)>> {
        let combined = merge_regions(cuts.map(|cut| cut.region.as_ref()))
            .map_err(|error| self.core.error(Kind::BadArgument, operation, error.to_string()))?;
        combined.map(|combined| Ok((view_of(combined.offset, &combined.layout)?, combined))).transpose()
    }

    /// The result of a read. Beyond the end of a file that is open for writing values are unwritten; a file that is only read is truncated.
    pub(super) fn zero_unread(&self, bytes: &mut [u8], count: u64) -> Result<()> {
        if count == bytes.len() as u64 {
            return Ok(());
        }
        if !self.core.writable {
            return Err(self.core.truncated_error(bytes.len() as u64, count, ", or they were never written"));
        }
        bytes[count as usize..].fill(0);
        Ok(())
    }
}
