//! The configuration file, line by line, as `MarDyn` has it.
//!
//! | line | meaning |
//! |---|---|
//! | `MDProjectConfig` | the first one |
//! | `timestepLength 0.002` | length of a step |
//! | `cutoffRadius 2.5` | where forces end; also `LJCutoffRadius` |
//! | `phaseSpaceFile OldStyle liquid.inp` | where molecules come from; `Binary`, `PnetCDF` and `MPI-IO` have a header and a data file |
//! | `phaseSpaceFile Generator fcc 4000 0.8 1.1 7` | a start of our own: lattice (`fcc`, `cubic`), molecules, density, temperature, seed (1 where it is missing) |
//! | `components liquid.inp` | an `OldStyle` file that describes the components, where the header of the molecules does not |
//! | `parallelization DomainDecomposition` | or `KDDecomposition`, with the steps between two looks at the load (100) |
//! | `datastructure LinkedCells 1` | the only one; cells are as large as the cutoff, other numbers are refused |
//! | `thermostat 1.1 10` | scale velocities to this temperature every ten steps |
//! | `units 3.405 2.156` | what viewers are told: Ångström per unit of length, picoseconds per unit of time (these are argon's); without it numbers stay bare |
//! | `output ResultWriter 10 energies` | writer, steps between two outputs, prefix of the files; any number of them |
//!
//! `#` begins a comment.

use anyhow::{Context, Result, bail, ensure};
use aqueduct::mardyn::{PhaseSpaceFiles, PhaseSpaceFormat};

use crate::decomposition::DecompositionMethod;
use crate::input::lattice_generator::{Lattice, LatticeGenerator};
use crate::input::units::SimulationUnits;
use crate::simulation::Thermostat;

/// What a configuration says.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Length of a time step.
    pub timestep: f64,
    /// Where forces end.
    pub cutoff: f64,
    /// Where molecules come from.
    pub source: MoleculeSource,
    /// A file that describes the components.
    pub components: Option<String>,
    /// How the box is dealt out.
    pub decomposition_method: DecompositionMethod,
    /// Steps between two looks at the load.
    pub rebalance: u64,
    /// The temperature to keep.
    pub thermostat: Option<Thermostat>,
    /// What the units are, for viewers.
    pub units: Option<SimulationUnits>,
    /// What is written, how often and where to.
    pub outputs: Vec<OutputLine>,
}

/// Where molecules come from.
#[derive(Clone, Debug, PartialEq)]
pub enum MoleculeSource {
    /// Files of one of `MarDyn`'s formats.
    Files(PhaseSpaceFormat, PhaseSpaceFiles),
    /// A start of our own.
    Generator(LatticeGenerator),
}

/// A line `output`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputLine {
    /// What writes.
    pub kind: OutputKind,
    /// Steps between two outputs.
    pub every: u64,
    /// What the names of the files begin with.
    pub prefix: String,
}

/// What can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// Energies, as a table and as a plot.
    Result,
    /// Molecules for viewers.
    Xyz,
    /// Scenes for POV-Ray.
    Pov,
    /// Frames for `MegaMol`.
    Vis,
    /// A trajectory in HDF5, as H5MD has it.
    H5md,
    /// Checkpoints of one of `MarDyn`'s formats.
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

/// What has been read so far; what must be there may still be missing.
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
    /// Reads the text of the file `name`; errors tell the line.
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
                    "{}: it begins with `{key}` instead of MDProjectConfig",
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
    /// The files that it reads.
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
            ("parallelization", [manner]) => self.parallelization(manner, None),
            ("parallelization", [manner, steps]) => self.parallelization(manner, Some(steps)),
            ("datastructure", ["LinkedCells"]) => Ok(()),
            ("datastructure", ["LinkedCells", cells]) => match count(cells)? {
                1 => Ok(()),
                more => bail!(
                    "`LinkedCells {more}` wants {more} cells per cutoff radius, and cells are as large as the cutoff here; give 1"
                ),
            },
            ("datastructure", [other] | [other, _]) => {
                bail!("the data structure `{other}` is not known; use LinkedCells")
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
                let known = known
                    .with_context(|| format!("the writer `{writer}` is not known; there are {}", names()))?;
                let line = OutputLine { kind: known, every: count(every)?, prefix: (*prefix).to_owned() };
                let same = |other: &OutputLine| other.kind == line.kind && other.prefix == line.prefix;
                ensure!(
                    !self.outputs.iter().any(same),
                    "`output {writer}` to `{prefix}` is given a second time"
                );
                self.outputs.push(line);
                Ok(())
            }
            ("timestepLength" | "cutoffRadius" | "LJCutoffRadius" | "components", _) => {
                bail!("`{key}` wants one value, not {}", values.len())
            }
            ("units", _) => {
                bail!("`units` wants Ångström per unit of length and picoseconds per unit of time")
            }
            ("output", _) => bail!("`output` wants a writer, a number of steps and a prefix"),
            ("phaseSpaceFile", _) => bail!("`phaseSpaceFile` wants a format and its files"),
            ("parallelization" | "datastructure" | "thermostat", _) => {
                bail!("`{key}` wants a value and perhaps a whole number, not {} values", values.len())
            }
            _ => bail!(
                "`{key}` is not known; there are timestepLength, cutoffRadius, phaseSpaceFile, components, parallelization, \
                 datastructure, thermostat, units and output"
            ),
        }
    }

    fn thermostat(&mut self, temperature: &str, every: u64) -> Result<()> {
        let temperature = positive(temperature)?;
        once(&mut self.thermostat, "thermostat", Thermostat { temperature, every })
    }

    fn parallelization(&mut self, manner: &str, steps: Option<&str>) -> Result<()> {
        let manner = match manner {
            "DomainDecomposition" => DecompositionMethod::Regular,
            "KDDecomposition" => DecompositionMethod::Kd,
            other => {
                bail!("the decomposition `{other}` is not known; use DomainDecomposition or KDDecomposition")
            }
        };
        self.rebalance = steps.map(count).transpose()?;
        once(&mut self.decomposition_method, "parallelization", manner)
    }
}

