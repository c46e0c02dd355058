//! Where chunks with filters are that were written since the file was opened. Rank 0, which writes the index, knows; others ask it for the
//! chunks that they need, so that no rank has to hold the places of all chunks that are written.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::filtered_write::ChunkId;
use super::read_queue::QueuedRead;
use super::storage_map::{chunk_numbers, map_storage};
use crate::error::{Error, Kind, Result};
use crate::hdf5::file::{ChunksByDataset, Hdf5File};
use crate::hdf5::model::chunk_table::StoredChunk;
use crate::hdf5::model::tree::Storage;
use crate::hdf5::reader::metadata_source::MetadataSource;
use crate::hdf5::reader::object_tree;

/// Datasets of whose chunks only rank 0 knows all places. The same on all ranks, apart from what a rank has read.
#[derive(Debug, Default)]
pub(crate) struct MovedChunks {
    datasets: BTreeSet<usize>,
    /// Those with chunks that the metadata does not refer to yet.
    uncommitted: BTreeSet<usize>,
    /// Their chunks, as this rank has read them from the file since the last commit.
    committed: Option<ChunksByDataset>,
}

impl MovedChunks {
    /// Notes that chunks of these datasets were written.
    pub(crate) fn note_written(&mut self, datasets: &BTreeSet<usize>) {
        self.datasets.extend(datasets);
        self.uncommitted.extend(datasets);
    }

    /// Notes that the metadata refers to all chunks.
    pub(crate) fn note_commit(&mut self) {
        self.uncommitted.clear();
        self.committed = None;
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.datasets.is_empty()
    }
}

/// Adds numbers to a message.
pub(crate) fn put_numbers(message: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| message.extend_from_slice(&number.to_le_bytes()));
}

/// Records of `N` numbers of a message.
pub(crate) fn records<const N: usize>(message: &[u8]) -> impl Iterator<Item = [u64; N]> {
    let word = |record: &[u8], at: usize| {
        u64::from_le_bytes(*record[8 * at..].first_chunk().expect("a record has N numbers of 8 bytes"))
    };
    message.chunks_exact(8 * N).map(move |record| std::array::from_fn(|at| word(record, at)))
}

/// Messages to ranks, in the form in which they are sent.
pub(crate) fn outgoing(messages: BTreeMap<usize, Vec<u8>>) -> Vec<(usize, Vec<u8>)> {
    messages.into_iter().collect()
}

impl Hdf5File {
    /// Whether this rank knows where all chunks of a dataset are.
    pub(crate) fn knows_chunks(&self, dataset: usize) -> bool {
        self.is_root() || !self.moved_chunks().datasets.contains(&dataset)
    }

    /// A chunk that was written since the last commit, if this is rank 0.
    pub(crate) fn new_chunk(&self, dataset: usize, number: u64) -> Option<StoredChunk> {
        self.new_chunks().chunks.get(&dataset)?.get(&number).copied()
    }

    /// For chunks that several ranks write, the lowest of these. The ranks that write a chunk are collected by one that its number selects.
    /// Collective.
    pub(crate) fn find_owners(
        &self,
        chunks: impl Iterator<Item = ChunkId>,
    ) -> Result<HashMap<ChunkId, usize>> {
        let comm = &self.core.comm;
        let lost = |error| Error::from_comm("write", &self.core.name, &error);
        let mut own: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        for (dataset, number) in chunks {
            let collector = (dataset.wrapping_add(number) % comm.size() as u64) as usize;
            put_numbers(own.entry(collector).or_default(), &[dataset, number]);
        }
        let writers = comm.route(&outgoing(own)).map_err(lost)?;
        // The lowest rank of each, and whether there are others.
        let mut lowest: HashMap<[u64; 2], (usize, bool)> = HashMap::new();
        for (rank, chunks) in &writers {
            for chunk in records::<2>(chunks) {
                let known = lowest.entry(chunk).or_insert((*rank, false));
                *known = (known.0.min(*rank), known.0 != *rank || known.1);
            }
        }
        let mut answers: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        for (rank, chunks) in &writers {
            for chunk in records::<2>(chunks) {
                if let Some((owner, true)) = lowest.get(&chunk) {
                    put_numbers(answers.entry(*rank).or_default(), &[chunk[0], chunk[1], *owner as u64]);
                }
            }
        }
        let answers = comm.route(&outgoing(answers)).map_err(lost)?;
        let owners = answers.iter().flat_map(|(_, answer)| records::<3>(answer));
        Ok(owners.map(|[dataset, number, owner]| ((dataset, number), owner as usize)).collect())
    }

