//! The four formats on any number of ranks and both decompositions: bitwise the same molecules, the specified bytes, and errors that name
//! the position in a malformed file.

#[path = "../../checkpoint/tests/fixture/mod.rs"]
mod fixture;
mod phase_spaces;

use aqueduct_comm::{Comm, Launch};
use aqueduct_mardyn::{
    CellGrid, Error, Kind, Molecule, MoleculeComponent, MoleculeFormat, PhaseSpace, PhaseSpaceFiles,
    PhaseSpaceFormat, Result, SpatialRegion, convert,
};
use fixture::{DECOMPOSITIONS, Decomposition, by_id, molecules, same};
use phase_spaces::full_phase_space;

fn on_one_rank<T: Send>(work: impl Fn(&Comm) -> Result<T> + Sync) -> T {
    Launch::threads(1).run(work).unwrap().remove(0)
}

fn bytes_of(name: &str) -> Vec<u8> {
    on_one_rank(|world| fixture::bytes_of(world, name))
}

fn put_bytes(name: &str, bytes: &[u8]) {
    on_one_rank(|world| fixture::put_bytes(world, name, bytes));
}

/// Writes on this number of ranks.
fn write(
    format: PhaseSpaceFormat,
    files: &PhaseSpaceFiles,
    space: &PhaseSpace,
    all: &[Molecule],
    ranks: usize,
    how: Decomposition,
) {
    let work = |world: &Comm| {
        let mine = how.local_molecules(ranks, world.rank(), all, space.length);
        format.write(world, files, space, &how.grid(ranks, space.length), &mine)
    };
    Launch::threads(ranks).run(work).unwrap();
}

/// Reads on this number of ranks; all molecules by id.
fn read(
    format: PhaseSpaceFormat,
    files: &PhaseSpaceFiles,
    ranks: usize,
    how: Decomposition,
) -> (PhaseSpace, Vec<Molecule>) {
    let work = |world: &Comm| {
        let input = format.open(world, files)?;
        let region = how.region(ranks, world.rank(), input.space().length);
        Ok::<_, Error>((input.space().clone(), input.read(&region)?))
    };
    let mut all = Launch::threads(ranks).run(work).unwrap();
    let space = all[0].0.clone();
    (space, by_id(all.drain(..).flat_map(|(_, molecules)| molecules)))
}

#[test]
fn files_are_read_on_any_number_of_ranks() {
    let space = full_phase_space();
    let all = molecules(300, 11);
    for format in PhaseSpaceFormat::ALL {
        for writers in 1..=7 {
            for how in DECOMPOSITIONS {
                let files =
                    format.files(&format!("memfs:any-{}-{writers}-{how:?}", format.name()).to_lowercase());
                write(format, &files, &space, &all, writers, how);
                for readers in 1..=7 {
                    for other in DECOMPOSITIONS {
                        let (_, found) = read(format, &files, readers, other);
                        let case =
                            format!("{format:?}, {writers} ranks {how:?} to {readers} ranks {other:?}");
                        assert!(same(&found, &all), "{case}: {} of {}", found.len(), all.len());
                    }
                }
            }
        }
    }
}

#[test]
fn conversions_between_all_formats_are_exact_and_do_not_depend_on_the_ranks() {
    let space = full_phase_space();
    let all = molecules(200, 12);
    // A text header stores components, an XML header does not.
    let files = |format: PhaseSpaceFormat, tag: &str| match format {
        PhaseSpaceFormat::Binary => {
            PhaseSpaceFiles::two(format!("memfs:{tag}.head"), format!("memfs:{tag}.dat"))
        }
        _ => format.files(&format!("memfs:{tag}-{}", format.name()).to_lowercase()),
    };
    let first = files(PhaseSpaceFormat::MpiIo, "conversion");
    write(PhaseSpaceFormat::MpiIo, &first, &space, &all, 3, Decomposition::KdTree);
    let mut before = (PhaseSpaceFormat::MpiIo, first);
    for (step, format) in
        PhaseSpaceFormat::ALL.into_iter().chain(PhaseSpaceFormat::ALL.into_iter().rev()).enumerate()
    {
        let mut made = Vec::new();
        for ranks in [1, 3] {
            let to = files(format, &format!("conversion-{step}-{ranks}"));
            Launch::threads(ranks).run(|world| convert(world, (before.0, &before.1), (format, &to))).unwrap();
            made.push((
                bytes_of(&to.header),
                if to.data.is_empty() { Vec::new() } else { bytes_of(&to.data) },
            ));
            let (head, found) = read(format, &to, 2, Decomposition::Regular);
            assert!(same(&found, &all), "{format:?}");
            let expected = PhaseSpace { molecules: 200, ..space.clone() };
            assert_eq!(head, expected, "{format:?}");
            before = (format, to);
        }
        assert!(made[0] == made[1], "{format:?} depends on the number of ranks");
    }
    // Rows are in the order of ids.
    let rows = on_one_rank(|world| read_share(world, &files(PhaseSpaceFormat::Binary, "conversion-1-3")));
    assert!(same(&rows, &all));
}

