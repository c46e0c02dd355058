//! The progress bar of a run on a terminal.

use std::io::{IsTerminal, Write, stderr, stdout};

use indicatif::{ProgressBar, ProgressStyle};

/// The progress bar of rank 0 on a terminal; otherwise nothing is shown.
pub struct RunProgress(Option<ProgressBar>);

impl RunProgress {
    /// A progress bar from step `from` to step `to`.
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

    /// Advances by one step.
    pub fn step(&self) {
        if let Some(bar) = &self.0 {
            bar.inc(1);
        }
    }

    /// Prints a line above the bar.
    pub fn print(&self, line: &str) {
        match &self.0 {
            Some(bar) => bar.suspend(|| print_line(line)),
            None => print_line(line),
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// Prints a line on the standard output. The run continues if the reader has closed it.
pub fn print_line(line: &str) {
    let _ = writeln!(stdout(), "{line}");
}
