//! Conversion of file names of MPI programs: paths, some with a file system prefix, become names of the engine.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::settings;

/// File system prefixes of other MPI-IO implementations: all of them mean a file of the operating system.
const FILE_SYSTEMS: [&str; 12] =
    ["nfs", "lustre", "gpfs", "panfs", "pvfs2", "xfs", "hfs", "sfs", "piofs", "pfs", "beegfs", "testfs"];

/// Devices and wrappers of the engine, which a program or its user may name.
const DEVICES: [&str; 7] = ["ufs", "uring", "memfs", "fault", "throttle", "trace", "crash"];

/// Those that are no wrappers.
const BASES: [&str; 3] = ["ufs", "uring", "memfs"];

/// The prefixes added to every name: wrappers from the environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceWrappers {
    /// From `AQUEDUCT_DEVICE`: such as `fault=write=#3` or `throttle=200MB/s`.
    pub(crate) device: String,
    /// From `AQUEDUCT_TRACE`: a folder.
    pub(crate) trace: Option<OsString>,
}

impl DeviceWrappers {
    pub(crate) fn from_env() -> Self {
        let device = settings::value("AQUEDUCT_DEVICE").map(|value| value.to_string_lossy().into_owned());
        Self { device: device.unwrap_or_default(), trace: settings::valid("AQUEDUCT_TRACE").map(Into::into) }
    }

    /// True if the last of them is a device, which replaces the default one.
    fn ends_in_a_device(&self) -> bool {
        let last = self.device.trim_end_matches(':').rsplit(':').next().unwrap_or_default();
        BASES.contains(&last)
    }
}

/// A name with these wrappers, to check them.
pub(crate) fn probe(device: &OsStr) -> OsString {
    let wrappers = DeviceWrappers { device: device.to_string_lossy().into_owned(), trace: None };
    resolve("probe".as_ref(), &wrappers)
}

/// The engine's name of the file that a program calls `name`: the same on all ranks.
pub(crate) fn resolve(name: &OsStr, wrappers: &DeviceWrappers) -> OsString {
    let bytes = name.as_bytes();
    let head = bytes.iter().position(|byte| *byte == b':').map(|colon| &bytes[..colon]);
    let word = head.map(|head| head.split(|byte| *byte == b'=').next().unwrap_or(head));
    let known = |words: &[&str]| word.is_some_and(|word| words.iter().any(|known| known.as_bytes() == word));
    let plain: Vec<u8> = if known(&DEVICES) {
        bytes.to_vec()
    } else if known(&FILE_SYSTEMS) {
        [b"ufs:", &bytes[head.map_or(0, <[u8]>::len) + 1..]].concat()
    } else {
        [b"ufs:", bytes].concat()
    };
    let mut whole = Vec::new();
    if let Some(folder) = &wrappers.trace {
        whole.extend_from_slice(b"trace=");
        whole.extend_from_slice(folder.as_bytes());
        // One file per process, named by its id; events contain the rank.
        whole.extend_from_slice(b"/%p.csv:");
    }
    if !wrappers.device.is_empty() {
        whole.extend_from_slice(wrappers.device.trim_end_matches(':').as_bytes());
        whole.push(b':');
    }
    let plain =
        if wrappers.ends_in_a_device() { plain.strip_prefix(b"ufs:").unwrap_or(&plain) } else { &plain };
    whole.extend_from_slice(plain);
    OsString::from_vec(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(name: &str) -> String {
        resolve(name.as_ref(), &DeviceWrappers::default()).into_string().unwrap()
    }

    #[test]
    fn plain_names_are_paths_with_any_characters() {
        assert_eq!(resolved("out.bin"), "ufs:out.bin");
        assert_eq!(resolved("/a:b"), "ufs:/a:b");
        assert_eq!(resolved("run:7"), "ufs:run:7");
    }

    #[test]
    fn file_system_prefixes_are_removed_and_device_prefixes_kept() {
        assert_eq!(resolved("lustre:/scratch/out"), "ufs:/scratch/out");
        assert_eq!(resolved("ufs:out"), "ufs:out");
        assert_eq!(resolved("throttle=1MB/s:out"), "throttle=1MB/s:out");
    }

    #[test]
    fn the_environment_wraps_every_file() {
        let wrappers = DeviceWrappers { device: "fault=write=#3".to_owned(), trace: Some("t".into()) };
        let name = resolve("out".as_ref(), &wrappers).into_string().unwrap();
        assert_eq!(name, "trace=t/%p.csv:fault=write=#3:ufs:out");
    }

    #[test]
    fn a_device_from_the_environment_replaces_the_default_one() {
        for (device, expected) in [
            ("uring", "uring:out"),
            ("uring:", "uring:out"),
            ("throttle=1MB/s:uring", "throttle=1MB/s:uring:out"),
            ("throttle=1MB/s", "throttle=1MB/s:ufs:out"),
        ] {
            let wrappers = DeviceWrappers { device: device.to_owned(), trace: None };
            assert_eq!(resolve("out".as_ref(), &wrappers), expected, "{device}");
            assert_eq!(resolve("nfs:out".as_ref(), &wrappers), expected, "{device}");
        }
    }
}