fn read_share(world: &Comm, files: &PhaseSpaceFiles) -> Result<Vec<Molecule>> {
    PhaseSpaceFormat::Binary.open(world, files)?.read_share()
}

#[test]
fn shares_contain_all_molecules_and_rows_are_in_the_order_of_the_file() {
    let space = full_phase_space();
    let all = molecules(100, 13);
    for format in PhaseSpaceFormat::ALL {
        let files = format.files(&format!("memfs:shares-{}", format.name()).to_lowercase());
        write(format, &files, &space, &all, 1, Decomposition::Regular);
        for ranks in 1..=5 {
            let shares =
                Launch::threads(ranks).run(|world| format.open(world, &files)?.read_share()).unwrap();
            let found = shares.concat();
            assert!(same(&by_id(found.clone()), &all), "{format:?} on {ranks}");
            if matches!(format, PhaseSpaceFormat::OldStyle | PhaseSpaceFormat::Binary) {
                assert!(same(&found, &all), "{format:?} on {ranks}: the order");
            }
        }
    }
}

#[test]
fn rows_without_orientation_are_shorter_and_reject_molecules_with_one() {
    let mut space = PhaseSpace::new([2.0; 3], vec![MoleculeComponent::single(1.0, 1.0, 1.0); 2]);
    let mut all: Vec<Molecule> =
        (0..9).map(|id| Molecule::new(id, [0.1 * id as f64; 3], [-0.0, 1e-9, 3.0])).collect();
    for (rows, size) in [(MoleculeFormat::Irv, 56), (MoleculeFormat::Icrv, 60), (MoleculeFormat::Icrvqd, 116)]
    {
        space.molecule_format = rows;
        for format in [PhaseSpaceFormat::OldStyle, PhaseSpaceFormat::Binary] {
            let files = format.files(&format!("memfs:rows-{}-{}", rows.name(), format.name()).to_lowercase());
            write(format, &files, &space, &all, 2, Decomposition::Regular);
            let (head, found) = read(format, &files, 3, Decomposition::KdTree);
            assert!(same(&found, &all) && head.molecule_format == rows);
            if format == PhaseSpaceFormat::Binary {
                assert_eq!(bytes_of(&files.data).len(), 9 * size);
            }
        }
    }
    let files = PhaseSpaceFiles::one("memfs:rows-lost");
    let grid = CellGrid::whole(space.length).unwrap();
    let refused = |space: &PhaseSpace, all: &[Molecule]| {
        on_one_rank(|world| {
            Ok(PhaseSpaceFormat::OldStyle.write(world, &files, space, &grid, all).unwrap_err())
        })
    };
    all[3].component = 1;
    space.molecule_format = MoleculeFormat::Irv;
    assert!(refused(&space, &all).kind() == Kind::NotRepresentable);
    all[3].angular_momentum[1] = 1.0;
    space.molecule_format = MoleculeFormat::Icrv;
    let error = refused(&space, &all);
    assert!(error.kind() == Kind::NotRepresentable && error.to_string().contains("molecule 3"), "{error}");
    space.molecule_format = MoleculeFormat::Icrvqd;
    all[3].velocity[0] = f64::NAN;
    assert!(refused(&space, &all).to_string().contains("molecule 3"));
    all[3].position[0] = 2.5;
    assert!(refused(&space, &all).to_string().contains("outside of the box"));
}

