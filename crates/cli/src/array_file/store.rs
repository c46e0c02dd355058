//! Checkpoint stores: the parts of a generation as arrays.

use std::cell::{OnceCell, RefCell};
use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Context, Result, anyhow, ensure};
use aqueduct::checkpoint::{Generation, PartSummary, Store, particle_cells};
use aqueduct::comm::Comm;
use aqueduct::file::File;
use aqueduct::object::{FileProvenance, UtcTime};

use super::{
    Array, ArrayFile, ArrayPart, ChunkReferences, ElementType, Finding, GenerationState, NumberType,
    VerifyDepth, molecule, signature,
};
use crate::finding::FormatMismatch;

/// A store, or one checkpoint of it.
pub(crate) struct CheckpointArrayFile {
    store: Store,
    /// All selected generations in order, or the error of opening one.
    generations: Vec<(u64, Result<Generation>)>,
    /// The index of the generation whose parts are shown.
    shown: Option<usize>,
    is_store: bool,
    arrays: Vec<Array>,
    sources: Vec<ArrayLocation>,
    broken: Vec<Finding>,
    verified: OnceCell<Option<String>>,
    /// What a check has found of each generation that still exists.
    checked: RefCell<Vec<GenerationState>>,
    world: Comm,
}

/// The location of the bytes of an array.
enum ArrayLocation {
    /// In this file, from this offset on.
    File(String, u64),
    /// In the manifest.
    Manifest(Vec<u8>),
}

impl CheckpointArrayFile {
    /// Opens a store; the parts of the newest checkpoint are shown.
    pub(crate) fn open_latest(world: &Comm, folder: &Path) -> Result<Self> {
        let store = Store::open(world, folder)?;
        let mut candidates = store.candidates()?;
        loop {
            let mut generations = Vec::new();
            for number in &candidates {
                let opened = store.generation(*number).map_err(anyhow::Error::from);
                // A generation that the running program removed meanwhile is not damaged.
                if opened.is_ok() || store.candidates()?.contains(number) {
                    generations.push((*number, opened));
                }
            }
            // The running program may have replaced all of them by newer ones.
            let now = store.candidates()?;
            if !generations.is_empty() || now.is_empty() || now == candidates {
                return Self::new(world, store, generations, true, None);
            }
            candidates = now;
        }
    }

    /// Opens one checkpoint, or a part of it.
    pub(crate) fn open_generation(
        world: &Comm,
        folder: &Path,
        number: u64,
        part: Option<&str>,
    ) -> Result<Self> {
        let store = Store::open(world, folder)?;
        let generation = store.generation(number)?;
        Self::new(world, store, vec![(number, Ok(generation))], false, part)
    }

    fn new(
        world: &Comm,
        store: Store,
        generations: Vec<(u64, Result<Generation>)>,
        is_store: bool,
        wanted: Option<&str>,
    ) -> Result<Self> {
        let shown = generations.iter().rposition(|(_, generation)| generation.is_ok());
        let (mut arrays, mut sources, mut broken) = (Vec::new(), Vec::new(), Vec::new());
        let latest = shown.and_then(|at| generations[at].1.as_ref().ok());
        let parts = latest.into_iter().flat_map(Generation::summaries);
        for part in parts.filter(|part| wanted.is_none_or(|wanted| wanted == part.name)) {
            match arrays_of(world, &part) {
                Ok(made) => made.into_iter().for_each(|(array, source)| {
                    arrays.push(array);
                    sources.push(source);
                }),
                Err(error) => broken.push(Finding::of_part(&part.name, &error)),
            }
        }
        if let Some(part) = wanted.filter(|_| arrays.is_empty() && broken.is_empty()) {
            return Err(anyhow!("the manifest of its checkpoint has no part {part:?}"));
        }
        let (world, verified, checked) = (world.clone(), OnceCell::new(), RefCell::default());
        Ok(Self { store, generations, shown, is_store, arrays, sources, broken, verified, checked, world })
    }

    /// An error if a file of a generation has another length than in the manifest. Collective.
    fn lengths_match(&self, generation: &Generation) -> Result<()> {
        for part in generation.summaries().filter(|part| part.kind != "value") {
            let (length, wanted) = (File::open(&self.world, &part.file)?.size()?, part.bytes);
            if length != wanted {
                let text = format!("{}: the file has {length} bytes instead of {wanted}", part.name);
                return Err(FormatMismatch(text).into());
            }
        }
        Ok(())
    }

    /// Whether a generation was removed from the store.
    fn is_gone(&self, number: u64) -> bool {
        self.store.candidates().is_ok_and(|now| !now.contains(&number))
    }

