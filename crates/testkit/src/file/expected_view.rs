//! The expected contents of a view, computed byte by byte.

use aqueduct_file::View;
use aqueduct_file::layout::{Basic, Layout};

use super::random_layout::RandomLayout;
use crate::rng::SeededRng;

/// A view and what it must mean.
#[derive(Clone, Debug)]
pub(super) struct ExpectedView {
    displacement: u64,
    /// Bytes of an etype.
    pub(super) etype: u64,
    filetype: RandomLayout,
    pub(super) view: View,
}

/// What the views of all ranks have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct ViewParameters {
    basic: Basic,
    /// Values in an etype.
    values: u64,
    /// Whether no rank sees a byte that another one sees.
    pub(super) apart: bool,
}

impl ViewParameters {
    pub(super) fn random(dice: &mut SeededRng, apart: bool) -> Self {
        let basic = [Basic::Byte, Basic::I16, Basic::F32, Basic::F64][dice.below(4)];
        Self { basic, values: 1 + dice.below(2) as u64, apart }
    }

    /// One element of the views, for layouts of memory.
    pub(super) fn element(&self) -> RandomLayout {
        RandomLayout::element(self.basic, self.values, 1)
    }
}

impl ExpectedView {
    /// A random view of this rank. If views must be disjoint, elements are distributed round-robin and the view is built of this rank's: it is
    /// disjoint from the others.
    pub(super) fn random(dice: &mut SeededRng, common: &ViewParameters, rank: usize, size: usize) -> Self {
        let stretch = if common.apart { size as u64 } else { 1 };
        let filetype =
            RandomLayout::random(dice, &RandomLayout::element(common.basic, common.values, stretch), 4);
        let etype = common.basic.size() * common.values;
        let unit = etype * stretch;
        let own = if common.apart { rank as u64 * etype } else { dice.below(9) as u64 };
        let header = if common.apart { 11 } else { 0 };
        let displacement = header + own + dice.below(3) as u64 * unit;
        let element = Layout::from(common.basic).contiguous(common.values).unwrap();
        let view = View::new(displacement, &element, &filetype.layout);
        let view = view.unwrap_or_else(|error| panic!("{:?}: {error}", filetype.layout));
        Self { displacement, etype, filetype, view }
    }

    /// All bytes, as bytes.
    pub(super) fn everything() -> Self {
        let filetype = RandomLayout::element(Basic::Byte, 1, 1);
        Self { displacement: 0, etype: 1, filetype, view: View::default() }
    }

    /// Where data byte `n` lies in the file.
    pub(super) fn offset(&self, n: u64) -> u64 {
        self.displacement + self.filetype.offset(n) as u64
    }

    /// Where `count` data bytes from `first` on lie in the file.
    pub(super) fn offsets(&self, first: u64, count: u64) -> impl Iterator<Item = usize> {
        (first..first + count).map(|n| self.offset(n) as usize)
    }

    /// Etypes that begin before byte `length` of the file.
    pub(super) fn etypes_before(&self, length: usize) -> u64 {
        let data = (0..=length as u64).take_while(|n| (self.offset(*n) as usize) < length).count() as u64;
        data.div_ceil(self.etype)
    }
}
