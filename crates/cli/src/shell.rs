//! Completions for shells, and man pages.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::CommandFactory;

use crate::{CommandLine, standard_output};

#[derive(clap::Args)]
pub(crate) struct CompletionArguments {
    /// The shell
    shell: clap_complete::Shell,
}

#[derive(clap::Args)]
pub(crate) struct ManualArguments {
    /// The folder in which the pages are written: aqueduct.1, aqueduct-inspect.1, …
    folder: PathBuf,
}

/// Prints the completions for a shell.
pub(crate) fn print_completions(arguments: &CompletionArguments) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut CommandLine::command(), "aqueduct", &mut text);
    Ok(standard_output::print(&String::from_utf8_lossy(&text))?)
}

/// Writes a page for each command.
pub(crate) fn write_manual(arguments: &ManualArguments) -> Result<()> {
    let folder = &arguments.folder;
    std::fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let mut command = CommandLine::command();
    command.build();
    write_pages(&command, folder)
}

fn write_pages(command: &clap::Command, folder: &Path) -> Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let path = folder.join(format!("{name}.1"));
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    std::fs::write(&path, page).with_context(|| format!("writing {}", path.display()))?;
    let shown = command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help");
    shown.into_iter().try_for_each(|inner| write_pages(inner, folder))
}
