//! `VISWriter`: all frames in one text file for `MegaMol` and the viewer of `MarDyn`; molecules are ordered by id.
//!
//! A line of column names, then a line per molecule: id, component from 0, position, orientation (w x y z), cluster (0). A line `#` begins
//! every frame except the first. After `VISWriter.cpp` of ls1 mardyn.

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

/// The state of the file at the start of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisStart {
    /// A new run: a file of an earlier run is truncated.
    New,
    /// A checkpoint without a mark of the file: it must have no frames.
    Unknown,
    /// A checkpoint with a mark: the frames up to a step are kept.
    At {
        /// The number of bytes that are kept.
        end: u64,
        /// The step of the last frame in them.
        last: Option<u64>,
    },
}

impl VisStart {
    /// The state from the mark of a checkpoint, after a restart.
    pub fn of_mark(comes_back: bool, mark: Option<&[u64]>) -> Self {
        match mark {
            _ if !comes_back => Self::New,
            Some(&[end, ref rest @ ..]) => Self::At { end, last: rest.first().copied() },
            Some([]) | None => Self::Unknown,
        }
    }
}

impl VisFile {
    /// Opens the file and truncates it to the state at the start of the run. Collective.
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
                    "VISWriter: {prefix}.vis has {found} bytes, but the checkpoint does not say how many to keep; \
                     move the file away, use another prefix, or use --start-over"
                );
                (0, None)
            }
            VisStart::At { end, last } => {
                ensure!(
                    found >= end,
                    "VISWriter: {prefix}.vis has {found} bytes, but {end} when the checkpoint was written; restore the file, or use --start-over"
                );
                (end, last)
            }
        };
        file.set_size(end)?;
        Ok(Self { file, units, end, last })
    }

    /// Appends a frame unless the file has it. Collective.
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

    /// Syncs the frames; returns their length in bytes, and the step of the last one. Collective.
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

/// Columns with the widths of the original; wider numbers have a space before them.
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
