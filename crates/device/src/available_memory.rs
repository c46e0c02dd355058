//! Available memory: the one definition that all memory limits of the workspace are derived from.
//!
//! It is the smallest of `MemAvailable` (proc(5)) and, for each memory control group from that of the process up to the root, the limit of
//! the group minus its usage. The inactive part of the page cache is charged to a group although the kernel takes it back first, so that it
//! counts as available, as in the working set of Kubernetes. Control groups of version 2 (`memory.max`, `memory.high`) and of version 1
//! (`memory.limit_in_bytes`) are read, wherever they are mounted.

use std::fs;
use std::path::{Path, PathBuf};

/// Assumed if the system reports nothing.
const UNKNOWN: u64 = 256 << 20;

/// How many bytes this process can allocate without swapping and without exceeding the limit of a control group.
pub fn available_memory() -> u64 {
    available_below(Path::new("/"))
}

/// As [`available_memory`], for a system whose `/proc` and mount points lie below `root`.
fn available_below(root: &Path) -> u64 {
    let of_machine = machine_memory(root).unwrap_or(UNKNOWN);
    group_folders(root).iter().flat_map(ControlGroup::walk).fold(of_machine, u64::min)
}

fn machine_memory(root: &Path) -> Option<u64> {
    let text = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// The files of a memory control group.
struct ControlGroupFiles {
    limits: &'static [&'static str],
    usage: &'static str,
    inactive: &'static str,
}

const VERSION_1: ControlGroupFiles = ControlGroupFiles {
    limits: &["memory.limit_in_bytes"],
    usage: "memory.usage_in_bytes",
    inactive: "total_inactive_file",
};

const VERSION_2: ControlGroupFiles = ControlGroupFiles {
    limits: &["memory.max", "memory.high"],
    usage: "memory.current",
    inactive: "inactive_file",
};

/// The control group of this process in one hierarchy.
struct ControlGroup {
    interface: &'static ControlGroupFiles,
    mount: PathBuf,
    folder: PathBuf,
}

impl ControlGroup {
    /// What the group and those above it leave; groups without a limit are skipped.
    fn walk(&self) -> impl Iterator<Item = u64> {
        let inside = self.folder.ancestors().take_while(|folder| folder.starts_with(&self.mount));
        inside.filter_map(|folder| self.interface.left(folder))
    }
}

impl ControlGroupFiles {
    fn left(&self, folder: &Path) -> Option<u64> {
        let number = |name: &str| fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
        let limit = self.limits.iter().filter_map(|name| number(name)).min()?;
        let statistics = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let inactive =
            statistics.lines().find_map(|line| line.strip_prefix(self.inactive)?.trim().parse().ok());
        Some(limit.saturating_sub(number(self.usage)?.saturating_sub(inactive.unwrap_or(0))))
    }
}

/// The memory control groups that this process is in: one per mounted hierarchy.
fn group_folders(root: &Path) -> Vec<ControlGroup> {
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
    let (groups, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
    let mounts: Vec<ControlGroupMount> = mounts.lines().filter_map(ControlGroupMount::parse).collect();
    let group = |line: &str| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let interface = match controllers {
            "" => &VERSION_2,
            _ if controllers.split(',').any(|name| name == "memory") => &VERSION_1,
            _ => return None,
        };
        let version_2 = std::ptr::eq(interface, &VERSION_2);
        let mount = mounts.iter().find(|mount| mount.version_2 == version_2)?;
        let point = root.join(mount.point.trim_start_matches('/'));
        // In a container the mount may show a part of the hierarchy, or the path may be that of another namespace.
        let below = path.strip_prefix(mount.root.trim_end_matches('/')).unwrap_or_default();
        let folder = point.join(below.trim_start_matches('/'));
        let folder = if folder.is_dir() { folder } else { point.clone() };
        Some(ControlGroup { interface, mount: point, folder })
    };
    groups.lines().filter_map(group).collect()
}

