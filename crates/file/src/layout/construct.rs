//! The constructors that place copies of layouts: MPI's, with the same rules for bounds.

use super::Layout;
use super::basic::Basic;
use super::bounds::{Bounds, PlaceBounds};
use super::error::{LayoutError, Problem, Result};
use super::pattern::Pattern;
use super::tree::Tree;

/// Equal blocks, equally far apart: what [`Layout::vector`] and [`Layout::hvector`] take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vector {
    /// How many blocks.
    pub count: u64,
    /// How many copies in each block.
    pub block: u64,
    /// From the start of one block to the start of the next: in extents for `vector`, in bytes for `hvector`.
    pub stride: i64,
}

/// A member of a structure: what [`Layout::structure`] takes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// How many copies, side by side; with none the member does not exist.
    pub count: u64,
    /// Where the first copy lies, in bytes.
    pub displacement: i64,
    /// Of what.
    pub layout: Layout,
}

impl From<Basic> for Layout {
    fn from(basic: Basic) -> Self {
        let pattern = Tree::block(basic, 1).and_then(|tree| Pattern::new(0, tree));
        // A single value is never too large or too deep.
        let pattern = pattern.unwrap_or(Pattern::EMPTY);
        let bounds = Bounds { lower: 0, upper: pattern.highest(), marked: false };
        Self::assemble(pattern, bounds)
    }
}

impl Layout {
    /// No bytes, and no bounds to speak of.
    pub fn empty() -> Self {
        Self::assemble(Pattern::EMPTY, Bounds { lower: 0, upper: 0, marked: false })
    }

    /// `count` uninterpreted bytes.
    pub fn bytes(count: u64) -> Result<Self> {
        Self::from(Basic::Byte).contiguous(count)
    }

    /// `count` copies side by side.
    ///
    /// ```
    /// use aqueduct_file::layout::{Basic, Layout};
    ///
    /// assert_eq!(Layout::from(Basic::F64).contiguous(3)?.extent(), 24);
    /// # Ok::<_, aqueduct_file::layout::LayoutError>(())
    /// ```
    #[doc(alias = "MPI_Type_contiguous")]
    pub fn contiguous(&self, count: u64) -> Result<Self> {
        self.spread("contiguous", Vector { count: 1, block: count, stride: 0 })
    }

    /// Equal blocks, the stride in extents of this layout.
    ///
    /// ```
    /// use aqueduct_file::layout::{Basic, Layout, Run, Vector};
    ///
    /// // A column of a matrix with 100 columns.
    /// let column = Layout::from(Basic::F64).vector(Vector { count: 3, block: 1, stride: 100 })?;
    /// assert!(column.runs(..).eq([0, 800, 1600].map(|offset| Run { offset, len: 8 })));
    /// # Ok::<_, aqueduct_file::layout::LayoutError>(())
    /// ```
    #[doc(alias = "MPI_Type_vector")]
    pub fn vector(&self, vector: Vector) -> Result<Self> {
        // With a single block the stride plays no role, however large it is.
        let stride = if vector.count < 2 { Some(0) } else { vector.stride.checked_mul(self.extent()) };
        let stride = stride.ok_or(LayoutError::new("vector", Problem::TooLarge))?;
        self.spread("vector", Vector { stride, ..vector })
    }

    /// Equal blocks, the stride in bytes.
    #[doc(alias = "MPI_Type_create_hvector")]
    pub fn hvector(&self, vector: Vector) -> Result<Self> {
        self.spread("hvector", vector)
    }

    /// Blocks given as (length, displacement), the displacements in extents of this layout.
    ///
    /// ```
    /// use aqueduct_file::layout::{Basic, Layout, Run};
    ///
    /// let picked = Layout::from(Basic::I32).indexed([(2, 0), (1, 5)])?;
    /// assert!(picked.runs(..).eq([Run { offset: 0, len: 8 }, Run { offset: 20, len: 4 }]));
    /// # Ok::<_, aqueduct_file::layout::LayoutError>(())
    /// ```
    #[doc(alias = "MPI_Type_indexed")]
    pub fn indexed(&self, blocks: impl IntoIterator<Item = (u64, i64)>) -> Result<Self> {
        self.list("indexed", self.extent(), blocks)
    }

