//! The files of a search: their format, the length of their contents, and the kind of their residues.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use aqueduct::comm::Comm;
use aqueduct::device::name::DeviceName;
use aqueduct::device::{PrefixKind, registry};
use aqueduct::file::File;

use super::bgzip::{self, BlockIndex};
use super::packed::{self, PackedHeader, PackedIndex};
use crate::query::ResidueKind;

/// How a file is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// As text.
    Plain,
    /// By bgzip: parts can be read.
    Bgzip(BlockIndex),
    /// By gzip: read from the start only.
    Gzip,
    /// By `motif convert`: parts can be read.
    Packed(PackedIndex),
}

/// What rank 0 finds out of a file.
struct ProbedFile {
    format: FileFormat,
    length: u64,
    /// Of a packed file its header and its index.
    packed: Vec<u8>,
}

/// A sequence file.
#[derive(Clone, Debug)]
pub struct DatabaseFile {
    /// Its name as it was given, with the prefix of a device if there is one.
    pub name: String,
    /// How it is stored.
    pub format: FileFormat,
    /// The length of its contents; of a gzip file, its own length.
    pub length: u64,
}

impl DatabaseFile {
    /// Looks at the files. Collective: rank 0 reads, all ranks get the same.
    pub fn inspect(world: &Comm, names: &[String]) -> Result<Vec<Self>> {
        let mut files = Vec::with_capacity(names.len());
        for name in names {
            let found = (world.rank() == 0).then(|| Self::probe(world, name)).transpose();
            let message = found.as_ref().err().map_or(Vec::new(), |error| format!("{error:#}").into_bytes());
            let message = world.broadcast_vec(0, message)?;
            ensure!(message.is_empty(), "{name}: {}", String::from_utf8_lossy(&message));
            let found = found?;
            let mut head = found.as_ref().map_or([0, 0], |found| [found.format.code(), found.length]);
            world.broadcast(0, &mut head)?;
            let offsets = match found.as_ref().map(|found| &found.format) {
                Some(FileFormat::Bgzip(index)) => index.offsets.as_slice(),
                _ => &[],
            };
            let flat = offsets.iter().flat_map(|(file, contents)| [*file, *contents]).collect();
            let flat: Vec<u64> = world.broadcast_vec(0, flat)?;
            let packed = world.broadcast_vec(0, found.map_or(Vec::new(), |found| found.packed))?;
            let format = match head[0] {
                0 => FileFormat::Plain,
                1 => FileFormat::Gzip,
                2 => {
                    let offsets = flat.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
                    FileFormat::Bgzip(BlockIndex { offsets })
                }
                _ => FileFormat::Packed(packed_index(&packed)?),
            };
            files.push(Self { name: name.clone(), format, length: head[1] });
        }
        Ok(files)
    }

    /// Format, length and index of a file.
    fn probe(world: &Comm, name: &str) -> Result<ProbedFile> {
        let file = File::open(&world.comm_self(), name)?;
        let length = file.size()?;
        let read = |offset: u64, size: usize| read_at(&file, offset, size);
        let start = read(0, bgzip::HEADER_SIZE)?;
        let mut found = ProbedFile { format: FileFormat::Plain, length, packed: Vec::new() };
        if start.starts_with(packed::MAGIC) {
            let head = read(0, packed::HEADER_SIZE)?;
            let header = PackedHeader::parse(&head, length)?;
            let index = read(header.index_offset, header.index_length as usize)?;
            found.packed = [head, index].concat();
            let index = packed_index(&found.packed)?;
            (found.length, found.format) = (index.length(), FileFormat::Packed(index));
        } else if bgzip::is_gzip(&start) && bgzip::block_size(&start).is_none() {
            found.format = FileFormat::Gzip;
        } else if bgzip::is_gzip(&start) {
            let index = match read_whole(world, &format!("{name}.gzi")) {
                Some(bytes) => BlockIndex::parse(&bytes, length, |offset| {
                    bgzip::member_length(&read(offset, 1 << 16)?).context("the last bgzip block")
                })
                .with_context(|| format!("{name}.gzi"))?,
                None => BlockIndex::build(length, read)?,
            };
            (found.length, found.format) = (index.length(), FileFormat::Bgzip(index));
        }
        file.close()?;
        Ok(found)
    }

