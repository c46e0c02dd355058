//! Hints: text from programs and sites, parsed once into types.
//!
//! Known hints are the reserved hints of the MPI standard (section 14.2.8 of MPI 4.1), common hints of ROMIO, and hints of this library, which
//! begin with `aqueduct_`. Unknown hints and invalid values are ignored, as the standard requires; [`Hints::info`] returns the hints in force.

mod buffer_options;
mod strategy;

use std::collections::BTreeMap;
use std::sync::Once;

use aqueduct_device::units::ByteSize;
use aqueduct_report::{Report, ReportSource};

pub use buffer_options::{BufferOptions, Capacity};
pub use strategy::Strategy;
pub(crate) use strategy::TransferDirection;

/// Hints as text: keys and values.
///
/// ```
/// use aqueduct_file::Info;
/// let info = Info::from([("cb_nodes", "4"), ("striping_unit", "1048576")]);
/// assert_eq!(info.get("cb_nodes"), Some("4"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "MPI_Info")]
pub struct Info(BTreeMap<String, String>);

impl Info {
    /// No hints.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds or replaces a hint.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.0.insert(key.into(), value.into());
    }

    /// The value of a hint.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// All hints, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// These hints over those: where both have a key, this one's value counts.
    #[must_use]
    pub fn over(&self, below: &Self) -> Self {
        let mut all = below.clone();
        self.iter().for_each(|(key, value)| all.set(key, value));
        all
    }

    /// The hints of a file: a key and a value per line, `#` begins a comment.
    pub fn parse(text: &str) -> Self {
        let lines =
            text.lines().filter_map(|line| line.split('#').next()?.trim().split_once(char::is_whitespace));
        lines.map(|(key, value)| (key, value.trim())).collect()
    }

    /// The hints of the files that `AQUEDUCT_HINTS` and `ROMIO_HINTS` name, ours over ROMIO's; none where there are none. A file
    /// that cannot be read is ignored, with one message.
    pub fn from_env() -> Self {
        static SAID: [Once; 2] = [Once::new(), Once::new()];
        let read = |variable, which: usize| {
            let path = std::env::var_os(variable).filter(|path| !path.is_empty())?;
            let text = std::fs::read_to_string(&path).map_err(|error| {
                let path = path.display();
                SAID[which].call_once(|| {
                    let message = format!(
                        "{variable}={path} has no effect, the file cannot be read ({error}): it takes the path of a file with a key and \
                         a value per line"
                    );
                    Report::new(ReportSource::File).warn(&message);
                });
            });
            text.ok().map(|text| Self::parse(&text))
        };
        let ours = read("AQUEDUCT_HINTS", 0).unwrap_or_default();
        ours.over(&read("ROMIO_HINTS", 1).unwrap_or_default())
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for Info {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(hints: I) -> Self {
        Self(hints.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }
}

impl<K: Into<String>, V: Into<String>, const N: usize> From<[(K, V); N]> for Info {
    fn from(hints: [(K, V); N]) -> Self {
        hints.into_iter().collect()
    }
}

/// Whether a method is to be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Toggle {
    /// Always.
    Enable,
    /// Never.
    Disable,
    /// Where it is estimated to be cheaper.
    #[default]
    Automatic,
}

impl Toggle {
    fn name(self) -> &'static str {
        match self {
            Self::Enable => "enable",
            Self::Disable => "disable",
            Self::Automatic => "automatic",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        [Self::Enable, Self::Disable, Self::Automatic].into_iter().find(|toggle| toggle.name() == text)
    }
}

/// Hints in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hints {
    /// Two-phase collective reads (`romio_cb_read`).
    pub collective_read: Toggle,
    /// Two-phase collective writes (`romio_cb_write`, `collective_buffering`).
    pub collective_write: Toggle,
    /// Sieving of independent reads (`romio_ds_read`).
    pub sieve_read: Toggle,
    /// Sieving of independent writes (`romio_ds_write`). Enabled, every write of the file takes a lock.
    pub sieve_write: Toggle,
    /// Bytes of an aggregator's buffer (`cb_buffer_size`).
    pub collective_buffer: u64,
    /// How many ranks aggregate (`cb_nodes`); none = one or two per node.
    pub aggregators: Option<usize>,
    /// Bytes of the buffer of sieved reads (`ind_rd_buffer_size`).
    pub read_buffer: u64,
    /// Bytes of the buffer of sieved writes (`ind_wr_buffer_size`).
    pub write_buffer: u64,
    /// The granule at which file domains are cut (`striping_unit`); none = what the device likes.
    pub stripe: Option<u64>,
    /// Permissions of a new file (`file_perm`, octal).
    pub permissions: u32,
    /// Bypass the page cache (`aqueduct_direct`).
    pub direct: bool,
    /// Start writeback of written data while the program continues (`aqueduct_write_behind`): for a file that is going to be synced.
    pub write_behind: bool,
    /// Access through mapped pages (`aqueduct_map`), where the device has them.
    pub map: bool,
    /// Whether all nodes see the same bytes of the file (`aqueduct_coherent`); none = as known of its file system. Where they do not, ranks on
    /// several nodes lock each access.
    pub coherent: Option<bool>,
    /// One strategy for everything (`aqueduct_strategy`: direct, list, sieve, map, two-phase); none = by cost.
    pub strategy: Option<Strategy>,
    /// Memory of each rank that writes are copied into (`aqueduct_buffer`: `256MiB`, or `25%` of what is free), with a folder for what does
    /// not fit (`aqueduct_spill`) and a limit for it (`aqueduct_spill_size`); none = not buffered.
    pub buffered: Option<BufferOptions>,
    /// Memory for reading ahead in a file that is only read (`aqueduct_prefetch`); 0 = nothing is read ahead.
    pub prefetch: u64,
}