    /// Blocks given as (length, displacement), the displacements in bytes.
    #[doc(alias = "MPI_Type_create_hindexed")]
    pub fn hindexed(&self, blocks: impl IntoIterator<Item = (u64, i64)>) -> Result<Self> {
        self.list("hindexed", 1, blocks)
    }

    /// Blocks of equal length, the displacements in extents of this layout.
    #[doc(alias = "MPI_Type_create_indexed_block")]
    pub fn indexed_block(&self, length: u64, displacements: impl IntoIterator<Item = i64>) -> Result<Self> {
        let blocks = displacements.into_iter().map(|displacement| (length, displacement));
        self.list("indexed_block", self.extent(), blocks)
    }

    /// Blocks of equal length, the displacements in bytes.
    #[doc(alias = "MPI_Type_create_hindexed_block")]
    pub fn hindexed_block(&self, length: u64, displacements: impl IntoIterator<Item = i64>) -> Result<Self> {
        let blocks = displacements.into_iter().map(|displacement| (length, displacement));
        self.list("hindexed_block", 1, blocks)
    }

    /// Different layouts at different places, as in a structure of C.
    ///
    /// The upper bound is rounded up so that an array of such structures is aligned; where a member was [resized](Layout::resized), the bounds
    /// of such members alone decide.
    ///
    /// ```
    /// use aqueduct_file::layout::{Basic, Layout, Member};
    ///
    /// // struct { double x; char tag; }
    /// let x = Member { count: 1, displacement: 0, layout: Basic::F64.into() };
    /// let tag = Member { count: 1, displacement: 8, layout: Basic::Char.into() };
    /// let particle = Layout::structure([x, tag])?;
    /// assert_eq!((particle.size(), particle.extent()), (9, 16));
    /// # Ok::<_, aqueduct_file::layout::LayoutError>(())
    /// ```
    #[doc(alias = "MPI_Type_create_struct")]
    pub fn structure(members: impl IntoIterator<Item = Member>) -> Result<Self> {
        let build = || {
            let (mut parts, mut marks) = (Vec::new(), None::<Bounds>);
            for Member { count, displacement, layout } in members {
                let mut places = PlaceBounds::default();
                places.add(displacement.into(), count, layout.extent());
                if let Some(bounds) = places.marked(layout.bounds())? {
                    marks = Some(marks.map_or(bounds, |marks| Bounds {
                        lower: marks.lower.min(bounds.lower),
                        upper: marks.upper.max(bounds.upper),
                        marked: true,
                    }));
                }
                if let Some((origin, tree)) = layout.pattern().placed().filter(|_| count > 0) {
                    let origin = origin.checked_add(displacement).ok_or(Problem::TooLarge)?;
                    parts.push((origin, Tree::repeat(tree, count, layout.extent())?));
                }
            }
            let pattern = match Tree::mixed(&parts)? {
                Some((origin, tree)) => Pattern::new(origin, tree)?,
                None => Pattern::EMPTY,
            };
            let bounds = match marks {
                Some(marks) => Bounds::marked(marks.lower, marks.upper)?,
                None => Bounds::natural(&pattern)?,
            };
            Ok(Self::assemble(pattern, bounds))
        };
        build().map_err(|problem| LayoutError::new("structure", problem))
    }

    /// The same bytes with other bounds: from `lower` on, `extent` long. Copies side by side are `extent` apart.
    #[doc(alias = "MPI_Type_create_resized")]
    #[doc(alias = "MPI_LB")]
    #[doc(alias = "MPI_UB")]
    pub fn resized(&self, lower: i64, extent: i64) -> Result<Self> {
        let bounds =
            lower.checked_add(extent).ok_or(Problem::TooLarge).and_then(|upper| Bounds::marked(lower, upper));
        let bounds = bounds.map_err(|problem| LayoutError::new("resized", problem))?;
        Ok(Self::assemble(self.pattern().clone(), bounds))
    }

    /// The same layout, as `clone` returns it: layouts are immutable.
    #[doc(alias = "MPI_Type_dup")]
    #[must_use]
    pub fn dup(&self) -> Self {
        self.clone()
    }

