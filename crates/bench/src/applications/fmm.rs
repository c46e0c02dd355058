//! Stored steps of `fmm`: all ranks together, and in the background, against rank 0 alone, over the number of packets.

use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result};
use aqueduct::comm::{Comm, Launch, Op};
use aqueduct_fmm::packet::MassPacket;
use aqueduct_fmm::packet_file::OutputStart;
use aqueduct_fmm::packet_output::{IoMethod, PacketOutput};
use aqueduct_fmm::scene::ball;

use crate::table::{FigureTable, FigureTarget};
use crate::timing::{alternate, best_and_median, ratios};
use crate::tools::scratch_folder;

const ROUNDS: usize = 9;
/// Numbers of packets that fill whole shells of the lattice; the last one is left out by `--quick`.
const COUNTS: [usize; 3] = [400, 3996, 40_000];
/// The bandwidth of each client in the study.
const CLIENT: &str = "throttle=11MB/s each:ufs:";

/// `--quick` leaves out the largest number of packets.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let counts = if words.contains(&"--quick") { &COUNTS[..2] } else { &COUNTS };
    let folder = scratch_folder()?;
    let mut table = FigureTable::default();
    for (device, label) in [("", "local disk"), (CLIENT, "11 MB/s each")] {
        for &count in counts {
            for ranks in [2, 4] {
                let packets = ball::<2>(count, 2.0)?;
                let bytes = size_of_val(&packets[..]);
                let label =
                    format!("{} packets, {bytes} bytes per step, {ranks} ranks, {label}", packets.len());
                let steps = if device.is_empty() { 20 } else { 2 };
                let name = format!("{device}{}", folder.path().join(format!("{count}-{ranks}")).display());
                let (together, stream) = measure(ranks, &packets, &name, steps)?;
                let label_of = |way: &str| format!("{label}: {way} / master");
                if count == counts[0] {
                    table.at_most(&label_of("together"), &together, 1.0);
                } else {
                    table.row(&label_of("together"), best_and_median(&together), FigureTarget::None);
                }
                table.row(&label_of("stream"), best_and_median(&stream), FigureTarget::None);
            }
        }
    }
    table.finish();
    Ok(())
}

/// The ratios of the seconds of a stored step, of the slowest rank: `together` and `stream` against `master`.
fn measure(
    ranks: usize,
    packets: &[MassPacket<2>],
    name: &str,
    steps: usize,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let measured = Mutex::new(None);
    Launch::threads(ranks).run(|world| {
        let turns = |way: IoMethod| {
            let seconds = |method: IoMethod| seconds(world, method, packets, name, steps);
            let rounds = alternate(ROUNDS, || seconds(way), || seconds(IoMethod::Master));
            rounds.map(|rounds| ratios(&rounds)).map_err(|error| format!("{error:#}"))
        };
        let figures = (turns(IoMethod::Together)?, turns(IoMethod::Stream)?);
        if world.rank() == 0 {
            *measured.lock().expect("no rank panics here") = Some(figures);
        }
        Ok::<(), String>(())
    })?;
    measured.into_inner().expect("no rank panics here").context("no rank")
}

/// The seconds of writing a step into a new file, opening and closing not included.
fn seconds(
    world: &Comm,
    method: IoMethod,
    packets: &[MassPacket<2>],
    name: &str,
    steps: usize,
) -> Result<f64> {
    let mut output = PacketOutput::open(world, method, name, packets.len(), OutputStart::New)?;
    world.barrier()?;
    let start = Instant::now();
    (0..steps).try_for_each(|_| output.write(packets))?;
    let seconds = start.elapsed().as_secs_f64() / steps as f64;
    output.close()?;
    world.barrier()?;
    if world.rank() == 0 {
        let _ = aqueduct::object::delete(name);
        let _ = aqueduct::file::delete(format!("{name}.steps"));
    }
    world.barrier()?;
    Ok(world.allreduce_one(Op::Max, seconds)?)
}

#[test]
fn every_number_of_packets_makes_a_ball() {
    for count in COUNTS {
        assert_eq!(ball::<2>(count, 2.0).unwrap().len(), count);
    }
}
