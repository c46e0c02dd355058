//! Who wrote a file: recorded in the metadata of object files, stream files and checkpoints.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use aqueduct_comm::Comm;
use serde::{Deserialize, Serialize};

/// The program that wrote a file, the version of this library, the number of ranks, and the time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileProvenance {
    /// The name of the program's executable file.
    pub program: String,
    /// The version of this library.
    pub version: String,
    /// The number of ranks of the program.
    pub ranks: u64,
    /// Seconds since 1970.
    pub time: u64,
}

impl FileProvenance {
    /// Of a file that this program writes now. The variable `SOURCE_DATE_EPOCH` replaces the time, for files with reproducible bytes.
    pub fn now(comm: &Comm) -> Self {
        let program = std::env::current_exe().ok();
        let program = program.as_ref().and_then(|path| path.file_name());
        let fixed = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Self {
            program: program.map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ranks: comm.world_size() as u64,
            time: fixed.unwrap_or_else(now),
        }
    }
}

impl fmt::Display for FileProvenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, version, ranks, time } = self;
        let plural = if *ranks == 1 { "" } else { "s" };
        write!(f, "{program} (aqueduct {version}) on {ranks} rank{plural}, {}", UtcTime(*time))
    }
}

/// Seconds since 1970 as a date and time of day in UTC (ISO 8601).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcTime(pub u64);

impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, seconds) = (self.0 / 86_400, self.0 % 86_400);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        // The algorithm `civil_from_days` of Howard Hinnant, <https://howardhinnant.github.io/date_algorithms.html>: years begin in March.
        let days = days.saturating_add(719_468);
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = year_of_era + era * 400 + u64::from(month <= 2);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `date -u -d @SECONDS +%FT%TZ` prints them.
    #[test]
    fn times_are_dates_of_the_gregorian_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_795_060_800, "2026-11-19T04:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(UtcTime(seconds).to_string(), expected);
        }
        assert!(!UtcTime(u64::MAX).to_string().is_empty());
    }
}
