//! Views: which bytes of a file a rank sees, and as what.

mod distribution;
mod external32;
mod representation;

use std::sync::LazyLock;

use crate::error::{Error, Kind, Result};
use crate::layout::{Basic, Layout, Pattern};
pub use representation::{Conversion, Representation};

/// What a rank sees of a file: from a displacement on, the filetype tiled without end; its data bytes, counted in etypes, are the
/// rank's file.
///
/// ```text
///  etype     [##]                          one element
///  filetype  [##]. . . .[##]. . . .        this rank's elements and, as gaps, those of others
///
///  file      |header|[##]. . . .[##]. . . .[##]. . . .[##]. . . .…
///            displacement^  0              1        2        3        offsets of this rank, in etypes
/// ```
///
/// A view belongs to no file and can be used for many. Each rank has its own.
///
/// ```
/// use aqueduct_file::View;
/// use aqueduct_file::layout::{Basic, Layout};
///
/// // Every third f64, beginning with the second, after a header of 64 bytes.
/// let element = Layout::from(Basic::F64);
/// let view = View::new(64 + 8, &element, &element.resized(0, 24)?)?;
/// assert_eq!(view.byte_offset(2), Some(64 + 8 + 48));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct View {
    displacement: u64,
    etype: Layout,
    filetype: Layout,
    representation: Representation,
    /// The filetype tiled from the displacement on, as it lies in the file.
    pattern: Pattern,
    /// The filetype tiled as it is in memory: of what kind the data is.
    kinds: Pattern,
    /// Data bytes of an etype in the file.
    stored: u64,
    /// Why data cannot be stored in the representation, if it cannot.
    objection: Option<String>,
}

impl Default for View {
    /// All bytes, as bytes.
    fn default() -> Self {
        let byte = Layout::from(Basic::Byte);
        Self::new(0, &byte, &byte).expect("a byte tiles a file")
    }
}

impl View {
    /// The default view, made once.
    pub(crate) fn whole_file() -> &'static Self {
        static WHOLE: LazyLock<View> = LazyLock::new(View::default);
        &WHOLE
    }
}

/// Blocks of a filetype that are looked at to name the first one out of order.
const LOOKED_AT: usize = 1 << 20;

/// What makes a filetype that is not sorted none, and what to do.
fn disorder(filetype: &Layout) -> String {
    let mut before = 0;
    for (number, run) in filetype.pattern().runs(..).take(LOOKED_AT).enumerate() {
        if run.offset < 0 {
            let offset = run.offset;
            return format!(
                "block {number} of the filetype has the negative displacement {offset}; displacements begin at 0"
            );
        }
        if run.offset < before {
            let offset = run.offset;
            return format!(
                "block {number} of the filetype has displacement {offset}, less than {before} before it; \
                 displacements must not decrease, so sort the blocks"
            );
        }
        before = run.offset;
    }
    let extent = filetype.extent();
    format!(
        "copies of the filetype follow one another at a distance of {extent} bytes, so that displacements decrease after {before}; \
         resize it so that copies follow one another"
    )
}

impl View {
    /// A view of `filetype`s from byte `displacement` on, counted in `etype`s.
    ///
    /// The filetype must be whole etypes, at offsets that do not decrease, from 0 up. One without data is the view of a rank that sees
    /// nothing and still takes part in collective operations.
    #[doc(alias = "MPI_File_set_view")]
    pub fn new(displacement: u64, etype: &Layout, filetype: &Layout) -> Result<Self> {
        let refuse = |detail: String| Err(Error::new(Kind::BadLayout, "set_view", "view", detail));
        if i64::try_from(displacement).is_err() {
            let detail =
                format!("a displacement of {displacement} exceeds the maximum file size (2^63-1 bytes)");
            return Err(Error::new(Kind::BadArgument, "set_view", "view", detail));
        }
        if etype.size() == 0 {
            return refuse("the etype has no data; offsets could not be counted in it".to_owned());
        }
        if filetype.size() > 0 && !filetype.is_multiple_of(etype) {
            let (file, element) = (filetype.size(), etype.size());
            return refuse(format!(
                "the filetype ({file} bytes of data) is not made of etypes ({element} bytes)"
            ));
        }
        if !filetype.is_sorted() {
            return refuse(disorder(filetype));
        }
        let pattern = match filetype.endless(displacement as i64) {
            Ok(pattern) => pattern,
            Err(error) => return refuse(error.to_string()),
        };
        Ok(Self {
            displacement,
            etype: etype.clone(),
            filetype: filetype.clone(),
            representation: Representation::Native,
            kinds: pattern.clone(),
            pattern,
            stored: etype.size(),
            objection: None,
        })
    }

    /// All elements of one kind, from byte `displacement` on.
    pub fn of(displacement: u64, etype: &Layout) -> Result<Self> {
        Self::new(displacement, etype, etype)
    }

