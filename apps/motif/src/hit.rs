//! Hits, and the regions that they make for a search within them.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context, Result};
use aqueduct::comm::Comm;
use aqueduct::object::{Object, ObjectFile, ObjectView};

/// The memory of a hit beside its residues and names, about, in bytes.
pub(crate) const HIT_OVERHEAD: usize = 256;

/// A hit. The order is that of results: by file, sequence and start.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Object)]
pub struct Hit {
    /// The number of the file in the list of the search, from 0.
    pub file_number: u64,
    /// The number of the sequence in its file, from 1; 0 for residues before the first header.
    pub sequence: u64,
    /// The first residue, counted from 1 on the forward strand.
    pub start: u64,
    /// The last residue.
    pub end: u64,
    /// Whether it is on the reverse strand.
    pub reverse: u8,
    /// The lengths of the terms, in the direction of the strand.
    pub term_lengths: Vec<u64>,
    /// The name of the file.
    pub file: String,
    /// The name of the sequence.
    pub name: String,
    /// The residues, in the direction of the strand.
    pub residues: String,
}

impl Hit {
    /// The strand: `+` or `-`.
    pub fn strand(&self) -> char {
        if self.reverse == 0 { '+' } else { '-' }
    }

    /// The memory that it takes, about, in bytes.
    pub fn memory(&self) -> u64 {
        let texts = self.residues.len() + self.name.len() + self.file.len();
        (HIT_OVERHEAD + texts + 8 * self.term_lengths.len()) as u64
    }

    /// The parts that the terms match.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        let mut at = 0;
        self.term_lengths.iter().map(move |length| {
            let start = at;
            at += *length as usize;
            self.residues.get(start..at).unwrap_or("")
        })
    }
}

/// Writes hits to an object file, in order. Collective: rank 0 has the hits and sends each rank a block, all write together.
pub fn write_hits(world: &Comm, name: &str, hits: &[Hit]) -> Result<()> {
    let mut total = [hits.len() as u64];
    world.broadcast(0, &mut total)?;
    let length = (total[0] as usize).div_ceil(world.size()).max(1);
    let mut parts: Vec<Vec<u8>> = Vec::new();
    if world.rank() == 0 {
        parts.extend((0..world.size()).map(|rank| {
            let first = (rank * length).min(hits.len());
            aqueduct::object::encode_all(&hits[first..(first + length).min(hits.len())]).into_owned()
        }));
    }
    let mine = world.scatter_varied(0, &parts)?;
    let count = (total[0] as usize).saturating_sub(world.rank() * length).min(length);
    let mine: Vec<Hit> = aqueduct::object::decode_all(&mine, count).context("hits of rank 0")?;
    let file = ObjectFile::<Hit>::replace(world, name)?;
    file.set_view(&ObjectView::contiguous(world, mine.len() as u64)?)?;
    file.at_pointer().all().write(&mine)?;
    file.commit()?;
    file.close()?;
    Ok(())
}

/// Reads hits from an object file. Collective: all ranks get all hits.
pub fn read_hits(world: &Comm, name: &str) -> Result<Vec<Hit>> {
    let file = ObjectFile::<Hit>::open(world, name)?;
    let hits = file.at(0).all().read_vec(file.count()?)?;
    file.close()?;
    Ok(hits)
}

/// Parts of sequences, by name of the file and number of the sequence: sorted and disjoint, counted from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Regions(BTreeMap<(String, u64), Vec<Range<u64>>>);

impl Regions {
    /// The residues of hits, widened by `around` on both sides.
    pub fn of_hits(hits: &[Hit], around: u64) -> Self {
        let spans = hits.iter().map(|hit| (hit.file.clone(), hit.sequence, hit.start, hit.end));
        Self::of_spans(spans, around)
    }

    /// From files, sequences, first and last residues (counted from 1).
    pub fn of_spans(spans: impl IntoIterator<Item = (String, u64, u64, u64)>, around: u64) -> Self {
        let mut regions: BTreeMap<(String, u64), Vec<Range<u64>>> = BTreeMap::new();
        for (file, sequence, start, end) in spans {
            let span = start.saturating_sub(1).saturating_sub(around)..end.saturating_add(around);
            if !span.is_empty() {
                regions.entry((file, sequence)).or_default().push(span);
            }
        }
        for spans in regions.values_mut() {
            spans.sort_by_key(|span| span.start);
            let mut merged: Vec<Range<u64>> = Vec::new();
            for span in spans.drain(..) {
                match merged.last_mut() {
                    Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
                    _ => merged.push(span),
                }
            }
            *spans = merged;
        }
        Self(regions)
    }

    /// The names of the files.
    pub fn files(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.0.keys().map(|(file, _)| file.as_str()).collect();
        names.dedup();
        names
    }

    /// The same regions with other names of the files; those of files without a new name are left out.
    #[must_use]
    pub fn with_files(&self, name_of: impl Fn(&str) -> Option<String>) -> Self {
        let spans = self.0.iter().filter_map(|((file, sequence), spans)| {
            let file = name_of(file)?;
            Some(spans.iter().map(move |span| (file.clone(), *sequence, span.start + 1, span.end)))
        });
        Self::of_spans(spans.flatten(), 0)
    }

    /// All regions: name of the file, number of the sequence, and parts counted from 0.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64, &[Range<u64>])> {
        self.0.iter().map(|((file, sequence), spans)| (file.as_str(), *sequence, spans.as_slice()))
    }

    /// The memory that they take, about, in bytes.
    pub fn memory(&self) -> u64 {
        self.0.iter().map(|((file, _), spans)| (64 + file.len() + 16 * spans.len()) as u64).sum()
    }

    /// The regions of a sequence.
    pub fn of_sequence(&self, file: &str, sequence: u64) -> &[Range<u64>] {
        self.0.get(&(file.to_owned(), sequence)).map_or(&[], Vec::as_slice)
    }
}
