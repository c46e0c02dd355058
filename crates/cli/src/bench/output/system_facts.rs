//! The header block of a benchmark: what its figures depend on.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use aqueduct::comm::Comm;
use aqueduct::file::Info;

/// Kernel, processor, memory, ranks, MPI, file, file system, mount and hints.
pub(in crate::bench) fn system_facts(
    world: Option<&Comm>,
    file: &str,
    hints: &[(String, String)],
) -> Vec<(String, String)> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |path: &str, name: &str| {
        let text = read(path);
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned()))
            .unwrap_or_else(|| "unknown".to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let load = read("/proc/loadavg");
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let mut facts = vec![
        ("aqueduct", env!("CARGO_PKG_VERSION").to_owned()),
        ("date", date(since_epoch)),
        ("kernel", format!("Linux {} {}", read("/proc/sys/kernel/osrelease").trim(), std::env::consts::ARCH)),
        (
            "processor",
            format!(
                "{}, {cores} available, load {}",
                field("/proc/cpuinfo", "model name"),
                load.split(' ').next().unwrap_or("unknown")
            ),
        ),
        ("memory", field("/proc/meminfo", "MemTotal")),
    ];
    if let Some(world) = world {
        let ranks = format!("{} on {} node(s), {}", world.size(), world.node_count(), world.transport());
        facts.push(("ranks", ranks));
    }
    facts.push(("file", file.to_owned()));
    let system = file_system(file);
    facts.push(("file system", system.unwrap_or_else(|| "not a file system of this machine".to_owned())));
    let from_env = Info::from_env();
    let from_env = from_env.iter().map(|(key, value)| format!("{key}={value}"));
    let given = hints.iter().map(|(key, value)| format!("{key}={value}"));
    let hints: Vec<String> = from_env.chain(given).collect();
    facts.push(("hints", if hints.is_empty() { "none".to_owned() } else { hints.join(", ") }));
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Type, source, place and options of the mount that a file is on; none for a device that is not a file system.
fn file_system(file: &str) -> Option<String> {
    // The last device of a name with layers: throttle=10MB/s:ufs:/scratch/x.
    let (devices, path) = split_devices(file);
    if devices.iter().any(|device| ["memfs", "tunnel"].iter().any(|remote| device.starts_with(remote))) {
        return None;
    }
    let path = std::path::absolute(path).ok()?;
    let existing = path.ancestors().find_map(|folder| folder.canonicalize().ok())?;
    mount_of(&existing, &std::fs::read_to_string("/proc/self/mountinfo").ok()?)
}

/// The prefixes of a name and the rest.
fn split_devices(name: &str) -> (Vec<&str>, &str) {
    let (mut devices, mut rest) = (Vec::new(), name);
    while let Some((device, further)) =
        rest.split_once(':').filter(|(device, _)| !device.starts_with(['.', '/']))
    {
        devices.push(device);
        rest = further;
    }
    (devices, rest)
}

/// The mount in the text of `/proc/self/mountinfo` that a path is on: proc(5).
fn mount_of(path: &Path, mounts: &str) -> Option<String> {
    let mut found: Option<(PathBuf, String)> = None;
    for line in mounts.lines() {
        let (front, back) = line.split_once(" - ")?;
        let (front, back): (Vec<&str>, Vec<&str>) = (front.split(' ').collect(), back.split(' ').collect());
        let (Some(place), Some(options)) = (front.get(4), front.get(5)) else { continue };
        let (Some(kind), Some(source)) = (back.first(), back.get(1)) else { continue };
        let place = PathBuf::from(place.replace("\\040", " "));
        // Of mounts at the same place the last one is seen.
        let is_longer =
            found.as_ref().is_none_or(|(known, _)| place.as_os_str().len() >= known.as_os_str().len());
        if path.starts_with(&place) && is_longer {
            let text = format!("{kind}, {source} on {}, {options}", place.display());
            found = Some((place, text));
        }
    }
    found.map(|(_, text)| text)
}

/// A time in seconds since 1970 as text, in UTC. The date is computed as by H. Hinnant, "chrono-compatible low-level date algorithms",
/// <https://howardhinnant.github.io/date_algorithms.html>.
fn date(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", rest / 3600, rest / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_827_696), "2000-02-29 12:34 UTC");
        assert_eq!(date(1_767_225_599), "2025-12-31 23:59 UTC");
    }

    #[test]
    fn the_mount_of_a_file_is_the_innermost_and_last() {
        let mounts = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                      30 22 0:40 / /scratch rw,noatime shared:2 - lustre mds@tcp:/fs rw,flock\n\
                      31 22 0:41 / /scratch rw - nfs4 server:/export rw\n";
        let of = |path: &str| mount_of(Path::new(path), mounts).unwrap();
        assert_eq!(of("/data/x"), "ext4, /dev/sda1 on /, rw,relatime");
        assert_eq!(of("/scratch/run"), "nfs4, server:/export on /scratch, rw");
        assert_eq!(of("/scratchy"), "ext4, /dev/sda1 on /, rw,relatime");
    }

    #[test]
    fn devices_are_split_from_names() {
        assert_eq!(
            split_devices("throttle=10MB/s:uring:/a/b:c"),
            (vec!["throttle=10MB/s", "uring"], "/a/b:c")
        );
        assert_eq!(split_devices("./a:b"), (vec![], "./a:b"));
        assert_eq!(file_system("memfs:x"), None);
        assert!(file_system("x").unwrap().contains(" on /"));
    }
}
