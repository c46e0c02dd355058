//! A thousand runs with random delays of the device, in every mode: no step is lost or duplicated, and memory stays
//! below its cap.

#[path = "cases/all_streams.rs"]
mod all_streams;
#[path = "cases/model.rs"]
mod model;

use all_streams::{Cut, check, check_end, write};
use aqueduct_comm::{Comm, Launch};
use aqueduct_stream::{Error, Options, OutputMode, OutputReport, Reader, Role, split_io_servers};
use aqueduct_testkit::rng::SeededRng;

fn run(seed: u64) {
    let mut dice = SeededRng::new(seed);
    let ranks = 1 + dice.below(3);
    let steps = 1 + dice.below(5) as u64;
    let mode = [
        OutputMode::Blocking,
        OutputMode::Thread,
        OutputMode::Leaders,
        OutputMode::Servers,
        OutputMode::Auto,
    ][dice.below(5)];
    let memory = 2000 + dice.below(20_000) as u64;
    let options = Options::new().replace().buffers(1 + dice.below(3)).memory(memory);
    let options = options.durable_every(1 + dice.below(3) as u64);
    let cut = Cut { axis: dice.below(3), uneven: dice.below(2) == 0, halo: dice.below(2) as u64 };
    let inner = format!("memfs:seeded-{seed}");
    let name = format!("fault=seed={seed},delay=40us@0.{}:{inner}", dice.below(9));
    let write = |world: &Comm| {
        if mode != OutputMode::Servers {
            return write(world, &name, &options.clone().mode(mode), cut, steps).map(Some);
        }
        match split_io_servers(world, 1)? {
            Role::Server(server) => server.memory(1 << 20).serve().map(|_| None),
            Role::Compute(compute) => {
                write(compute.comm(), &name, &options.clone().served_by(&compute), cut, steps).map(Some)
            }
        }
    };
    let servers = usize::from(mode == OutputMode::Servers);
    let reports = Launch::threads(ranks + servers).run(write).unwrap();
    let reports: Vec<OutputReport> = reports.into_iter().flatten().collect();
    let kept = reports.iter().all(|report| report.steps == steps && report.memory_peak <= report.memory_cap);
    assert!(kept && reports.len() == ranks, "seed {seed}: {reports:?}");
    let read = |world: &Comm| {
        let reader = Reader::open(world, &inner)?;
        let stored: Vec<u64> = reader
            .stored_steps()
            .iter()
            .filter(|stored| !stored.is_closing)
            .map(|stored| stored.step)
            .collect();
        assert_eq!(stored, (0..steps).collect::<Vec<_>>(), "seed {seed}: each step once");
        assert!(
            reader.is_finished() && reader.incomplete_steps().is_empty(),
            "seed {seed}: {:?}",
            reader.incomplete_steps()
        );
        check(&reader, ranks, 0..steps);
        check_end(&reader, steps);
        Ok::<_, Error>(())
    };
    Launch::threads(1).run(read).unwrap();
    for part in [inner.clone(), format!("{inner}.steps")] {
        aqueduct_file::delete(part).unwrap();
    }
}

#[test]
fn no_step_is_lost_or_duplicated_in_a_thousand_runs_with_random_delays() {
    (0..1000).for_each(run);
}
