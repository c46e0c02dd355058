//! What a run says about itself: date, times, memory.

use std::env;
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use aqueduct::comm::{Comm, Op};

/// Times of the phases of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct WaveTimes {
    /// Reading the input.
    pub loading: Duration,
    /// Operators, output file.
    pub preparing: Duration,
    /// The steps.
    pub stepping: Duration,
    /// Reductions, the end of the file.
    pub storing: Duration,
    /// The part of the steps that was spent in output.
    pub output: Duration,
    /// The part of the steps that was spent in checkpoints.
    pub checkpoints: Duration,
}

/// The time that files are to state instead of the present one, so that two runs have equal files:
/// <https://reproducible-builds.org/specs/source-date-epoch/>.
fn stated_time() -> Option<u64> {
    env::var("SOURCE_DATE_EPOCH").ok()?.parse().ok()
}

/// The present time, or that of `SOURCE_DATE_EPOCH`, in UTC.
pub fn creation_date() -> String {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    date(stated_time().unwrap_or_else(now))
}

/// A time in seconds since 1970 as text.
pub fn date(seconds: u64) -> String {
    let (days, time) = ((seconds / 86_400) as i64, seconds % 86_400);
    // Days in years that begin in March, by eras of 400 years.
    let shifted = days + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let (month, day) = ((from_march + 2) % 12 + 1, of_year - (153 * from_march + 2) / 5 + 1);
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", time / 3600, time / 60 % 60, time % 60)
}

/// The largest memory of this process so far in bytes.
pub fn peak_memory() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: u64 = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok()).unwrap_or(0);
    kib << 10
}

/// The attributes of an output that k-Wave has about the run. With `SOURCE_DATE_EPOCH` they are the same for all runs. Collective.
pub fn run_attributes(world: &Comm, times: &WaveTimes) -> Result<Vec<(&'static str, String)>> {
    let same = stated_time().is_some();
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let hosts = world.gather_varied(0, host.as_bytes())?.unwrap_or_default();
    let mut hosts: Vec<String> =
        hosts.iter().map(|host| String::from_utf8_lossy(host).into_owned()).collect();
    hosts.dedup();
    let hosts = world.broadcast_vec(0, hosts.join(" ").into_bytes())?;
    // Ranks that are threads share the memory of their process.
    let peak = world.allreduce_one(Op::Max, peak_memory())?;
    let total = if world.is_one_process() { peak } else { world.allreduce_one(Op::Sum, peak_memory())? };
    let seconds = |time: Duration| format!("{:8.2}s", if same { 0.0 } else { time.as_secs_f64() });
    let megabytes = |bytes: u64| format!("{} MB", if same { 0 } else { bytes >> 20 });
    let all = times.loading + times.preparing + times.stepping + times.storing;
    // The definitions of the file are the same on all ranks.
    let mut shown =
        [times.loading, times.preparing, times.stepping, times.storing, all].map(|time| time.as_secs_f64());
    world.broadcast(0, &mut shown)?;
    let [loading, preparing, stepping, storing, all] =
        shown.map(|time| seconds(Duration::from_secs_f64(time)));
    let date = world.broadcast_vec(0, creation_date().into_bytes())?;
    Ok(vec![
        ("creation_date", String::from_utf8_lossy(&date).into_owned()),
        ("host_names", if same { "-".to_owned() } else { String::from_utf8_lossy(&hosts).into_owned() }),
        ("number_of_cpu_cores", if same { "0".to_owned() } else { world.size().to_string() }),
        ("data_loading_phase_execution_time", loading),
        ("pre-processing_phase_execution_time", preparing),
        ("simulation_phase_execution_time", stepping),
        ("post-processing_phase_execution_time", storing),
        ("total_execution_time", all),
        (
            "peak_core_memory_in_use",
            megabytes(peak / if world.is_one_process() { world.size() as u64 } else { 1 }),
        ),
        ("total_memory_in_use", megabytes(total)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00:00");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00");
        assert_eq!(date(1_800_000_000), "2027-01-15 08:00:00");
    }
}
