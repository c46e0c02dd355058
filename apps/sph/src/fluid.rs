//! The fluids and their equations of state.

use aqueduct::object::Object;

/// What a particle consists of.
#[derive(Object, Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Fluid {
    /// Air, a gas.
    #[default]
    Air,
    /// Diesel, a liquid of small compressibility.
    Diesel,
    /// A fixed particle of a wall, with the equation of state of air.
    Wall,
}

impl Fluid {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Air => "air",
            Self::Diesel => "diesel",
            Self::Wall => "wall",
        }
    }

    /// Its number in files of other formats.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The fluid of a number.
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Air, Self::Diesel, Self::Wall].into_iter().find(|fluid| fluid.code() == code)
    }
}

/// The adiabatic exponent of the liquid's equation of state.
const LIQUID_GAMMA: i32 = 7;

/// The material constants of both fluids.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Materials {
    /// Density of the air at rest.
    pub air_density: f64,
    /// Sound speed of the air.
    pub air_sound: f64,
    /// Adiabatic exponent of the air, for the energy equation.
    pub gamma: f64,
    /// Specific gas constant of the air, for temperatures.
    pub gas_constant: f64,
    /// Density of the diesel at rest.
    pub diesel_density: f64,
    /// Sound speed of the diesel at rest; usually lowered to ten times the largest velocity.
    pub diesel_sound: f64,
    /// Shear viscosity of air and diesel.
    pub shear: [f64; 2],
    /// Bulk viscosity of air and diesel.
    pub bulk: [f64; 2],
    /// Whether the internal energy is computed; otherwise the air is isothermal.
    pub energy: bool,
}

/// Pressure, sound speed and temperature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThermalState {
    /// Pressure.
    pub pressure: f64,
    /// Sound speed.
    pub sound: f64,
    /// Temperature.
    pub temperature: f64,
}

impl Materials {
    /// The density of a fluid at rest.
    pub fn rest_density(&self, fluid: Fluid) -> f64 {
        if fluid == Fluid::Diesel { self.diesel_density } else { self.air_density }
    }

    /// The pressure of the air at rest, which is also that of the diesel at rest.
    pub fn rest_pressure(&self) -> f64 {
        let p = self.air_sound * self.air_sound * self.air_density;
        if self.energy { p / self.gamma } else { p }
    }

    /// The internal energy per mass of the air at rest.
    pub fn rest_energy(&self) -> f64 {
        self.rest_pressure() / ((self.gamma - 1.0) * self.air_density)
    }

    /// Shear and bulk viscosity.
    pub fn viscosity(&self, fluid: Fluid) -> (f64, f64) {
        let at = usize::from(fluid == Fluid::Diesel);
        (self.shear[at], self.bulk[at])
    }

    /// Whether any fluid is viscous.
    pub fn is_viscous(&self) -> bool {
        self.shear.iter().chain(&self.bulk).any(|viscosity| *viscosity > 0.0)
    }

    /// The equation of state: air is isothermal, p = c²ρ, or with the energy equation p = (γ − 1)ρu; diesel follows
    /// p = p₀ + c²ρ₀/7 ((ρ/ρ₀)⁷ − 1).
    #[inline]
    pub fn state(&self, fluid: Fluid, density: f64, energy: f64) -> ThermalState {
        if fluid == Fluid::Diesel {
            let (rest, c) = (self.diesel_density, self.diesel_sound);
            let ratio = density / rest;
            let sixth = ratio.powi(LIQUID_GAMMA - 1);
            let stiffness = c * c * rest / f64::from(LIQUID_GAMMA);
            let pressure = self.rest_pressure() + stiffness * (sixth * ratio - 1.0);
            return ThermalState {
                pressure,
                sound: c * ratio.abs().powi(3),
                temperature: self.gas_temperature(self.rest_energy()),
            };
        }
        if self.energy {
            let pressure = (self.gamma - 1.0) * density * energy;
            let sound = (self.gamma * (self.gamma - 1.0) * energy).max(0.0).sqrt();
            return ThermalState { pressure, sound, temperature: self.gas_temperature(energy) };
        }
        let c = self.air_sound;
        ThermalState { pressure: c * c * density, sound: c, temperature: c * c / self.gas_constant }
    }

    fn gas_temperature(&self, energy: f64) -> f64 {
        (self.gamma - 1.0) * energy / self.gas_constant
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn materials(energy: bool) -> Materials {
        Materials {
            air_density: 1.2,
            air_sound: 3.0,
            gamma: 1.4,
            gas_constant: 1.0,
            diesel_density: 24.0,
            diesel_sound: 5.0,
            shear: [0.0; 2],
            bulk: [0.0; 2],
            energy,
        }
    }

    #[test]
    fn fluids_at_rest_have_the_same_pressure_and_their_sound_speed() {
        for energy in [false, true] {
            let materials = materials(energy);
            for (fluid, sound) in [(Fluid::Air, 3.0), (Fluid::Diesel, 5.0), (Fluid::Wall, 3.0)] {
                let rest = materials.rest_density(fluid);
                let state = materials.state(fluid, rest, materials.rest_energy());
                assert!((state.pressure / materials.rest_pressure() - 1.0).abs() < 1e-12, "{fluid:?}");
                assert!((state.sound / sound - 1.0).abs() < 1e-12, "{fluid:?}");
            }
        }
    }

    #[test]
    fn the_sound_speed_is_the_slope_of_the_pressure() {
        let materials = materials(false);
        for (fluid, density) in [(Fluid::Air, 1.3), (Fluid::Diesel, 24.5)] {
            let p = |density| materials.state(fluid, density, 0.0).pressure;
            let quotient = (p(density + 1e-5) - p(density - 1e-5)) / 2e-5;
            let sound = materials.state(fluid, density, 0.0).sound;
            assert!((quotient.sqrt() / sound - 1.0).abs() < 1e-6, "{fluid:?}");
        }
    }
}