    /// The kinds of residues, by the letters at the start of each file; none of a file without residues. Collective.
    pub fn guess_kinds(world: &Comm, files: &[Self]) -> Result<Vec<Option<ResidueKind>>> {
        let mut codes = vec![0u64; files.len()];
        if world.rank() == 0 {
            for (code, file) in codes.iter_mut().zip(files) {
                // A file that cannot be read is reported by the search.
                let kind = match &file.format {
                    FileFormat::Packed(index) => Some(index.kind),
                    _ => guess_kind(&file.sample(world).unwrap_or_default()),
                };
                *code = KINDS.iter().position(|known| Some(*known) == kind).map_or(0, |at| at as u64 + 1);
            }
        }
        world.broadcast(0, &mut codes)?;
        Ok(codes.into_iter().map(|code| KINDS.get((code as usize).wrapping_sub(1)).copied()).collect())
    }

    /// The kind of residues that files have: an error if they have different ones.
    pub fn common_kind<'a>(
        kinds: impl IntoIterator<Item = (&'a str, Option<ResidueKind>)>,
    ) -> Result<ResidueKind> {
        let mut first: Option<(&str, ResidueKind)> = None;
        for (name, kind) in kinds {
            match (first, kind) {
                (None, Some(kind)) => first = Some((name, kind)),
                (Some((other, known)), Some(kind)) if known != kind => bail!(
                    "{other} seems to have {} sequences and {name} {} sequences; say which kind is searched",
                    known.name(),
                    kind.name()
                ),
                _ => {}
            }
        }
        Ok(first.map_or(ResidueKind::Dna, |(_, kind)| kind))
    }

    /// Which of the files has this name, or is the same file of this machine.
    pub fn find<'a>(files: &'a [Self], name: &str) -> Option<&'a Self> {
        let path = local_path(name);
        let is_same = |file: &&Self| path.is_some() && local_path(&file.name) == path;
        files.iter().find(|file| file.name == name).or_else(|| files.iter().find(is_same))
    }

    /// Contents at the start of a file.
    fn sample(&self, world: &Comm) -> Result<Vec<u8>> {
        const SAMPLE: usize = 1 << 14;
        let file = File::open(&world.comm_self(), &self.name)?;
        let bytes = read_at(&file, 0, SAMPLE)?;
        file.close()?;
        let mut out = Vec::new();
        match &self.format {
            FileFormat::Plain | FileFormat::Packed(_) => out = bytes,
            FileFormat::Bgzip(_) | FileFormat::Gzip => {
                // The sample is cut: what could be inflated is enough.
                let mut decoder = flate2::read::MultiGzDecoder::new(bytes.as_slice());
                let mut chunk = [0; 4096];
                while let Ok(count @ 1..) = std::io::Read::read(&mut decoder, &mut chunk) {
                    out.extend_from_slice(&chunk[..count]);
                    if out.len() > SAMPLE {
                        break;
                    }
                }
            }
        }
        Ok(out)
    }
}

impl FileFormat {
    fn code(&self) -> u64 {
        match self {
            Self::Plain => 0,
            Self::Gzip => 1,
            Self::Bgzip(_) => 2,
            Self::Packed(_) => 3,
        }
    }
}

/// The index of a packed file, from its header and its index.
fn packed_index(bytes: &[u8]) -> Result<PackedIndex> {
    let (head, index) = bytes.split_at_checked(packed::HEADER_SIZE).context("the header is cut")?;
    let offset = u64::from_le_bytes(head[32..40].try_into().unwrap_or_default());
    let header = PackedHeader::parse(head, offset.saturating_add(index.len() as u64))?;
    PackedIndex::parse(&header, index)
}

