//! The text header of a phase space; no I/O.

use std::fmt::Write;

use crate::component::{AxialSite, Charge, LennardJones, MoleculeComponent, Tersoff};
use crate::number_text;
use crate::phase_space::{MoleculeFormat, PhaseSpace, VERSION};
use crate::word_scanner::{LineError, WordScanner, printable};

/// Accepted first words of the first line.
const NAMES: [&str; 7] = ["mardyn", "MOLDY", "ls1r1", "mrdyn", "MDProject", "MarDyn", "MARDYN"];

/// The oldest version that is read.
const OLDEST: u64 = 20_080_701;

/// A header that was read, and its end.
#[derive(Debug)]
pub(super) struct ParsedHeader {
    pub(super) space: PhaseSpace,
    /// The length of the header in bytes.
    pub(super) end: usize,
    /// The line in which it ends.
    pub(super) line: u64,
}

/// Reads a header from the beginning of a text.
pub(super) fn read(bytes: &[u8]) -> Result<ParsedHeader, LineError> {
    let mut words = HeaderParser { scan: WordScanner::new(bytes) };
    let mut space = PhaseSpace::new([0.0; 3], Vec::new());
    space.version = words.first_line()?;
    let mut rows = None;
    loop {
        let Some(key) = words.scan.word() else {
            return Err(words.flaw("the text ends before NumberOfMolecules"));
        };
        match key {
            b"currentTime" | b"t" => space.time = words.number("the current time")?,
            b"Temperature" | b"T" => space.temperature = Some(words.number("the temperature")?),
            b"Length" | b"L" => space.length = words.length()?,
            b"ThermostatTemperature" | b"ThT" | b"h" => {
                space.thermostats.push((words.integer("a thermostat")?, words.number("its temperature")?));
            }
            b"ComponentThermostat" | b"CT" | b"o" => {
                space
                    .component_thermostats
                    .push((words.integer("a component")?, words.integer("a thermostat")?));
            }
            b"Undirected" | b"U" => space.undirected.push(words.integer("a thermostat")?),
            b"NumberOfComponents" | b"C" => words.components(&mut space)?,
            b"MoleculeFormat" | b"M" => rows = Some(words.rows()?),
            b"NumberOfMolecules" | b"N" => {
                space.molecules = words.count("the number of molecules")?;
                break;
            }
            other => return Err(words.flaw(format!("{} is not a key of a phase space", printable(other)))),
        }
    }
    let mut ahead = HeaderParser { scan: words.scan.clone() };
    if let Some(b"MoleculeFormat" | b"M") = ahead.scan.word() {
        rows = Some(ahead.rows()?);
        words = ahead;
    }
    space.molecule_format = rows.unwrap_or_default();
    if space.length[0] <= 0.0 {
        return Err(words.flaw("the header has no Length"));
    }
    Ok(ParsedHeader { space, end: words.scan.at(), line: words.scan.line() })
}

struct HeaderParser<'a> {
    scan: WordScanner<'a>,
}

impl<'a> HeaderParser<'a> {
    fn flaw(&self, what: impl Into<String>) -> LineError {
        LineError::new(self.scan.line(), what)
    }

