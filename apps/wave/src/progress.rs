//! The progress of a run: a bar on a terminal, lines elsewhere.

use std::io::{IsTerminal, Write, stderr, stdout};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use indicatif::{ProgressBar, ProgressStyle};

use crate::report::date;

/// The progress of rank 0.
pub struct WaveProgress {
    bar: Option<ProgressBar>,
    shown: bool,
    begin: Instant,
    first: u64,
    steps: u64,
    interval: u64,
}

impl WaveProgress {
    /// Progress from a step to the last one, reported every so many per cent.
    pub fn new(shown: bool, first: u64, steps: u64, percent: u64) -> Self {
        let bar = (shown && stderr().is_terminal()).then(|| ProgressBar::new(steps - first.min(steps)));
        let style = "{elapsed_precise} [{bar:40}] {percent} %, {pos}/{len} steps, {per_sec}, {eta} left";
        if let (Some(bar), Ok(style)) = (&bar, ProgressStyle::with_template(style)) {
            bar.set_style(style.progress_chars("=> "));
        }
        let interval = (steps * percent / 100).max(1);
        Self { bar, shown, begin: Instant::now(), first, steps, interval }
    }

    /// Whether a report is due after this number of steps.
    pub fn is_due(&self, steps: u64) -> bool {
        steps.is_multiple_of(self.interval) || steps == self.steps
    }

    /// A step was made.
    pub fn step(&self, steps: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(1);
        } else if self.shown && self.is_due(steps) {
            let elapsed = self.begin.elapsed();
            let made = (steps - self.first).max(1);
            let left = elapsed.mul_f64((self.steps - steps) as f64 / made as f64);
            let end = SystemTime::now() + left;
            let end = end.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            let percent = 100 * steps / self.steps.max(1);
            print_line(&format!(
                "{percent:3} %  elapsed {}  to go {}  end {}  {steps}/{} steps",
                clock(elapsed),
                clock(left),
                date(end),
                self.steps
            ));
        }
    }

    /// Prints a line.
    pub fn print(&self, line: &str) {
        match &self.bar {
            _ if !self.shown => {}
            Some(bar) => bar.suspend(|| print_line(line)),
            None => print_line(line),
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Prints a line on the standard output. The run continues if the reader has closed it.
pub fn print_line(line: &str) {
    let _ = writeln!(stdout(), "{line}");
}
