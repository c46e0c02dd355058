//! Check of settings in the environment: invalid values are reported at the first file, with the valid forms.

pub(crate) mod file_name;

use std::ffi::OsString;
use std::path::Path;
use std::sync::Once;

use aqueduct_comm::Comm;
use aqueduct_file::Capacity;

use crate::diagnostics;
use crate::settings::file_name::PathMap;

/// A variable, its valid forms, and a check of a value.
type Setting = (&'static str, &'static str, fn(&str) -> bool);

const SETTINGS: [Setting; 6] = [
    ("AQUEDUCT_BUFFER", Capacity::FORMS, |text| text.parse::<Capacity>().is_ok()),
    ("AQUEDUCT_SPILL", "the path of a folder", |text| Path::new(text).is_dir()),
    ("AQUEDUCT_SPILL_SIZE", "a size such as 1GiB", is_size),
    ("AQUEDUCT_MAP", PathMap::FORMS, |text| PathMap::parse(text).is_some()),
    ("AQUEDUCT_BUFFER_NODES", "1 to buffer between machines too, or 0", |text| ["0", "1"].contains(&text)),
    ("AQUEDUCT_URING", "off to do without io_uring, or on", |text| ["off", "on"].contains(&text)),
];

fn is_size(text: &str) -> bool {
    !text.trim().ends_with('%') && text.parse::<Capacity>().is_ok()
}

/// The value of a variable that is not empty.
pub(crate) fn value(variable: &str) -> Option<OsString> {
    std::env::var_os(variable).filter(|value| !value.is_empty())
}

/// The value of one of the variables above, if it is valid.
pub(crate) fn valid(variable: &str) -> Option<String> {
    let value = value(variable)?.into_string().ok()?;
    let setting = SETTINGS.iter().find(|(known, _, _)| *known == variable);
    setting.is_none_or(|(_, _, accepts)| accepts(&value)).then_some(value)
}

/// Reports invalid values once, on the first rank of each machine.
pub(crate) fn check(ranks: &Comm) {
    static CHECKED: Once = Once::new();
    CHECKED.call_once(|| {
        let node = ranks.ranks_of_node(ranks.node_of(ranks.rank()));
        if node.first() == Some(&ranks.rank()) {
            wrong().iter().for_each(|text| diagnostics::print_line(text));
        }
    });
}

fn wrong() -> Vec<String> {
    let of = |(variable, forms, accepts): &Setting| {
        // The device itself reports its variable when it is used.
        let is_uring =
            || value("AQUEDUCT_DEVICE").is_some_and(|device| device.to_string_lossy().contains("uring"));
        let value = value(variable).filter(|_| *variable != "AQUEDUCT_URING" || !is_uring())?;
        let is_valid = value.to_str().is_some_and(accepts);
        let text = || format!("{variable}={} has no effect: it takes {forms}", value.display());
        (!is_valid).then(text)
    };
    let device = value("AQUEDUCT_DEVICE").and_then(|value| {
        let error = aqueduct_file::check_name(crate::settings::file_name::probe(&value)).err()?;
        let forms =
            "a wrapper such as fault=write=#3, throttle=200MB/s, crash, or a device: ufs, uring, memfs";
        Some(format!(
            "AQUEDUCT_DEVICE={} is invalid, and no file can be opened: it takes {forms} ({error})",
            value.display()
        ))
    });
    SETTINGS.iter().filter_map(of).chain(device).collect()
}
