//! The measurements as a table and as CSV.

use std::fmt::Write as _;

use aqueduct::comm::Comm;

use super::mode_run::ModeResult;
use super::{OverlapArguments, OverlapMode};

/// The fastest run of every mode, in the order in which they ran.
pub(crate) fn fastest(trials: &[ModeResult]) -> Vec<&ModeResult> {
    let mut best: Vec<&ModeResult> = Vec::new();
    for trial in trials {
        match best.iter_mut().find(|best| best.mode == trial.mode) {
            Some(best) if best.seconds > trial.seconds => *best = trial,
            Some(_) => {}
            None => best.push(trial),
        }
    }
    best
}

pub(crate) fn table(world: &Comm, arguments: &OverlapArguments, trials: &[ModeResult]) -> String {
    let mut text = String::new();
    let (ranks, nodes) = (world.size(), world.node_count());
    let megabytes = arguments.bytes() as f64 / 1e6;
    let _ = writeln!(text, "{ranks} ranks on {nodes} nodes ({})", world.transport());
    let _ = writeln!(
        text,
        "grid {}, region {}, {} iterations × {} steps × {} quantities: {megabytes:.1} MB, {:.2} MB a step, into {}",
        arguments.grid,
        arguments.region.name(),
        arguments.iterations,
        arguments.write,
        arguments.data,
        megabytes / arguments.steps().max(1) as f64,
        arguments.file
    );
    let best = fastest(trials);
    let blocking = best.iter().copied().find(|trial| trial.mode == OverlapMode::Blocking);
    let bound = blocking.map(|trial| trial.computing.max(trial.seconds - trial.computing));
    let _ = writeln!(
        text,
        "{:<9} {:>8} {:>9} {:>8} {:>8} {:>7} {:>9} {:>7}  at the end",
        "mode", "total s", "compute s", "commit s", "write s", "÷ block", "÷ longer", "memory"
    );
    for trial in &best {
        let over = |whole: Option<f64>| {
            whole.map_or("-".to_owned(), |whole| format!("{:.2}", trial.seconds / whole))
        };
        let _ = writeln!(
            text,
            "{:<9} {:>8.3} {:>9.3} {:>8.3} {:>8.3} {:>7} {:>9} {:>6.0}%  {}",
            trial.mode.to_string(),
            trial.seconds,
            trial.computing,
            trial.in_commit,
            trial.writing,
            over(blocking.map(|trial| trial.seconds)),
            over(bound),
            100.0 * trial.memory,
            trial.final_mode
        );
    }
    let _ = writeln!(
        text,
        "÷ block: relative to the total of blocking; ÷ longer: relative to the longer part of blocking, computing or all the rest"
    );
    let _ = writeln!(text, "all values of all steps verified in all modes");
    text
}

pub(crate) fn csv(arguments: &OverlapArguments, trials: &[ModeResult]) -> String {
    let mut text = String::from(
        "mode,computing ranks,grid,region,iterations,write,data,bytes,seconds,computing,in commit,writing,memory share,at the end\n",
    );
    for trial in trials {
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{},{},{},{},{},{},\"{}\"",
            trial.mode,
            trial.compute_ranks,
            arguments.grid,
            arguments.region.name(),
            arguments.iterations,
            arguments.write,
            arguments.data,
            arguments.bytes(),
            trial.seconds,
            trial.computing,
            trial.in_commit,
            trial.writing,
            trial.memory,
            trial.final_mode.replace('"', "\"\"")
        );
    }
    text
}
