//! The trait of particles, and the rigid molecules of molecular dynamics.

use aqueduct_comm::Plain;
use bytemuck::{Pod, Zeroable};

/// A particle that is stored by cell. It has a position, and its bytes in memory are its bytes in the file.
pub trait Particle: Plain + Send + Sync {
    /// The position.
    fn position(&self) -> [f64; 3];
}

/// A rigid molecule, as in `MarDyn`.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Molecule {
    /// Unique in the simulation.
    pub id: u64,
    /// The component, counted from 0. (Most file formats count from 1.)
    pub component: u64,
    /// Centre of mass.
    pub position: [f64; 3],
    /// Velocity.
    pub velocity: [f64; 3],
    /// Orientation, a quaternion: w, x, y, z.
    pub orientation: [f64; 4],
    /// Angular momentum.
    pub angular_momentum: [f64; 3],
}

impl Molecule {
    /// A molecule of the first component, without rotation.
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
