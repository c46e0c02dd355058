//! Parsing of durations and points in time on the command line.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Parses a duration in seconds, minutes, hours or days.
pub fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let factor = match unit {
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => return Err("give a number followed by s, m, h or d".to_owned()),
    };
    let seconds = number.trim().parse::<f64>().ok().filter(|seconds| *seconds > 0.0);
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds * factor).ok());
    duration.ok_or_else(|| format!("`{number}` is not a positive number"))
}

/// Parses a point in time: a duration from now, `@` and seconds since 1970, or a time in UTC: `2026-11-18T14:30:00Z`.
pub fn moment(text: &str) -> Result<SystemTime, String> {
    let forms = "give a duration from now (90m), seconds since 1970 (@1800000000), or a time in UTC (2026-11-18T14:30:00Z)";
    if let Some(seconds) = text.strip_prefix('@') {
        let seconds = seconds.parse().map(Duration::from_secs).map_err(|_| forms.to_owned())?;
        return UNIX_EPOCH.checked_add(seconds).ok_or_else(|| forms.to_owned());
    }
    if text.contains('T') {
        return calendar(text).ok_or_else(|| forms.to_owned());
    }
    let from_now = duration(text).map_err(|_| forms.to_owned())?;
    SystemTime::now().checked_add(from_now).ok_or_else(|| forms.to_owned())
}

fn calendar(text: &str) -> Option<SystemTime> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, separator| text.split(separator).map(|part| part.parse().ok()).collect();
    let (date, time): (Option<Vec<u64>>, Option<Vec<u64>>) = (numbers(date, '-'), numbers(time, ':'));
    let (date, mut time) = (date?, time?);
    time.resize(time.len().max(3), 0);
    let (&[year, month, day], &[hour, minute, second]) = (&date[..], &time[..]) else { return None };
    let sound = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !sound || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days since 1 March of year 0, with the leap day at the end of a year; H. Hinnant, "chrono-compatible low-level date algorithms".
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    let seconds = (days - 719_468) * 86_400 + hour * 3600 + minute * 60 + second;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("90m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("0.5h"), Ok(Duration::from_secs(1800)));
        assert_eq!(duration("7d"), Ok(Duration::from_secs(604_800)));
        assert!(
            ["", "5", "h", "-1h", "nan s", "1e400d", "3 weeks"].iter().all(|text| duration(text).is_err())
        );
    }

    #[test]
    fn points_in_time_have_three_forms() {
        let at = |seconds| Ok(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(moment("@1800000000"), at(1_800_000_000));
        assert_eq!(moment("1970-01-01T00:00:00Z"), at(0));
        assert_eq!(moment("2000-02-29T12:00Z"), at(951_825_600));
        assert_eq!(moment("2026-11-18T14:30:05Z"), at(1_795_012_205));
        let soon = moment("90m").unwrap().duration_since(SystemTime::now()).unwrap();
        assert!((5390..=5400).contains(&soon.as_secs()));
        for text in ["", "soon", "@", "2026-11-18T14:30", "2026-13-18T14:30Z", "2026-11-18T24:30Z", "@-5"] {
            assert!(moment(text).unwrap_err().contains("give a duration"), "{text}");
        }
    }
}
