//! What a particle is, and the molecules of molecular dynamics.

use aqueduct_comm::Plain;
use bytemuck::{Pod, Zeroable};

/// A particle that can lie in a cell: it has a place, and is moved as its bytes.
pub trait Particle: Plain + Send + Sync {
    /// Where it is.
    fn position(&self) -> [f64; 3];
}

/// A rigid molecule, as `MarDyn` has it.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Molecule {
    /// Unique in the simulation.
    pub id: u64,
    /// Which component it is of, from 0. (Most files count from 1; that is their affair.)
    pub component: u64,
    /// Centre of mass.
    pub position: [f64; 3],
    /// Its velocity.
    pub velocity: [f64; 3],
    /// A quaternion: w, x, y, z.
    pub orientation: [f64; 4],
    /// Angular momentum.
    pub angular_momentum: [f64; 3],
}

impl Molecule {
    /// A molecule of the first component that does not turn.
    pub fn new(id: u64, position: [f64; 3], velocity: [f64; 3]) -> Self {
        Self { id, component: 0, position, velocity, orientation: UPRIGHT, angular_momentum: [0.0; 3] }
    }

    /// The thirteen numbers in the order of the files.
    pub(crate) fn numbers(&self) -> [f64; 13] {
        let mut numbers = [0.0; 13];
        numbers[..3].copy_from_slice(&self.position);
        numbers[3..6].copy_from_slice(&self.velocity);
        numbers[6..10].copy_from_slice(&self.orientation);
        numbers[10..].copy_from_slice(&self.angular_momentum);
        numbers
    }

    pub(crate) fn from_numbers(id: u64, component: u64, n: &[f64; 13]) -> Self {
        Self {
            id,
            component,
            position: [n[0], n[1], n[2]],
            velocity: [n[3], n[4], n[5]],
            orientation: [n[6], n[7], n[8], n[9]],
            angular_momentum: [n[10], n[11], n[12]],
        }
    }

    /// Whether nothing is lost where orientation and angular momentum are not stored.
    pub(crate) fn is_upright(&self) -> bool {
        let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        bits(&self.orientation) == bits(&UPRIGHT) && bits(&self.angular_momentum) == [0; 3]
    }
}

/// The orientation of what has none.
pub(crate) const UPRIGHT: [f64; 4] = [1.0, 0.0, 0.0, 0.0];

impl Particle for Molecule {
    fn position(&self) -> [f64; 3] {
        self.position
    }
}

/// The first id that occurs twice.
pub(crate) fn find_duplicate(ids: impl Iterator<Item = u64> + Clone) -> Option<u64> {
    // Most programs write them in order, where one look is enough.
    if ids.clone().is_sorted_by(|before, id| before < id) {
        return None;
    }
    let (count, greatest) =
        ids.clone().fold((0_u64, 0), |(count, greatest), id| (count + 1, id.max(greatest)));
    // Ids are mostly dense: a bit for each is less than a list to be sorted.
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
