//! Mutated phase-space files: opening and reading them returns an error that names the file, or molecules. It never panics or hangs,
//! and never allocates more memory than the file justifies.

#[path = "../../checkpoint/tests/fixture/mod.rs"]
mod fixture;
mod phase_spaces;

use aqueduct_comm::{Comm, Launch};
use aqueduct_mardyn::{Error, Molecule, PhaseSpaceFiles, PhaseSpaceFormat, Result, SpatialRegion};
use aqueduct_testkit::rng::SeededRng;
use fixture::mutation::{is_accepted, limit_memory, mutate};
use fixture::{Decomposition, bytes_of, molecules, put_bytes};
use phase_spaces::full_phase_space;

#[test]
fn mutated_phase_spaces_are_read_or_rejected() {
    limit_memory();
    let run = |world: &Comm| {
        let space = full_phase_space();
        let all = molecules(20, 31);
        for format in PhaseSpaceFormat::ALL {
            let files = format.files(&format!("memfs:mutated-{}", format.name()).to_lowercase());
            format.write(world, &files, &space, &Decomposition::KdTree.grid(1, space.length), &all)?;
            let header = bytes_of(world, &files.header)?;
            let data = if files.data.is_empty() { Vec::new() } else { bytes_of(world, &files.data)? };
            let (mut read, mut refused) = (0, 0);
            for seed in 0..20_000 {
                let seeded = &mut SeededRng::new(seed);
                let (mut head, mut body) = (header.clone(), data.clone());
                mutate(if body.is_empty() || seeded.below(3) == 0 { &mut head } else { &mut body }, seeded);
                put_bytes(world, &files.header, &head)?;
                if !files.data.is_empty() {
                    put_bytes(world, &files.data, &body)?;
                }
                let outcome = open_and_read(world, format, &files);
                if is_accepted(outcome, head.len() + body.len(), seed) { read += 1 } else { refused += 1 }
            }
            assert!(read > 500 && refused > 4000, "{format:?}: {read} read, {refused} refused");
        }
        Ok::<_, Error>(())
    };
    Launch::threads(1).run(run).unwrap();
}

fn open_and_read(world: &Comm, format: PhaseSpaceFormat, files: &PhaseSpaceFiles) -> Result<Vec<Molecule>> {
    format.open(world, files)?.read(&SpatialRegion::EVERYWHERE)
}
