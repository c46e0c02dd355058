//! `VISWriter`: all frames in one text file, as `MegaMol` and `MarDyn`'s own viewer read it; molecules in the order of their ids.
//!
//! A line of column names, then a line per molecule: id, component from 0, position, orientation (w x y z), cluster (0). A line `#` begins every
//! frame but the first. After `VISWriter.cpp` of ls1 mardyn.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use aqueduct::checkpoint::Molecule;
use aqueduct::comm::Comm;
use aqueduct::file::{File, OpenOptions};

use super::parallel_text;
use crate::input::units::SimulationUnits;
use crate::simulation::Simulation;
use crate::simulation::exchange;

const HEAD: &str = "      id t          x          y          z     q0     q1     q2     q3        c\n";

/// The file `<prefix>.vis`.
pub struct VisFile {
    file: File,
    units: SimulationUnits,
    end: u64,
    /// The step of the last frame.
    last: Option<u64>,
}

/// What a run goes on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisStart {
    /// The beginning: a file of an earlier run is emptied.
    New,
    /// A checkpoint that knows nothing of the file: there must be no frames.
    Unknown,
    /// The first bytes, up to the frame of a step.
    At {
        /// How many bytes stay.
        end: u64,
        /// The step of the last frame in them.
        last: Option<u64>,
    },
}

impl VisStart {
    /// From the mark of a checkpoint, where the run comes back to one.
    pub fn of_mark(comes_back: bool, mark: Option<&[u64]>) -> Self {
        match mark {
            _ if !comes_back => Self::New,
            Some(&[end, ref rest @ ..]) => Self::At { end, last: rest.first().copied() },
            Some([]) | None => Self::Unknown,
        }
    }
}

impl VisFile {
    /// Opens the file, and cuts it to what the run goes on from. Collective.
    pub fn open(world: &Comm, prefix: &str, units: SimulationUnits, start: VisStart) -> Result<Self> {
        let name = format!("{prefix}.vis");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .open(world, &name)
            .with_context(|| format!("VISWriter: opening {prefix}.vis"))?;
        let found = file.size()?;
        let (end, last) = match start {
            VisStart::New => (0, None),
            VisStart::Unknown => {
                ensure!(
                    found == 0,
                    "VISWriter: {prefix}.vis has {found} bytes, and the checkpoint does not say which of them to keep; \
                     move it away, give another prefix, or start over"
                );
                (0, None)
            }
            VisStart::At { end, last } => {
                ensure!(
                    found >= end,
                    "VISWriter: {prefix}.vis has {found} bytes, and {end} when the checkpoint was written; put it back as it was, or start over"
                );
                (end, last)
            }
        };
        file.set_size(end)?;
        Ok(Self { file, units, end, last })
    }

    /// One more frame, unless it is there. Collective.
    pub fn write(&mut self, simulation: &Simulation) -> Result<()> {
        if self.last.is_some_and(|last| last >= simulation.step()) {
            return Ok(());
        }
        let molecules = exchange::sort_by_id(simulation.world(), simulation.molecules())?;
        let head = if self.end == 0 { HEAD } else { "#\n" };
        let lines: String = molecules.iter().map(|molecule| line(molecule, self.units)).collect();
        self.end = parallel_text::write(simulation.world(), &self.file, self.end, head, &lines)?;
        self.last = Some(simulation.step());
        Ok(())
    }

    /// Makes the frames durable; how many bytes they are, and the step of the last. Collective.
    pub fn sync(&self) -> Result<(u64, Option<u64>)> {
        self.file.sync()?;
        Ok((self.end, self.last))
    }

    /// Closes the file. Collective.
    pub fn close(self) -> Result<()> {
        self.file.sync()?;
        Ok(self.file.close()?)
    }
}

/// Columns as wide as the original's; wider numbers keep a space before them.
fn line(molecule: &Molecule, units: SimulationUnits) -> String {
    let mut line = format!("{:>8}", molecule.id);
    let mut column = |text: String, width: usize| {
        let _ = write!(line, " {text:>0$}", width - 1);
    };
    column(molecule.component.to_string(), 2);
    units.place(molecule.position).iter().for_each(|x| column(format!("{x:.3}"), 11));
    molecule.orientation.iter().for_each(|q| column(format!("{q:.3}"), 7));
    column("0".to_owned(), 9);
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_columns_of_the_original() {
        let mut molecule = Molecule::new(12, [1.0, 22.5, 333.126], [0.0; 3]);
        let expected = "      12 0      1.000     22.500    333.126  1.000  0.000  0.000  0.000        0\n";
        assert_eq!(line(&molecule, SimulationUnits::BARE), expected);
        assert_eq!(expected.len(), HEAD.len());
        molecule.id = 123_456_789;
        molecule.component = 10;
        molecule.position[0] = -12_345_678.5;
        let found = line(&molecule, SimulationUnits::BARE);
        assert_eq!(found.split_whitespace().collect::<Vec<_>>()[..3], ["123456789", "10", "-12345678.500"]);
    }
}