/// A mount of a hierarchy of control groups that has the memory controller.
struct ControlGroupMount<'a> {
    root: &'a str,
    point: &'a str,
    version_2: bool,
}

impl<'a> ControlGroupMount<'a> {
    /// A line of `/proc/self/mountinfo`, see `proc_pid_mountinfo(5)`.
    fn parse(line: &'a str) -> Option<Self> {
        let (front, back) = line.split_once(" - ")?;
        let mut front = front.split(' ').skip(3);
        let (root, point) = (front.next()?, front.next()?);
        let mut back = back.split(' ');
        let version_2 = match back.next()? {
            "cgroup2" => true,
            "cgroup" if back.nth(1)?.split(',').any(|option| option == "memory") => false,
            _ => return None,
        };
        Some(Self { root, point, version_2 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A system below a temporary folder.
    struct System(tempfile::TempDir);

    impl System {
        fn new(mount: &str, group: &str) -> Self {
            let system = Self(tempfile::tempdir().unwrap());
            system.file("proc/meminfo", "MemTotal:  8000 kB\nMemAvailable:    4000 kB\n");
            system.file("proc/self/mountinfo", mount);
            system.file("proc/self/cgroup", group);
            system
        }

        fn file(&self, name: &str, text: &str) {
            let path = self.0.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn available(&self) -> u64 {
            available_below(self.0.path())
        }
    }

    const MOUNT_2: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const MOUNT_1: &str = "31 23 0:27 /job /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";

    #[test]
    fn the_smallest_limit_of_a_hierarchy_of_version_2_counts() {
        let system = System::new(MOUNT_2, "0::/user/job\n");
        assert_eq!(system.available(), 4000 << 10, "no group has a limit");
        system.file("sys/fs/cgroup/user/job/memory.max", "max\n");
        system.file("sys/fs/cgroup/user/job/memory.current", "100\n");
        assert_eq!(system.available(), 4000 << 10, "a group without a limit");
        system.file("sys/fs/cgroup/user/memory.max", "1000000\n");
        system.file("sys/fs/cgroup/user/memory.current", "400000\n");
        assert_eq!(system.available(), 600_000, "the group above has a limit");
        system.file("sys/fs/cgroup/user/memory.stat", "anon 5\ninactive_file 300000\n");
        assert_eq!(system.available(), 900_000, "inactive page cache is available");
        system.file("sys/fs/cgroup/user/memory.high", "500000\n");
        assert_eq!(system.available(), 400_000, "above memory.high the group is throttled");
        system.file("sys/fs/cgroup/user/job/memory.max", "50\n");
        assert_eq!(system.available(), 0, "more in use than allowed");
    }

    #[test]
    fn a_hierarchy_of_version_1_is_found_in_a_container() {
        let groups = "9:name=systemd:/\n4:cpu,memory:/job/step\n0::/\n";
        let system = System::new(&format!("{MOUNT_1}{MOUNT_2}"), groups);
        system.file("sys/fs/cgroup/memory/step/memory.limit_in_bytes", "9223372036854771712\n");
        system.file("sys/fs/cgroup/memory/step/memory.usage_in_bytes", "1000\n");
        assert_eq!(system.available(), 4000 << 10);
        system.file("sys/fs/cgroup/memory/memory.limit_in_bytes", "3000\n");
        system.file("sys/fs/cgroup/memory/memory.usage_in_bytes", "2500\n");
        system.file("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 500\n");
        assert_eq!(system.available(), 1000);
        // The path of another namespace: the mount point is the group.
        system.file("proc/self/cgroup", "4:memory:/elsewhere/step\n");
        assert_eq!(system.available(), 1000);
    }

    #[test]
    fn available_memory_of_this_system_is_stable() {
        let (one, other) = (available_memory(), available_memory());
        assert!(one > 1 << 20 && one.abs_diff(other) < one / 2, "{one} {other}");
        assert_eq!(available_below(Path::new("/nonexistent")), UNKNOWN);
    }
}
