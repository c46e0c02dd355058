//! The configuration file, in the format of `MarDyn`.
//!
//! | line | meaning |
//! |---|---|
//! | `MDProjectConfig` | the first line |
//! | `timestepLength 0.002` | length of a step |
//! | `cutoffRadius 2.5` | the cutoff radius of the forces; also `LJCutoffRadius` |
//! | `phaseSpaceFile OldStyle liquid.inp` | the file of the molecules; `Binary`, `PnetCDF` and `MPI-IO` have a header and a data file |
//! | `phaseSpaceFile Generator fcc 4000 0.8 1.1 7` | a generated state: lattice (`fcc`, `cubic`), molecules, density, temperature, seed (default 1) |
//! | `components liquid.inp` | an `OldStyle` file with the components, if the header of the molecules has none |
//! | `parallelization DomainDecomposition` | or `KDDecomposition`, with the steps between two load balancings (default 100) |
//! | `datastructure LinkedCells 1` | the only data structure; cells have the size of the cutoff, other numbers are errors |
//! | `thermostat 1.1 10` | scale velocities to this temperature every ten steps |
//! | `units 3.405 2.156` | units for viewers: Ångström per unit of length, picoseconds per unit of time (here argon); without it files have no units |
//! | `output ResultWriter 10 energies` | writer, steps between two outputs, prefix of the files; any number of lines |
//!
//! `#` begins a comment.

use anyhow::{Context, Result, bail, ensure};
use aqueduct::mardyn::{PhaseSpaceFiles, PhaseSpaceFormat};

use crate::decomposition::DecompositionMethod;
use crate::input::lattice_generator::{Lattice, LatticeGenerator};
use crate::input::units::SimulationUnits;
use crate::simulation::Thermostat;

/// A configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Length of a time step.
    pub timestep: f64,
    /// The cutoff radius of the forces.
    pub cutoff: f64,
    /// The source of the molecules.
    pub source: MoleculeSource,
    /// A file with the components.
    pub components: Option<String>,
    /// The method of decomposition.
    pub decomposition_method: DecompositionMethod,
    /// Steps between two load balancings.
    pub rebalance: u64,
    /// The thermostat, if there is one.
    pub thermostat: Option<Thermostat>,
    /// The units for viewers.
    pub units: Option<SimulationUnits>,
    /// The lines `output`.
    pub outputs: Vec<OutputLine>,
}

/// The source of the molecules.
#[derive(Clone, Debug, PartialEq)]
pub enum MoleculeSource {
    /// Files in a format of `MarDyn`.
    Files(PhaseSpaceFormat, PhaseSpaceFiles),
    /// A generated lattice.
    Generator(LatticeGenerator),
}

/// A line `output`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputLine {
    /// The writer.
    pub kind: OutputKind,
    /// Steps between two outputs.
    pub every: u64,
    /// The prefix of the file names.
    pub prefix: String,
}

/// A kind of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// Energies as a table and as a plot.
    Result,
    /// Molecules for viewers.
    Xyz,
    /// Scenes for POV-Ray.
    Pov,
    /// Frames for `MegaMol`.
    Vis,
    /// A trajectory in HDF5, in the format H5MD.
    H5md,
    /// Phase spaces in a format of `MarDyn`.
    Phase(PhaseSpaceFormat),
}

impl OutputKind {
    fn all() -> impl Iterator<Item = Self> {
        [Self::Result, Self::Xyz, Self::Pov, Self::Vis, Self::H5md]
            .into_iter()
            .chain(PhaseSpaceFormat::ALL.map(Self::Phase))
    }

    /// Its name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Result => "ResultWriter",
            Self::Xyz => "XyzWriter",
            Self::Pov => "PovWriter",
            Self::Vis => "VISWriter",
            Self::H5md => "H5MD",
            Self::Phase(format) => format.writer(),
        }
    }
}