/// The expected bytes are written by hand from the specification.
#[test]
fn files_have_the_specified_bytes() {
    let space = PhaseSpace::new([2.0, 1.0, 1.0], vec![MoleculeComponent::single(1.0, 2.0, 3.0)]);
    let mut first = Molecule::new(7, [1.5, 0.25, 0.5], [1.0, -2.0, 1e-7]);
    first.orientation = [0.5, 0.5, -0.5, 0.5];
    first.angular_momentum = [1.0, 2.0, 3.0];
    let second = Molecule::new(300, [0.5, 0.5, 0.5], [0.0; 3]);
    let all = [first, second];
    let grid = CellGrid::new(space.length, [2, 1, 1]).unwrap();
    let put = |format: PhaseSpaceFormat, files: &PhaseSpaceFiles| {
        on_one_rank(|world| format.write(world, files, &space, &grid, &all));
    };
    let numbers = |m: &Molecule| [&m.position[..], &m.velocity, &m.orientation, &m.angular_momentum].concat();
    let floats = |m: &Molecule| numbers(m).iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();

    let files = PhaseSpaceFiles::one("memfs:golden.inp");
    put(PhaseSpaceFormat::OldStyle, &files);
    let text = "mardyn trunk 20120726\ncurrentTime 0.0\nLength 2.0 1.0 1.0\nNumberOfComponents 1\n1 0 0 0 0\n\
                0.0 0.0 0.0 1.0 2.0 3.0 0.0 0.0\n0.0 0.0 0.0\n10000000000.0\nNumberOfMolecules 2\nMoleculeFormat ICRVQD\n\
                7 1 1.5 0.25 0.5 1.0 -2.0 1e-7 0.5 0.5 -0.5 0.5 1.0 2.0 3.0\n300 1 0.5 0.5 0.5 0.0 0.0 0.0 1.0 0.0 0.0 0.0 0.0 0.0 0.0\n";
    let found = String::from_utf8(bytes_of(&files.header)).unwrap();
    assert_eq!(found, text);

    let files = PhaseSpaceFormat::Binary.files("memfs:golden");
    put(PhaseSpaceFormat::Binary, &files);
    let row = |m: &Molecule| [&m.id.to_le_bytes()[..], &1_u32.to_le_bytes(), &floats(m)].concat();
    assert_eq!(bytes_of(&files.data), [row(&first), row(&second)].concat());
    let header = String::from_utf8(bytes_of(&files.header)).unwrap();
    assert!(
        header.contains("<number>2</number>") && header.contains("<format type=\"ICRVQD\"/>"),
        "{header}"
    );

    let files = PhaseSpaceFormat::MpiIo.files("memfs:golden-cells");
    put(PhaseSpaceFormat::MpiIo, &files);
    // The second molecule lies in the first cell.
    let head = [
        2_i64.to_le_bytes(),
        2_i64.to_le_bytes(),
        1f64.to_le_bytes(),
        1f64.to_le_bytes(),
        1f64.to_le_bytes(),
    ];
    let counts = [1_i32.to_le_bytes(), 1_i32.to_le_bytes()].concat();
    let row = |m: &Molecule| [&m.id.to_le_bytes()[..], &0_i32.to_le_bytes(), &floats(m)].concat();
    assert_eq!(bytes_of(&files.data), [head.concat(), counts, row(&second), row(&first)].concat());
}

