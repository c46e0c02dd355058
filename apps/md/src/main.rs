//! The command `md`: Lennard-Jones molecular dynamics on threads or under `mpirun`.

mod command;

use clap::Parser;

fn main() -> anyhow::Result<()> {
    command::run(&command::Command::parse())
}
