//! Cell files: header, cell table and rows.

use aqueduct_checkpoint::particle_cells::{self, CellFile};
use aqueduct_checkpoint::{CellGrid, Error, Kind, Molecule, Result, SpatialRegion};

use crate::FuzzTarget;
use crate::input::{CORRECT_SUMS, check_kind, load, long, remove_all, run_rank, seal, store};

pub(crate) const TARGET: FuzzTarget = FuzzTarget { name: "cell_file", run, seeds, words: &["AQUECELL"] };

const NAME: &str = "memfs:fuzzed.cells";
/// Bytes of the header and of an entry of the table: `docs/format-cells.md`.
const HEADER: usize = 512;
const ENTRY: u64 = 24;
/// Kinds of errors of invalid files.
const REFUSALS: [Kind; 4] = [Kind::Damaged, Kind::Incomplete, Kind::WrongType, Kind::UnknownVersion];

fn run(input: &[u8]) -> bool {
    let Some((flags, bytes)) = input.split_first() else { return false };
    let mut bytes = bytes.to_vec();
    if flags & CORRECT_SUMS != 0 {
        correct_sums(&mut bytes);
    }
    run_rank(|world| {
        store(world, NAME, &bytes)?;
        let corner = SpatialRegion::of([1.0; 3]);
        for region in [SpatialRegion::EVERYWHERE, corner] {
            let found = CellFile::<Molecule>::open(world, NAME).and_then(|file| file.read(&region));
            if let Ok(molecules) = &found {
                assert!(
                    molecules.len() <= bytes.len(),
                    "{} molecules in {} bytes",
                    molecules.len(),
                    bytes.len()
                );
            }
            check_kind(found, NAME, &REFUSALS);
        }
        let share = CellFile::<Molecule>::open(world, NAME).and_then(|file| file.read_share());
        check_kind(share, NAME, &REFUSALS);
        Ok::<_, Error>(check_kind(particle_cells::verify(world, NAME), NAME, &REFUSALS))
    })
}

/// Corrects the checksums of header and table.
fn correct_sums(bytes: &mut [u8]) {
    let edges = [24, 32, 40].map(|at| long(bytes, at));
    let cells = edges.iter().try_fold(1u64, |all, edge| all.checked_mul((*edge)?));
    let table = cells.and_then(|cells| cells.checked_mul(ENTRY));
    let sum = table
        .and_then(|length| bytes.get(HEADER..)?.get(..usize::try_from(length).ok()?))
        .map(crc32c::crc32c);
    let Some(header) = bytes.get_mut(..HEADER) else { return };
    if let Some(sum) = sum {
        header[96..100].copy_from_slice(&sum.to_le_bytes());
    }
    seal(header);
}

fn seeds() -> Vec<Vec<u8>> {
    let bytes = run_rank(|world| -> Result<_> {
        remove_all(&[NAME]);
        let grid = CellGrid::new([10.0, 20.0, 5.0], [3, 2, 2]).expect("the box has a volume");
        let molecules: Vec<Molecule> =
            (0..20).map(|id| Molecule::new(id, [0.5 * id as f64, id as f64, 1.5], [0.1; 3])).collect();
        particle_cells::write(world, NAME, &grid, &molecules)?;
        load(world, NAME)
    });
    [CORRECT_SUMS, 0].map(|flags| [&[flags], &bytes[..]].concat()).into()
}
