//! The kinds of single values: what a typed byte is a part of.

use std::fmt;

/// The kind of a single value in memory, as C and Fortran have them.
///
/// A kind has a size and an alignment on this machine, and a size in `external32`, the portable representation of files. Two
/// kinds of equal native size stay apart where their portable forms differ: a C `long` has 8 bytes here and 4 in
/// `external32`, an [`I64`](Basic::I64) has 8 in both.
///
/// ```
/// use aqueduct_file::layout::Basic;
///
/// assert_eq!((Basic::Long.size(), Basic::Long.external32_size()), (8, 4));
/// assert_eq!(Basic::ComplexF64.components(), (Basic::F64, 2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Basic {
    /// Uninterpreted, never converted.
    #[doc(alias = "MPI_BYTE")]
    Byte,
    /// A byte of already packed data, never converted.
    #[doc(alias = "MPI_PACKED")]
    Packed,
    /// A character of C or Fortran.
    #[doc(alias = "MPI_CHAR")]
    #[doc(alias = "MPI_CHARACTER")]
    Char,
    /// C's `wchar_t`.
    #[doc(alias = "MPI_WCHAR")]
    WideChar,
    /// C's `_Bool`, C++'s `bool`, Rust's `bool`.
    #[doc(alias = "MPI_C_BOOL")]
    #[doc(alias = "MPI_CXX_BOOL")]
    Bool,
    /// Fortran's default `LOGICAL`.
    #[doc(alias = "MPI_LOGICAL")]
    Logical,
    /// A signed integer of 8 bits.
    #[doc(alias = "MPI_INT8_T")]
    #[doc(alias = "MPI_SIGNED_CHAR")]
    #[doc(alias = "MPI_INTEGER1")]
    I8,
    /// A signed integer of 16 bits.
    #[doc(alias = "MPI_INT16_T")]
    #[doc(alias = "MPI_SHORT")]
    #[doc(alias = "MPI_INTEGER2")]
    I16,
    /// A signed integer of 32 bits.
    #[doc(alias = "MPI_INT32_T")]
    #[doc(alias = "MPI_INT")]
    #[doc(alias = "MPI_INTEGER")]
    #[doc(alias = "MPI_INTEGER4")]
    I32,
    /// A signed integer of 64 bits.
    #[doc(alias = "MPI_INT64_T")]
    #[doc(alias = "MPI_LONG_LONG")]
    #[doc(alias = "MPI_INTEGER8")]
    #[doc(alias = "MPI_AINT")]
    #[doc(alias = "MPI_OFFSET")]
    #[doc(alias = "MPI_COUNT")]
    I64,
    /// A signed integer of 128 bits.
    #[doc(alias = "MPI_INTEGER16")]
    I128,
    /// An unsigned integer of 8 bits.
    #[doc(alias = "MPI_UINT8_T")]
    #[doc(alias = "MPI_UNSIGNED_CHAR")]
    U8,
    /// An unsigned integer of 16 bits.
    #[doc(alias = "MPI_UINT16_T")]
    #[doc(alias = "MPI_UNSIGNED_SHORT")]
    U16,
    /// An unsigned integer of 32 bits.
    #[doc(alias = "MPI_UINT32_T")]
    #[doc(alias = "MPI_UNSIGNED")]
    U32,
    /// An unsigned integer of 64 bits.
    #[doc(alias = "MPI_UINT64_T")]
    #[doc(alias = "MPI_UNSIGNED_LONG_LONG")]
    U64,
    /// C's `long`.
    #[doc(alias = "MPI_LONG")]
    Long,
    /// C's `unsigned long`.
    #[doc(alias = "MPI_UNSIGNED_LONG")]
    UnsignedLong,
    /// A floating-point number of 16 bits.
    #[doc(alias = "MPI_REAL2")]
    F16,
    /// A floating-point number of 32 bits.
    #[doc(alias = "MPI_FLOAT")]
    #[doc(alias = "MPI_REAL")]
    #[doc(alias = "MPI_REAL4")]
    F32,
    /// A floating-point number of 64 bits.
    #[doc(alias = "MPI_DOUBLE")]
    #[doc(alias = "MPI_DOUBLE_PRECISION")]
    #[doc(alias = "MPI_REAL8")]
    F64,
    /// C's `long double`: 16 bytes, of which this machine uses 80 bits.
    #[doc(alias = "MPI_LONG_DOUBLE")]
    LongDouble,
    /// A floating-point number of 128 bits.
    #[doc(alias = "MPI_REAL16")]
    F128,
    /// A pair of [`F16`](Basic::F16).
    #[doc(alias = "MPI_COMPLEX4")]
    ComplexF16,
    /// A pair of [`F32`](Basic::F32).
    #[doc(alias = "MPI_C_FLOAT_COMPLEX")]
    #[doc(alias = "MPI_COMPLEX")]
    #[doc(alias = "MPI_COMPLEX8")]
    ComplexF32,
    /// A pair of [`F64`](Basic::F64).
    #[doc(alias = "MPI_C_DOUBLE_COMPLEX")]
    #[doc(alias = "MPI_DOUBLE_COMPLEX")]
    #[doc(alias = "MPI_COMPLEX16")]
    ComplexF64,
    /// A pair of [`LongDouble`](Basic::LongDouble).
    #[doc(alias = "MPI_C_LONG_DOUBLE_COMPLEX")]
    ComplexLongDouble,
    /// A pair of [`F128`](Basic::F128).
    #[doc(alias = "MPI_COMPLEX32")]
    ComplexF128,
}

impl Basic {
    /// Every kind there is.
    pub const ALL: [Self; 27] = [
        Self::Byte,
        Self::Packed,
        Self::Char,
        Self::WideChar,
        Self::Bool,
        Self::Logical,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::I128,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::Long,
        Self::UnsignedLong,
        Self::F16,
        Self::F32,
        Self::F64,
        Self::LongDouble,
        Self::F128,
        Self::ComplexF16,
        Self::ComplexF32,
        Self::ComplexF64,
        Self::ComplexLongDouble,
        Self::ComplexF128,
    ];

    /// Bytes of one value on this machine.
    pub const fn size(self) -> u64 {
        let (part, count) = self.components();
        count
            * match part {
                Self::I16 | Self::U16 | Self::F16 => 2,
                Self::WideChar | Self::Logical | Self::I32 | Self::U32 | Self::F32 => 4,
                Self::I64 | Self::U64 | Self::Long | Self::UnsignedLong | Self::F64 => 8,
                Self::I128 | Self::LongDouble | Self::F128 => 16,
                _ => 1,
            }
    }

    /// Bytes of one value in MPI's portable representation `external32`.
    pub const fn external32_size(self) -> u64 {
        match self {
            Self::WideChar => 2,
            Self::Long | Self::UnsignedLong => 4,
            other => other.size(),
        }
    }

    /// The alignment a compiler gives such a value inside a structure.
    pub const fn alignment(self) -> u64 {
        self.components().0.size_of_component()
    }

    /// The number this one is made of, and how many of it: two for complex kinds, the kind itself otherwise.
    pub const fn components(self) -> (Self, u64) {
        match self {
            Self::ComplexF16 => (Self::F16, 2),
            Self::ComplexF32 => (Self::F32, 2),
            Self::ComplexF64 => (Self::F64, 2),
            Self::ComplexLongDouble => (Self::LongDouble, 2),
            Self::ComplexF128 => (Self::F128, 2),
            other => (other, 1),
        }
    }

    const fn size_of_component(self) -> u64 {
        self.size() / self.components().1
    }
}

impl fmt::Display for Basic {
    /// The name as in Rust or C, in lower case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}