    /// Where chunks are, by what rank 0 knows; those that were never written are not in it. Collective.
    pub(crate) fn ask_for_chunks(
        &self,
        operation: &'static str,
        wanted: &BTreeSet<ChunkId>,
    ) -> Result<ChunksByDataset> {
        let comm = &self.core.comm;
        let lost = |error| Error::from_comm(operation, &self.core.name, &error);
        let mut question = Vec::new();
        wanted.iter().for_each(|(dataset, number)| put_numbers(&mut question, &[*dataset, *number]));
        let question = if question.is_empty() { Vec::new() } else { vec![(0, question)] };
        let questions = comm.route(&question).map_err(lost)?;
        let answers: Vec<(usize, Vec<u8>)> =
            questions.iter().map(|(rank, question)| (*rank, self.answer(question))).collect();
        let answers = comm.route(&answers).map_err(lost)?;
        let mut found = ChunksByDataset::new();
        for [dataset, number, address, size, mask] in
            answers.iter().flat_map(|(_, answer)| records::<5>(answer))
        {
            let chunk = StoredChunk { address, size, mask: mask as u32 };
            found.entry(dataset as usize).or_default().insert(number, chunk);
        }
        Ok(found)
    }

    /// Where the chunks of a question are.
    fn answer(&self, question: &[u8]) -> Vec<u8> {
        let mut answer = Vec::new();
        for [dataset, number] in records::<2>(question) {
            let entry = self.datasets.get(dataset as usize);
            let stored = entry.and_then(|(path, _)| self.tree.get(path)?.dataset.as_ref());
            let committed = || match &stored?.storage {
                Storage::ChunkTable(table) => table.find(number),
                _ => None,
            };
            if let Some(chunk) = self.new_chunk(dataset as usize, number).or_else(committed) {
                let StoredChunk { address, size, mask } = chunk;
                put_numbers(&mut answer, &[dataset, number, address, size, mask.into()]);
            }
        }
        answer
    }

