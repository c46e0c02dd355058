//! Parsing of sizes (`64KiB`), rates (`200MB/s`) and durations (`1.5ms`) into exact typed values.
//!
//! Decimal prefixes count in thousands, binary ones in 1024s; upper and lower case mean the same; a fraction is
//! allowed as long as the value comes out whole in the smallest unit (bytes, nanoseconds).
//!
//! ```
//! use std::time::Duration;
//! use aqueduct_device::units::{ByteRate, ByteSize, parse_duration};
//!
//! assert_eq!("64KiB".parse(), Ok(ByteSize(65536)));
//! assert_eq!("1.5kB".parse(), Ok(ByteSize(1500)));
//! assert_eq!("200MB/s".parse(), Ok(ByteRate(200_000_000)));
//! assert_eq!(parse_duration("1ms"), Ok(Duration::from_millis(1)));
//! assert_eq!(
//!     "12 parsecs".parse::<ByteSize>().unwrap_err().to_string(),
//!     "\"12 parsecs\" is not a size; write a number and a unit such as 64KiB, 1.5GB (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)"
//! );
//! ```

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

/// A number of bytes per second, never zero when it was read from text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteRate(pub u64);

/// The error of an invalid quantity: the text and the expected form.
#[derive(Clone, PartialEq, Eq)]
pub struct UnitError {
    text: String,
    expected: &'static str,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not {}", self.text, self.expected)
    }
}

impl fmt::Debug for UnitError {
    /// The text of `Display`: the form in which `main` prints an error that it returns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for UnitError {}

const SIZE: &str =
    "a size; write a number and a unit such as 64KiB, 1.5GB (B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)";
const RATE: &str = "a rate above zero; write a size per second such as 200MB/s, 1.5GiB/s";
const DURATION: &str = "a duration; write a number and a unit such as 1ms, 2.5s (ns, us, ms, s)";

const SIZE_UNITS: [(&str, u64); 10] = [
    ("", 1),
    ("b", 1),
    ("kb", 1000),
    ("mb", 1000_u64.pow(2)),
    ("gb", 1000_u64.pow(3)),
    ("tb", 1000_u64.pow(4)),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

const DURATION_UNITS: [(&str, u64); 5] =
    [("ns", 1), ("us", 1000), ("µs", 1000), ("ms", 1_000_000), ("s", 1_000_000_000)];

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        scaled(text, &SIZE_UNITS).map(ByteSize).ok_or_else(|| error(text, SIZE))
    }
}

impl FromStr for ByteRate {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        text.strip_suffix("/s")
            .and_then(|size| scaled(size, &SIZE_UNITS))
            .filter(|&rate| rate > 0)
            .map(ByteRate)
            .ok_or_else(|| error(text, RATE))
    }
}

/// Reads a duration: `10ns`, `250us`, `1ms`, `2.5s`.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    scaled(text, &DURATION_UNITS).map(Duration::from_nanos).ok_or_else(|| error(text, DURATION))
}

impl fmt::Display for ByteSize {
    /// The largest unit that shows the value exactly.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: [(u64, &str); 8] = [
            (1 << 40, "TiB"),
            (1000_u64.pow(4), "TB"),
            (1 << 30, "GiB"),
            (1000_u64.pow(3), "GB"),
            (1 << 20, "MiB"),
            (1000_u64.pow(2), "MB"),
            (1 << 10, "KiB"),
            (1000, "kB"),
        ];
        match SHOWN.iter().find(|(scale, _)| self.0 != 0 && self.0.is_multiple_of(*scale)) {
            Some((scale, unit)) => write!(f, "{}{unit}", self.0 / scale),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl fmt::Display for ByteRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", ByteSize(self.0))
    }
}

impl ByteRate {
    /// The time of `bytes` at this rate; the maximum for a rate of zero.
    pub fn time(self, bytes: u64) -> Duration {
        match (u128::from(bytes) * 1_000_000_000).checked_div(u128::from(self.0)) {
            Some(nanos) => Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)),
            None if bytes == 0 => Duration::ZERO,
            None => Duration::MAX,
        }
    }
}

fn error(text: &str, expected: &'static str) -> UnitError {
    UnitError { text: text.to_owned(), expected }
}

/// The number of smallest units that `text` means, if it is a number with one of `units` and comes out whole.
fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.to_lowercase();
    let scale = u128::from(units.iter().find(|(name, _)| *name == unit)?.1);
    let (whole, fraction) = match number.split_once('.') {
        Some(("", _) | (_, "")) => return None,
        Some(parts) => parts,
        None => (number, ""),
    };
    let denominator = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let value = format!("{whole}{fraction}").parse::<u128>().ok()?.checked_mul(scale)?;
    if value.is_multiple_of(denominator) { u64::try_from(value / denominator).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("17", 17),
            ("17B", 17),
            ("1kB", 1000),
            ("1KB", 1000),
            ("64KiB", 65536),
            ("64kib", 65536),
            ("1MiB", 1 << 20),
            ("0.5MiB", 1 << 19),
            ("1.25GB", 1_250_000_000),
            ("16777215TiB", 16_777_215 << 40),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn errors_show_the_invalid_size() {
        for text in [
            "",
            "B",
            "1.B",
            ".5MB",
            "1..5MB",
            "-1",
            "+1",
            "1 MB",
            "1MBB",
            "1.5B",
            "16777216TiB",
            "1MB/s",
            "٣B",
        ] {
            let error = text.parse::<ByteSize>().expect_err(text);
            assert!(error.to_string().starts_with(&format!("{text:?} is not a size")), "{error}");
        }
        let long = format!("1.{}MB", "0".repeat(500));
        assert!(long.parse::<ByteSize>().is_err());
    }

    #[test]
    fn rates() {
        assert_eq!("200MB/s".parse(), Ok(ByteRate(200_000_000)));
        assert_eq!("1GiB/s".parse(), Ok(ByteRate(1 << 30)));
        for text in ["200MB", "0MB/s", "/s", "200MB/h", "MB/s"] {
            assert!(text.parse::<ByteRate>().is_err(), "{text}");
        }
        assert_eq!(ByteRate(1000).time(1500), Duration::from_millis(1500));
        assert_eq!(ByteRate(1).time(u64::MAX), Duration::from_nanos(u64::MAX));
        assert_eq!(ByteRate(0).time(1), Duration::MAX);
        assert_eq!(ByteRate(0).time(0), Duration::ZERO);
    }

    #[test]
    fn durations() {
        for (text, nanos) in
            [("5ns", 5), ("1us", 1000), ("1.5µs", 1500), ("1ms", 1_000_000), ("2.5s", 2_500_000_000)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_nanos(nanos)), "{text}");
        }
        for text in ["", "1", "ms", "1.5ns", "1m", "-1ms", "1 ms", "1e3s", "99999999999s"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn display_and_parse_are_inverse() {
        for bytes in [0, 1, 999, 1000, 1024, 1500, 65536, 3 << 40, 200_000_000, u64::MAX] {
            assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }
        assert_eq!(ByteSize(65536).to_string(), "64KiB");
        assert_eq!(ByteRate(200_000_000).to_string(), "200MB/s");
    }
}
