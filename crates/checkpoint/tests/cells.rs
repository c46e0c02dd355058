//! Cell files: any number of ranks, few accesses, detection of damage.

mod fixture;

use aqueduct_checkpoint::particle_cells::{self, CellFile};
use aqueduct_checkpoint::{CellGrid, Error, Kind, Molecule, SpatialRegion};
use aqueduct_comm::{Comm, Launch};
use fixture::{DECOMPOSITIONS, LENGTH, by_id, bytes_of, molecules, put_bytes, same};

#[test]
fn cell_files_are_read_on_any_number_of_ranks() {
    let all = molecules(500, 21);
    for writers in 1..=7 {
        for how in DECOMPOSITIONS {
            let name = format!("memfs:cells-{writers}-{how:?}").to_lowercase();
            let write = |world: &Comm| {
                let mine = how.local_molecules(writers, world.rank(), &all, LENGTH);
                particle_cells::write(world, &name, &how.grid(writers, LENGTH), &mine)
            };
            Launch::threads(writers).run(write).unwrap();
            for readers in 1..=7 {
                for other in DECOMPOSITIONS {
                    let read = |world: &Comm| {
                        let file = CellFile::<Molecule>::open(world, &name)?;
                        let region = other.region(readers, world.rank(), LENGTH);
                        Ok::<_, Error>((file.read(&region)?, file.read_share()?))
                    };
                    let (read, shares): (Vec<_>, Vec<_>) =
                        Launch::threads(readers).run(read).unwrap().into_iter().unzip();
                    assert!(same(&by_id(read.concat()), &all), "{writers} {how:?} to {readers} {other:?}");
                    assert!(same(&by_id(shares.concat()), &all), "shares of {readers}");
                }
            }
        }
    }
}

/// The expected bytes are written by hand from docs/format-cells.md.
#[test]
fn a_cell_file_has_the_specified_bytes() {
    let all = [
        Molecule::new(7, [1.5, 0.25, 0.5], [1.0, -2.0, 1e-7]),
        Molecule::new(300, [0.5, 0.5, 0.5], [0.0; 3]),
    ];
    let row = |molecule: &Molecule| {
        let numbers =
            [&molecule.position[..], &molecule.velocity, &molecule.orientation, &molecule.angular_momentum]
                .concat();
        let mut row = [molecule.id.to_le_bytes(), molecule.component.to_le_bytes()].concat();
        numbers.iter().for_each(|value| row.extend_from_slice(&value.to_le_bytes()));
        row
    };
    let (low, high) = (row(&all[1]), row(&all[0]));
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let sum = |bytes: &[u8]| u64::from(crc32c::crc32c(bytes));
    // Three cells along x; the last one is empty.
    let table = words(&[0, 1, sum(&low), 1, 1, sum(&high), 2, 0, 0]);
    let mut header = b"AQUECELL\x01\0\0\0\x04\x03\x02\x01".to_vec();
    header.extend(words(&[
        2,
        3,
        1,
        1,
        3f64.to_bits(),
        1f64.to_bits(),
        1f64.to_bits(),
        120,
        512,
        4096,
        sum(&table),
    ]));
    header.resize(508, 0);
    let checksum = crc32c::crc32c(&header).to_le_bytes();
    let mut expected = [header, checksum.to_vec(), table].concat();
    expected.resize(4096, 0);
    expected.extend([low, high].concat());
    let run = |world: &Comm| {
        let grid = CellGrid::new([3.0, 1.0, 1.0], [3, 1, 1]).unwrap();
        particle_cells::write(world, "memfs:golden.cells", &grid, &all[world.rank()..=world.rank()])?;
        bytes_of(world, "memfs:golden.cells")
    };
    assert!(Launch::threads(2).run(run).unwrap()[0] == expected);
}

#[test]
fn a_read_accesses_only_overlapped_cells_in_one_collective_access() {
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("many.cells").to_string_lossy().into_owned();
    let grid = CellGrid::new([8.0; 3], [8; 3]).unwrap();
    let all: Vec<Molecule> = (0..512 * 20)
        .map(|id| {
            let at = |d: u32| (id / 8_u64.pow(d) % 8) as f64 + 0.5;
            Molecule::new(id, [at(0), at(1), at(2)], [0.0; 3])
        })
        .collect();
    let read = Launch::threads(1).run(|world| {
        particle_cells::write(world, &name, &grid, &all)?;
        let file = CellFile::<Molecule>::open(world, &name)?;
        let before = file.counters();
        // Two planes of cells are one run; a column of 2 × 2 cells is sixteen runs of two.
        let planes = file.read(&SpatialRegion::new([0.0, 0.0, 2.0], [8.0, 8.0, 3.9]))?;
        let between = file.counters();
        let column = file.read(&SpatialRegion::new([2.0, 2.0, 0.0], [3.9, 3.9, 8.0]))?;
        let after = file.counters();
        let asked = [between.read - before.read, after.read - between.read];
        let accesses = [between.reads - before.reads, after.reads - between.reads];
        Ok::<_, Error>((planes.len(), column.len(), asked, accesses))
    });
    let (planes, column, asked, accesses) = read.unwrap().remove(0);
    assert_eq!((planes, column), (2 * 64 * 20, 4 * 8 * 20));
    assert_eq!(asked, [2 * 64 * 20 * 120, 4 * 8 * 20 * 120]);
    assert_eq!(accesses, [1, 1]);
}