impl Default for Hints {
    fn default() -> Self {
        Self {
            collective_read: Toggle::Automatic,
            collective_write: Toggle::Automatic,
            sieve_read: Toggle::Automatic,
            sieve_write: Toggle::Automatic,
            collective_buffer: 4 << 20,
            aggregators: None,
            read_buffer: 4 << 20,
            write_buffer: 512 << 10,
            stripe: None,
            permissions: 0o644,
            direct: false,
            write_behind: false,
            map: true,
            coherent: None,
            strategy: None,
            buffered: None,
            prefetch: 0,
        }
    }
}

impl Hints {
    /// The hint for two-phase I/O in a direction.
    pub(crate) fn collective(&self, direction: TransferDirection) -> Toggle {
        match direction {
            TransferDirection::Read => self.collective_read,
            TransferDirection::Write => self.collective_write,
        }
    }

    /// True if writes may read, change and write back bytes of others.
    pub(crate) fn sieves_writes(&self) -> bool {
        self.strategy == Some(Strategy::Sieve) || self.sieve_write == Toggle::Enable
    }

    /// True if the strategy of a collective access is left to the planner.
    pub(crate) fn leaves_open(&self, direction: TransferDirection) -> bool {
        self.strategy.is_none() && self.collective(direction) == Toggle::Automatic
    }

    /// The hints in force under `info`.
    pub fn parse(info: &Info) -> Self {
        let mut hints = Self::default();
        if let Some(both) = info.get("collective_buffering").and_then(flag) {
            let toggle = if both { Toggle::Enable } else { Toggle::Disable };
            (hints.collective_read, hints.collective_write) = (toggle, toggle);
        }
        let toggle = |key: &str, into: &mut Toggle| {
            *into = info.get(key).and_then(Toggle::parse).unwrap_or(*into);
        };
        toggle("romio_cb_read", &mut hints.collective_read);
        toggle("romio_cb_write", &mut hints.collective_write);
        toggle("romio_ds_read", &mut hints.sieve_read);
        toggle("romio_ds_write", &mut hints.sieve_write);
        let bytes = |key: &str, into: &mut u64| {
            *into = info.get(key).and_then(size).unwrap_or(*into);
        };
        bytes("cb_buffer_size", &mut hints.collective_buffer);
        bytes("ind_rd_buffer_size", &mut hints.read_buffer);
        bytes("ind_wr_buffer_size", &mut hints.write_buffer);
        hints.aggregators = info.get("cb_nodes").and_then(positive);
        hints.stripe = info.get("striping_unit").and_then(size);
        hints.permissions = info.get("file_perm").and_then(octal).unwrap_or(hints.permissions);
        hints.direct = info.get("aqueduct_direct").and_then(flag).unwrap_or(false);
        hints.write_behind = info.get("aqueduct_write_behind").and_then(flag).unwrap_or(false);
        hints.map = info.get("aqueduct_map").and_then(flag).unwrap_or(true);
        hints.coherent = info.get("aqueduct_coherent").and_then(flag);
        hints.strategy = info.get("aqueduct_strategy").and_then(Strategy::parse);
        hints.buffered = buffered(info);
        let prefetch = info.get("aqueduct_prefetch").and_then(|text| text.parse().ok());
        hints.prefetch = prefetch.map_or(0, |ByteSize(bytes)| bytes);
        hints
    }

