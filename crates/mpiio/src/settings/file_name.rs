//! Conversion of file names of MPI programs: paths, some with a file system prefix, become names of the engine.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use aqueduct_file::PrefixKind;

use crate::settings;

/// File system prefixes of other MPI-IO implementations: all of them mean a file of the operating system.
const FILE_SYSTEMS: [&str; 12] =
    ["nfs", "lustre", "gpfs", "panfs", "pvfs2", "xfs", "hfs", "sfs", "piofs", "pfs", "beegfs", "testfs"];

/// The prefixes added to every name: wrappers from the environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceWrappers {
    /// From `AQUEDUCT_DEVICE`: such as `fault=write=#3` or `throttle=200MB/s`.
    pub(crate) device: String,
    /// From `AQUEDUCT_MAP`: folders, and what names below them begin with instead.
    pub(crate) map: PathMap,
}

/// Folders whose files have other names in the engine: `AQUEDUCT_MAP=/scratch/run=tunnel:/run;/data=memfs:`.
#[derive(Clone, Debug, Default)]
pub(crate) struct PathMap(Vec<(PathBuf, String)>);

impl PathMap {
    pub(crate) const FORMS: &'static str = "absolute folders and the names that replace them, such as /scratch/run=tunnel:/run, separated by semicolons";

    /// Reads the text of the variable; none if it is malformed or a name has no known prefix.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let entry = |part: &str| {
            let (folder, name) = part.split_once('=')?;
            let is_valid = folder.starts_with('/') && aqueduct_file::check_name(format!("{name}x")).is_ok();
            (is_valid && has_prefix(name.as_bytes())).then(|| (PathBuf::from(folder), name.to_owned()))
        };
        text.split(';')
            .filter(|part| !part.trim().is_empty())
            .map(|part| entry(part.trim()))
            .collect::<Option<_>>()
            .map(Self)
    }

    /// The name that replaces a path, by the longest folder that contains it. A relative path is below the working directory.
    fn replace(&self, path: &OsStr) -> Option<OsString> {
        let whole = std::path::absolute(Path::new(path)).ok()?;
        let entries =
            self.0.iter().filter_map(|(folder, name)| Some((folder, name, whole.strip_prefix(folder).ok()?)));
        let (_, name, rest) = entries.max_by_key(|(folder, _, _)| folder.components().count())?;
        let mut replaced = OsString::from(name);
        if !rest.as_os_str().is_empty() {
            if !name.ends_with([':', '/']) {
                replaced.push("/");
            }
            replaced.push(rest);
        }
        Some(replaced)
    }
}

/// What the first prefix of a name means to the engine, whatever its parameters are.
fn kind_of_prefix(name: &[u8]) -> Option<PrefixKind> {
    let head = name.split(|byte| *byte == b':').next().filter(|head| head.len() < name.len())?;
    let word = head.split(|byte| *byte == b'=').next()?;
    aqueduct_file::prefix_kind(std::str::from_utf8(word).ok()?)
}

fn has_prefix(name: &[u8]) -> bool {
    kind_of_prefix(name).is_some()
}

impl DeviceWrappers {
    pub(crate) fn from_env() -> Self {
        let device = settings::value("AQUEDUCT_DEVICE").map(|value| value.to_string_lossy().into_owned());
        let map = settings::valid("AQUEDUCT_MAP").and_then(|text| PathMap::parse(&text)).unwrap_or_default();
        Self { device: device.unwrap_or_default(), map }
    }

    /// True if the last of them is a device, which replaces the default one.
    fn ends_in_a_device(&self) -> bool {
        let last = self.device.trim_end_matches(':').rsplit(':').next().unwrap_or_default();
        kind_of_prefix(format!("{last}:").as_bytes()) == Some(PrefixKind::Device)
    }
}

/// A name with these wrappers, to check them.
pub(crate) fn probe(device: &OsStr) -> OsString {
    let wrappers =
        DeviceWrappers { device: device.to_string_lossy().into_owned(), ..DeviceWrappers::default() };
    resolve("probe".as_ref(), &wrappers)
}

/// The engine's name of the file that a program calls `name`: the same on all ranks.
pub(crate) fn resolve(name: &OsStr, wrappers: &DeviceWrappers) -> OsString {
    let bytes = name.as_bytes();
    let head = bytes.iter().position(|byte| *byte == b':').map(|colon| &bytes[..colon]);
    let is_file_system = head.is_some_and(|head| FILE_SYSTEMS.iter().any(|known| known.as_bytes() == head));
    let path = if is_file_system { &bytes[head.map_or(0, <[u8]>::len) + 1..] } else { bytes };
    let plain: Vec<u8> = if has_prefix(bytes) && !is_file_system {
        bytes.to_vec()
    } else if let Some(mapped) = wrappers.map.replace(OsStr::from_bytes(path)) {
        mapped.into_vec()
    } else {
        [b"ufs:", path].concat()
    };
    let mut whole = Vec::new();
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
        let wrappers = DeviceWrappers { device: "fault=write=#3".to_owned(), ..DeviceWrappers::default() };
        let name = resolve("out".as_ref(), &wrappers).into_string().unwrap();
        assert_eq!(name, "fault=write=#3:ufs:out");
    }

    #[test]
    fn a_device_from_the_environment_replaces_the_default_one() {
        for (device, expected) in [
            ("uring", "uring:out"),
            ("uring:", "uring:out"),
            ("throttle=1MB/s:uring", "throttle=1MB/s:uring:out"),
            ("throttle=1MB/s", "throttle=1MB/s:ufs:out"),
        ] {
            let wrappers = DeviceWrappers { device: device.to_owned(), ..DeviceWrappers::default() };
            assert_eq!(resolve("out".as_ref(), &wrappers), expected, "{device}");
            assert_eq!(resolve("nfs:out".as_ref(), &wrappers), expected, "{device}");
        }
    }

    #[test]
    fn mapped_folders_have_other_names() {
        let map = PathMap::parse("/scratch/run=memfs:r; /scratch=memfs=1MiB:;/data=memfs:d/").unwrap();
        let wrappers = DeviceWrappers { map, ..DeviceWrappers::default() };
        for (name, expected) in [
            ("/scratch/run/a", "memfs:r/a"),
            ("nfs:/scratch/run/a", "memfs:r/a"),
            ("/scratch/running", "memfs=1MiB:running"),
            ("/scratch/run", "memfs:r"),
            ("/data/x/y", "memfs:d/x/y"),
            ("/other/a", "ufs:/other/a"),
            ("ufs:/data/x", "ufs:/data/x"),
        ] {
            assert_eq!(resolve(name.as_ref(), &wrappers), expected, "{name}");
        }
        let below = std::env::current_dir().unwrap();
        let map = PathMap::parse(&format!("{}=memfs:", below.display())).unwrap();
        assert_eq!(
            resolve("a/b".as_ref(), &DeviceWrappers { map, ..DeviceWrappers::default() }),
            "memfs:a/b"
        );
    }

    #[test]
    fn malformed_maps_are_refused() {
        for text in ["/a", "a=memfs:", "/a=floppy:", "/a=plain", "/a=memfs=huge:x", "/a=memfs:;x"] {
            assert!(PathMap::parse(text).is_none(), "{text}");
        }
        assert!(PathMap::parse("").unwrap().0.is_empty());
    }
}
