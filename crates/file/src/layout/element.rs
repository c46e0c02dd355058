//! The layouts of Rust types.

use super::{Basic, Layout};

/// A Rust type that is an element of arrays and files; [`Layout::of`] gives its layout.
///
/// Implemented for numbers, `bool`, and arrays of these. With the feature `num-complex` of this crate `Complex<f32>` and `Complex<f64>` are
/// elements too, with the feature `half` also `half::f16`.
pub trait ElementLayout {
    /// The layout of one value in memory.
    fn layout() -> Layout;
}

macro_rules! basic_elements {
    ($($rust:ty => $basic:ident),* $(,)?) => {
        $(impl ElementLayout for $rust {
            fn layout() -> Layout {
                Basic::$basic.into()
            }
        })*
    };
}

basic_elements! {
    bool => Bool,
    i8 => I8, i16 => I16, i32 => I32, i64 => I64, i128 => I128,
    u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    f32 => F32, f64 => F64,
}

#[cfg(feature = "num-complex")]
basic_elements! {
    num_complex::Complex<f32> => ComplexF32,
    num_complex::Complex<f64> => ComplexF64,
}

#[cfg(feature = "half")]
basic_elements! {
    half::f16 => F16,
}

impl<T: ElementLayout, const N: usize> ElementLayout for [T; N] {
    fn layout() -> Layout {
        T::layout().contiguous(N as u64).expect("a Rust type has fewer than 2^63 bytes")
    }
}

impl Layout {
    /// The layout of one value of a Rust type. `Layout::from(Basic)` is the form for kinds that are known at run time only.
    ///
    /// ```
    /// use aqueduct_file::layout::{Basic, Layout};
    ///
    /// assert_eq!(Layout::of::<f64>(), Layout::from(Basic::F64));
    /// assert_eq!(Layout::of::<[f32; 3]>().size(), 12);
    /// ```
    pub fn of<T: ElementLayout>() -> Self {
        T::layout()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_size<T: ElementLayout>() {
        let layout = Layout::of::<T>();
        assert_eq!(layout.size(), size_of::<T>() as u64, "{}", std::any::type_name::<T>());
        assert!(layout.is_contiguous());
    }

    #[test]
    fn layouts_have_the_sizes_of_their_types() {
        assert_size::<bool>();
        assert_size::<i8>();
        assert_size::<i128>();
        assert_size::<u16>();
        assert_size::<f64>();
        assert_size::<[[f32; 3]; 2]>();
        #[cfg(feature = "num-complex")]
        assert_size::<num_complex::Complex<f64>>();
        #[cfg(feature = "half")]
        assert_size::<half::f16>();
    }
}
