//! A rigid molecule.

use bytemuck::{Pod, Zeroable};

/// Where a molecule is and how it moves.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Molecule {
    pub id: u64,
    pub component: u64,
    pub position: [f64; 3],
    pub velocity: [f64; 3],
    pub orientation: [f64; 4],
    pub angular_momentum: [f64; 3],
}

impl Molecule {
    /// A molecule of the first component that does not turn.
    pub fn new(id: u64, position: [f64; 3], velocity: [f64; 3]) -> Self {
        Self {
            id,
            component: 0,
            position,
            velocity,
            orientation: [1.0, 0.0, 0.0, 0.0],
            angular_momentum: [0.0; 3],
        }
    }
}
