//! The identity of the machine of a process.

/// The identity of this machine and of the PID namespace: ranks with the same identity can attach to each other's memory.
pub(super) fn identity() -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default().hash(&mut hasher);
    std::fs::read_link("/proc/self/ns/pid").unwrap_or_default().hash(&mut hasher);
    rustix::system::uname().nodename().hash(&mut hasher);
    hasher.finish()
}
