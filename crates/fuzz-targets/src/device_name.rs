//! Device names with the parameters of layers, and quantities. Nothing is opened.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use aqueduct_device::Registry;
use aqueduct_device::name::DeviceName;
use aqueduct_device::units::{ByteRate, ByteSize};

use crate::FuzzTarget;

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    name: "device_name",
    run,
    seeds,
    words: &[
        "fault=",
        "throttle=",
        "trace:",
        "crash=",
        "ufs:",
        "memfs:",
        "uring:",
        "seed=7,",
        "write=0.5,",
        "after=17,",
        "1e999",
        "200MB/s",
        "1ms",
        "99999999999GiB",
        "-1",
        "inf",
        "nan",
        "@",
        "..",
        "\u{e4}",
    ],
};

fn run(input: &[u8]) -> bool {
    let name = OsStr::from_bytes(input);
    // A new registry: it keeps chains of layers as long as it exists.
    let resolved = Registry::standard().resolve(name);
    match &resolved {
        Ok((_, path)) => {
            assert!(input.ends_with(path.as_bytes()), "{} is not the end of the name", path.display());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(parsed) = DeviceName::parse(name, |prefix| prefix.len() > 4) {
        let layers = parsed.wrappers.iter().map(|segment| segment.text().len() + 1).sum::<usize>();
        assert!(layers + parsed.path.len() <= name.len() + 1, "{parsed:?} is longer than {}", name.display());
    }
    if let Ok(text) = std::str::from_utf8(input) {
        let _ = (text.parse::<ByteSize>(), text.parse::<ByteRate>());
    }
    resolved.is_ok()
}

fn seeds() -> Vec<Vec<u8>> {
    let names = [
        "out.bin",
        "trace=ops.csv:throttle=200MB/s,1ms:memfs:run7",
        "fault=seed=7,write=0.1,short=0.3,delay=40us@0.5:ufs:a:b",
        "crash=after=17,seed=3:uring:./a:b",
        "256MiB",
        "2.5GB/s",
    ];
    let layered = "trace:".repeat(60) + "memfs:x";
    names.into_iter().chain([layered.as_str()]).map(|name| name.as_bytes().to_vec()).collect()
}
