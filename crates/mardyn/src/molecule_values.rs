//! The values of a molecule in the order of the files, and ids that occur twice.

use aqueduct_checkpoint::Molecule;

/// Values of a molecule: position, velocity, orientation, angular momentum.
pub(crate) const VALUES: usize = 13;

/// The orientation of a molecule that has none.
const DEFAULT_ORIENTATION: [f64; 4] = [1.0, 0.0, 0.0, 0.0];

/// The values in the order of the files.
pub(crate) fn values(molecule: &Molecule) -> [f64; VALUES] {
    let mut values = [0.0; VALUES];
    values[..3].copy_from_slice(&molecule.position);
    values[3..6].copy_from_slice(&molecule.velocity);
    values[6..10].copy_from_slice(&molecule.orientation);
    values[10..].copy_from_slice(&molecule.angular_momentum);
    values
}

/// The values of a row without orientation and angular momentum, all 0 before they are read.
pub(crate) fn default_values() -> [f64; VALUES] {
    let mut values = [0.0; VALUES];
    values[6..10].copy_from_slice(&DEFAULT_ORIENTATION);
    values
}

/// The molecule with these values.
pub(crate) fn molecule(id: u64, component: u64, v: &[f64; VALUES]) -> Molecule {
    Molecule {
        id,
        component,
        position: [v[0], v[1], v[2]],
        velocity: [v[3], v[4], v[5]],
        orientation: [v[6], v[7], v[8], v[9]],
        angular_momentum: [v[10], v[11], v[12]],
    }
}

/// Whether a row without orientation and angular momentum loses nothing, compared bit by bit.
pub(crate) fn has_default_orientation(molecule: &Molecule) -> bool {
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    bits(&molecule.orientation) == bits(&DEFAULT_ORIENTATION) && bits(&molecule.angular_momentum) == [0; 3]
}

/// The first id that occurs twice.
pub(crate) fn find_duplicate(ids: impl Iterator<Item = u64> + Clone) -> Option<u64> {
    // Most programs write ids in ascending order, which one pass recognises.
    if ids.clone().is_sorted_by(|before, id| before < id) {
        return None;
    }
    let (count, greatest) =
        ids.clone().fold((0_u64, 0), |(count, greatest), id| (count + 1, id.max(greatest)));
    // Ids are mostly dense; a bit set then needs less memory than a sorted list.
    if greatest / 64 < count.max(1024) {
        let mut seen = vec![0_u64; (greatest / 64 + 1) as usize];
        return ids.into_iter().find(|id| {
            let (word, bit) = (&mut seen[(id / 64) as usize], 1 << (id % 64));
            let before = *word & bit != 0;
            *word |= bit;
            before
        });
    }
    let mut sorted: Vec<u64> = ids.collect();
    sorted.sort_unstable();
    sorted.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}