#[test]
fn errors_in_text_files_name_the_line() {
    let head =
        "mardyn trunk 20120726\nt 0\nL 2 2 2\nC 1\n1 0 0 0 0\n0 0 0 1 1 1 0 0\n0 0 0\n1e10\nN 3\nM ICRV\n";
    let rows = ["1 1 0 0 0 0 0 0\n", "2 1 1 1 1 0 0 0\n", "3 1 2 2 2 0 0 0\n"];
    let cases = [
        ([rows[0], rows[1], "3 1 2 2 2 0 0\n"].concat(), "line 13: molecule 3 has 5 numbers"),
        (
            [rows[0], "# a\n\n", "2 1 1 1 x 0 0 0\n", rows[2]].concat(),
            "line 14: \"x\" of molecule 2 is not a number",
        ),
        ([rows[0], "2 1 1 1 nan 0 0 0\n", rows[2]].concat(), "line 12"),
        ([rows[0], "2 2 1 1 1 0 0 0\n", rows[2]].concat(), "line 12: molecule 2 is of component 2"),
        ([rows[0], "2 0 1 1 1 0 0 0\n", rows[2]].concat(), "line 12: \"0\" is not a component"),
        (
            [rows[0], "2 1 1 1 2.5 0 0 0\n", rows[2]].concat(),
            "line 12: molecule 2 at [1.0, 1.0, 2.5] is outside",
        ),
        ([rows[0], "-2 1 1 1 1 0 0 0\n", rows[2]].concat(), "line 12: \"-2\" is not the id"),
        ([rows[0], "2 1 1 1 1 0 0 0 7\n", rows[2]].concat(), "line 12: \"7\" after molecule 2"),
        ([rows[0], rows[1]].concat(), "the header says 3 molecules, but the file has 2"),
        ([rows[0], rows[1], rows[2], "4 1 1 1 1 0 0 0"].concat(), "but the file has 4"),
        ([rows[0], rows[1], "1 1 2 2 2 0 0 0\n"].concat(), "molecule 1 occurs 2 times: rows 1, 3"),
        ([rows[0], rows[1], &"x".repeat(200_000)].concat(), "line 13"),
    ];
    for (index, (body, expected)) in cases.iter().enumerate() {
        let name = format!("memfs:malformed-{index}");
        put_bytes(&name, format!("{head}{body}").as_bytes());
        for ranks in [1, 2, 5] {
            let errors = Launch::threads(ranks).run(|world| {
                let input = PhaseSpaceFormat::OldStyle.open(world, &PhaseSpaceFiles::one(&name))?;
                Ok::<_, Error>(input.read(&SpatialRegion::EVERYWHERE).unwrap_err())
            });
            for error in errors.unwrap() {
                assert_eq!(error.kind(), Kind::Damaged, "{error}");
                assert!(error.to_string().contains(expected), "{ranks} ranks: {error}; not {expected}");
            }
        }
    }
    put_bytes("memfs:malformed-good", format!("{head}{}", rows.concat().trim_end()).as_bytes());
    let found = read(
        PhaseSpaceFormat::OldStyle,
        &PhaseSpaceFiles::one("memfs:malformed-good"),
        3,
        Decomposition::Regular,
    )
    .1;
    assert_eq!(found.len(), 3, "a file without a newline at its end");
}

#[test]
fn errors_in_binary_files_name_the_offset() {
    let space = PhaseSpace::new([2.0, 1.0, 1.0], vec![MoleculeComponent::single(1.0, 2.0, 3.0)]);
    let all: Vec<Molecule> =
        (0..6).map(|id| Molecule::new(id, [0.3 * id as f64, 0.5, 0.5], [0.0; 3])).collect();
    let cases: [(PhaseSpaceFormat, usize, &[u8], &str); 9] = [
        (PhaseSpaceFormat::Binary, 0, &3_u64.to_le_bytes(), "molecule 3 occurs 2 times: rows 1, 4"),
        (PhaseSpaceFormat::Binary, 116 + 8, &0_u32.to_le_bytes(), "byte 116: molecule 1 is of component 0"),
        (PhaseSpaceFormat::Binary, 116 + 8, &9_u32.to_le_bytes(), "byte 116: molecule 1 is of component 9"),
        (PhaseSpaceFormat::Binary, 232 + 12, &(-1f64).to_le_bytes(), "byte 232: molecule 2 at"),
        (PhaseSpaceFormat::MpiIo, 0, &3_i64.to_le_bytes(), "byte 0: 3 cells"),
        (PhaseSpaceFormat::MpiIo, 16, &f64::NAN.to_le_bytes(), "byte 16"),
        (PhaseSpaceFormat::MpiIo, 40, &(-1_i32).to_le_bytes(), "byte 40: a cell has -1"),
        (PhaseSpaceFormat::MpiIo, 40, &7_i32.to_le_bytes(), "byte 40: the cells hold"),
        (PhaseSpaceFormat::MpiIo, 48 + 8, &(-1_i32).to_le_bytes(), "byte 48: molecule 0 is of component -1"),
    ];
    for (index, (format, at, new, expected)) in cases.into_iter().enumerate() {
        let files = format.files(&format!("memfs:broken-{index}"));
        write(format, &files, &space, &all, 2, Decomposition::Regular);
        let mut bytes = bytes_of(&files.data);
        // An XML header has no components.
        let head = "mardyn trunk 20120726\nL 2 1 1\nC 1\n0 0 0 0 0\n0 0 0\n1\nN 6\nM ICRVQD\n";
        put_bytes(&files.header, head.as_bytes());
        bytes[at..at + new.len()].copy_from_slice(new);
        put_bytes(&files.data, &bytes);
        let errors = Launch::threads(2).run(|world| {
            let input = format.open(world, &files)?;
            Ok::<_, Error>(input.read(&SpatialRegion::EVERYWHERE).unwrap_err())
        });
        for error in errors.unwrap() {
            assert!(
                error.kind() == Kind::Damaged && error.to_string().contains(expected),
                "{error}; not {expected}"
            );
        }
        // A truncated file is rejected.
        for length in [0, 1, 39, 40, 47, 100, bytes.len() - 1] {
            put_bytes(&files.data, &bytes[..length]);
            let error = on_one_rank(|world| {
                Ok(format.open(world, &files)?.read(&SpatialRegion::EVERYWHERE).unwrap_err())
            });
            assert_eq!(error.kind(), Kind::Damaged, "{error}");
        }
    }
}

