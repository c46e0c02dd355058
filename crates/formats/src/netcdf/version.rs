//! The three versions of the format, and what fits in each.

use std::fmt;

use super::nc_type::NcType;

/// A version of the classic format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CdfVersion {
    /// CDF-1, the oldest: data begins below 2 GiB.
    Cdf1,
    /// CDF-2: data may begin anywhere, a variable has less than 4 GiB (only the last one may have more).
    Cdf2,
    /// CDF-5: everything has 64 bits; unsigned types and 64-bit integers.
    #[default]
    Cdf5,
}

impl CdfVersion {
    /// All of them, the oldest first.
    pub const ALL: [Self; 3] = [Self::Cdf1, Self::Cdf2, Self::Cdf5];

    /// The fourth byte of a file.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Cdf1 => 1,
            Self::Cdf2 => 2,
            Self::Cdf5 => 5,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.code() == code)
    }

    /// Bytes of a count in the header: records, lengths, numbers of elements, numbers of dimensions, sizes of variables.
    pub(crate) fn count_width(self) -> u64 {
        if self == Self::Cdf5 { 8 } else { 4 }
    }

    /// Bytes of the place of a variable.
    pub(crate) fn begin_width(self) -> u64 {
        if self == Self::Cdf1 { 4 } else { 8 }
    }

    /// Where a variable may begin at the latest.
    pub(crate) fn last_begin(self) -> u64 {
        if self == Self::Cdf1 { i32::MAX as u64 } else { i64::MAX as u64 }
    }

    /// The longest dimension.
    pub(crate) fn longest(self) -> u64 {
        if self == Self::Cdf5 { i64::MAX as u64 - 3 } else { i32::MAX as u64 }
    }

    /// The largest number of records. The count with all bits set means streaming, which only readers support.
    pub(crate) fn most_records(self) -> u64 {
        if self == Self::Cdf5 { i64::MAX as u64 } else { u64::from(u32::MAX) - 1 }
    }

    /// The most bytes of a variable that is not the last, a record of it where it has records.
    pub(crate) fn largest(self) -> u64 {
        match self {
            Self::Cdf1 => i32::MAX as u64 - 3,
            Self::Cdf2 => u64::from(u32::MAX) - 3,
            Self::Cdf5 => i64::MAX as u64 - 3,
        }
    }

    /// Whether it has this type.
    pub fn has(self, kind: NcType) -> bool {
        self == Self::Cdf5 || kind.code() <= NcType::Double.code()
    }
}

impl fmt::Display for CdfVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CDF-{}", self.code())
    }
}