    /// Disables strategies that read before they write: for a file that may only be written.
    pub(crate) fn disable_reads(&mut self) {
        self.sieve_write = Toggle::Disable;
        self.strategy = self.strategy.filter(|strategy| !matches!(strategy, Strategy::Sieve | Strategy::Map));
        (self.map, self.direct) = (false, false);
    }

    /// Known hints with invalid values: key, value, the form of a valid value.
    pub fn objections(info: &Info) -> Vec<(&str, &str, &'static str)> {
        let known = |key: &str| KNOWN.iter().find(|(known, _, _)| *known == key);
        let wrong = info.iter().filter_map(|(key, value)| {
            let (_, form, accepts) = known(key)?;
            (!accepts(value)).then_some((key, value, *form))
        });
        wrong.collect()
    }

    /// What is in force as one text, for comparing.
    pub(crate) fn info_text(&self) -> String {
        format!("{:?}", self.info())
    }

    /// What is in force, as text; hints that are unknown are left out.
    pub fn info(&self) -> Info {
        let mut info = Info::from([
            ("romio_cb_read", self.collective_read.name().to_owned()),
            ("romio_cb_write", self.collective_write.name().to_owned()),
            ("romio_ds_read", self.sieve_read.name().to_owned()),
            ("romio_ds_write", self.sieve_write.name().to_owned()),
            ("cb_buffer_size", self.collective_buffer.to_string()),
            ("ind_rd_buffer_size", self.read_buffer.to_string()),
            ("ind_wr_buffer_size", self.write_buffer.to_string()),
            ("file_perm", format!("{:o}", self.permissions)),
            ("aqueduct_direct", self.direct.to_string()),
            ("aqueduct_write_behind", self.write_behind.to_string()),
            ("aqueduct_map", self.map.to_string()),
        ]);
        let known = [
            ("cb_nodes", self.aggregators.map(|ranks| ranks.to_string())),
            ("striping_unit", self.stripe.map(|bytes| bytes.to_string())),
            ("aqueduct_coherent", self.coherent.map(|coherent| coherent.to_string())),
            ("aqueduct_strategy", self.strategy.map(|strategy| strategy.name().to_owned())),
            ("aqueduct_prefetch", (self.prefetch > 0).then(|| self.prefetch.to_string())),
        ];
        let buffered = self.buffered.as_ref();
        let spill = buffered.and_then(|buffered| buffered.spill.as_ref());
        let buffering = [
            ("aqueduct_buffer", buffered.map(|buffered| buffered.memory.to_string())),
            ("aqueduct_spill", spill.map(|folder| folder.to_string_lossy().into_owned())),
            (
                "aqueduct_spill_size",
                buffered.and_then(|buffered| buffered.spill_size).map(|bytes| bytes.to_string()),
            ),
        ];
        for (key, value) in known.into_iter().chain(buffering) {
            if let Some(value) = value {
                info.set(key, value);
            }
        }
        info
    }
}

/// Known hints: key, the form of a value, and whether a text is one.
type KnownHint = (&'static str, &'static str, fn(&str) -> bool);

const KNOWN: [KnownHint; 22] = {
    const TOGGLE: &str = "enable, disable or automatic";
    const SIZE: &str = "a size above 0 such as 65536 or 16MiB";
    const FLAG: &str = "true or false";
    const fn toggle(key: &'static str) -> KnownHint {
        (key, TOGGLE, |text| Toggle::parse(text).is_some())
    }
    const fn flags(key: &'static str) -> KnownHint {
        (key, FLAG, |text| flag(text).is_some())
    }
    const fn sizes(key: &'static str) -> KnownHint {
        (key, SIZE, |text| size(text).is_some())
    }
    const fn any(key: &'static str) -> KnownHint {
        (key, "", |_| true)
    }
    [
        toggle("romio_cb_read"),
        toggle("romio_cb_write"),
        toggle("romio_ds_read"),
        toggle("romio_ds_write"),
        flags("collective_buffering"),
        flags("aqueduct_direct"),
        flags("aqueduct_write_behind"),
        flags("aqueduct_map"),
        flags("aqueduct_coherent"),
        sizes("cb_buffer_size"),
        sizes("ind_rd_buffer_size"),
        sizes("ind_wr_buffer_size"),
        sizes("striping_unit"),
        ("cb_nodes", "a number of ranks above 0", |text| positive(text).is_some()),
        ("file_perm", "octal permissions such as 644", |text| octal(text).is_some()),
        ("aqueduct_strategy", "direct, list, sieve, map or two-phase", |text| {
            Strategy::parse(text).is_some()
        }),
        ("aqueduct_buffer", Capacity::FORMS, |text| text.parse::<Capacity>().is_ok()),
        ("aqueduct_prefetch", "a size such as 64MiB, or 0", |text| text.parse::<ByteSize>().is_ok()),
        ("aqueduct_spill_size", "a size such as 1GiB", |text| text.parse::<ByteSize>().is_ok()),
        any("aqueduct_spill"),
        any("access_style"),
        any("filename"),
    ]
};

