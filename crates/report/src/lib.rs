//! Warnings and reports of the Aqueduct crates: on the standard error stream, or as events of the crate `tracing`.
//!
//! ```
//! use aqueduct_report::{Report, ReportSource};
//!
//! if aqueduct_report::is_enabled() {
//!     Report::new(ReportSource::File).file("a.bin").emit(&"4 ranks wrote 100 bytes");
//! }
//! Report::new(ReportSource::Device).warn(&"io_uring is not available; the device uring works as ufs");
//! ```
//!
//! | | without a subscriber, or without the feature `tracing` | with a subscriber |
//! |---|---|---|
//! | [`Report::warn`] | a line on the standard error stream | an event at level WARN |
//! | [`Report::emit`] | a line if `AQUEDUCT_VERBOSE` is set and not 0 | an event at level INFO |
//!
//! A line is written by one call, because other processes write to the same stream.

use std::fmt::Display;
use std::io::Write;
use std::sync::OnceLock;
use std::time::Duration;

/// The crate that reports: the target of its `tracing` events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportSource {
    /// Target `aqueduct_comm`.
    Comm,
    /// Target `aqueduct_device`.
    Device,
    /// Target `aqueduct_file`.
    File,
    /// Target `aqueduct_stream`.
    Stream,
    /// Target `aqueduct_checkpoint`.
    Checkpoint,
    /// Target `aqueduct_mpiio`.
    Mpiio,
}

/// The context of a warning or a report.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "tracing"), allow(dead_code, reason = "some fields are for events only"))]
pub struct Report<'a> {
    component: ReportSource,
    file: Option<&'a str>,
    strategy: Option<&'a str>,
    estimate: Option<Duration>,
}

/// True if reports are shown: a subscriber takes events at level INFO, or `AQUEDUCT_VERBOSE` is set and not 0.
pub fn is_enabled() -> bool {
    static VERBOSE: OnceLock<bool> = OnceLock::new();
    #[cfg(feature = "tracing")]
    if has_subscriber() {
        return tracing::level_filters::LevelFilter::current() >= tracing::level_filters::LevelFilter::INFO;
    }
    let ask = || std::env::var_os("AQUEDUCT_VERBOSE").is_some_and(|value| !value.is_empty() && value != "0");
    *VERBOSE.get_or_init(ask)
}

/// True if the program has a subscriber for `tracing` events. Without one, lines go to the standard error stream.
#[cfg(feature = "tracing")]
fn has_subscriber() -> bool {
    tracing::dispatcher::has_been_set()
}

impl<'a> Report<'a> {
    /// A report of a crate.
    pub fn new(component: ReportSource) -> Self {
        Self { component, file: None, strategy: None, estimate: None }
    }

    /// The file that it is about. A line starts with its name.
    #[must_use]
    pub fn file(self, name: &'a str) -> Self {
        Self { file: Some(name), ..self }
    }

    /// The strategy of an access and its estimated time: fields of the event. A line has only the message.
    #[must_use]
    pub fn strategy(self, name: &'a str, estimate: Option<Duration>) -> Self {
        Self { strategy: Some(name), estimate, ..self }
    }

    /// A report, which is shown if reports are [enabled](is_enabled).
    pub fn emit(self, message: &dyn Display) {
        if !is_enabled() {
            return;
        }
        #[cfg(feature = "tracing")]
        if has_subscriber() {
            return self.event_info(message);
        }
        self.print(message);
    }

    /// A warning, which is always shown.
    pub fn warn(self, message: &dyn Display) {
        #[cfg(feature = "tracing")]
        if has_subscriber() {
            return self.event_warn(message);
        }
        self.print(message);
    }

    fn print(self, message: &dyn Display) {
        let line = match self.file {
            Some(file) => format!("aqueduct: {file}: {message}\n"),
            None => format!("aqueduct: {message}\n"),
        };
        // A closed stream is no reason to fail.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

/// Events of one level: the target is part of the static metadata of an event, so that each target needs its own.
#[cfg(feature = "tracing")]
macro_rules! events {
    ($name:ident, $level:ident: $($component:ident => $target:literal),*) => {
        impl Report<'_> {
            fn $name(self, message: &dyn Display) {
                let Self { component, file, strategy, estimate } = self;
                let estimate_ns = estimate.map(|estimate| estimate.as_nanos() as u64);
                match component {
                    $(ReportSource::$component => tracing::$level!(target: $target, file, strategy, estimate_ns, "{message}"),)*
                }
            }
        }
    };
}

#[cfg(feature = "tracing")]
macro_rules! events_of_all_components {
    ($($name:ident, $level:ident);*) => {
        $(events!($name, $level:
            Comm => "aqueduct_comm",
            Device => "aqueduct_device",
            File => "aqueduct_file",
            Stream => "aqueduct_stream",
            Checkpoint => "aqueduct_checkpoint",
            Mpiio => "aqueduct_mpiio"
        );)*
    };
}

#[cfg(feature = "tracing")]
events_of_all_components!(event_info, info; event_warn, warn);
