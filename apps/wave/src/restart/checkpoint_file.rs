//! Checkpoint files of k-Wave.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use aqueduct::comm::Comm;
use aqueduct::formats::Selection;
use aqueduct::hdf5::{Hdf5Attribute, Hdf5CreateOptions, Hdf5DatasetOptions, Hdf5File, Hdf5OpenOptions};
use aqueduct::object::{decode_all, encode_all};
use aqueduct::stream::ResumeState;

use super::saved_run::{FieldPlace, RunState, SavedArrays};
use super::{CheckpointKind, FileInterval};
use crate::scenario::input_writer::attributes;
use crate::transform::real::Real;

/// The attribute with the hash of the run.
const FINGERPRINT: &str = "aqueduct_fingerprint";
/// The states of the output of all ranks, one after another, and the bytes of each.
const OUTPUT: &str = "/aqueduct/output";
const OUTPUT_SIZES: &str = "/aqueduct/output_sizes";

/// A checkpoint file and when it is written.
pub(super) struct KwaveCheckpoint {
    file: String,
    interval: FileInterval,
    begin: Instant,
    first: u64,
    fingerprint: u64,
}

/// A checkpoint file that is read.
pub(super) struct OpenCheckpoint {
    file: Hdf5File,
    rank: usize,
    ranks: usize,
}

/// The path of a field, where k-Wave has it.
fn path(place: &FieldPlace) -> String {
    let name = match place.name.as_str() {
        "ux" => "ux_sgx",
        "uy" => "uy_sgy",
        "uz" => "uz_sgz",
        name => name,
    };
    format!("/{name}")
}

fn selection(place: &FieldPlace) -> Selection {
    Selection::block(place.start.clone(), place.count.clone())
}

fn range(start: u64, end: u64) -> Selection {
    Selection::block([start], [end - start])
}

impl OpenCheckpoint {
    /// The number of steps that were made.
    pub(super) fn step(&self) -> Result<u64> {
        let id = self.file.dataset("/t_index")?;
        Ok(self.file.at(id, [0..1, 0..1, 0..1]).all().read_vec::<u64>()?[0])
    }
}

impl<T: Real> SavedArrays<T> for OpenCheckpoint {
    fn field(&self, place: &FieldPlace) -> Result<Vec<T>> {
        let id = self.file.dataset(&path(place))?;
        let found = &self.file.describe(id)?.shape;
        let name = self.file.name();
        ensure!(
            *found == place.shape,
            "{name}: dataset {} has the shape {found:?}, not {:?}",
            path(place),
            place.shape
        );
        Ok(self.file.at(id, selection(place)).all().read_vec()?)
    }

    fn output(&self) -> Result<Vec<ResumeState>> {
        let Ok(sizes) = self.file.dataset(OUTPUT_SIZES) else { return Ok(Vec::new()) };
        let sizes: Vec<u64> = self.file.at(sizes, Selection::whole()).all().read_vec()?;
        let bytes = self.file.dataset(OUTPUT)?;
        let total = self.file.describe(bytes)?.shape.iter().product::<u64>();
        let damaged = || format!("{}: the state of the output is damaged", self.file.name());
        let sum = sizes.iter().try_fold(0u64, |sum, size| sum.checked_add(*size));
        ensure!(sum == Some(total), damaged());
        let (mut states, mut end) = (Vec::new(), 0);
        // All ranks read as often.
        for round in sizes.chunks(self.ranks) {
            let start = end + round.iter().take(self.rank).sum::<u64>();
            let mine = round.get(self.rank).copied().unwrap_or(0);
            end += round.iter().sum::<u64>();
            let encoded: Vec<u8> = self.file.at(bytes, range(start, start + mine)).all().read_vec()?;
            if mine > 0 {
                states.extend(decode_all::<ResumeState>(&encoded, 1).with_context(damaged)?);
            }
        }
        Ok(states)
    }
}

impl KwaveCheckpoint {
    pub(super) fn new(kind: &CheckpointKind, fingerprint: u64) -> Option<Self> {
        let CheckpointKind::File { file, interval } = kind else { return None };
        Some(Self { file: file.clone(), interval: *interval, begin: Instant::now(), first: 0, fingerprint })
    }

    /// The checkpoint, if there is one. Collective.
    pub(super) fn open(&mut self, world: &Comm) -> Result<Option<OpenCheckpoint>> {
        let mut there = [u8::from(Path::new(&self.file).exists())];
        world.broadcast(0, &mut there)?;
        if there[0] == 0 {
            return Ok(None);
        }
        let name = &self.file;
        let file = Hdf5OpenOptions::new().open(world, name);
        let file = file.with_context(|| {
            format!("{name}: the checkpoint cannot be read; remove it to start from the beginning")
        })?;
        let attribute = |key: &str| file.object("/").ok()?.attribute(key)?.text().map(str::to_owned);
        ensure!(
            attribute("file_type").as_deref() == Some("checkpoint"),
            "{name}: it is not a checkpoint file"
        );
        ensure!(
            file.is_complete() == Some(true),
            "{name}: the checkpoint is incomplete; remove it to start from the beginning"
        );
        ensure!(
            attribute(FINGERPRINT) == Some(format!("{:016x}", self.fingerprint)),
            "{name}: the checkpoint belongs to another simulation: another input, number of steps, precision, or other stored quantities"
        );
        let found = OpenCheckpoint { file, rank: world.rank(), ranks: world.size() };
        self.first = found.step()?;
        Ok(Some(found))
    }