    /// The same view of data in another representation.
    ///
    /// Kinds that have another size there (C's `long` has 4 bytes in external32) can only be viewed without gaps: the width of gaps in the
    /// file does not follow from a layout of memory. [`File::set_view`](crate::File::set_view) refuses such views.
    #[must_use]
    pub fn represented(mut self, representation: Representation) -> Self {
        self.stored = representation.stored_size(&self.etype);
        self.pattern = self.kinds.clone();
        self.objection = None;
        if !representation.is_native() && self.cuts_values() {
            let detail =
                "the etype is no whole number of the filetype's values, which could then not be converted";
            self.objection = Some(detail.to_owned());
        }
        let size = representation.stored_size(&self.filetype);
        if size != self.filetype.size() {
            let gapless =
                self.filetype.is_contiguous() && self.filetype.extent() == self.filetype.size() as i64;
            let stored = Layout::bytes(size).and_then(|bytes| bytes.endless(self.displacement as i64));
            match stored {
                Ok(pattern) if gapless => self.pattern = pattern,
                _ => {
                    self.objection = Some(format!(
                        "data of {} bytes takes {size} in {}, and the filetype has gaps whose width there is not known; \
                         use kinds of fixed width, such as I64, or a filetype without gaps",
                        self.filetype.size(),
                        representation.name()
                    ));
                }
            }
        }
        self.representation = representation;
        self
    }

    /// The same view, the filetype having this layout in the file, where values have the sizes of the representation: what lies between
    /// them there is then known. One that does not hold the filetype's data changes nothing.
    #[must_use]
    pub fn stored_as(mut self, filetype: &Layout) -> Self {
        let fits = filetype.size() == self.representation.stored_size(&self.filetype) && filetype.is_sorted();
        if let (true, Ok(pattern)) = (fits && !self.cuts_values(), filetype.endless(self.displacement as i64))
        {
            self.pattern = pattern;
            self.objection = None;
        }
        self
    }

    /// Whether an etype ends inside a value of the filetype.
    fn cuts_values(&self) -> bool {
        let (etype, data) = (self.etype.size(), self.filetype.pattern());
        if let Some(basic) = data.uniform() {
            return !etype.is_multiple_of(basic.size());
        }
        let mut at = 0;
        data.signature(..).any(|elements| {
            // The first etype that ends after the start of these equal values, and whether it ends between two of them.
            let (start, size) = (at, elements.basic.size());
            at += elements.size();
            let ends = (start / etype + 1..=at / etype).map(|number| number * etype);
            // After as many etypes as a value has bytes, the same places of values come again.
            ends.take(size as usize).any(|end| !(end - start).is_multiple_of(size))
        })
    }

    /// Why data cannot be stored in the representation, if it cannot.
    pub(crate) fn objection(&self) -> Option<&str> {
        self.objection.as_deref()
    }

    /// Data bytes of an etype in the file.
    pub(crate) fn stored(&self) -> u64 {
        self.stored
    }

    /// Of what kind the data is, etype `first` on, and where that lies among the data bytes of memory.
    pub(crate) fn kinds(&self, first: u64) -> (&Pattern, u64) {
        (&self.kinds, first / self.stored * self.etype.size())
    }

    /// Where it begins.
    pub fn displacement(&self) -> u64 {
        self.displacement
    }

    /// What offsets are counted in.
    pub fn etype(&self) -> &Layout {
        &self.etype
    }

    /// What is tiled over the file.
    pub fn filetype(&self) -> &Layout {
        &self.filetype
    }

    /// How values are stored.
    pub fn representation(&self) -> &Representation {
        &self.representation
    }

    /// The byte of the file at which etype `offset` of this view begins; none beyond the maximum file size.
    #[doc(alias = "MPI_File_get_byte_offset")]
    pub fn byte_offset(&self, offset: u64) -> Option<u64> {
        let data = offset.checked_mul(self.stored)?;
        self.pattern.offset_of(data).map(|offset| offset as u64)
    }

    /// How many whole or begun etypes lie before byte `length` of the file: the end of the file, seen through the view.
    pub(crate) fn etypes_before(&self, length: u64) -> u64 {
        let end = i64::try_from(length).unwrap_or(i64::MAX);
        if let Some(bytes) = self.pattern.bytes_before(end) {
            return bytes.div_ceil(self.stored);
        }
        // Bytes that are seen twice cannot be counted, but etypes begin in order.
        let (mut low, mut high) = (0, u64::MAX / self.stored);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.byte_offset(middle).is_some_and(|offset| offset < length) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Whether writing through it writes no byte twice.
    pub(crate) fn is_writable(&self) -> bool {
        self.filetype.size() == 0 || self.filetype.is_monotone()
    }

    pub(crate) fn pattern(&self) -> &Pattern {
        &self.pattern
    }
}