    /// Finds the chunks of reads, those that only rank 0 knows by asking it. Collective.
    pub(super) fn locate_reads(&self, gets: &mut [QueuedRead<'_>]) -> Result<()> {
        let mut found = ChunksByDataset::new();
        // The same on all ranks.
        if !self.moved_chunks().is_empty() {
            let mut wanted = BTreeSet::new();
            for get in gets.iter().filter(|get| !self.knows_chunks(get.number)) {
                let Some(block) = &get.chunked else { continue };
                // An error is found again below, after the collective calls.
                let numbers = chunk_numbers(get.dataset, block).unwrap_or_default();
                wanted.extend(numbers.into_iter().map(|number| (get.number as u64, number)));
            }
            found = self.ask_for_chunks("read", &wanted)?;
        }
        gets.iter_mut().try_for_each(|get| self.locate(get, &found))
    }

    /// Finds the chunks of reads of this rank alone, those that only rank 0 knows in the metadata of the file.
    pub(super) fn locate_reads_alone(&self, gets: &mut [QueuedRead<'_>]) -> Result<()> {
        let is_unknown = |get: &&QueuedRead<'_>| get.chunked.is_some() && !self.knows_chunks(get.number);
        let unknown: Vec<usize> = gets.iter().filter(is_unknown).map(|get| get.number).collect();
        let mut moved = self.moved_chunks();
        if let Some(number) = unknown.iter().find(|number| moved.uncommitted.contains(number)) {
            let (path, _) = &self.datasets[*number];
            let detail = format!(
                "chunks of dataset {path:?} were written since the last commit: commit them first, or read them together, with `all`"
            );
            return Err(self.core.error(Kind::BadArgument, "read", detail));
        }
        if !unknown.is_empty() && moved.committed.is_none() {
            moved.committed = Some(self.read_index(&moved.datasets)?);
        }
        let found = moved.committed.take().unwrap_or_default();
        // Each read asks again whether this rank knows its chunks.
        drop(moved);
        let outcome = gets.iter_mut().try_for_each(|get| self.locate(get, &found));
        self.moved_chunks().committed = Some(found).filter(|found| !found.is_empty());
        outcome
    }

    /// Gives a read the places of its chunks.
    fn locate(&self, get: &mut QueuedRead<'_>, found: &ChunksByDataset) -> Result<()> {
        let Some(block) = &get.chunked else { return Ok(()) };
        let places = if self.knows_chunks(get.number) {
            map_storage(get.dataset, block, self.new_chunks().chunks.get(&get.number))
        } else {
            map_storage(get.dataset, block, found.get(&get.number))
        };
        let (path, _) = &self.datasets[get.number];
        let bad = |what| self.core.error(Kind::BadArgument, "read", format!("dataset {path:?}: {what}"));
        get.places = places.map_err(bad)?;
        Ok(())
    }

    /// The chunks of datasets that the file has.
    fn read_index(&self, datasets: &BTreeSet<usize>) -> Result<ChunksByDataset> {
        let length = self.core.file.size()?;
        let mut source = MetadataSource::new(&self.core.file, length);
        let contents = object_tree::read(&mut source).map_err(|what| match source.take_failure() {
            Some(error) => error,
            None => self.core.error(Kind::Damaged, "read", what),
        })?;
        let mut found = ChunksByDataset::new();
        for number in datasets {
            let stored = contents.tree.get(&self.datasets[*number].0);
            let storage = stored.and_then(|node| Some(&node.dataset.as_ref()?.storage));
            if let Some(Storage::ChunkTable(table)) = storage {
                found.insert(*number, table.iter().collect());
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use aqueduct_comm::{Comm, Launch};

    use crate::hdf5::{Hdf5Compression, Hdf5CreateOptions, Hdf5DatasetOptions};

    /// What a rank sends for a write: rank 0 sends the places of chunks to nobody.
    #[test]
    fn places_of_chunks_are_sent_to_rank_0_only() {
        let sent = |chunks: u64| {
            let run = |world: &Comm| {
                let name = format!("memfs:places-{chunks}.h5");
                let mut file = Hdf5CreateOptions::new().replace().without_sync().create(world, name)?;
                let packed = Hdf5DatasetOptions::new().chunk(&[1]).compress(Hdf5Compression::Deflate(1));
                let length = chunks * world.size() as u64;
                let dataset = file.define(|file| file.dataset_with::<f64>("x", &[length], &packed))?;
                let first = chunks * world.rank() as u64;
                let before = file.core.comm.traffic().bytes;
                file.at(dataset, first..first + chunks).all().write(&vec![1.0; chunks as usize])?;
                let after = file.core.comm.traffic().bytes;
                file.close()?;
                Ok::<_, crate::Error>(after - before)
            };
            // As if each rank was on a node of its own.
            Launch::threads(4).node_ranks(1).run(run).unwrap()
        };
        let (few, many) = (sent(4), sent(1000));
        assert!(many[0] <= few[0] + 500, "{few:?} {many:?}");
        assert!(many[3] >= few[3] + 996 * 40, "{few:?} {many:?}");
    }
}
