//! The units of a simulation, for files that viewers open.

/// Ångström per unit of length, picoseconds per unit of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulationUnits {
    /// Ångström per unit of length.
    pub length: f64,
    /// Picoseconds per unit of time.
    pub time: f64,
}

impl SimulationUnits {
    /// No conversion.
    pub const BARE: Self = Self { length: 1.0, time: 1.0 };

    /// Converts a position, or the edges of a box.
    pub fn place(self, of_simulation: [f64; 3]) -> [f64; 3] {
        of_simulation.map(|x| x * self.length)
    }

    /// Converts a velocity.
    pub fn velocity(self, of_simulation: [f64; 3]) -> [f64; 3] {
        of_simulation.map(|v| v * self.length / self.time)
    }
}
