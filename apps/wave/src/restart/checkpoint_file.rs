//! Checkpoint files of k-Wave.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use aqueduct::comm::Comm;
use aqueduct::formats::Selection;
use aqueduct::hdf5::{Hdf5Attribute, Hdf5CreateOptions, Hdf5DatasetOptions, Hdf5File, Hdf5OpenOptions};
use aqueduct::object::Object;

use super::{CheckpointKind, FileInterval};
use crate::output::saved_array::{ArrayPlace, SavedArray, SavedArrays, SavedValues};
use crate::scenario::input_writer::attributes;
use crate::transform::real::Real;

/// The attribute with the hash of the run.
const FINGERPRINT: &str = "aqueduct_fingerprint";

/// A checkpoint file and when it is written.
pub(super) struct KwaveCheckpoint {
    file: String,
    interval: FileInterval,
    begin: Instant,
    first: u64,
    fingerprint: u64,
}

/// A checkpoint file that is read.
pub(super) struct OpenCheckpoint(Hdf5File);

/// The path of an array: the fields are in the root, where k-Wave has them.
fn path(place: &ArrayPlace) -> String {
    let name = match place.name.as_str() {
        "ux" => "ux_sgx",
        "uy" => "uy_sgy",
        "uz" => "uz_sgz",
        name @ ("p" | "rhox" | "rhoy" | "rhoz") => name,
        other => return format!("/aqueduct/{other}"),
    };
    format!("/{name}")
}

fn selection(place: &ArrayPlace) -> Selection {
    Selection::block(place.start.clone(), place.count.clone())
}

impl OpenCheckpoint {
    fn read<T: Object>(&self, place: &ArrayPlace) -> Result<Vec<T>> {
        let id = self.0.dataset(&path(place))?;
        let found = &self.0.describe(id)?.shape;
        let name = self.0.name();
        ensure!(
            *found == place.shape,
            "{name}: dataset {} has the shape {found:?}, not {:?}",
            path(place),
            place.shape
        );
        Ok(self.0.at(id, selection(place)).all().read_vec()?)
    }

    /// The number of steps that were made.
    pub(super) fn step(&self) -> Result<u64> {
        let id = self.0.dataset("/t_index")?;
        Ok(self.0.at(id, [0..1, 0..1, 0..1]).all().read_vec::<u64>()?[0])
    }
}

impl<T: Real> SavedArrays<T> for OpenCheckpoint {
    fn field(&self, place: &ArrayPlace) -> Result<Vec<T>> {
        self.read(place)
    }

    fn wide(&self, place: &ArrayPlace) -> Result<Vec<f64>> {
        self.read(place)
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
        let found = OpenCheckpoint(file);
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
    pub(super) fn save<T: Real>(
        &self,
        world: &Comm,
        step: u64,
        fields: &[(ArrayPlace, &[T])],
        state: &[SavedArray<T>],
    ) -> Result<()> {
        let beside = format!("{}.new", self.file);
        let mut file = Hdf5CreateOptions::new().replace().create(world, &beside)?;
        let shape = &fields[0].0.shape;
        let numbers = [("/Nx", shape[2]), ("/Ny", shape[1]), ("/Nz", shape[0]), ("/t_index", step)];
        let fingerprint = format!("{:016x}", self.fingerprint);
        let date = world.broadcast_vec(0, crate::report::creation_date().into_bytes())?;
        let (numbers_ids, field_ids, state_ids) = file.define(|file| {
            for (name, text) in attributes("checkpoint", "checkpoint") {
                let text =
                    if name == "creation_date" { String::from_utf8_lossy(&date).into_owned() } else { text };
                file.attribute("/", name, Hdf5Attribute::fixed(text))?;
            }
            file.attribute("/", FINGERPRINT, Hdf5Attribute::fixed(fingerprint))?;
            let numbers = numbers.iter().map(|(path, _)| file.dataset::<u64>(path, &[1, 1, 1]));
            let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
            let fields = fields
                .iter()
                .map(|(place, _)| file.dataset_with::<T>(&path(place), &place.shape, &storage(place)));
            let fields = fields.collect::<Result<Vec<_>, _>>()?;
            let state = state.iter().map(|(place, values)| match values {
                SavedValues::Field(_) => file.dataset_with::<T>(&path(place), &place.shape, &storage(place)),
                SavedValues::Wide(_) => file.dataset_with::<f64>(&path(place), &place.shape, &storage(place)),
            });
            Ok((numbers, fields, state.collect::<Result<Vec<_>, _>>()?))
        })?;
        let mut queue = file.queue();
        for (id, (_, value)) in numbers_ids.iter().zip(numbers.iter().filter(|_| world.rank() == 0)) {
            queue.put(*id, [0..1, 0..1, 0..1], std::slice::from_ref(value));
        }
        for (id, (place, values)) in field_ids.iter().zip(fields) {
            queue.put(*id, selection(place), values);
        }
        for (id, (place, values)) in state_ids.iter().zip(state) {
            match values {
                SavedValues::Field(values) => queue.put(*id, selection(place), values),
                SavedValues::Wide(values) => queue.put(*id, selection(place), values),
            };
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
fn storage(place: &ArrayPlace) -> Hdf5DatasetOptions {
    if place.shape.contains(&0) {
        return Hdf5DatasetOptions::new();
    }
    let mut chunk = place.shape.clone();
    chunk[0] = if chunk.len() == 1 { chunk[0].min(1 << 20) } else { 1 };
    Hdf5DatasetOptions::new().chunk(&chunk).checksum()
}