/// The lines that have been read so far; required ones may still be missing.
#[derive(Default)]
struct ConfigBuilder {
    timestep: Option<f64>,
    cutoff: Option<f64>,
    source: Option<MoleculeSource>,
    components: Option<String>,
    decomposition_method: Option<DecompositionMethod>,
    rebalance: Option<u64>,
    thermostat: Option<Thermostat>,
    units: Option<SimulationUnits>,
    outputs: Vec<OutputLine>,
}

impl Config {
    /// Parses the text of the file `name`; errors name the line.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let mut draft = ConfigBuilder::default();
        let mut begun = false;
        for (at, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
            let Some((key, values)) = words.split_first() else { continue };
            let place = || format!("{name}, line {}", at + 1);
            if begun {
                draft.line(key, values).with_context(place)?;
            } else {
                ensure!(
                    *key == "MDProjectConfig",
                    "{}: the first line is `{key}` instead of MDProjectConfig",
                    place()
                );
                begun = true;
            }
        }
        let missing = |key: &str| format!("{name}: the line `{key}` is missing");
        Ok(Self {
            timestep: draft.timestep.with_context(|| missing("timestepLength"))?,
            cutoff: draft.cutoff.with_context(|| missing("cutoffRadius"))?,
            source: draft.source.with_context(|| missing("phaseSpaceFile"))?,
            components: draft.components,
            decomposition_method: draft.decomposition_method.unwrap_or_default(),
            rebalance: draft.rebalance.unwrap_or(100),
            thermostat: draft.thermostat,
            units: draft.units,
            outputs: draft.outputs,
        })
    }
}

impl Config {
    /// The input files.
    pub fn inputs(&self) -> Vec<&str> {
        let origin = match &self.source {
            MoleculeSource::Files(_, files) => vec![files.header.as_str(), files.data.as_str()],
            MoleculeSource::Generator(_) => Vec::new(),
        };
        origin.into_iter().chain(self.components.as_deref()).filter(|name| !name.is_empty()).collect()
    }
}

impl ConfigBuilder {
    fn line(&mut self, key: &str, values: &[&str]) -> Result<()> {
        match (key, values) {
            ("timestepLength", [value]) => once(&mut self.timestep, key, positive(value)?),
            ("cutoffRadius" | "LJCutoffRadius", [value]) => once(&mut self.cutoff, key, positive(value)?),
            ("phaseSpaceFile", ["Generator", values @ ..]) => {
                once(&mut self.source, key, MoleculeSource::Generator(generator(values)?))
            }
            ("phaseSpaceFile", [format, files @ ..]) => {
                once(&mut self.source, key, parse_source(format, files)?)
            }
            ("components", [file]) => once(&mut self.components, key, (*file).to_owned()),
            ("parallelization", [method]) => self.parallelization(method, None),
            ("parallelization", [method, steps]) => self.parallelization(method, Some(steps)),
            ("datastructure", ["LinkedCells"]) => Ok(()),
            ("datastructure", ["LinkedCells", cells]) => match count(cells)? {
                1 => Ok(()),
                more => bail!(
                    "`LinkedCells {more}` means {more} cells per cutoff radius, but only 1 is supported"
                ),
            },
            ("datastructure", [other] | [other, _]) => {
                bail!("unknown data structure `{other}`; use LinkedCells")
            }
            ("thermostat", [temperature]) => self.thermostat(temperature, 1),
            ("thermostat", [temperature, every]) => self.thermostat(temperature, count(every)?),
            ("units", [length, time]) => once(
                &mut self.units,
                key,
                SimulationUnits { length: positive(length)?, time: positive(time)? },
            ),
            ("output", [writer, every, prefix]) => {
                let known = OutputKind::all().find(|known| known.name() == *writer);
                let names = || OutputKind::all().map(OutputKind::name).collect::<Vec<_>>().join(", ");
                let known =
                    known.with_context(|| format!("unknown writer `{writer}`; use one of {}", names()))?;
                let line = OutputLine { kind: known, every: count(every)?, prefix: (*prefix).to_owned() };
                let same = |other: &OutputLine| other.kind == line.kind && other.prefix == line.prefix;
                ensure!(!self.outputs.iter().any(same), "`output {writer}` to `{prefix}` occurs twice");
                self.outputs.push(line);
                Ok(())
            }
            ("timestepLength" | "cutoffRadius" | "LJCutoffRadius" | "components", _) => {
                bail!("`{key}` needs one value, not {}", values.len())
            }
            ("units", _) => {
                bail!("`units` needs Ångström per unit of length and picoseconds per unit of time")
            }
            ("output", _) => bail!("`output` needs a writer, a number of steps and a prefix"),
            ("phaseSpaceFile", _) => bail!("`phaseSpaceFile` needs a format and its files"),
            ("parallelization" | "datastructure" | "thermostat", _) => {
                bail!("`{key}` needs a value and optionally a whole number, not {} values", values.len())
            }
            _ => bail!(
                "unknown key `{key}`; use timestepLength, cutoffRadius, phaseSpaceFile, components, parallelization, \
                 datastructure, thermostat, units or output"
            ),
        }
    }

