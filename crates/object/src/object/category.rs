//! Categories of types: computed from their parts at compile time.

use std::fmt;

use super::Object;

/// How values are transferred between memory and files or messages.
///
/// ```
/// use aqueduct_object::{Category, Object};
///
/// #[derive(Object)]
/// struct Point { x: f64, y: f64 }
/// #[derive(Object)]
/// struct Tagged { tag: u8, value: f64 } // the compiler inserts padding after the tag
/// #[derive(Object)]
/// struct Cloud { points: Vec<Point> }
///
/// assert_eq!(Point::CATEGORY, Category::Trivial);
/// assert_eq!(Tagged::CATEGORY, Category::Constant);
/// assert_eq!(Cloud::CATEGORY, Category::Variable);
/// assert_eq!((Point::SIZE, Tagged::SIZE, Cloud::SIZE), (Some(16), Some(9), None));
/// ```
///
/// The category does not affect the stored bytes: a type with padding and one without are encoded in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Category {
    /// Transferred as its bytes in memory, without a copy.
    Trivial,
    /// Of constant size, with an encoded form that differs from memory (padding, boxes, `bool`, `char`): at most one copy.
    Constant,
    /// Each value has its own size, which is computed first.
    Variable,
}

impl fmt::Display for Category {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Trivial => "trivial",
            Self::Constant => "constant",
            Self::Variable => "variable",
        })
    }
}

/// Constants folded over the parts of a type; used by the code that the derive macro generates.
#[doc(hidden)]
pub mod fold {
    use super::{Category, Object};

    /// The properties of a part.
    #[derive(Clone, Copy)]
    pub struct FieldLayout {
        offset: usize,
        category: Category,
        size: Option<usize>,
    }

    pub const fn part<T: Object>(offset: usize) -> FieldLayout {
        FieldLayout { offset, category: T::CATEGORY, size: T::SIZE }
    }

    /// The sum of the sizes, if all are constant.
    pub const fn size(parts: &[Option<usize>]) -> Option<usize> {
        let (mut sum, mut at) = (0usize, 0);
        while at < parts.len() {
            match parts[at] {
                Some(size) => sum += size,
                None => return None,
            }
            at += 1;
        }
        Some(sum)
    }

    /// The category of a structure of `whole` bytes in memory. It is trivial if no field is skipped, all parts are trivial, and their
    /// offsets in memory are those of the encoding.
    pub const fn category(parts: &[FieldLayout], whole: usize, skips: bool) -> Category {
        let (mut linear, mut sum, mut at) = (!skips, 0, 0);
        while at < parts.len() {
            let part = parts[at];
            let Some(size) = part.size else { return Category::Variable };
            linear &= matches!(part.category, Category::Trivial) && (size == 0 || part.offset == sum);
            sum += size;
            at += 1;
        }
        if linear && sum == whole { Category::Trivial } else { Category::Constant }
    }
}
