//! The configuration: lines of a key and its values; `#` begins a comment. `sph --print-config` prints all keys with their values.

use std::fmt::{self, Display, Write as _};
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, ensure};
use aqueduct_decomposition::DecompositionMethod;

use crate::fluid::Materials;
use crate::integrator::IntegratorKind;
use crate::kernel::KernelKind;
use crate::quantity::QuantityTable;

/// The initial state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SceneKind {
    /// A chamber of air with walls; diesel enters through a nozzle.
    Jet,
    /// A periodic box of air with a plane sound wave along x.
    Sound,
    /// A periodic box of air with velocities along x that vary along y.
    Shear,
    /// A periodic box, half air and half diesel, at rest.
    Contact,
    /// A periodic box of air and diesel with random displacements and velocities.
    Random,
}

/// How the density is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DensityMethod {
    /// The smoothed number density times the mass of the particle (Ott and Schnetter 2003).
    Number,
    /// The integral of its rate, from the same number density.
    Integrated,
    /// Smoothed masses; not suitable for large density ratios.
    Standard,
}

macro_rules! named {
    ($kind:ty, $($variant:ident $name:literal),+) => {
        impl Setting for $kind {
            fn read(words: &[&str]) -> Result<Self> {
                let known = [$(($name, Self::$variant)),+];
                let found = known.iter().find(|(name, _)| [*name] == words);
                found.map(|(_, value)| *value).ok_or_else(|| {
                    anyhow!("it is one of {}", known.map(|(name, _)| name).join(", "))
                })
            }

            fn show(&self) -> String {
                [$(($name, Self::$variant)),+].iter().find(|(_, value)| value == self).map_or("", |(name, _)| name).to_owned()
            }
        }
    };
}

named!(SceneKind, Jet "jet", Sound "sound", Shear "shear", Contact "contact", Random "random");
named!(DensityMethod, Number "number", Integrated "integrated", Standard "standard");
named!(DecompositionMethod, Regular "regular", Kd "kd");
named!(KernelKind, Cubic "cubic", Quartic "quartic", Quintic "quintic", Gauss "gauss", Wendland "wendland");
named!(
    IntegratorKind, Euler "euler", Leapfrog "leapfrog", RungeKutta2 "rk2", RungeKutta4 "rk4",
    BogackiShampine "bogacki-shampine", CashKarp "cash-karp"
);

/// A value of the configuration.
trait Setting: Sized {
    fn read(words: &[&str]) -> Result<Self>;
    fn show(&self) -> String;
}

impl Setting for bool {
    fn read(words: &[&str]) -> Result<Self> {
        ensure!(words == ["on"] || words == ["off"], "it is on or off");
        Ok(words == ["on"])
    }

    fn show(&self) -> String {
        if *self { "on" } else { "off" }.to_owned()
    }
}

