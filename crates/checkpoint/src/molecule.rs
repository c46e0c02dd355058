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

impl Particle for Molecule {
    fn position(&self) -> [f64; 3] {
        self.position
    }
}
