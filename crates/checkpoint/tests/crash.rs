//! A power cut at every operation while a cell file replaces an older one: a reader finds one of them complete, or an error.

mod fixture;

use std::sync::Arc;

use aqueduct_checkpoint::particle_cells::{self, CellFile};
use aqueduct_checkpoint::{Error, Kind, Molecule, SpatialRegion};
use aqueduct_comm::{Comm, Launch};
use aqueduct_device::layers::CrashDevice;
use aqueduct_device::{MemFs, register_device};
use fixture::{Decomposition, LENGTH, by_id, molecules, same};

/// How often readers found which state.
#[derive(Debug, Default)]
struct Found {
    older: usize,
    newer: usize,
    /// No complete header.
    refused: usize,
    /// A complete header, and checksums that reveal missing cells.
    torn: usize,
}

fn write(world: &Comm, name: &str, all: &[Molecule]) -> Result<(), Error> {
    let (how, length) = (Decomposition::KdTree, LENGTH);
    let mine = how.local_molecules(world.size(), world.rank(), all, length);
    particle_cells::replace(world, name, &how.grid(world.size(), length), &mine)
}

/// All molecules, or the error; and whether the file could be opened.
fn read(name: &str) -> (Result<Vec<Molecule>, Error>, bool) {
    let look = |world: &Comm| {
        let file = CellFile::<Molecule>::open(world, name);
        let opens = file.is_ok();
        Ok::<_, Error>((file.and_then(|file| file.read(&SpatialRegion::EVERYWHERE)).map(by_id), opens))
    };
    Launch::threads(1).run(look).unwrap().remove(0)
}

fn cut_power_at_every_operation(ranks: usize, found: &mut Found) {
    let [older, newer] = [31, 32].map(|seed| molecules(60, seed));
    for seed in 0..8_u64 {
        for after in 0.. {
            let crash = CrashDevice::new(Arc::new(MemFs::new())).after(after, seed * 1000 + after);
            let prefix = format!("cut-cells-{ranks}-{seed}-{after}");
            register_device(&prefix, Arc::new(crash)).unwrap();
            let name = format!("{prefix}:a.cells");
            let run = |world: &Comm| {
                Ok::<_, Error>(write(world, &name, &older).and_then(|()| write(world, &name, &newer)).is_ok())
            };
            let outcomes = Launch::threads(ranks).run(run).unwrap();
            // If one rank returned success, the file must be durable.
            let durable = outcomes.contains(&true);
            match read(&name) {
                (Ok(all), _) if same(&all, &newer) => found.newer += 1,
                (Ok(all), _) => {
                    assert!(same(&all, &older), "{prefix}: the molecules are those of neither file");
                    assert!(!durable, "{prefix}: the newer file was durable");
                    found.older += 1;
                }
                (Err(error), opens) => {
                    assert!(!durable, "{prefix}: the newer file was durable: {error}");
                    let known = [Kind::Damaged, Kind::Incomplete, Kind::NoSuchFile].contains(&error.kind());
                    assert!(known, "{prefix}: {error}");
                    assert!(!opens || error.kind() == Kind::Damaged, "{prefix}: {error}");
                    *(if opens { &mut found.torn } else { &mut found.refused }) += 1;
                }
            }
            if !outcomes.contains(&false) {
                break;
            }
            assert!(after < 1000, "writing takes fewer than 1000 operations");
        }
    }
}

#[test]
fn after_a_power_cut_a_cell_file_is_complete_or_rejected() {
    let mut found = Found::default();
    [1, 2].into_iter().for_each(|ranks| cut_power_at_every_operation(ranks, &mut found));
    assert!(found.older > 0 && found.newer > 0 && found.refused > 0 && found.torn > 0, "{found:?}");
}