    fn word(&mut self, what: &str) -> Result<&'a [u8], LineError> {
        self.scan.word().ok_or_else(|| self.flaw(format!("the text ends before {what}")))
    }

    fn number(&mut self, what: &str) -> Result<f64, LineError> {
        let word = self.word(what)?;
        number_text::float(word)
            .ok_or_else(|| self.flaw(format!("{} is not a number: {what}", printable(word))))
    }

    fn numbers<const N: usize>(&mut self, what: &str) -> Result<[f64; N], LineError> {
        let mut numbers = [0.0; N];
        for number in &mut numbers {
            *number = self.number(what)?;
        }
        Ok(numbers)
    }

    fn count(&mut self, what: &str) -> Result<u64, LineError> {
        let word = self.word(what)?;
        number_text::whole(word)
            .ok_or_else(|| self.flaw(format!("{} is not a count: {what}", printable(word))))
    }

    fn integer(&mut self, what: &str) -> Result<i64, LineError> {
        let word = self.word(what)?;
        let text = std::str::from_utf8(word).ok().and_then(|text| text.parse().ok());
        text.ok_or_else(|| self.flaw(format!("{} is not the number of {what}", printable(word))))
    }

    fn first_line(&mut self) -> Result<u32, LineError> {
        let name = self.scan.word().unwrap_or_default();
        if !NAMES.iter().any(|known| known.as_bytes() == name) {
            return Err(self.flaw(format!(
                "the file begins with {} instead of \"mardyn trunk {VERSION}\"; is it a phase space?",
                printable(name)
            )));
        }
        let trunk = self.word("\"trunk\"")?;
        if trunk != b"trunk" {
            return Err(self.flaw(format!("{} instead of \"trunk\"", printable(trunk))));
        }
        let version = self.count("the version")?;
        if !(OLDEST..=99_999_999).contains(&version) {
            return Err(self.flaw(format!(
                "version {version} is not supported; the oldest supported version is {OLDEST}"
            )));
        }
        Ok(version as u32)
    }

    fn length(&mut self) -> Result<[f64; 3], LineError> {
        let length = self.numbers("the length of the box")?;
        if length.iter().all(|&edge| edge > 0.0) {
            return Ok(length);
        }
        Err(self.flaw(format!("a box of {length:?} has no volume")))
    }

    fn rows(&mut self) -> Result<MoleculeFormat, LineError> {
        let word = self.word("the molecule format")?;
        let rows = std::str::from_utf8(word).ok().and_then(MoleculeFormat::from_name);
        rows.ok_or_else(|| {
            self.flaw(format!("{} is not a molecule format: ICRVQD, ICRV or IRV", printable(word)))
        })
    }

    fn components(&mut self, space: &mut PhaseSpace) -> Result<(), LineError> {
        if !space.components.is_empty() {
            return Err(self.flaw("NumberOfComponents occurs twice"));
        }
        let count = self.count("the number of components")?;
        for _ in 0..count {
            space.components.push(self.component()?);
        }
        space.mixing.clear();
        for _ in 0..count.saturating_mul(count.saturating_sub(1)) / 2 {
            space.mixing.push(self.numbers("mixing coefficients")?);
        }
        space.epsilon_rf = self.number("epsilon of the reaction field")?;
        Ok(())
    }

    fn component(&mut self) -> Result<MoleculeComponent, LineError> {
        let mut counts = [0; 5];
        for count in &mut counts {
            *count = self.count("a number of sites")?;
        }
        let mut component = MoleculeComponent::default();
        for _ in 0..counts[0] {
            component.lennard_jones.push(self.lennard_jones()?);
        }
        for _ in 0..counts[1] {
            let [x, y, z, mass, charge] = self.numbers("a charge")?;
            component.charges.push(Charge { position: [x, y, z], mass, charge });
        }
        for _ in 0..counts[2] {
            component.dipoles.push(self.axial("a dipole")?);
        }
        for _ in 0..counts[3] {
            component.quadrupoles.push(self.axial("a quadrupole")?);
        }
        for _ in 0..counts[4] {
            let (position, [mass]) = (self.numbers("a Tersoff centre")?, self.numbers("a Tersoff centre")?);
            component.tersoff.push(Tersoff { position, mass, parameters: self.numbers("a Tersoff centre")? });
        }
        component.inertia = self.numbers("moments of inertia")?;
        Ok(component)
    }

    /// Existing files omit the shift, or cutoff and shift.
    fn lennard_jones(&mut self) -> Result<LennardJones, LineError> {
        let [x, y, z, mass, epsilon, sigma] = self.numbers("a Lennard-Jones centre")?;
        let mut more = [0.0; 2];
        for value in &mut more {
            let Some(word) = self.scan.word_on_line() else { break };
            let number = number_text::float(word);
            *value = number.ok_or_else(|| {
                self.flaw(format!("{} is not a number: a Lennard-Jones centre", printable(word)))
            })?;
        }
        Ok(LennardJones { position: [x, y, z], mass, epsilon, sigma, cutoff: more[0], shift: more[1] })
    }

    fn axial(&mut self, what: &str) -> Result<AxialSite, LineError> {
        let (position, direction) = (self.numbers(what)?, self.numbers(what)?);
        Ok(AxialSite { position, direction, moment: self.number(what)? })
    }
}