    /// An error if the checkpoint that is shown is damaged; its parts are then not read.
    fn verify_shown(&self) -> Result<()> {
        let found = self.verified.get_or_init(|| {
            let (number, generation) = &self.generations[self.shown?];
            let error = generation.as_ref().ok()?.verify().err()?;
            if self.is_gone(*number) {
                return Some(format!(
                    "the running program removed generation {number} while it was read; try again"
                ));
            }
            let way = "give the folder of an older generation to read that one";
            Some(format!("generation {number} is damaged: {error}; {way}"))
        });
        found.as_ref().map_or(Ok(()), |what| Err(FormatMismatch(what.clone()).into()))
    }
}

/// The arrays of a part, as numbers if its type is known.
fn arrays_of(world: &Comm, part: &PartSummary) -> Result<Vec<(Array, ArrayLocation)>> {
    let (name, bytes) = (&part.name, part.bytes);
    let from = |place: u64| ArrayLocation::File(part.file.clone(), place);
    let element = |count: u64| {
        let size = bytes.checked_div(count).or_else(|| signature::size(&part.signature)).unwrap_or(1);
        signature::element(&part.signature, size)
    };
    Ok(match part.kind.as_str() {
        "cells" => {
            let summary = particle_cells::summary(world, &part.file)?;
            let mut array = Array::new(name, super::cells::element(summary.row), vec![summary.particles]);
            array.attributes.push(molecule::numbers(molecule::LENGTH, &summary.grid.length()));
            vec![(array, from(summary.data))]
        }
        "array" => {
            let count = part.shape.iter().try_fold(1u64, |all, length| all.checked_mul(*length));
            let count = count.context("its shape overflows")?;
            vec![(Array::new(name, element(count), part.shape.clone()), from(0))]
        }
        "objects" => match part.index {
            None => {
                let count = part.count.unwrap_or(0);
                vec![(Array::new(name, element(count), vec![count]), from(0))]
            }
            Some(index) => {
                let ends = Array::new(
                    format!("{name}.ends"),
                    ElementType::number(NumberType::U64),
                    vec![part.count.unwrap_or(0)],
                );
                vec![
                    (Array::new(name, ElementType::number(NumberType::U8), vec![index]), from(0)),
                    (ends, from(index)),
                ]
            }
        },
        "value" => {
            let value = part.value.clone().context("its value is not hexadecimal")?;
            let element = signature::element(&part.signature, value.len() as u64);
            vec![(Array::new(name, element, Vec::new()), ArrayLocation::Manifest(value))]
        }
        other => return Err(anyhow!("parts of the kind {other:?} are not supported")),
    })
}

impl ArrayFile for CheckpointArrayFile {
    fn format(&self) -> String {
        let shown = self
            .shown
            .map_or(String::new(), |at| format!(", arrays of generation {}", self.generations[at].0));
        match (self.is_store, self.generations.len()) {
            (true, count) => format!("checkpoint store, {count} generations{shown}"),
            (false, _) => format!("checkpoint{shown}"),
        }
    }

    fn written_by(&self) -> Option<FileProvenance> {
        let shown = &self.generations[self.shown?].1;
        shown.as_ref().ok().map(Generation::written_by)
    }

    fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    fn remarks(&self) -> Vec<String> {
        let line = |(number, generation): &(u64, Result<Generation>)| match generation {
            Ok(generation) => {
                let parts = generation.parts().collect::<Vec<_>>().join(", ");
                format!("generation {number}: {}: {parts}", about(generation))
            }
            Err(error) => format!("generation {number}: {error:#}"),
        };
        self.generations
            .iter()
            .map(line)
            .chain(self.broken.iter().map(|finding| finding.text.clone()))
            .collect()
    }

    fn prepare(&self) -> Result<()> {
        self.verify_shown()
    }

    fn read(&self, array: usize, part: &ArrayPart) -> Result<Vec<u8>> {
        let size = self.arrays[array].element.size;
        let (first, length) = (part.first * size, (part.count * size) as usize);
        match &self.sources[array] {
            ArrayLocation::Manifest(value) => {
                let bytes = value.get(first as usize..).and_then(|rest| rest.get(..length));
                bytes.map(<[u8]>::to_vec).context("the value is shorter than its type")
            }
            ArrayLocation::File(name, start) => {
                let file = File::open(&self.world.comm_self(), name)?;
                let mut bytes = vec![0; length];
                let read = file.at(start + first).read(&mut bytes)?.bytes();
                ensure!(read == length as u64, "{name} ends before element {}", part.first + part.count);
                Ok(bytes)
            }
        }
    }