/// A size above 0.
fn size(text: &str) -> Option<u64> {
    text.trim().parse().ok().map(|ByteSize(bytes)| bytes).filter(|bytes| *bytes > 0)
}

/// A number above 0.
fn positive(text: &str) -> Option<usize> {
    text.trim().parse().ok().filter(|number| *number > 0)
}

fn octal(text: &str) -> Option<u32> {
    u32::from_str_radix(text.trim().trim_start_matches("0o"), 8).ok()
}

/// How the file is to be buffered; a capacity of nothing means not at all.
fn buffered(info: &Info) -> Option<BufferOptions> {
    let memory = info.get("aqueduct_buffer").and_then(|text| text.parse::<Capacity>().ok());
    let memory = memory.filter(|memory| !matches!(memory, Capacity::Bytes(0) | Capacity::Share(0)))?;
    let spill = info.get("aqueduct_spill").filter(|folder| !folder.is_empty()).map(Into::into);
    let spill_size =
        info.get("aqueduct_spill_size").and_then(|text| text.parse().ok()).map(|ByteSize(bytes)| bytes);
    Some(BufferOptions { memory, spill, spill_size })
}

fn flag(text: &str) -> Option<bool> {
    match text {
        "true" | "enable" | "1" => Some(true),
        "false" | "disable" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_force_parses_to_itself() {
        let info = Info::from([
            ("romio_cb_write", "enable"),
            ("cb_nodes", "3"),
            ("cb_buffer_size", "65536"),
            ("striping_unit", "4096"),
            ("file_perm", "600"),
            ("aqueduct_strategy", "two-phase"),
            ("aqueduct_direct", "true"),
            ("aqueduct_write_behind", "true"),
            ("aqueduct_map", "false"),
            ("aqueduct_coherent", "false"),
            ("aqueduct_buffer", "256MiB"),
            ("aqueduct_spill", "scratch"),
            ("aqueduct_prefetch", "1MiB"),
            ("aqueduct_spill_size", "1GiB"),
        ]);
        let hints = Hints::parse(&info);
        assert_eq!((hints.aggregators, hints.stripe, hints.permissions), (Some(3), Some(4096), 0o600));
        let buffered = BufferOptions::new(Capacity::Bytes(256 << 20)).spill("scratch", Some(1 << 30));
        assert_eq!(hints.buffered, Some(buffered));
        assert_eq!(Hints::parse(&hints.info()), hints);
    }

    #[test]
    fn unknown_hints_and_senseless_values_are_ignored() {
        let info = Info::from([
            ("cb_nodes", "many"),
            ("cb_buffer_size", "0"),
            ("colour", "blue"),
            ("romio_ds_read", "maybe"),
            ("aqueduct_buffer", "0"),
            ("aqueduct_spill", "scratch"),
        ]);
        assert_eq!(Hints::parse(&info), Hints::default());
    }

    #[test]
    fn sizes_may_have_units_and_senseless_values_are_named() {
        let info = Info::from([("cb_buffer_size", "16MiB"), ("striping_unit", "64kB"), ("cb_nodes", "many")]);
        let hints = Hints::parse(&info);
        assert_eq!((hints.collective_buffer, hints.stripe), (16 << 20, Some(64_000)));
        let [(key, value, form)] = Hints::objections(&info)[..] else { panic!("one is wrong") };
        assert_eq!((key, value), ("cb_nodes", "many"));
        assert!(form.contains("number"), "{form}");
        assert_eq!(Hints::objections(&Hints::default().info()), []);
        let info = Info::from([("aqueduct_coherent", "perhaps")]);
        let [(key, ..)] = Hints::objections(&info)[..] else { panic!("it is wrong") };
        assert_eq!(key, "aqueduct_coherent");
    }

    #[test]
    fn the_reserved_hint_means_both_directions() {
        let hints =
            Hints::parse(&Info::from([("collective_buffering", "false"), ("romio_cb_read", "enable")]));
        assert_eq!((hints.collective_read, hints.collective_write), (Toggle::Enable, Toggle::Disable));
    }

    #[test]
    fn a_file_of_hints_has_a_key_and_a_value_per_line() {
        let info = Info::parse("# site\ncb_nodes 2\n\nstriping_unit   4096 # a stripe\nbroken\n");
        assert_eq!(info, Info::from([("cb_nodes", "2"), ("striping_unit", "4096")]));
    }
}