#[test]
fn a_cell_on_two_ranks_is_an_error_on_all_ranks() {
    let space = PhaseSpace::new([2.0, 1.0, 1.0], vec![MoleculeComponent::single(1.0, 2.0, 3.0)]);
    for format in [PhaseSpaceFormat::MpiIo, PhaseSpaceFormat::PnetCdf] {
        let errors = Launch::threads(3).run(|world| {
            let mine = [Molecule::new(world.rank() as u64, [0.1, 0.1, 0.1], [0.0; 3])];
            let grid = CellGrid::new(space.length, [2, 1, 1]).unwrap();
            let files = format.files("memfs:twice");
            Ok::<_, Error>(format.write(world, &files, &space, &grid, &mine).unwrap_err())
        });
        for error in errors.unwrap() {
            assert_eq!(error.kind(), Kind::Overlap);
            assert!(error.to_string().contains("ranks 0 and 1 both hold particles of cell 0"), "{error}");
        }
    }
}

#[test]
fn write_rejects_existing_files_and_replace_replaces_them() {
    let space = PhaseSpace::new([2.0, 1.0, 1.0], vec![MoleculeComponent::single(1.0, 2.0, 3.0)]);
    let grid = CellGrid::new(space.length, [2, 1, 1]).unwrap();
    let all: Vec<Molecule> =
        (0..6).map(|id| Molecule::new(id, [0.3 * id as f64, 0.5, 0.5], [0.0; 3])).collect();
    for format in PhaseSpaceFormat::ALL {
        let files = format.files(&format!("memfs:existing-{}", format.name()).to_lowercase());
        let names: Vec<&String> =
            [&files.header, &files.data].into_iter().filter(|name| !name.is_empty()).collect();
        let refused =
            || on_one_rank(|world| Ok(format.write(world, &files, &space, &grid, &all[..3]).unwrap_err()));
        // Each of the files alone, then all of them.
        for name in &names {
            put_bytes(name, b"existing");
            let error = refused();
            assert_eq!(error.kind(), aqueduct_file::Kind::FileExists, "{format:?}: {error}");
            assert_eq!(bytes_of(name), b"existing", "{format:?}");
            names.iter().for_each(|name| drop(aqueduct_file::delete(name)));
        }
        on_one_rank(|world| format.write(world, &files, &space, &grid, &all));
        let before: Vec<Vec<u8>> = names.iter().map(|name| bytes_of(name)).collect();
        assert_eq!(refused().kind(), aqueduct_file::Kind::FileExists, "{format:?}");
        assert!(names.iter().map(|name| bytes_of(name)).eq(before), "{format:?}: nothing was changed");
        on_one_rank(|world| format.replace(world, &files, &space, &grid, &all[..3]));
        assert_eq!(read(format, &files, 1, Decomposition::Regular).1.len(), 3, "{format:?}");
    }
}

#[test]
fn a_netcdf_file_can_have_thousands_of_cells() {
    let space = PhaseSpace::new([5000.0, 1.0, 1.0], vec![MoleculeComponent::single(1.0, 2.0, 3.0)]);
    let all: Vec<Molecule> =
        (0..5000).map(|id| Molecule::new(id, [id as f64 + 0.5, 0.5, 0.5], [0.0; 3])).collect();
    let files = PhaseSpaceFormat::PnetCdf.files("memfs:many");
    let grid = CellGrid::new(space.length, [5000, 1, 1]).unwrap();
    let half = |world: &Comm| &all[2500 * world.rank()..2500 * (world.rank() + 1)];
    Launch::threads(2)
        .run(|world| PhaseSpaceFormat::PnetCdf.write(world, &files, &space, &grid, half(world)))
        .unwrap();
    let (_, found) = read(PhaseSpaceFormat::PnetCdf, &files, 3, Decomposition::Regular);
    assert!(same(&found, &all));
}