fn once<T>(place: &mut Option<T>, key: &str, value: T) -> Result<()> {
    ensure!(place.is_none(), "`{key}` is given a second time");
    *place = Some(value);
    Ok(())
}

fn parse_source(name: &str, files: &[&str]) -> Result<MoleculeSource> {
    let known = PhaseSpaceFormat::ALL.into_iter().find(|format| format.name() == name);
    let names = || PhaseSpaceFormat::ALL.map(PhaseSpaceFormat::name).join(", ");
    let format = known
        .with_context(|| format!("the format `{name}` is not known; there are {}, Generator", names()))?;
    match (format, files) {
        (PhaseSpaceFormat::OldStyle, [file]) => {
            Ok(MoleculeSource::Files(format, PhaseSpaceFiles::one(*file)))
        }
        (PhaseSpaceFormat::OldStyle, _) => bail!("`{name}` wants one file"),
        (_, [header, data]) => Ok(MoleculeSource::Files(format, PhaseSpaceFiles::two(*header, *data))),
        _ => bail!("`{name}` wants two files, the header and the data"),
    }
}

fn generator(values: &[&str]) -> Result<LatticeGenerator> {
    let ([lattice, molecules, density, temperature] | [lattice, molecules, density, temperature, _]) = values
    else {
        bail!("`Generator` wants a lattice, molecules, density, temperature and perhaps a seed");
    };
    let lattice = match *lattice {
        "fcc" => Lattice::Fcc,
        "cubic" => Lattice::Cubic,
        other => bail!("the lattice `{other}` is not known; use fcc or cubic"),
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
    number.with_context(|| format!("`{text}` is not a whole number above zero"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = "# a liquid\nMDProjectConfig\n\ntimestepLength 0.01 # short\ncutoffRadius 5.\n\
        phaseSpaceFile OldStyle lj40000.inp\nparallelization KDDecomposition 50\ndatastructure LinkedCells 1\n\
        output ResultWriter 10 lj\noutput MPI-IOCheckpointWriter 100 lj\nthermostat 0.7 5\nunits 3.405 2.156\n";

    #[test]
    fn every_line_is_understood() {
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
    fn what_is_wrong_is_told_with_its_line() {
        for (from, to, told) in [
            ("MDProjectConfig", "Config", "lj.cfg, line 2: it begins with `Config`"),
            ("0.01", "-1", "lj.cfg, line 4: `-1` is not a positive number"),
            ("0.01", "nan", "line 4"),
            ("0.01", "0.01 0.02", "`timestepLength` wants one value, not 2"),
            ("timestepLength 0.01", "", "lj.cfg: the line `timestepLength` is missing"),
            ("cutoffRadius 5.", "timestepLength 3", "line 5: `timestepLength` is given a second time"),
            ("OldStyle lj40000.inp", "Binary x", "line 6: `Binary` wants two files"),
            ("OldStyle lj40000.inp", "Generator fcc 0 1 1", "`0` is not a whole number above zero"),
            ("OldStyle", "XML", "the format `XML` is not known"),
            ("KDDecomposition", "Metis", "line 7: the decomposition `Metis`"),
            ("ResultWriter", "Writer", "line 9: the writer `Writer` is not known; there are ResultWriter,"),
            ("KDDecomposition 50", "KDDecomposition 50 9", "line 7: `parallelization` wants"),
            (
                "datastructure",
                "parallelization KDDecomposition\n#",
                "line 8: `parallelization` is given a second time",
            ),
            ("LinkedCells 1", "LinkedCells one", "line 8: `one` is not a whole number"),
            ("LinkedCells 1", "LinkedCells 2", "line 8: `LinkedCells 2` wants 2 cells per cutoff radius"),
            (
                "MPI-IOCheckpointWriter",
                "ResultWriter",
                "line 10: `output ResultWriter` to `lj` is given a second time",
            ),
            ("thermostat 0.7 5", "thermostat 0.7 5 6", "line 11: `thermostat` wants"),
            ("thermostat", "thermos", "line 11: `thermos` is not known"),
            ("3.405 2.156", "3.405", "line 12: `units` wants Ångström"),
        ] {
            let error = Config::parse("lj.cfg", &WHOLE.replacen(from, to, 1)).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.contains(told), "{from} -> {to}: {error}");
        }
    }
}