macro_rules! numbers {
    ($($number:ty),+) => {$(
        impl Setting for $number {
            fn read(words: &[&str]) -> Result<Self> {
                <[Self; 1]>::read(words).map(|[value]| value)
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    )+};
}
numbers!(f64, u64, usize);

impl<T: FromStr + Display, const N: usize> Setting for [T; N] {
    fn read(words: &[&str]) -> Result<Self> {
        let values: Option<Vec<T>> = words.iter().map(|word| word.parse().ok()).collect();
        values.and_then(|values| values.try_into().ok()).ok_or_else(|| match N {
            1 => anyhow!("it is a number"),
            _ => anyhow!("it is {N} numbers"),
        })
    }

    fn show(&self) -> String {
        self.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }
}

/// Declares the fields, their defaults and the reader and writer of the text.
macro_rules! config {
    ($($(#[doc = $doc:literal])+ $field:ident: $type:ty = $default:expr;)+) => {
        /// The configuration of a run.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Config {
            $($(#[doc = $doc])+ pub $field: $type,)+
        }

        impl Default for Config {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl Config {
            fn set(&mut self, key: &str, words: &[&str]) -> Result<()> {
                match key {
                    $(stringify!($field) => self.$field = Setting::read(words)?,)+
                    _ => return Err(anyhow!("the key is not known; sph --print-config prints all keys")),
                }
                Ok(())
            }
        }

        impl Display for Config {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                $(writeln!(f, "{} {}  #{}", stringify!($field), self.$field.show(), [$($doc),+].concat())?;)+
                Ok(())
            }
        }
    };
}

config! {
    /// The initial state: jet, sound, shear, contact or random.
    scene: SceneKind = SceneKind::Jet;
    /// Dimensions of space, 1 to 3.
    dimensions: usize = 3;
    /// Particles along x, y and z; of a jet, those of the chamber without walls. The jet enters along x.
    cells: [usize; 3] = [32, 16, 16];
    /// The distance of particles in m.
    spacing: f64 = 1.0;
    /// The smoothing length in units of the spacing.
    smoothing: f64 = 1.3;
    /// The kernel: cubic, quartic, quintic, gauss or wendland.
    kernel: KernelKind = KernelKind::Wendland;
    /// The integrator: euler, leapfrog, rk2, rk4, bogacki-shampine or cash-karp; the last two control the error.
    integrator: IntegratorKind = IntegratorKind::Leapfrog;
    /// The density: number, integrated or standard.
    density: DensityMethod = DensityMethod::Integrated;
    /// Whether the internal energy is computed.
    energy: bool = false;
    /// The time step in s; 0 computes it from the stability limits.
    timestep: f64 = 0.0;
    /// The factor of the stability limits.
    courant: f64 = 0.25;
    /// Absolute and relative tolerance of the error per step.
    tolerance: [f64; 2] = [1e-4, 1e-4];
    /// Coefficients alpha and beta of the artificial viscosity.
    artificial: [f64; 2] = [0.0, 0.0];
    /// The acceleration by gravity in m/s2.
    gravity: [f64; 3] = [0.0; 3];
    /// Density of the air in kg/m3.
    air_density: f64 = 1.0;
    /// Sound speed of the air in m/s.
    air_sound: f64 = 3.0;
    /// Adiabatic exponent of the air.
    gamma: f64 = 1.4;
    /// Specific gas constant of the air in J/(kg K).
    gas_constant: f64 = 287.0;
    /// Density of the diesel divided by that of the air.
    density_ratio: f64 = 20.0;
    /// Sound speed of the diesel in m/s.
    diesel_sound: f64 = 5.0;
    /// Shear viscosities of air and diesel in Pa s.
    shear_viscosity: [f64; 2] = [0.0, 0.0];
    /// Bulk viscosities of air and diesel in Pa s.
    bulk_viscosity: [f64; 2] = [0.0, 0.0];
    /// Radius of the nozzle in units of the spacing.
    nozzle: f64 = 2.5;
    /// Velocity of the jet in m/s; of a wave or random state, its amplitude.
    velocity: f64 = 1.0;
    /// Random displacements in units of the spacing.
    displacement: f64 = 0.0;
    /// Seed of the random state.
    seed: u64 = 1;
    /// The decomposition: regular or kd.
    decomposition: DecompositionMethod = DecompositionMethod::Kd;
    /// The largest load divided by the mean above which a k-d decomposition is computed anew.
    imbalance: f64 = 1.2;
}

impl Config {
    /// Reads a configuration; `name` is for messages.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let mut config = Self::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.split_once('#').map_or(line, |(line, _)| line);
            let words: Vec<&str> = line.split_whitespace().collect();
            if let [key, values @ ..] = words.as_slice() {
                let place = || format!("{name}, line {}: {key}", number + 1);
                config.set(key, values).with_context(place)?;
            }
        }
        config.check().with_context(|| name.to_owned())?;
        Ok(config)
    }

    /// Checks that values are in their ranges.
    pub fn check(&self) -> Result<()> {
        ensure!((1..=3).contains(&self.dimensions), "dimensions is 1, 2 or 3");
        let positive = [
            ("spacing", self.spacing),
            ("smoothing", self.smoothing),
            ("courant", self.courant),
            ("air_density", self.air_density),
            ("air_sound", self.air_sound),
            ("gas_constant", self.gas_constant),
            ("density_ratio", self.density_ratio),
            ("diesel_sound", self.diesel_sound),
            ("nozzle", self.nozzle),
            ("imbalance", self.imbalance),
        ];
        for (key, value) in positive {
            ensure!(value.is_finite() && value > 0.0, "{key} {value} is not a positive number");
        }
        let lists = [self.tolerance, self.artificial, self.shear_viscosity, self.bulk_viscosity];
        let others = [self.timestep, self.displacement];
        for value in lists.iter().flatten().chain(&others) {
            ensure!(value.is_finite() && *value >= 0.0, "{value} is not a number of at least 0");
        }
        ensure!(self.tolerance.iter().sum::<f64>() > 0.0, "one of both tolerances is positive");
        ensure!(self.gamma > 1.0 && self.gamma.is_finite(), "gamma is greater than 1");
        ensure!(
            self.velocity.is_finite() && self.gravity.iter().all(|g| g.is_finite()),
            "not a finite number"
        );
        ensure!(self.smoothing <= 10.0, "smoothing is at most 10");
        let used = &self.cells[..self.dimensions];
        let count = used.iter().try_fold(1usize, |count, cells| count.checked_mul(*cells));
        ensure!(
            count.is_some_and(|count| (1..=1 << 32).contains(&count)),
            "cells {:?} are 1 to 2^32",
            self.cells
        );
        if self.scene == SceneKind::Jet {
            ensure!(self.velocity > 0.0, "the velocity of a jet is positive");
            let room = used.iter().skip(1).all(|cells| *cells as f64 > 2.0 * self.nozzle);
            ensure!(room, "the nozzle is wider than the wall; reduce nozzle or increase cells");
        }
        Ok(())
    }

    /// The material constants.
    pub fn materials(&self) -> Materials {
        Materials {
            air_density: self.air_density,
            air_sound: self.air_sound,
            gamma: self.gamma,
            gas_constant: self.gas_constant,
            diesel_density: self.air_density * self.density_ratio,
            diesel_sound: self.diesel_sound,
            shear: self.shear_viscosity,
            bulk: self.bulk_viscosity,
            energy: self.energy,
        }
    }

    /// The smoothing length.
    pub fn smoothing_length(&self) -> f64 {
        self.smoothing * self.spacing
    }

    /// The quantities of a particle.
    pub fn quantities(&self) -> QuantityTable {
        QuantityTable::new(self.integrator.stages(), self.density == DensityMethod::Integrated, self.energy)
    }

    /// The lines that differ from the default.
    pub fn summary(&self) -> String {
        let (mine, default) = (self.to_string(), Self::default().to_string());
        let mut text = String::new();
        for (line, _) in mine.lines().zip(default.lines()).filter(|(one, other)| one != other) {
            let _ = writeln!(text, "{}", line.split_once("  #").map_or(line, |(line, _)| line));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_printed_and_read() {
        let text = "scene shear # no walls\ncells 4 40 1\n\ndimensions 2\nkernel gauss\nintegrator cash-karp\n\
                    density number\nenergy on\nshear_viscosity 0.1 0.25\ndecomposition regular\n";
        let config = Config::parse("test", text).unwrap();
        assert_eq!((config.cells, config.kernel, config.energy), ([4, 40, 1], KernelKind::Gauss, true));
        assert_eq!(Config::parse("printed", &config.to_string()).unwrap(), config);
        assert_eq!(Config::parse("summary", &config.summary()).unwrap(), config);
        assert_eq!(Config::default().summary(), "");
    }

    #[test]
    fn errors_name_line_and_key() {
        let message = |text: &str| format!("{:#}", Config::parse("a.cfg", text).unwrap_err());
        assert_eq!(
            message("scene jet\nkernel cube"),
            "a.cfg, line 2: kernel: it is one of cubic, quartic, quintic, gauss, wendland"
        );
        assert!(message("cells 1 2").contains("line 1: cells: it is 3 numbers"));
        assert!(message("cell 1 2").contains("the key is not known"));
        for bad in [
            "spacing -1",
            "gamma 1",
            "cells 0 1 1",
            "courant nan",
            "nozzle 9",
            "dimensions 4",
            "velocity inf",
        ] {
            assert!(message(bad).starts_with("a.cfg"), "{bad}");
        }
    }
}