    /// Equal blocks, the stride in bytes.
    fn spread(&self, operation: &'static str, vector: Vector) -> Result<Self> {
        let Vector { count, block, stride } = vector;
        let build = || {
            let mut places = PlaceBounds::default();
            if block > 0 {
                let width = i128::from(block - 1) * i128::from(self.extent());
                places.add(0, count, stride);
                places.add(width, count, stride);
            }
            let pattern = match self.pattern().placed() {
                Some((origin, tree)) if count > 0 && block > 0 => {
                    let row = Tree::repeat(tree, block, self.extent())?;
                    Pattern::new(origin, Tree::repeat(&row, count, stride)?)?
                }
                _ => Pattern::EMPTY,
            };
            self.bounded(pattern, places)
        };
        build().map_err(|problem| LayoutError::new(operation, problem))
    }

    /// Blocks given as (length, displacement), the displacements in units of `unit` bytes.
    fn list(
        &self,
        operation: &'static str,
        unit: i64,
        blocks: impl IntoIterator<Item = (u64, i64)>,
    ) -> Result<Self> {
        let data = self.pattern().placed();
        let origin = data.map_or(0, |(origin, _)| origin);
        let (mut places, mut overflow) = (PlaceBounds::default(), false);
        let blocks = blocks.into_iter().filter(|&(length, _)| length > 0).map(|(length, displacement)| {
            let displacement = i128::from(displacement) * i128::from(unit);
            places.add(displacement, length, self.extent());
            let offset = i64::try_from(displacement + i128::from(origin)).ok();
            overflow |= offset.is_none();
            (offset.unwrap_or_default(), length)
        });
        let tree = if let Some((_, tree)) = data {
            Tree::blocks(tree, self.extent(), blocks)
        } else {
            // Without data the bounds still see every place.
            blocks.for_each(drop);
            Ok(None)
        };
        let build = || {
            let pattern = match tree? {
                _ if overflow => return Err(Problem::TooLarge),
                Some((origin, tree)) => Pattern::new(origin, tree)?,
                None => Pattern::EMPTY,
            };
            self.bounded(pattern, places)
        };
        build().map_err(|problem| LayoutError::new(operation, problem))
    }

    /// The pattern, made of copies of this layout at these places, with the bounds that follow.
    fn bounded(&self, pattern: Pattern, places: PlaceBounds) -> std::result::Result<Self, Problem> {
        let bounds = match places.marked(self.bounds())? {
            Some(bounds) => bounds,
            None => Bounds::natural(&pattern)?,
        };
        Ok(Self::assemble(pattern, bounds))
    }
}

/// Tiling.
impl Layout {
    /// The data of `count` copies side by side.
    pub fn tiled(&self, count: u64) -> Result<Pattern> {
        let Some((origin, tree)) = self.pattern().placed().filter(|_| count > 0) else {
            return Ok(Pattern::EMPTY);
        };
        Tree::repeat(tree, count, self.extent())
            .and_then(|tree| Pattern::new(origin, tree))
            .map_err(|problem| LayoutError::new("tiled", problem))
    }

    /// The data of copies side by side from `displacement` on, as a file view tiles a file: as many whole copies as there are
    /// offsets and data bytes in 63 bits.
    pub fn endless(&self, displacement: i64) -> Result<Pattern> {
        let first = self.pattern().shifted(displacement)?;
        let Some((origin, tree)) = first.placed() else {
            return Ok(Pattern::EMPTY);
        };
        let (facts, extent) = (&tree.facts, i128::from(self.extent()));
        // How far a copy may move until an offset, counted from 0 or from the first byte, no longer fits.
        let room = if extent >= 0 {
            i128::from(i64::MAX) - i128::from(facts.high) - i128::from(origin.max(0))
        } else {
            i128::from(facts.low) + i128::from(origin.min(0)) - i128::from(i64::MIN)
        };
        let by_offsets = room.checked_div(extent.abs()).map_or(u64::MAX, |moves| moves as u64 + 1);
        let count = by_offsets.min(i64::MAX as u64 / facts.size);
        Tree::repeat(tree, count, self.extent())
            .and_then(|tree| Pattern::new(origin, tree))
            .map_err(|problem| LayoutError::new("endless", problem))
    }
}