    /// Whether the run ends here with a checkpoint. Collective.
    pub(super) fn is_due(&self, world: &Comm, step: u64) -> Result<bool> {
        let time = match self.interval {
            FileInterval::Steps(steps) => return Ok(step - self.first >= steps),
            FileInterval::Time(time) => time.max(Duration::from_millis(1)),
        };
        let mut due = [u8::from(self.begin.elapsed() >= time)];
        world.broadcast(0, &mut due)?;
        Ok(due[0] == 1)
    }

    /// Writes the file beside the one before, and replaces that. Collective.
    pub(super) fn save<T: Real>(&self, world: &Comm, state: &RunState<'_, T>) -> Result<()> {
        let beside = format!("{}.new", self.file);
        let mut file = Hdf5CreateOptions::new().replace().create(world, &beside)?;
        let shape = &state.fields[0].0.shape;
        let numbers = [("/Nx", shape[2]), ("/Ny", shape[1]), ("/Nz", shape[0]), ("/t_index", state.step)];
        let fingerprint = format!("{:016x}", self.fingerprint);
        let date = world.broadcast_vec(0, crate::report::creation_date().into_bytes())?;
        let output = state.output.as_ref().map(|output| encode_all(std::slice::from_ref(output)));
        let sizes = world.allgather(&[output.as_ref().map_or(0, |bytes| bytes.len() as u64)])?;
        let total: u64 = sizes.iter().sum();
        let (number_ids, field_ids, output_ids) = file.define(|file| {
            for (name, text) in attributes("checkpoint", "checkpoint") {
                let text =
                    if name == "creation_date" { String::from_utf8_lossy(&date).into_owned() } else { text };
                file.attribute("/", name, Hdf5Attribute::fixed(text))?;
            }
            file.attribute("/", FINGERPRINT, Hdf5Attribute::fixed(fingerprint))?;
            let numbers = numbers.iter().map(|(path, _)| file.dataset::<u64>(path, &[1, 1, 1]));
            let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
            let fields = state
                .fields
                .iter()
                .map(|(place, _)| file.dataset_with::<T>(&path(place), &place.shape, &checked(&place.shape)));
            let fields = fields.collect::<Result<Vec<_>, _>>()?;
            let output = if total > 0 {
                let sizes = file.dataset::<u64>(OUTPUT_SIZES, &[world.size() as u64])?;
                Some((sizes, file.dataset_with::<u8>(OUTPUT, &[total], &checked(&[total]))?))
            } else {
                None
            };
            Ok((numbers, fields, output))
        })?;
        let mut queue = file.queue();
        for (id, (_, value)) in number_ids.iter().zip(numbers.iter().filter(|_| world.rank() == 0)) {
            queue.put(*id, [0..1, 0..1, 0..1], std::slice::from_ref(value));
        }
        for (id, (place, values)) in field_ids.iter().zip(&state.fields) {
            queue.put(*id, selection(place), values);
        }
        if let (Some((size_id, id)), Some(bytes)) = (output_ids, &output) {
            let (rank, start) = (world.rank() as u64, sizes[..world.rank()].iter().sum());
            queue.put(size_id, range(rank, rank + 1), &sizes[world.rank()..=world.rank()]);
            queue.put(id, range(start, start + bytes.len() as u64), bytes);
        }
        queue.run_all()?;
        file.close()?;
        if world.rank() == 0 {
            fs::rename(&beside, &self.file)
                .with_context(|| format!("{beside}: renaming it to {}", self.file))?;
            sync_folder(&self.file)?;
        }
        Ok(world.barrier()?)
    }

    /// Removes the file after the last step. Collective.
    pub(super) fn remove(&self, world: &Comm) -> Result<()> {
        if world.rank() == 0 && Path::new(&self.file).exists() {
            fs::remove_file(&self.file).with_context(|| self.file.clone())?;
        }
        Ok(world.barrier()?)
    }
}

fn sync_folder(file: &str) -> Result<()> {
    let folder =
        Path::new(file).parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(File::open(folder)?.sync_all()?)
}

/// In chunks of a plane with checksums, which every reader verifies.
fn checked(shape: &[u64]) -> Hdf5DatasetOptions {
    if shape.contains(&0) {
        return Hdf5DatasetOptions::new();
    }
    let mut chunk = shape.to_vec();
    chunk[0] = if chunk.len() == 1 { chunk[0].min(1 << 20) } else { 1 };
    Hdf5DatasetOptions::new().chunk(&chunk).checksum()
}
