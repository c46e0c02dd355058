//! What a terminal gets and a file does not: colours and progress bars.

use std::io::IsTerminal;

use anstyle::{AnsiColor, Style};
use aqueduct::comm::Comm;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::particle_run::is_launched;

/// The meaning of coloured text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextRole {
    Name,
    Good,
    Bad,
    Uncertain,
    Faint,
}

/// Colours the text of the standard output stream if that is a terminal, unless `NO_COLOR` is set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    is_on: bool,
}

impl Palette {
    pub(crate) fn of_stdout() -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        // Launchers of MPI programs connect the output of ranks to a pseudo-terminal, and to a file or a pipe themselves.
        let is_terminal = std::io::stdout().is_terminal() && !is_launched();
        Self { is_on: is_terminal && !is_set("NO_COLOR") && !is_dumb }
    }

    pub(crate) fn paint(self, role: TextRole, text: &str) -> String {
        let style = match role {
            TextRole::Name => Style::new().bold(),
            TextRole::Good => AnsiColor::Green.on_default(),
            TextRole::Bad => AnsiColor::Red.on_default().bold(),
            TextRole::Uncertain => AnsiColor::Yellow.on_default(),
            TextRole::Faint => Style::new().dimmed(),
        };
        if self.is_on { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

/// A bar for so many bytes, which rank 0 shows on the standard error stream if that is a terminal.
pub(crate) fn progress_bar(world: &Comm, bytes: u64) -> ProgressBar {
    let is_shown = world.rank() == 0 && !is_launched();
    let target = if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let style = ProgressStyle::with_template("{bar:40} {percent:>3} % {binary_bytes_per_sec} {eta}");
    ProgressBar::with_draw_target(Some(bytes), target)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