    fn references(&self, array: usize) -> Result<ChunkReferences> {
        match &self.sources[array] {
            ArrayLocation::File(name, start) => {
                Ok(ChunkReferences::adjacent(&self.arrays[array], OsStr::new(name), *start))
            }
            ArrayLocation::Manifest(_) => Err(anyhow!("it is stored in the manifest")),
        }
    }

    fn has_checksums(&self) -> bool {
        true
    }

    fn findings(&self, depth: VerifyDepth) -> Result<Vec<Finding>> {
        let shown = self.shown.map(|at| self.generations[at].0);
        let is_gone = self.is_store && shown.is_some_and(|number| self.is_gone(number));
        let mut findings = if is_gone { Vec::new() } else { self.broken.clone() };
        if self.generations.is_empty() {
            findings.push(Finding::unknown("the store has no committed generation"));
        }
        let (mut gone, mut states) = (0, Vec::new());
        for (number, generation) in &self.generations {
            let name = format!("generation {number}");
            let finding = match generation {
                Err(error) => Some(Finding::of_part(&name, error)),
                Ok(generation) => {
                    let verified = match depth {
                        VerifyDepth::Quick => self.lengths_match(generation),
                        VerifyDepth::Full => generation.verify().map_err(anyhow::Error::from),
                    };
                    verified.err().map(|error| missing_is_damage(&name, &error))
                }
            };
            match finding {
                // The running program removed it meanwhile.
                Some(_) if self.is_store && self.is_gone(*number) => gone += 1,
                finding => {
                    let about = generation.as_ref().ok().map(about);
                    let damage = finding.as_ref().map(|finding| finding.text.clone());
                    states.push(GenerationState { number: *number, about, damage, is_newest_whole: false });
                    findings.extend(finding);
                }
            }
        }
        if let Some(newest) = states.iter_mut().rfind(|state| state.damage.is_none()) {
            newest.is_newest_whole = true;
        }
        self.checked.replace(if self.is_store { states } else { Vec::new() });
        if gone > 0 && gone == self.generations.len() {
            return Ok(vec![Finding::unknown(
                "the running program removed all generations meanwhile; try again",
            )]);
        }
        Ok(findings)
    }

    fn generations(&self) -> Vec<GenerationState> {
        self.checked.borrow().clone()
    }
}

/// The step, and who wrote it.
fn about(generation: &Generation) -> String {
    let (step, writer) = (generation.step(), generation.written_by());
    if writer.program.is_empty() {
        return format!("step {step}, written on {} ranks, {}", writer.ranks, UtcTime(writer.time));
    }
    format!("step {step}, written by {writer}")
}

/// A file of the manifest that does not exist is damage.
fn missing_is_damage(name: &str, error: &anyhow::Error) -> Finding {
    let finding = Finding::of_part(name, error);
    Finding { is_damage: finding.is_damage || crate::finding::is_missing(error), ..finding }
}

#[cfg(test)]
mod tests {
    use aqueduct::checkpoint::{Checkpoint, Retention};
    use aqueduct::comm::Launch;

    use super::*;

    /// The running program removes generations while the store is verified.
    #[test]
    fn a_generation_removed_during_verification_is_not_damaged() {
        let folder = std::env::temp_dir().join(format!("aqueduct-live-store-{}", std::process::id()));
        let run = |world: &Comm| -> Result<()> {
            let mut writer = Store::open_or_create(world, &folder)?.retention(Retention::All);
            for step in 1..=3 {
                let mut checkpoint = Checkpoint::new(step);
                checkpoint.objects("names", &["one".to_owned()]);
                writer.write(&checkpoint)?;
            }
            let file = CheckpointArrayFile::open_latest(world, &folder)?;
            let remove =
                |number: u64| std::fs::remove_dir_all(folder.join(format!("generation-{number:010}")));
            remove(1)?;
            assert_eq!(file.findings(VerifyDepth::Full)?, []);
            // A missing part of an existing generation is damage.
            std::fs::remove_file(folder.join("generation-0000000002/names.objects"))?;
            assert!(file.findings(VerifyDepth::Full)?.iter().any(|finding| finding.is_damage));
            [2, 3].into_iter().try_for_each(remove)?;
            let findings = file.findings(VerifyDepth::Full)?;
            assert!(findings.len() == 1 && !findings[0].is_damage, "{findings:?}");
            Ok(())
        };
        let outcome = Launch::threads(1).run(|world| run(world).map_err(|error| format!("{error:#}")));
        let _ = std::fs::remove_dir_all(&folder);
        outcome.unwrap();
    }
}
