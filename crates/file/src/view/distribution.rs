//! Views for common distributions of the elements of a file over the ranks. The element is a Rust type (`round_robin::<f64>`) or a layout
//! (`round_robin_of`).
//!
//! ```text
//!  12 elements, 3 ranks a b c
//!
//!  View::contiguous     a a a a b b b b c c c c     each rank its own part, one after the other
//!  View::block          a a a a b b b b c c c c     … of an array of known length, which may repeat
//!  View::round_robin    a b c a b c a b c a b c     one element each, round-robin
//!  View::cyclic(2)      a a b b c c a a b b c c     two elements each, round-robin
//!  View::array          any of these per dimension of an array, as High Performance Fortran has them
//! ```

use aqueduct_comm::Comm;

use super::View;
use crate::error::{Error, Kind, Result};
use crate::layout::{Distributed, Distribution, ElementLayout, Layout, LayoutError, Order};

impl View {
    /// Each rank its own part of `count` elements, one after the other. Files written so hold the ranks' data in rank order.
    ///
    /// ```
    /// # use aqueduct_comm::Launch;
    /// use aqueduct_file::View;
    /// # Launch::threads(3).run(|world| {
    /// let view = View::contiguous::<i32>(world, 4)?;
    /// assert_eq!(view.byte_offset(1), Some(16 * world.rank() as u64 + 4));
    /// # Ok::<(), aqueduct_file::Error>(())
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn contiguous<T: ElementLayout>(comm: &Comm, count: u64) -> Result<Self> {
        Self::contiguous_of(comm, &Layout::of::<T>(), count)
    }

    /// [`contiguous`](Self::contiguous) for elements of a layout that is known at run time.
    pub fn contiguous_of(comm: &Comm, element: &Layout, count: u64) -> Result<Self> {
        let part = u64::try_from(element.extent()).ok().and_then(|extent| extent.checked_mul(count));
        let start = part.and_then(|part| part.checked_mul(comm.rank() as u64));
        Self::of(
            start.ok_or_else(|| refused("the parts exceed the maximum file size (2^63-1 bytes)"))?,
            element,
        )
    }

    /// One block of an array of `total` elements each, as equal as blocks of one length can be; the array may repeat, as time steps do.
    #[doc(alias = "BLOCK")]
    pub fn block<T: ElementLayout>(comm: &Comm, total: u64) -> Result<Self> {
        Self::block_of(comm, &Layout::of::<T>(), total)
    }

    /// [`block`](Self::block) for elements of a layout that is known at run time.
    pub fn block_of(comm: &Comm, element: &Layout, total: u64) -> Result<Self> {
        Self::line(comm, element, total, Distribution::Block)
    }

    /// One element each, round-robin.
    ///
    /// ```
    /// # use aqueduct_comm::Launch;
    /// use aqueduct_file::View;
    /// # Launch::threads(3).run(|world| {
    /// let view = View::round_robin::<f64>(world)?;
    /// assert_eq!(view.byte_offset(2), Some(8 * (2 * 3 + world.rank() as u64)));
    /// # Ok::<(), aqueduct_file::Error>(())
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn round_robin<T: ElementLayout>(comm: &Comm) -> Result<Self> {
        Self::round_robin_of(comm, &Layout::of::<T>())
    }

    /// [`round_robin`](Self::round_robin) for elements of a layout that is known at run time.
    pub fn round_robin_of(comm: &Comm, element: &Layout) -> Result<Self> {
        Self::cyclic_of(comm, element, 1)
    }

    /// `block` elements each, round-robin.
    #[doc(alias = "CYCLIC")]
    pub fn cyclic<T: ElementLayout>(comm: &Comm, block: u64) -> Result<Self> {
        Self::cyclic_of(comm, &Layout::of::<T>(), block)
    }

    /// [`cyclic`](Self::cyclic) for elements of a layout that is known at run time.
    pub fn cyclic_of(comm: &Comm, element: &Layout, block: u64) -> Result<Self> {
        let round = block.checked_mul(comm.size() as u64);
        let round = round.ok_or_else(|| {
            refused("one round of the distribution exceeds the maximum file size (2^63-1 bytes)")
        })?;
        Self::line(comm, element, round, Distribution::CyclicOf(block))
    }

    /// A part of an n-dimensional array, distributed per dimension. The processes of the dimensions, multiplied, are the ranks, counted with the
    /// last dimension fastest.
    ///
    /// ```
    /// # use aqueduct_comm::Launch;
    /// use aqueduct_file::View;
    /// use aqueduct_file::layout::{Distributed, Distribution, Order};
    /// # Launch::threads(4).run(|world| {
    /// // A matrix of 6 × 8 numbers on a grid of 2 × 2 ranks: blocks of rows, columns round-robin.
    /// let rows = Distributed { size: 6, distribution: Distribution::Block, processes: 2 };
    /// let columns = Distributed { size: 8, distribution: Distribution::Cyclic, processes: 2 };
    /// let view = View::array::<f64>(world, &[rows, columns], Order::C)?;
    /// assert_eq!(view.filetype().size(), 3 * 4 * 8);
    /// # Ok::<(), aqueduct_file::Error>(())
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    #[doc(alias = "MPI_Type_create_darray")]
    pub fn array<T: ElementLayout>(comm: &Comm, dimensions: &[Distributed], order: Order) -> Result<Self> {
        Self::array_of(comm, &Layout::of::<T>(), dimensions, order)
    }

    /// [`array`](Self::array) for elements of a layout that is known at run time.
    pub fn array_of(comm: &Comm, element: &Layout, dimensions: &[Distributed], order: Order) -> Result<Self> {
        let grid = dimensions.iter().try_fold(1u64, |all, dimension| all.checked_mul(dimension.processes));
        if grid != Some(comm.size() as u64) {
            let detail = format!(
                "the grid of processes has {} places for {} ranks; make the processes of the dimensions multiply to the ranks",
                grid.map_or("too many".to_owned(), |places| places.to_string()),
                comm.size()
            );
            return Err(refused(&detail));
        }
        let part = element.darray(comm.rank() as u64, dimensions, order);
        Self::new(0, element, &part.map_err(|error| described(&error))?)
    }

    fn line(comm: &Comm, element: &Layout, size: u64, distribution: Distribution) -> Result<Self> {
        let line = Distributed { size, distribution, processes: comm.size() as u64 };
        Self::array_of(comm, element, &[line], Order::C)
    }
}

fn described(error: &LayoutError) -> Error {
    refused(&error.to_string())
}

fn refused(detail: &str) -> Error {
    Error::new(Kind::BadLayout, "distribution", "view", detail)
}
