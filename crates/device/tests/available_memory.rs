//! Available memory follows the limit of a real control group. Skipped with a notice where none can be made.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use aqueduct_device::available_memory;

const LIMIT: u64 = 64 << 20;
const CHILD: &str = "AQUEDUCT_TEST_AVAILABLE_MEMORY_CHILD";

/// A control group with a memory limit, removed when it is dropped.
struct LimitedGroup(PathBuf);

impl LimitedGroup {
    fn new() -> Option<Self> {
        let version_1 = (Path::new("/sys/fs/cgroup/memory"), "memory.limit_in_bytes");
        let version_2 = (Path::new("/sys/fs/cgroup"), "memory.max");
        let hierarchies = [version_1, version_2].into_iter().filter(|(mount, _)| mount.is_dir());
        hierarchies.into_iter().find_map(|(mount, limit)| {
            let group = Self(mount.join(format!("aqueduct-test-{}", std::process::id())));
            fs::create_dir(&group.0).ok()?;
            fs::write(group.0.join(limit), LIMIT.to_string()).ok()?;
            Some(group)
        })
    }
}

impl Drop for LimitedGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn the_limit_of_a_control_group_holds() {
    if std::env::var_os(CHILD).is_some() {
        let available = available_memory();
        assert!(available <= LIMIT && available > 0, "{available} bytes of {LIMIT}");
        return;
    }
    let Some(group) = LimitedGroup::new() else {
        eprintln!("skipped: no memory control group can be made here");
        return;
    };
    assert!(available_memory() > LIMIT, "outside of the group");
    // The shell joins the group and becomes this test.
    let test = std::env::current_exe().unwrap();
    let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$1\" --exact the_limit_of_a_control_group_holds";
    let child = Command::new("sh").args(["-c", script]).arg(&group.0).arg(test).env(CHILD, "1").output();
    let child = child.unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
}