const KINDS: [ResidueKind; 3] = [ResidueKind::Dna, ResidueKind::Rna, ResidueKind::Protein];

fn guess_kind(sample: &[u8]) -> Option<ResidueKind> {
    let lines =
        sample.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b">") && !line.starts_with(b";"));
    let letters: Vec<u8> =
        lines.flatten().filter(|byte| byte.is_ascii_alphabetic()).map(u8::to_ascii_uppercase).collect();
    let count = |set: &[u8]| letters.iter().filter(|letter| set.contains(letter)).count();
    if letters.is_empty() {
        return None;
    }
    Some(if count(b"ACGTUN") * 10 < letters.len() * 9 {
        ResidueKind::Protein
    } else if count(b"U") > count(b"T") {
        ResidueKind::Rna
    } else {
        ResidueKind::Dna
    })
}

/// The path of a file of this machine, absolute and without symbolic links; none if it does not exist, or of other devices.
fn local_path(name: &str) -> Option<PathBuf> {
    let is_wrapper = |prefix: &str| registry().prefix_kind(prefix) == Some(PrefixKind::Wrapper);
    let parsed = DeviceName::parse(name.as_ref(), is_wrapper).ok()?;
    let is_local = ["ufs", "uring"].contains(&parsed.device.prefix.as_str());
    is_local.then(|| std::fs::canonicalize(parsed.path).ok())?
}

/// Up to `size` bytes from `offset` on; fewer at the end of the file.
pub(crate) fn read_at(file: &File, offset: u64, size: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; size];
    let count = file.at(offset).read(&mut bytes)?.bytes();
    bytes.truncate(count as usize);
    Ok(bytes)
}

/// The bytes of a small file, if it exists.
fn read_whole(world: &Comm, name: &str) -> Option<Vec<u8>> {
    let file = File::open(&world.comm_self(), name).ok()?;
    let size = file.size().ok().filter(|size| *size <= 1 << 30)?;
    let bytes = read_at(&file, 0, size as usize).ok();
    file.close().ok()?;
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_residues_is_guessed() {
        assert_eq!(guess_kind(b">protein name\nACGTNNN\nacgtn\n"), Some(ResidueKind::Dna));
        assert_eq!(guess_kind(b">x\nACGUUU"), Some(ResidueKind::Rna));
        assert_eq!(guess_kind(b">x\nMKVLAT"), Some(ResidueKind::Protein));
        assert_eq!(guess_kind(b">x\n"), None);
    }

    #[test]
    fn files_of_different_kinds_have_no_common_kind() {
        let (dna, protein) = (Some(ResidueKind::Dna), Some(ResidueKind::Protein));
        assert_eq!(DatabaseFile::common_kind([("a", None), ("b", protein)]).unwrap(), ResidueKind::Protein);
        let error = DatabaseFile::common_kind([("a", dna), ("b", protein)]).unwrap_err().to_string();
        assert!(error.contains("a seems to have dna") && error.contains("b protein"), "{error}");
    }

    #[test]
    fn the_same_file_is_found_by_another_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.fa");
        std::fs::write(&path, ">x\n").unwrap();
        let file = |name: String| DatabaseFile { name, format: FileFormat::Plain, length: 3 };
        let files = [file("other.fa".to_owned()), file(path.display().to_string())];
        let dotted = folder.path().join(".").join("a.fa").display().to_string();
        for name in [dotted.clone(), format!("ufs:{dotted}"), format!("throttle=1MB/s:{dotted}")] {
            assert_eq!(DatabaseFile::find(&files, &name).unwrap().name, files[1].name, "{name}");
        }
        assert_eq!(DatabaseFile::find(&files, "other.fa").unwrap().name, "other.fa");
        assert!(DatabaseFile::find(&files, "missing.fa").is_none());
    }
}
