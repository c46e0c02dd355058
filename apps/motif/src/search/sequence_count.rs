//! The number and the lengths of the sequences of files.

use anyhow::Result;
use aqueduct::comm::Comm;

use super::range_search::{PartOutcome, PartSearch};
use super::{SearchRun, SearchSettings, agree};
use crate::input::database::{DatabaseFile, FileFormat};
use crate::query::{Query, ResidueKind};

/// The sequences of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SequenceCount {
    /// The number of sequences; residues before the first header are one.
    pub sequences: u64,
    /// The number of residues of all sequences.
    pub residues: u64,
    /// The residues before the first header, and those of each sequence; of a file with more than 2^20 sequences, not of all.
    pub lengths: Vec<u64>,
}

impl SequenceCount {
    /// From the outcomes of parts, in order.
    fn from_parts(parts: impl IntoIterator<Item = (u64, u64, Vec<u64>)>) -> Self {
        let mut count = Self { lengths: vec![0], ..Self::default() };
        let mut has_all = true;
        for (headers, residues, lengths) in parts {
            count.sequences += headers;
            count.residues += residues;
            if let (true, [first, rest @ ..]) = (has_all, lengths.as_slice()) {
                *count.lengths.last_mut().unwrap_or(&mut 0) += first;
                count.lengths.extend(rest);
                has_all = rest.len() as u64 == headers;
            }
        }
        count.sequences += u64::from(count.lengths.first().is_some_and(|before| *before > 0));
        count
    }
}

/// Counts the sequences of files. Collective; rank 0 gets the counts.
pub fn count_sequences(world: &Comm, files: &[DatabaseFile]) -> Result<Vec<SequenceCount>> {
    let settings = SearchSettings::new(Query { terms: Vec::new(), kind: ResidueKind::Dna });
    let mut run = SearchRun::new(world, files, &settings, None)?;
    let mut counts = Vec::with_capacity(files.len());
    for (file, found) in files.iter().enumerate() {
        let outcome = if found.format == FileFormat::Gzip {
            // One rank reads it; the others have nothing to add.
            let read = (world.rank() == 0)
                .then(|| run.whole_gzip(file, PartSearch::counting(settings.query.kind, true)));
            let read = read.transpose();
            agree(&run.cancellation, read.as_ref().err())?;
            read?
        } else {
            Some(run.count_file(file)?)
        };
        let (headers, residues, lengths) = outcome.map_or((0, 0, Vec::new()), |outcome: PartOutcome| {
            (outcome.headers, outcome.residues, outcome.lengths)
        });
        let sums = world.gather(0, &[headers, residues])?.unwrap_or_default();
        let lengths = world.gather_varied(0, &lengths)?.unwrap_or_default();
        let parts = sums.chunks_exact(2).zip(lengths).map(|(sums, lengths)| (sums[0], sums[1], lengths));
        counts.push(SequenceCount::from_parts(parts));
    }
    Ok(counts)
}
