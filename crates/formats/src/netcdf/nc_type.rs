//! The types of values.

use std::fmt;

/// The type of a variable's or attribute's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum NcType {
    /// `i8`.
    #[doc(alias = "NC_BYTE")]
    Byte = 1,
    /// A character, as `u8`.
    #[doc(alias = "NC_CHAR")]
    Char,
    /// `i16`.
    #[doc(alias = "NC_SHORT")]
    Short,
    /// `i32`.
    #[doc(alias = "NC_INT")]
    Int,
    /// `f32`.
    #[doc(alias = "NC_FLOAT")]
    Float,
    /// `f64`.
    #[doc(alias = "NC_DOUBLE")]
    Double,
    /// `u8`; CDF-5 only.
    #[doc(alias = "NC_UBYTE")]
    UByte,
    /// `u16`; CDF-5 only.
    #[doc(alias = "NC_USHORT")]
    UShort,
    /// `u32`; CDF-5 only.
    #[doc(alias = "NC_UINT")]
    UInt,
    /// `i64`; CDF-5 only.
    #[doc(alias = "NC_INT64")]
    Int64,
    /// `u64`; CDF-5 only.
    #[doc(alias = "NC_UINT64")]
    UInt64,
}

impl NcType {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Byte,
        Self::Char,
        Self::Short,
        Self::Int,
        Self::Float,
        Self::Double,
        Self::UByte,
        Self::UShort,
        Self::UInt,
        Self::Int64,
        Self::UInt64,
    ];

    pub(crate) fn code(self) -> u32 {
        self as u32
    }

    pub(crate) fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Bytes of a value.
    pub fn size(self) -> u64 {
        match self {
            Self::Byte | Self::Char | Self::UByte => 1,
            Self::Short | Self::UShort => 2,
            Self::Int | Self::Float | Self::UInt => 4,
            Self::Double | Self::Int64 | Self::UInt64 => 8,
        }
    }

    /// The default fill value, which the attribute `_FillValue` replaces, as stored in a file.
    pub(crate) fn default_fill(self) -> Vec<u8> {
        match self {
            Self::Byte => (-127i8).to_be_bytes().to_vec(),
            Self::Char => vec![0],
            Self::Short => (-32767i16).to_be_bytes().to_vec(),
            Self::Int => (-2_147_483_647i32).to_be_bytes().to_vec(),
            Self::Float => f32::from_bits(0x7cf0_0000).to_be_bytes().to_vec(),
            Self::Double => f64::from_bits(0x479e_0000_0000_0000).to_be_bytes().to_vec(),
            Self::UByte => vec![255],
            Self::UShort => 65535u16.to_be_bytes().to_vec(),
            Self::UInt => u32::MAX.to_be_bytes().to_vec(),
            Self::Int64 => (-9_223_372_036_854_775_806i64).to_be_bytes().to_vec(),
            Self::UInt64 => 18_446_744_073_709_551_614u64.to_be_bytes().to_vec(),
        }
    }
}

impl fmt::Display for NcType {
    /// As `ncdump` has them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Byte => "byte",
            Self::Char => "char",
            Self::Short => "short",
            Self::Int => "int",
            Self::Float => "float",
            Self::Double => "double",
            Self::UByte => "ubyte",
            Self::UShort => "ushort",
            Self::UInt => "uint",
            Self::Int64 => "int64",
            Self::UInt64 => "uint64",
        })
    }
}
