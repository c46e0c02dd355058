//! A committed generation: its parts, read on any number of ranks.

use std::path::PathBuf;

use aqueduct_comm::Comm;
use aqueduct_file::File;
use aqueduct_file::hyperslab::volume;
use aqueduct_object::{FileProvenance, Object, bytes_mut, decode, decode_all, zeroed};

use super::commit::{StoreLocation, differing, head_sum, sums};
use super::held_generations::GenerationHold;
use super::manifest::{Manifest, ManifestEntry, ManifestFlaw, from_hex};
use super::part::ArrayBlock;
use super::{array, folder, object_list, part_path};
use crate::error::{Error, Kind, Result, agree, on_root};
use crate::molecule::Particle;
use crate::particle_cells::{CellFile, verify};
use crate::region::SpatialRegion;

/// The longest manifest that is read, in bytes.
const LONGEST_MANIFEST: u64 = 256 << 20;

/// A committed checkpoint.
#[derive(Debug)]
pub struct Generation {
    comm: Comm,
    location: StoreLocation,
    path: PathBuf,
    manifest: Manifest,
    skipped: Vec<SkippedGeneration>,
    _hold: GenerationHold,
}

/// The entry of a part in the manifest; `docs/format-checkpoint.md` specifies the fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartSummary {
    /// Its name.
    pub name: String,
    /// `cells`, `array`, `objects` or `value`.
    pub kind: String,
    /// The signature of the elements' type; empty for cells.
    pub signature: String,
    /// The shape of an array.
    pub shape: Vec<u64>,
    /// The number of objects.
    pub count: Option<u64>,
    /// The offset of the index of objects of variable size.
    pub index: Option<u64>,
    /// The length of its file, or of the encoded form of a value.
    pub bytes: u64,
    /// The encoded form of a value.
    pub value: Option<Vec<u8>>,
    /// The name of its file.
    pub file: String,
}

/// A generation that could not be used.
#[derive(Debug)]
pub struct SkippedGeneration {
    /// Its number.
    pub generation: u64,
    /// The reason.
    pub error: Error,
}

impl Generation {
    pub(super) fn open(comm: &Comm, place: &StoreLocation, number: u64) -> Result<Self> {
        let hold = place.held.hold(number);
        let path = folder::committed(&place.folder, number);
        let name = place.name(&path.join("manifest.json"));
        let damaged = |detail: String| Error::new(Kind::Damaged, "open", &name, detail);
        let text = on_root(comm, "open", &name, || {
            let file = File::open(&comm.comm_self(), &name)?;
            let size = file.size()?;
            if size > LONGEST_MANIFEST {
                return Err(damaged(format!(
                    "a manifest has at most {LONGEST_MANIFEST} bytes, this file has {size}"
                )));
            }
            let mut text = vec![0; size as usize];
            file.at(0).read(&mut text)?;
            Ok(text)
        });
        let text = text.map_err(|error| match error.kind() {
            Kind::NoSuchFile => {
                let detail = format!(
                    "generation {number} does not exist; `Store::generations` lists the existing ones"
                );
                Error::new(Kind::NoCheckpoint, "open", place.folder.to_string_lossy(), detail)
            }
            _ => error,
        })?;
        let flawed = |flaw: ManifestFlaw| Error::new(flaw.kind, "open", &name, flaw.detail);
        let manifest = Manifest::decode(&text).map_err(flawed)?;
        if manifest.generation != number {
            return Err(damaged(format!("the manifest is that of generation {}", manifest.generation)));
        }
        let (comm, place) = (comm.clone(), place.clone());
        Ok(Self { comm, location: place, path, manifest, skipped: Vec::new(), _hold: hold })
    }

    pub(super) fn with_skipped(mut self, passed: Vec<SkippedGeneration>) -> Self {
        self.skipped = passed;
        self
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.manifest.generation
    }

    /// The step of the program.
    pub fn step(&self) -> u64 {
        self.manifest.step
    }

    /// The number of ranks that wrote it.
    pub fn ranks(&self) -> u64 {
        self.manifest.ranks
    }

    /// The time at which it was written, in seconds since 1970.
    pub fn time(&self) -> u64 {
        self.manifest.time
    }

    /// The program that wrote it; program and version are empty in stores of versions that do not record them.
    pub fn written_by(&self) -> FileProvenance {
        let Manifest { program, library, ranks, time, .. } = &self.manifest;
        FileProvenance { program: program.clone(), version: library.clone(), ranks: *ranks, time: *time }
    }

    /// Newer generations that [`Store::latest`](crate::Store::latest) skipped.
    pub fn skipped(&self) -> &[SkippedGeneration] {
        &self.skipped
    }

