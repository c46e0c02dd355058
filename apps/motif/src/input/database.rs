//! The files of a search: their format and the length of their contents.

use anyhow::{Context, Result, anyhow, ensure};
use aqueduct::comm::Comm;
use aqueduct::file::File;

use super::bgzip::{self, BlockIndex};
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
            let found =
                if world.rank() == 0 { Self::probe(world, name) } else { Ok((0, 0, BlockIndex::default())) };
            let message = found.as_ref().err().map_or(Vec::new(), |error| format!("{error:#}").into_bytes());
            let message = world.broadcast_vec(0, message)?;
            ensure!(message.is_empty(), "{name}: {}", String::from_utf8_lossy(&message));
            let (format, length, index) = found?;
            let mut head = [format, length];
            world.broadcast(0, &mut head)?;
            let flat = index.offsets.iter().flat_map(|(file, contents)| [*file, *contents]).collect();
            let flat: Vec<u64> = world.broadcast_vec(0, flat)?;
            let offsets = flat.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
            let format = match head[0] {
                0 => FileFormat::Plain,
                1 => FileFormat::Gzip,
                _ => FileFormat::Bgzip(BlockIndex { offsets }),
            };
            files.push(Self { name: name.clone(), format, length: head[1] });
        }
        Ok(files)
    }

    /// Format, length and index of a file.
    fn probe(world: &Comm, name: &str) -> Result<(u64, u64, BlockIndex)> {
        let file = File::open(&world.comm_self(), name)?;
        let length = file.size()?;
        let read = |offset: u64, size: usize| read_at(&file, offset, size);
        let start = read(0, bgzip::HEADER_SIZE)?;
        let found = if !bgzip::is_gzip(&start) {
            (0, length, BlockIndex::default())
        } else if bgzip::block_size(&start).is_none() {
            (1, length, BlockIndex::default())
        } else {
            let index = match read_whole(world, &format!("{name}.gzi")) {
                Some(bytes) => BlockIndex::parse(&bytes, length, |offset| {
                    bgzip::member_length(&read(offset, 1 << 16)?).context("the last bgzip block")
                })
                .with_context(|| format!("{name}.gzi"))?,
                None => BlockIndex::build(length, read)?,
            };
            (2, index.length(), index)
        };
        file.close()?;
        Ok(found)
    }

    /// The kind of the residues at the start of the files, by their letters. Collective.
    pub fn guess_kind(world: &Comm, files: &[Self]) -> Result<ResidueKind> {
        let mut code = [0u64];
        if world.rank() == 0 {
            let sample = files.first().map(|file| file.sample(world)).transpose();
            // A file that cannot be read is reported by the search.
            code[0] = kind_code(&sample.ok().flatten().unwrap_or_default());
        }
        world.broadcast(0, &mut code)?;
        [ResidueKind::Dna, ResidueKind::Rna, ResidueKind::Protein]
            .get(code[0] as usize)
            .copied()
            .ok_or_else(|| anyhow!("rank 0 sent an unknown kind of residues"))
    }

    fn sample(&self, world: &Comm) -> Result<Vec<u8>> {
        const SAMPLE: usize = 1 << 16;
        let file = File::open(&world.comm_self(), &self.name)?;
        let bytes = read_at(&file, 0, SAMPLE)?;
        file.close()?;
        let mut out = Vec::new();
        match &self.format {
            FileFormat::Plain => out = bytes,
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

/// 0 DNA, 1 RNA, 2 protein.
fn kind_code(sample: &[u8]) -> u64 {
    let lines =
        sample.split(|byte| *byte == b'\n').filter(|line| !line.starts_with(b">") && !line.starts_with(b";"));
    let letters: Vec<u8> =
        lines.flatten().filter(|byte| byte.is_ascii_alphabetic()).map(u8::to_ascii_uppercase).collect();
    let count = |set: &[u8]| letters.iter().filter(|letter| set.contains(letter)).count();
    if count(b"ACGTUN") * 10 < letters.len() * 9 {
        return 2;
    }
    u64::from(count(b"U") > count(b"T"))
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
        assert_eq!(kind_code(b">protein name\nACGTNNN\nacgtn\n"), 0);
        assert_eq!(kind_code(b">x\nACGUUU"), 1);
        assert_eq!(kind_code(b">x\nMKVLAT"), 2);
        assert_eq!(kind_code(b""), 0);
    }
}
