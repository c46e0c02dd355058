//! The shadow: a file in memory that has everything of the real one but the data.
//!
//! The library changes this one. What it changed is found by comparing pages and goes to the real file by our own engine, in an order
//! that loses nothing; so the library never holds the real file, and needs no device of ours.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;

use rustix::fs::{self, SeekFrom};
use rustix::io::{self, Errno};

use super::byte_image::{PAGE, PageMap};
use super::ordered_writes::OrderedWrites;
use super::scratch_dir::ScratchDir;

/// Changed bytes that are nearer to one another are one change.
const GAP: usize = 64;

/// Bytes that are to be written at an offset.
pub(crate) type MetadataWrite = (u64, Vec<u8>);

/// The file in memory, and what of it the real one has.
#[derive(Debug)]
pub(crate) struct MetadataFile {
    folder: ScratchDir,
    memory: File,
    known: PageMap,
}

impl MetadataFile {
    /// An empty one.
    pub(crate) fn new() -> std::io::Result<Self> {
        let folder = ScratchDir::new()?;
        let memory = folder.create_file()?;
        Ok(Self { folder, memory, known: PageMap::new() })
    }

    /// The name that the library opens it by.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.file()
    }

    pub(crate) fn len(&self) -> io::Result<u64> {
        Ok(fs::fstat(&self.memory)?.st_size as u64)
    }

    pub(crate) fn set_len(&self, length: u64) -> io::Result<()> {
        fs::ftruncate(&self.memory, length)
    }

    /// Puts bytes in.
    pub(crate) fn write(&self, mut offset: u64, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let count = io::pwrite(&self.memory, bytes, offset)?;
            (offset, bytes) = (offset + count as u64, &bytes[count..]);
        }
        Ok(())
    }

    /// All pages that have something in them.
    fn pages(&self) -> io::Result<PageMap> {
        let (length, mut at, mut pages) = (self.len()?, 0, PageMap::new());
        while at < length {
            let start = match fs::seek(&self.memory, SeekFrom::Data(at)) {
                Ok(start) => start,
                // Nothing but holes from here on.
                Err(Errno::NXIO) => break,
                Err(error) => return Err(error),
            };
            let end = fs::seek(&self.memory, SeekFrom::Hole(start))?;
            for page in (start / PAGE as u64)..end.div_ceil(PAGE as u64) {
                let mut bytes = vec![0; PAGE];
                io::pread(&self.memory, &mut bytes, page * PAGE as u64)?;
                pages.insert(page, bytes);
            }
            at = end;
        }
        Ok(pages)
    }

    /// Throws away what has changed since it was settled.
    pub(crate) fn restore(&self, length: u64) -> io::Result<()> {
        self.set_len(0)?;
        self.set_len(length)?;
        self.known.iter().try_for_each(|(page, bytes)| {
            let room = length.saturating_sub(page * PAGE as u64).min(PAGE as u64);
            self.write(page * PAGE as u64, &bytes[..room as usize])
        })
    }

    /// Gets what the real one is about to get, too.
    pub(crate) fn apply(&mut self, patch: &OrderedWrites, length: u64) -> io::Result<()> {
        self.set_len(length)?;
        for (offset, bytes) in patch.unreferenced.iter().chain(&patch.in_place).chain(&patch.after) {
            self.write(*offset, bytes)?;
        }
        self.mark_synced()
    }

    /// Marks its contents as those of the file.
    pub(crate) fn mark_synced(&mut self) -> io::Result<()> {
        self.known = self.pages()?;
        Ok(())
    }

    /// What has changed since it was [settled](Shadow::settle), and all that is in it.
    pub(crate) fn changes(&self) -> io::Result<(Vec<MetadataWrite>, PageMap)> {
        let (pages, length) = (self.pages()?, self.len()?);
        let empty = vec![0; PAGE];
        let mut changes: Vec<MetadataWrite> = Vec::new();
        for (page, now) in &pages {
            let before = self.known.get(page).unwrap_or(&empty);
            for run in differences(before, now) {
                let (offset, bytes) = (page * PAGE as u64 + run.start as u64, &now[run]);
                let bytes = &bytes[..bytes.len().min(length.saturating_sub(offset) as usize)];
                match changes.last_mut().filter(|(at, before)| at + before.len() as u64 == offset) {
                    Some((_, before)) => before.extend_from_slice(bytes),
                    None => changes.push((offset, bytes.to_vec())),
                }
            }
        }
        Ok((changes, pages))
    }

    /// Where these words lie, each of which is there once.
    pub(crate) fn find(&self, words: &HashMap<u64, usize>) -> io::Result<HashMap<usize, u64>> {
        let mut found = HashMap::new();
        for (page, bytes) in self.pages()? {
            for (at, word) in bytes.as_chunks::<8>().0.iter().enumerate() {
                if let Some(which) = words.get(&u64::from_le_bytes(*word)) {
                    found.insert(*which, page * PAGE as u64 + at as u64 * 8);
                }
            }
        }
        Ok(found)
    }
}

/// The runs of bytes that differ.
fn differences(before: &[u8], now: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    if before == now {
        return runs;
    }
    for at in (0..now.len()).filter(|at| before[*at] != now[*at]) {
        match runs.last_mut().filter(|run| at < run.end + GAP) {
            Some(run) => run.end = at + 1,
            None => runs.push(at..at + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_found_and_told_once() {
        let mut shadow = MetadataFile::new().unwrap();
        shadow.set_len(1 << 40).unwrap();
        shadow.write(10, b"abc").unwrap();
        shadow.write((1 << 30) + 4094, b"over").unwrap();
        let (changes, pages) = shadow.changes().unwrap();
        assert_eq!(changes, [(10, b"abc".to_vec()), ((1 << 30) + 4094, b"over".to_vec())]);
        assert_eq!(pages.len(), 3);
        shadow.mark_synced().unwrap();
        assert_eq!(shadow.changes().unwrap().0, []);
        shadow.write(11, b"B").unwrap();
        assert_eq!(shadow.changes().unwrap().0, [(11, b"B".to_vec())]);
        shadow.write(4096, &7u64.to_le_bytes()).unwrap();
        assert_eq!(shadow.find(&HashMap::from([(7, 3)])).unwrap(), HashMap::from([(3, 4096)]));
    }
}
