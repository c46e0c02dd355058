//! How a file is buffered: what a program or a user asks for.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use aqueduct_device::available_memory;
use aqueduct_device::units::{ByteSize, UnitError};

/// How much memory a rank may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capacity {
    /// So many bytes.
    Bytes(u64),
    /// So many percent of the [available memory](crate::available_memory) when the file is opened, divided by the ranks of the machine.
    Share(u8),
}

impl Capacity {
    /// How it is written.
    pub const FORMS: &str = "a size such as 256MiB, or a share of the available memory such as 25%";

    /// In bytes, for one of so many ranks of this machine.
    pub(crate) fn bytes(self, ranks: usize) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Share(percent) => available_memory() / 100 * u64::from(percent) / ranks.max(1) as u64,
        }
    }
}

impl FromStr for Capacity {
    type Err = UnitError;

    /// `256MiB` or `25%`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let percent = text.trim().strip_suffix('%').and_then(|number| number.trim().parse().ok());
        match percent.filter(|percent| *percent <= 100) {
            Some(percent) => Ok(Self::Share(percent)),
            None => text.parse().map(|ByteSize(bytes)| Self::Bytes(bytes)),
        }
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{}", ByteSize(*bytes)),
            Self::Share(percent) => write!(f, "{percent}%"),
        }
    }
}

/// How a file is buffered: memory of each rank, and a file on a local disk for what does not fit.
///
/// ```
/// use aqueduct_file::{BufferOptions, Capacity};
/// let small = BufferOptions::new(Capacity::Bytes(64 << 20)).spill("/local/scratch", Some(1 << 30));
/// assert_eq!("64MiB".parse(), Ok(small.memory));
/// assert_eq!("25%".parse(), Ok(Capacity::Share(25)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferOptions {
    /// Memory of each rank.
    pub memory: Capacity,
    /// A folder for the spill file.
    pub spill: Option<PathBuf>,
    /// Bytes of the spill file; none = four times the memory.
    pub spill_size: Option<u64>,
}

impl BufferOptions {
    /// In memory only.
    pub fn new(memory: Capacity) -> Self {
        Self { memory, spill: None, spill_size: None }
    }

    /// With a spill file in a folder of a local disk, of so many bytes at most; none = four times the memory.
    #[must_use]
    pub fn spill(mut self, folder: impl Into<PathBuf>, size: Option<u64>) -> Self {
        (self.spill, self.spill_size) = (Some(folder.into()), size);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_sizes_or_shares() {
        for (text, capacity) in
            [("1.5GiB", Capacity::Bytes(3 << 29)), ("0%", Capacity::Share(0)), (" 30 %", Capacity::Share(30))]
        {
            assert_eq!(text.parse(), Ok(capacity));
            assert_eq!(capacity.to_string().parse(), Ok(capacity));
        }
        assert!(["", "much", "101%", "-1%"].iter().all(|text| text.parse::<Capacity>().is_err()));
    }

    #[test]
    fn a_share_is_divided_by_the_ranks_of_the_machine() {
        let (one, four) = (Capacity::Share(50).bytes(1), Capacity::Share(50).bytes(4));
        assert!(one > 0 && four < one / 2, "{one} {four}");
    }
}
