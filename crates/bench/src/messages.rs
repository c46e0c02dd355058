//! Messages of objects against derived datatypes of MPI: two ranks of Open MPI send the same objects there and back.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, anyhow, ensure};
use aqueduct::comm::Comm;
use aqueduct::prelude::*;

use crate::table::FigureTable;
use crate::timing::{alternate, best_and_median, ratios};
use crate::tools::{compile, folder, openmpi};

/// Jobs of each side, in turn.
const ROUNDS: usize = 5;
/// Objects in a message.
const COUNTS: [&str; 4] = ["1", "100", "10000", "100000"];
/// Regions that a job measures; the same in `peer/messages.c`.
const REGIONS: usize = 9;

/// Sent as it is in memory.
#[derive(Object, Clone, Copy, Default)]
struct TrivialBody {
    position: [f64; 3],
    mass: f64,
}

/// Encoded without its padding.
#[derive(Object, Clone, Copy, Default)]
struct PaddedBody {
    tag: u8,
    position: [f64; 3],
    id: i32,
}

pub(crate) fn run(words: &[&str]) -> Result<()> {
    ensure!(words.is_empty(), "messages takes no arguments");
    let program = compile("mpicc.openmpi", &["-Wall"], "messages.c", &folder("peers")?.join("messages"), &[])
        .context("Open MPI is needed")?;
    println!("seconds of derived datatypes of MPI / seconds of objects, two processes\n");
    let mut table = FigureTable::default();
    for (kind, count) in ["trivial", "padded"].into_iter().flat_map(|kind| COUNTS.map(|count| (kind, count)))
    {
        let mut ours = openmpi(2, Some(120));
        ours.arg(std::env::current_exe()?).args(["message-job", kind, count]);
        let mut theirs = openmpi(2, Some(120));
        theirs.arg(&program).args([count, kind]);
        let rounds = alternate(ROUNDS, || seconds(&mut theirs), || seconds(&mut ours))?;
        table.at_least(&format!("{count} {kind} objects there and back"), &ratios(&rounds), 0.8);
    }
    table.finish();
    Ok(())
}

/// The median of the times that a job prints.
fn seconds(command: &mut Command) -> Result<f64> {
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    let times: Result<Vec<f64>, _> = String::from_utf8(output.stdout)?.lines().map(str::parse).collect();
    let times = times?;
    ensure!(times.len() == REGIONS, "{command:?} printed {} times", times.len());
    Ok(best_and_median(&times)[1])
}

/// One of the two ranks of our side.
pub(crate) fn job(world: &Comm, words: &[String]) -> Result<()> {
    let [kind, count] = words else { return Err(anyhow!("message-job KIND COUNT")) };
    let count: usize = count.parse()?;
    match kind.as_str() {
        "trivial" => there_and_back(world, vec![TrivialBody::default(); count]),
        _ => there_and_back(world, vec![PaddedBody::default(); count]),
    }
}

fn there_and_back<T: Object + Copy>(world: &Comm, mut objects: Vec<T>) -> Result<()> {
    ensure!(world.size() == 2, "two ranks are needed");
    let (other, times) = (1 - world.rank(), if objects.len() > 2000 { 20 } else { 400 });
    for _ in 0..REGIONS {
        world.barrier()?;
        let start = Instant::now();
        for _ in 0..times {
            if world.rank() == 0 {
                world.send_objects(other, 1, &objects)?;
                world.receive_objects_into(other, 1, &mut objects)?;
            } else {
                world.receive_objects_into(other, 1, &mut objects)?;
                world.send_objects(other, 1, &objects)?;
            }
        }
        if world.rank() == 0 {
            println!("{:.9}", start.elapsed().as_secs_f64() / f64::from(times));
        }
    }
    Ok(())
}