/// Encodes the header; the molecules follow it.
pub(super) fn encode(space: &PhaseSpace, molecules: u64, rows: MoleculeFormat) -> String {
    let mut text = format!("mardyn trunk {}\n", space.version.max(OLDEST as u32));
    line(&mut text, "currentTime", &[space.time]);
    line(&mut text, "Length", &space.length);
    if let Some(temperature) = space.temperature {
        line(&mut text, "Temperature", &[temperature]);
    }
    for (id, temperature) in &space.thermostats {
        line(&mut text, &format!("ThermostatTemperature {id}"), &[*temperature]);
    }
    for (component, thermostat) in &space.component_thermostats {
        line(&mut text, &format!("ComponentThermostat {component} {thermostat}"), &[]);
    }
    for thermostat in &space.undirected {
        line(&mut text, &format!("Undirected {thermostat}"), &[]);
    }
    line(&mut text, &format!("NumberOfComponents {}", space.components.len()), &[]);
    for component in &space.components {
        put_component(&mut text, component);
    }
    for pair in &space.mixing {
        line(&mut text, "", pair);
    }
    line(&mut text, "", &[space.epsilon_rf]);
    line(&mut text, &format!("NumberOfMolecules {molecules}"), &[]);
    line(&mut text, &format!("MoleculeFormat {}", rows.name()), &[]);
    text
}

fn put_component(text: &mut String, component: &MoleculeComponent) {
    let counts = [
        component.lennard_jones.len(),
        component.charges.len(),
        component.dipoles.len(),
        component.quadrupoles.len(),
        component.tersoff.len(),
    ];
    let _ = writeln!(text, "{}", counts.map(|count| count.to_string()).join(" "));
    for site in &component.lennard_jones {
        let [x, y, z] = site.position;
        line(text, "", &[x, y, z, site.mass, site.epsilon, site.sigma, site.cutoff, site.shift]);
    }
    for site in &component.charges {
        let [x, y, z] = site.position;
        line(text, "", &[x, y, z, site.mass, site.charge]);
    }
    for site in component.dipoles.iter().chain(&component.quadrupoles) {
        line(text, "", &[&site.position[..], &site.direction, &[site.moment]].concat());
    }
    for site in &component.tersoff {
        line(text, "", &[&site.position[..], &[site.mass], &site.parameters].concat());
    }
    line(text, "", &component.inertia);
}