    /// The names of its parts.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.manifest.parts.iter().map(|entry| entry.name.as_str())
    }

    /// The entry of each part in the manifest, for programs that do not know the types.
    pub fn summaries(&self) -> impl Iterator<Item = PartSummary> {
        self.manifest.parts.iter().map(|entry| PartSummary {
            name: entry.name.clone(),
            kind: entry.kind.clone(),
            signature: entry.signature.clone(),
            shape: entry.shape.clone(),
            count: entry.count,
            index: entry.index,
            bytes: entry.bytes,
            value: entry.value.as_deref().and_then(from_hex),
            file: self.file(entry),
        })
    }

    /// Whether there is a part of this name.
    pub fn has(&self, name: &str) -> bool {
        self.parts().any(|part| part == name)
    }

    /// The particles in this rank's region. Any regions are possible. Collective.
    pub fn cells<P: Particle>(&self, name: &str, region: &SpatialRegion) -> Result<Vec<P>> {
        let entry = self.part(name, "cells", Some(""))?;
        CellFile::open(&self.comm, &self.file(entry))?.read(region)
    }

    /// Reads a box of an array into an array in memory, which has the shape of the box and may be transposed or sliced. Collective.
    #[cfg(feature = "ndarray")]
    pub fn read_ndarray<T: Object, D: ndarray::Dimension>(
        &self,
        name: &str,
        block: &ArrayBlock,
        array: &mut ndarray::ArrayRef<T, D>,
    ) -> Result<()> {
        let checked = aqueduct_file::array_memory::check_shape(array.shape(), &block.slab.count);
        let checked = checked.map_err(|detail| {
            Error::new(Kind::BadArgument, "read", self.shown(), format!("part {name:?}: {detail}"))
        });
        agree(&self.comm, "read", &self.shown(), checked)?;
        let values = self.array::<T>(name, block)?;
        array.iter_mut().zip(values).for_each(|(element, value)| *element = value);
        Ok(())
    }

    /// Any block of an array. Collective.
    pub fn array<T: Object>(&self, name: &str, block: &ArrayBlock) -> Result<Vec<T>> {
        let schema = T::schema();
        let size = T::SIZE.unwrap_or(0);
        let damaged = |file: &str, detail: String| Error::new(Kind::Damaged, "read", file, detail);
        self.with_array(name, block, Some(schema.signature()), |file, elements, read| {
            if let Some(mut values) = zeroed::<T>(elements) {
                read(size as u64, bytes_mut(&mut values).unwrap_or_default())?;
                return Ok(values);
            }
            let mut bytes = vec![0; elements * size];
            read(size as u64, &mut bytes)?;
            decode_all(&bytes, elements).map_err(|error| damaged(file, error.to_string()))
        })
    }

    /// As [`array`](Self::array), as bytes: elements of the type that [the summary](Self::summaries) names, encoded. Collective.
    pub fn array_bytes(&self, name: &str, block: &ArrayBlock) -> Result<Vec<u8>> {
        let stored = self.manifest.parts.iter().find(|entry| entry.name == name);
        let size = stored.and_then(|entry| entry.bytes.checked_div(volume(&entry.shape)?));
        self.with_array(name, block, None, |_, elements, read| {
            let size = size.unwrap_or(0);
            let mut bytes = vec![0; elements * size as usize];
            read(size, &mut bytes).map(|()| bytes)
        })
    }

    /// Calls `work` with the file of an array, the number of elements of a block of it, and a function that reads the block.
    fn with_array<R>(
        &self,
        name: &str,
        block: &ArrayBlock,
        signature: Option<&str>,
        work: impl FnOnce(&str, usize, &dyn Fn(u64, &mut [u8]) -> Result<()>) -> Result<R>,
    ) -> Result<R> {
        let entry = self.part(name, "array", signature);
        let checked = entry.and_then(|entry| match block.elements() {
            Some(elements) if block.shape == entry.shape => Ok((entry, elements)),
            _ => {
                let shape = &entry.shape;
                let detail = if block.shape == *shape {
                    format!("part {name:?}: {}", block.describe_error(0))
                } else {
                    let other = &block.shape;
                    format!("part {name:?} has the shape {shape:?}, but the block is of an array of shape {other:?}; use the shape of the part")
                };
                Err(Error::new(Kind::BadArgument, "read", self.shown(), detail))
            }
        });
        let (entry, elements) = agree(&self.comm, "read", &self.shown(), checked)?;
        let file = self.file(entry);
        object_list::with_file(&self.comm, &file, |opened| {
            let read = |size: u64, bytes: &mut [u8]| {
                let view = array::view(&file, size, block)?;
                match opened.with_view(&view).all().read(&mut *bytes)?.bytes() {
                    count if count == bytes.len() as u64 => Ok(()),
                    _ => {
                        let detail = format!("the file ends before the end of the block {block:?}");
                        Err(Error::new(Kind::Damaged, "read", &file, detail))
                    }
                }
            };
            work(&file, elements as usize, &read)
        })
    }

    /// This rank's even share of a list of objects, in the order of the list. Collective.
    pub fn objects<T: Object>(&self, name: &str) -> Result<Vec<T>> {
        let entry = self.part(name, "objects", Some(T::schema().signature()))?;
        let size = T::SIZE.map(|size| size as u64);
        self.with_objects(entry, size, |file, bytes, borders| {
            let objects = borders.windows(2).map(|pair| decode(&bytes[pair[0]..pair[1]]));
            let objects: std::result::Result<Vec<T>, _> = objects.collect();
            objects.map_err(|error| Error::new(Kind::Damaged, "read", file, error.to_string()))
        })
    }

    /// As [`objects`](Self::objects), as bytes: objects of constant size of the type that [the summary](Self::summaries) names, encoded.
    /// Collective.
    pub fn objects_bytes(&self, name: &str) -> Result<Vec<u8>> {
        let entry = self.part(name, "objects", None)?;
        let size = entry.count.filter(|count| *count > 0).and_then(|count| entry.bytes.checked_div(count));
        if entry.index.is_some() {
            let detail = format!("part {name:?} has objects of variable size; read it with its type");
            return Err(Error::new(Kind::Unsupported, "read", self.shown(), detail));
        }
        self.with_objects(entry, Some(size.unwrap_or(0)), |_, bytes, _| Ok(bytes))
    }

    /// Calls `work` with the file of a list, the bytes of this rank's share, and the offsets between its objects.
    fn with_objects<R>(
        &self,
        entry: &ManifestEntry,
        size: Option<u64>,
        work: impl FnOnce(&str, Vec<u8>, Vec<usize>) -> Result<R>,
    ) -> Result<R> {
        let count = u128::from(entry.count.unwrap_or(0));
        let border = |rank: usize| (count * rank as u128 / self.comm.size() as u128) as u64;
        let (first, end) = (border(self.comm.rank()), border(self.comm.rank() + 1));
        let file = self.file(entry);
        object_list::with_file(&self.comm, &file, |opened| {
            let (bytes, borders) = object_list::read(opened, size, entry, first, end)?;
            work(&file, bytes, borders)
        })
    }

    /// A value that is the same on all ranks. Not collective.
    pub fn value<T: Object>(&self, name: &str) -> Result<T> {
        let entry = self.part(name, "value", Some(T::schema().signature()))?;
        let bytes = entry.value.as_deref().and_then(from_hex);
        let bad = |detail: String| {
            Error::new(Kind::Damaged, "read", self.shown(), format!("value {name:?}: {detail}"))
        };
        let bytes = bytes.ok_or_else(|| bad("invalid hexadecimal digits".into()))?;
        decode(&bytes).map_err(|error| bad(error.to_string()))
    }

    /// Reads all parts, a share on each rank, and verifies all checksums. Collective.
    pub fn verify(&self) -> Result<()> {
        for entry in &self.manifest.parts {
            let name = self.file(entry);
            match entry.kind.as_str() {
                "cells" => self.verify_cells(&name, entry)?,
                "value" => {}
                _ => {
                    let file = File::open(&self.comm, &name)?;
                    let found = sums(&self.comm, &file, entry.bytes)?;
                    let longer = file.size()? != entry.bytes;
                    file.close()?;
                    let wrong = (self.comm.rank() == 0).then(|| differing(&found, &entry.sums)).flatten();
                    let wrong = wrong.or_else(|| {
                        longer.then(|| format!("the length of the file is not {} bytes", entry.bytes))
                    });
                    let outcome = wrong
                        .map_or(Ok(()), |detail| Err(Error::new(Kind::Damaged, "verify", &name, detail)));
                    agree(&self.comm, "verify", &name, outcome)?;
                }
            }
        }
        Ok(())
    }

    fn verify_cells(&self, name: &str, entry: &ManifestEntry) -> Result<()> {
        let file = File::open(&self.comm, name)?;
        let (found, size) = (head_sum(&file)?, file.size()?);
        file.close()?;
        if entry.sums != [found] || size != entry.bytes {
            let detail = "byte 0: not the cell file whose checksum is in the manifest";
            return Err(Error::new(Kind::Damaged, "verify", name, detail));
        }
        verify(&self.comm, name)
    }

    fn shown(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    fn file(&self, entry: &ManifestEntry) -> String {
        self.location.name(&part_path(&self.path, &entry.name, &entry.kind))
    }

    /// The part of this name, if it has this kind, and this type, if one is wanted.
    fn part(&self, name: &str, kind: &str, signature: Option<&str>) -> Result<&ManifestEntry> {
        let Some(entry) = self.manifest.parts.iter().find(|entry| entry.name == name) else {
            let parts: Vec<&str> = self.parts().collect();
            let detail =
                format!("generation {} has no part {name:?}; its parts are {parts:?}", self.number());
            return Err(Error::new(Kind::NoSuchName, "read", self.shown(), detail));
        };
        let sane = super::part::is_name(name) && (kind != "array" || volume(&entry.shape).is_some());
        if sane && entry.kind == kind && signature.is_none_or(|signature| entry.signature == signature) {
            return Ok(entry);
        }
        let detail = format!(
            "part {name:?} is {} {:?}, not {kind} {:?}; read it with its own type",
            entry.kind,
            entry.signature,
            signature.unwrap_or_default()
        );
        Err(Error::new(Kind::WrongType, "read", self.shown(), detail))
    }
}
