//! A mass packet: fixed mass, position, deformation matrix, and their rates.

use aqueduct::object::Object;

use crate::matrix::{Matrix, inner_product};
use crate::shape::SECOND_MOMENT;

/// A packet in `D` dimensions, as it is stored: an object of constant size, written as it is in memory.
#[derive(Object, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct MassPacket<const D: usize> {
    /// 1 for a packet that takes part, 0 for one that does not.
    pub flag: f64,
    /// The centre.
    #[object(rename = "q", description = "position of the centre")]
    pub position: [f64; D],
    /// The rate of the position.
    #[object(rename = "qdot", description = "velocity of the centre")]
    pub velocity: [f64; D],
    /// The mass.
    #[object(rename = "m", description = "mass")]
    pub mass: f64,
    /// The entropy.
    #[object(rename = "s", description = "entropy")]
    pub entropy: f64,
    /// The matrix H: the packet has its points at q + Hy for y in the support of the shape.
    #[object(rename = "l_h", description = "deformation matrix")]
    pub deformation: Matrix<D>,
    /// The rate of the deformation matrix.
    #[object(rename = "l_h_dot", description = "rate of the deformation matrix")]
    pub deformation_rate: Matrix<D>,
}

impl<const D: usize> MassPacket<D> {
    /// The kinetic energy: of the centre and of the deformation.
    pub fn kinetic_energy(&self) -> f64 {
        let centre: f64 = self.velocity.iter().map(|velocity| velocity * velocity).sum();
        let deformation = inner_product(&self.deformation_rate, &self.deformation_rate);
        0.5 * self.mass * (centre + SECOND_MOMENT * deformation)
    }

    /// The second moment of its mass: `m(|q|² + J tr HHᵀ)`.
    pub fn second_moment(&self) -> f64 {
        let centre: f64 = self.position.iter().map(|position| position * position).sum();
        self.mass * (centre + SECOND_MOMENT * inner_product(&self.deformation, &self.deformation))
    }

    /// True if it takes part.
    pub fn is_active(&self) -> bool {
        self.flag != 0.0
    }
}