#[test]
fn every_damaged_byte_is_detected() {
    let all: Vec<Molecule> =
        (0..10).map(|id| Molecule::new(id, [0.1 * id as f64, 0.5, 0.5], [0.0; 3])).collect();
    let grid = CellGrid::new([1.0; 3], [4, 1, 1]).unwrap();
    let run = |world: &Comm| {
        particle_cells::write(world, "memfs:damage.cells", &grid, &all)?;
        particle_cells::verify(world, "memfs:damage.cells")?;
        let bytes = bytes_of(world, "memfs:damage.cells")?;
        let meaningful = (0..512 + 4 * 24).chain(4096..bytes.len());
        for at in meaningful {
            let mut broken = bytes.clone();
            broken[at] ^= 1 << (at % 8);
            put_bytes(world, "memfs:damage.cells", &broken)?;
            let error = particle_cells::verify(world, "memfs:damage.cells").expect_err("damage");
            // Another version is reported as unknown, not as damage.
            let kind = if (8..12).contains(&at) { Kind::UnknownVersion } else { Kind::Damaged };
            assert!(error.kind() == kind && error.detail().contains("byte"), "{at}: {error}");
            let read = CellFile::<Molecule>::open(world, "memfs:damage.cells")
                .and_then(|file| file.read(&SpatialRegion::EVERYWHERE));
            assert!(read.is_err(), "{at}");
        }
        for length in (0..bytes.len()).step_by(61) {
            put_bytes(world, "memfs:damage.cells", &bytes[..length])?;
            assert!(particle_cells::verify(world, "memfs:damage.cells").is_err(), "{length}");
        }
        // A file without a header is incomplete.
        let mut unfinished = bytes.clone();
        unfinished[..512].fill(0);
        put_bytes(world, "memfs:damage.cells", &unfinished)?;
        assert_eq!(particle_cells::verify(world, "memfs:damage.cells").unwrap_err().kind(), Kind::Incomplete);
        Ok::<_, Error>(())
    };
    Launch::threads(1).run(run).unwrap();
}

#[test]
fn write_rejects_an_existing_file_and_replace_replaces_it() {
    let grid = CellGrid::new([2.0, 1.0, 1.0], [2, 1, 1]).unwrap();
    let run = |world: &Comm| {
        let (name, rank) = ("memfs:existing.cells", world.rank());
        let mine = |count: u64| -> Vec<Molecule> {
            (0..count).map(|id| Molecule::new(id, [0.5 + rank as f64, 0.5, 0.5], [0.0; 3])).collect()
        };
        particle_cells::write(world, name, &grid, &mine(2))?;
        let before = bytes_of(world, name)?;
        let error = particle_cells::write(world, name, &grid, &mine(1)).expect_err("the file exists");
        assert_eq!(error.kind(), aqueduct_file::Kind::FileExists, "{error}");
        assert!(bytes_of(world, name)? == before, "nothing was changed");
        particle_cells::replace(world, name, &grid, &mine(1))?;
        assert_eq!(CellFile::<Molecule>::open(world, name)?.particles(), 2);
        Ok::<_, Error>(())
    };
    Launch::threads(2).run(run).unwrap();
}

#[test]
fn invalid_particles_on_one_rank_are_an_error_on_all_ranks() {
    let grid = CellGrid::new([2.0, 1.0, 1.0], [2, 1, 1]).unwrap();
    let cases = [
        ([0.5, 0.5, 0.5], Kind::Overlap),
        ([2.5, 0.5, 0.5], Kind::BadArgument),
        ([f64::NAN; 3], Kind::BadArgument),
    ];
    for (position, kind) in cases {
        let outcomes = Launch::threads(3).run(|world| {
            // Only the particle of the last rank is invalid.
            let place = if world.rank() == 2 { position } else { [0.5 + world.rank() as f64, 0.5, 0.5] };
            let outcome = particle_cells::write(
                world,
                "memfs:invalid.cells",
                &grid,
                &[Molecule::new(1, place, [0.0; 3])],
            );
            Ok::<_, Error>(outcome.unwrap_err().kind())
        });
        assert_eq!(outcomes.unwrap(), [kind; 3]);
    }
}
