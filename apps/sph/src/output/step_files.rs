//! The files of a run: their names, the header of a step, and reading a step on any number of ranks.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use aqueduct::comm::{Comm, Op};
use aqueduct::object::ObjectFile;
use serde::{Deserialize, Serialize};

use super::{OutputWay, stream, together};
use crate::particle_set::ParticleSet;
use crate::quantity::QuantityTable;
use crate::record::{RecordForm, StoredParticle, add_records};
use crate::simulation::TimeState;
use crate::with_record;

/// The description of a stored step, in the file `<prefix>-<step>.json`. The step is complete if its particles are committed too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepHeader {
    /// How far the run was.
    pub state: TimeState,
    /// The number of particles.
    pub particles: u64,
    /// The number of ranks.
    pub ranks: usize,
    /// The way in which the particles were written.
    pub way: OutputWay,
    /// The form of the records.
    pub record: RecordForm,
    /// The first step of the stream file, and the number of this step in it.
    pub stream: Option<(u64, u64)>,
    /// Names and units of the quantities of the records.
    pub quantities: QuantityTable,
    /// The configuration.
    pub config: String,
}

/// The names of the files of a run.
#[derive(Clone, Debug)]
pub struct StepFiles {
    /// The prefix of all names.
    pub prefix: String,
    /// A device for particles, with its colon, or nothing.
    pub device: String,
}

/// The endings of files of a step.
const ENDINGS: [&str; 7] = [".json", ".particles", ".particles.meta", ".txt", ".png", ".stream", ".vtkhdf"];

impl StepFiles {
    fn name(&self, step: u64, ending: &str) -> String {
        format!("{}-{step:06}{ending}", self.prefix)
    }

    /// The file of the way `gather`.
    pub fn text(&self, step: u64) -> String {
        format!("{}{}", self.device, self.name(step, ".txt"))
    }

    /// The file of the ways `together` and `buffered`.
    pub fn particles(&self, step: u64) -> String {
        format!("{}{}", self.device, self.name(step, ".particles"))
    }

    /// The file of a rank of the way `own`.
    pub fn own(&self, step: u64, rank: usize) -> String {
        format!("{}{}", self.device, self.name(step, &format!(".rank{rank}.particles")))
    }

    /// The stream that begins with this step.
    pub fn stream(&self, first_step: u64) -> String {
        format!("{}{}", self.device, self.name(first_step, ".stream"))
    }

    /// The picture of a step.
    pub fn picture(&self, step: u64) -> PathBuf {
        self.name(step, ".png").into()
    }

    fn header(&self, step: u64) -> PathBuf {
        self.name(step, ".json").into()
    }

    /// Writes the header of a step, complete or not at all. It precedes the particles, whose commit completes the step.
    pub fn write_header(&self, header: &StepHeader) -> Result<()> {
        let path = self.header(header.state.step);
        let draft = path.with_extension("json.new");
        let write = || {
            let mut file = fs::File::create(&draft)?;
            file.write_all(&serde_json::to_vec(header)?)?;
            file.sync_data()?;
            fs::rename(&draft, &path)
        };
        write().with_context(|| format!("writing {}", path.display()))
    }

    /// Reads the header of a step.
    pub fn read_header(&self, step: u64) -> Result<StepHeader> {
        let path = self.header(step);
        let text = fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{} is not the header of a step", path.display()))
    }

    /// The steps that have headers, in their order.
    pub fn steps(&self) -> Vec<u64> {
        let mut steps: Vec<u64> =
            self.entries().filter_map(|(step, ending, _)| (ending == ".json").then_some(step)).collect();
        steps.sort_unstable();
        steps
    }

    /// Removes the files of all steps after this one, or of all steps.
    pub fn remove_after(&self, last: Option<u64>) -> Result<()> {
        for (step, _, path) in self.entries().filter(|(step, ..)| last.is_none_or(|last| *step > last)) {
            fs::remove_file(&path)
                .with_context(|| format!("removing {}, which is of step {step}", path.display()))?;
        }
        Ok(())
    }

    /// Step, ending and path of the files of this prefix.
    fn entries(&self) -> impl Iterator<Item = (u64, String, PathBuf)> {
        let path = Path::new(&self.prefix);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned() + "-";
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::read_dir(folder).into_iter().flatten().flatten().filter_map(move |entry| {
            let file = entry.file_name().to_string_lossy().into_owned();
            let rest = file.strip_prefix(&name)?;
            let (digits, ending) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
            let known = ENDINGS.contains(&ending) || ending.starts_with(".rank") || ending == ".json.new";
            let known = known || ending.starts_with(".stream.");
            known.then(|| Some((digits.parse().ok()?, ending.to_owned(), entry.path()))).flatten()
        })
    }

    /// The particles of a step, a share for each rank. Collective.
    pub fn read(&self, world: &Comm, header: &StepHeader) -> Result<ParticleSet> {
        let table = &header.quantities;
        let mut particles = ParticleSet::new(table);
        let read = with_record!(header.record, table, R => {
            self.read_records::<R>(world, header).and_then(|records| add_records(&records, table, &mut particles))
        });
        // A rank that cannot read its own file lets the others know.
        let step = header.state.step;
        let failed = world.allreduce_one(Op::Max, u64::from(read.is_err()))?;
        read?;
        ensure!(failed == 0, "another rank could not read its particles of step {step}");
        let count = world.allreduce_one(Op::Sum, particles.len() as u64)?;
        let expected = header.particles;
        ensure!(count == expected, "step {step} has {count} particles instead of {expected}");
        Ok(particles)
    }

    fn read_records<R: StoredParticle>(&self, world: &Comm, header: &StepHeader) -> Result<Vec<R>> {
        let step = header.state.step;
        match header.way {
            OutputWay::Together | OutputWay::Buffered => together::read(world, &self.particles(step)),
            OutputWay::Stream => {
                let (first, number) = header.stream.context("the header names no stream")?;
                stream::read(world, &self.stream(first), number)
            }
            OutputWay::Own => {
                let mut records = Vec::new();
                for rank in (world.rank()..header.ranks).step_by(world.size()) {
                    let file = ObjectFile::<R>::open(&world.comm_self(), self.own(step, rank))?;
                    records.extend(file.at_pointer().read_vec(file.count()?)?);
                    file.close()?;
                }
                Ok(records)
            }
            OutputWay::Gather => bail!(
                "step {step} was written as text, which has only some quantities; a run cannot continue from it"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_later_steps_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let files =
            StepFiles { prefix: folder.path().join("jet").display().to_string(), device: String::new() };
        let names = [
            "jet-000001.json",
            "jet-000002.json",
            "jet-000002.rank1.particles.meta",
            "jet-000002.notes",
            "jet-x.json",
            "jets-000003.json",
        ];
        names.iter().for_each(|name| fs::write(folder.path().join(name), "").unwrap());
        assert_eq!(files.steps(), [1, 2]);
        files.remove_after(Some(1)).unwrap();
        let left = names.iter().filter(|name| folder.path().join(name).exists());
        assert_eq!(
            left.copied().collect::<Vec<_>>(),
            ["jet-000001.json", "jet-000002.notes", "jet-x.json", "jets-000003.json"]
        );
        files.remove_after(None).unwrap();
        assert!(files.steps().is_empty());
    }
}