    fn thermostat(&mut self, temperature: &str, every: u64) -> Result<()> {
        let temperature = positive(temperature)?;
        once(&mut self.thermostat, "thermostat", Thermostat { temperature, every })
    }

    fn parallelization(&mut self, method: &str, steps: Option<&str>) -> Result<()> {
        let method = match method {
            "DomainDecomposition" => DecompositionMethod::Regular,
            "KDDecomposition" => DecompositionMethod::Kd,
            other => {
                bail!("unknown decomposition `{other}`; use DomainDecomposition or KDDecomposition")
            }
        };
        self.rebalance = steps.map(count).transpose()?;
        once(&mut self.decomposition_method, "parallelization", method)
    }
}

fn once<T>(place: &mut Option<T>, key: &str, value: T) -> Result<()> {
    ensure!(place.is_none(), "`{key}` occurs twice");
    *place = Some(value);
    Ok(())
}

fn parse_source(name: &str, files: &[&str]) -> Result<MoleculeSource> {
    let known = PhaseSpaceFormat::ALL.into_iter().find(|format| format.name() == name);
    let names = || PhaseSpaceFormat::ALL.map(PhaseSpaceFormat::name).join(", ");
    let format =
        known.with_context(|| format!("unknown format `{name}`; use one of {}, Generator", names()))?;
    match (format, files) {
        (PhaseSpaceFormat::OldStyle, [file]) => {
            Ok(MoleculeSource::Files(format, PhaseSpaceFiles::one(*file)))
        }
        (PhaseSpaceFormat::OldStyle, _) => bail!("`{name}` needs one file"),
        (_, [header, data]) => Ok(MoleculeSource::Files(format, PhaseSpaceFiles::two(*header, *data))),
        _ => bail!("`{name}` needs two files, the header and the data"),
    }
}

fn generator(values: &[&str]) -> Result<LatticeGenerator> {
    let ([lattice, molecules, density, temperature] | [lattice, molecules, density, temperature, _]) = values
    else {
        bail!("`Generator` needs a lattice, molecules, density, temperature and optionally a seed");
    };
    let lattice = match *lattice {
        "fcc" => Lattice::Fcc,
        "cubic" => Lattice::Cubic,
        other => bail!("unknown lattice `{other}`; use fcc or cubic"),
    };
    let seed = values.get(4).map_or(Ok(1), |seed| count(seed))?;
    let (density, temperature) = (positive(density)?, positive(temperature)?);
    Ok(LatticeGenerator { lattice, molecules: count(molecules)?, density, temperature, seed })
}

fn positive(text: &str) -> Result<f64> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.with_context(|| format!("`{text}` is not a positive number"))
}

