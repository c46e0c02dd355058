//! The configuration file.
//!
//! | line | meaning | default |
//! |---|---|---|
//! | `dimension 2` | dimensions of space, 2 or 3 | 2 |
//! | `packets 400` | packets of the ball: as many as fill whole shells of its lattice | 400 |
//! | `gamma 2` | the ratio of specific heats | 2 |
//! | `friction 0` | the friction between packets that pass through one another; 0 is reversible | 0 |
//! | `timestep 0.005` | length of a step | 0.005 |
//! | `relay 10` | steps after which the quadrature points are laid anew | 10 |
//!
//! `#` begins a comment.

use std::fmt;

use anyhow::{Context, Result, bail, ensure};

use crate::forces::Gas;
use crate::simulation::Method;

/// A configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FmmConfig {
    /// Dimensions of space.
    pub dimension: usize,
    /// The number of packets.
    pub packets: usize,
    /// Gas and numerical parameters.
    pub method: Method,
}

impl Default for FmmConfig {
    fn default() -> Self {
        let gas = Gas { gamma: 2.0, friction: 0.0 };
        Self { dimension: 2, packets: 400, method: Method { gas, timestep: 0.005, relay: 10 } }
    }
}

impl FmmConfig {
    /// Parses a configuration; `name` is for error messages.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let mut config = Self::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                config.set(line).with_context(|| format!("{name}, line {}: {line}", number + 1))?;
            }
        }
        config.check().with_context(|| name.to_owned())?;
        Ok(config)
    }

    fn set(&mut self, line: &str) -> Result<()> {
        let mut words = line.split_whitespace();
        let (key, value) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        ensure!(words.next().is_none(), "expected a key and one value");
        let number = || value.parse::<f64>().context("expected a number");
        let whole = || value.parse::<u64>().context("expected a whole number");
        match key {
            "dimension" => self.dimension = whole()? as usize,
            "packets" => self.packets = whole()? as usize,
            "gamma" => self.method.gas.gamma = number()?,
            "friction" => self.method.gas.friction = number()?,
            "timestep" => self.method.timestep = number()?,
            "relay" => self.method.relay = whole()?,
            _ => bail!("unknown key; there are dimension, packets, gamma, friction, timestep, relay"),
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let Method { gas, timestep, relay } = self.method;
        ensure!([2, 3].contains(&self.dimension), "dimension is 2 or 3");
        ensure!((1..=10_000_000).contains(&self.packets), "packets are from 1 to 10 million");
        ensure!(gas.gamma > 1.0 && gas.gamma <= 10.0, "gamma is greater than 1 and at most 10");
        ensure!(gas.friction >= 0.0 && gas.friction.is_finite(), "friction is not negative");
        ensure!(timestep > 0.0 && timestep.is_finite(), "timestep is positive");
        ensure!(relay > 0, "relay is at least 1");
        Ok(())
    }
}

impl fmt::Display for FmmConfig {
    /// The text that gives this configuration.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Method { gas, timestep, relay } = self.method;
        writeln!(f, "dimension {}\npackets {}\ngamma {}", self.dimension, self.packets, gas.gamma)?;
        writeln!(f, "friction {}\ntimestep {timestep}\nrelay {relay}", gas.friction)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_configuration_gives_it_back() {
        let text = "packets 12 # few\n\ngamma 1.4\nfriction 0.5\ntimestep 0.1\nrelay 3\ndimension 3\n";
        let config = FmmConfig::parse("few", text).unwrap();
        assert_eq!((config.packets, config.dimension, config.method.gas.gamma), (12, 3, 1.4));
        assert_eq!(FmmConfig::parse("again", &config.to_string()).unwrap(), config);
    }

    #[test]
    fn errors_name_the_line() {
        let error = FmmConfig::parse("bad.cfg", "packets 4\ngama 2\n").unwrap_err();
        assert!(format!("{error:#}").contains("bad.cfg, line 2: gama 2: unknown key"), "{error:#}");
        for bad in ["dimension 1", "packets 0", "gamma 1", "friction -1", "timestep 0", "relay 0", "relay x"]
        {
            assert!(FmmConfig::parse("bad", bad).is_err(), "{bad}");
        }
    }
}