fn line(text: &mut String, key: &str, numbers: &[f64]) {
    let words = std::iter::once(key.to_owned()).filter(|key| !key.is_empty());
    let words: Vec<String> = words.chain(numbers.iter().map(|value| number_text::shortest(*value))).collect();
    text.push_str(&words.join(" "));
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header with all fields.
    fn full() -> PhaseSpace {
        let axial = |moment| AxialSite { position: [0.1, 0.2, 0.3], direction: [0.0, 0.0, 1.0], moment };
        let mut water = MoleculeComponent::single(0.016, 1e-4, 5.9);
        water.charges = vec![Charge { position: [0.0, -0.1, 0.0], mass: 0.0, charge: -1.04 }; 2];
        water.inertia = [0.1, 0.2, 1.0 / 3.0];
        let other = MoleculeComponent {
            dipoles: vec![axial(2.5)],
            quadrupoles: vec![axial(-3.5), axial(1e-300)],
            tersoff: vec![Tersoff {
                position: [0.5; 3],
                mass: 12.0,
                parameters: std::array::from_fn(|n| n as f64 + 0.1),
            }],
            ..MoleculeComponent::default()
        };
        let mut space = PhaseSpace::new([10.0, 20.0, 1.0 / 3.0], vec![water.clone(), other, water]);
        space.mixing = vec![[1.0, 0.9], [0.8, 0.7], [0.6, 0.5]];
        space.time = 91.1835;
        space.temperature = Some(0.7);
        space.thermostats = vec![(1, 0.7), (2, 0.9)];
        space.component_thermostats = vec![(1, 1), (-1, 2)];
        space.undirected = vec![1];
        space
    }

    #[test]
    fn a_header_survives_encoding_and_decoding() {
        for rows in [MoleculeFormat::Icrvqd, MoleculeFormat::Icrv, MoleculeFormat::Irv] {
            let mut space = full();
            (space.molecules, space.molecule_format) = (7, rows);
            let text = encode(&space, 7, rows) + "1 1 0 0 0 0 0 0\n";
            let head = read(text.as_bytes()).unwrap();
            assert_eq!(head.space, space);
            assert_eq!(text[head.end..].trim_start(), "1 1 0 0 0 0 0 0\n");
        }
    }

    #[test]
    fn short_keys_comments_and_missing_fields_are_read() {
        let text = "MDProject trunk 20090731 # version\n t 1.5\n#rho 3\nT .5\nL 1 2. 3e0\nC 1\n1 0 0 0 0\n0 0 0 1 2 3 4\n0 0 0\n1e10\nN 2\n1 1";
        let head = read(text.as_bytes()).unwrap();
        let space = head.space;
        assert_eq!((space.time, space.temperature, space.length), (1.5, Some(0.5), [1.0, 2.0, 3.0]));
        let site = space.components[0].lennard_jones[0];
        assert_eq!((site.mass, site.sigma, site.cutoff, site.shift), (1.0, 3.0, 4.0, 0.0));
        assert_eq!((space.molecule_format, space.molecules), (MoleculeFormat::Icrvqd, 2));
        assert_eq!(text[head.end..].trim_start(), "1 1");
    }

    #[test]
    fn errors_name_the_line() {
        let cases = [
            ("", 1, "instead of \"mardyn trunk"),
            ("hello", 1, "instead of \"mardyn trunk"),
            ("mardyn branch 20120726", 1, "instead of \"trunk\""),
            ("mardyn trunk 20080601", 1, "version 20080601"),
            ("mardyn trunk x", 1, "the version"),
            ("mardyn trunk 20120726\nt x", 2, "not a number: the current time"),
            ("mardyn trunk 20120726\nt nan", 2, "not a number"),
            ("mardyn trunk 20120726\nL 1 1 -1", 2, "no volume"),
            ("mardyn trunk 20120726\nL 1 1", 2, "the text ends before the length"),
            ("mardyn trunk 20120726\nZ 1", 2, "not a key"),
            ("mardyn trunk 20120726\n\nC 99999999999999999\n1 0", 4, "a number of sites"),
            ("mardyn trunk 20120726\nC 1\n1 0 0 0 0\n1 2 3 4 5 x", 4, "Lennard-Jones"),
            ("mardyn trunk 20120726\nL 1 1 1\nN -3", 3, "the number of molecules"),
            ("mardyn trunk 20120726\nN 3\nM ICRVQD", 3, "no Length"),
            ("mardyn trunk 20120726\nL 1 1 1\nN 3\nM IRCV", 4, "not a molecule format"),
            ("mardyn trunk 20120726\nL 1 1 1\n", 3, "before NumberOfMolecules"),
        ];
        for (text, line, what) in cases {
            let flaw = read(text.as_bytes()).unwrap_err();
            assert!(flaw.line == line && flaw.what.contains(what), "{text:?}: {flaw:?}");
        }
    }
}
