//! The particles over time in one VTKHDF file, which `ParaView` and VTK 9.3 open.

use anyhow::Result;
use aqueduct::comm::Comm;
use aqueduct::formats::vtkhdf::{ParticleSeries, PointField};

use crate::fluid::Fluid;
use crate::quantity::{scalar, vector};
use crate::simulation::SphSimulation;

/// A file that is being written by all ranks.
pub struct VtkSeries(ParticleSeries);

impl VtkSeries {
    /// Creates `<prefix>-<first step>.vtkhdf`, in place of the one of this name. Collective.
    pub fn create(world: &Comm, prefix: &str, first_step: u64) -> Result<Self> {
        Ok(Self(ParticleSeries::replace(world, format!("{prefix}-{first_step:06}.vtkhdf"))?))
    }

    /// Appends the particles without walls. Collective.
    pub fn write(&mut self, simulation: &SphSimulation) -> Result<()> {
        let particles = simulation.particles();
        let shown: Vec<usize> =
            (0..particles.len()).filter(|at| particles.fluids[*at] != Fluid::Wall).collect();
        let scalars =
            |number: usize| shown.iter().map(|at| particles.scalars[number][*at]).collect::<Vec<_>>();
        let vectors =
            |number: usize| shown.iter().map(|at| particles.vectors[number][*at]).collect::<Vec<_>>();
        let (density, pressure) = (scalars(scalar::DENSITY), scalars(scalar::PRESSURE));
        let (position, velocity) = (vectors(vector::POSITION), vectors(vector::VELOCITY));
        let ids: Vec<u64> = shown.iter().map(|at| particles.ids[*at]).collect();
        let fluids: Vec<u8> = shown.iter().map(|at| particles.fluids[*at].code()).collect();
        let fields = [
            PointField::new("density", &density),
            PointField::new("pressure", &pressure),
            PointField::new("velocity", &velocity),
            PointField::new("id", &ids),
            PointField::new("fluid", &fluids),
        ];
        Ok(self.0.write(simulation.state().time, &position, &fields)?)
    }

    /// Closes the file. Collective.
    pub fn close(self) -> Result<()> {
        Ok(self.0.close()?)
    }
}
