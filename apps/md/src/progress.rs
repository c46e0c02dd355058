//! A bar that shows how far a run is, where somebody looks.

use std::io::{IsTerminal, Write, stderr, stdout};

use indicatif::{ProgressBar, ProgressStyle};

/// The bar of rank 0, on a terminal; nothing elsewhere.
pub struct RunProgress(Option<ProgressBar>);

impl RunProgress {
    /// From step `from` to step `to`.
    pub fn new(shown: bool, from: u64, to: u64) -> Self {
        if !shown || !stderr().is_terminal() {
            return Self(None);
        }
        let bar = ProgressBar::new(to - from.min(to));
        let style = "{elapsed_precise} [{bar:40}] {pos}/{len} steps, {per_sec}, {eta} left";
        if let Ok(style) = ProgressStyle::with_template(style) {
            bar.set_style(style.progress_chars("=> "));
        }
        Self(Some(bar))
    }

    /// One step more.
    pub fn step(&self) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
        }
    }

    /// A line of output, above the bar.
    pub fn print(&self, line: &str) {
        match &self.0 {
            Some(bar) => bar.suspend(|| print_line(line)),
            None => print_line(line),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// A line on the standard output. A run goes on when nobody reads it any more.
pub fn print_line(line: &str) {
    let _ = writeln!(stdout(), "{line}");
}