fn count(text: &str) -> Result<u64> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.with_context(|| format!("`{text}` is not a whole number greater than 0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "# a liquid\nMDProjectConfig\n\ntimestepLength 0.01 # short\ncutoffRadius 5.\n\
        phaseSpaceFile OldStyle lj40000.inp\nparallelization KDDecomposition 50\ndatastructure LinkedCells 1\n\
        output ResultWriter 10 lj\noutput MPI-IOCheckpointWriter 100 lj\nthermostat 0.7 5\nunits 3.405 2.156\n";

    #[test]
    fn all_lines_are_parsed() {
        let config = Config::parse("lj.cfg", WHOLE).unwrap();
        assert_eq!((config.timestep, config.cutoff), (0.01, 5.0));
        assert_eq!((config.decomposition_method, config.rebalance), (DecompositionMethod::Kd, 50));
        assert_eq!(config.units, Some(SimulationUnits { length: 3.405, time: 2.156 }));
        assert_eq!(config.thermostat, Some(Thermostat { temperature: 0.7, every: 5 }));
        let lines: Vec<String> = config
            .outputs
            .iter()
            .map(|line| format!("{} {} {}", line.kind.name(), line.every, line.prefix))
            .collect();
        assert_eq!(lines, ["ResultWriter 10 lj", "MPI-IOCheckpointWriter 100 lj"]);
        let generated = WHOLE.replace("OldStyle lj40000.inp", "Generator fcc 4000 0.8 1.1");
        let start = LatticeGenerator {
            lattice: Lattice::Fcc,
            molecules: 4000,
            density: 0.8,
            temperature: 1.1,
            seed: 1,
        };
        assert_eq!(Config::parse("lj.cfg", &generated).unwrap().source, MoleculeSource::Generator(start));
    }

    #[test]
    fn errors_name_the_line() {
        for (from, to, expected) in [
            ("MDProjectConfig", "Config", "lj.cfg, line 2: the first line is `Config`"),
            ("0.01", "-1", "lj.cfg, line 4: `-1` is not a positive number"),
            ("0.01", "nan", "line 4"),
            ("0.01", "0.01 0.02", "`timestepLength` needs one value, not 2"),
            ("timestepLength 0.01", "", "lj.cfg: the line `timestepLength` is missing"),
            ("cutoffRadius 5.", "timestepLength 3", "line 5: `timestepLength` occurs twice"),
            ("OldStyle lj40000.inp", "Binary x", "line 6: `Binary` needs two files"),
            ("OldStyle lj40000.inp", "Generator fcc 0 1 1", "`0` is not a whole number greater than 0"),
            ("OldStyle", "XML", "unknown format `XML`"),
            ("KDDecomposition", "Metis", "line 7: unknown decomposition `Metis`"),
            ("ResultWriter", "Writer", "line 9: unknown writer `Writer`; use one of ResultWriter,"),
            ("KDDecomposition 50", "KDDecomposition 50 9", "line 7: `parallelization` needs"),
            ("datastructure", "parallelization KDDecomposition\n#", "line 8: `parallelization` occurs twice"),
            ("LinkedCells 1", "LinkedCells one", "line 8: `one` is not a whole number"),
            ("LinkedCells 1", "LinkedCells 2", "line 8: `LinkedCells 2` means 2 cells per cutoff radius"),
            ("MPI-IOCheckpointWriter", "ResultWriter", "line 10: `output ResultWriter` to `lj` occurs twice"),
            ("thermostat 0.7 5", "thermostat 0.7 5 6", "line 11: `thermostat` needs"),
            ("thermostat", "thermos", "line 11: unknown key `thermos`"),
            ("3.405 2.156", "3.405", "line 12: `units` needs Ångström"),
        ] {
            let error = Config::parse("lj.cfg", &WHOLE.replacen(from, to, 1)).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.contains(expected), "{from} -> {to}: {error}");
        }
    }
}
