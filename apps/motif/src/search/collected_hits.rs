//! Hits of parts with their places in whole sequences, collected on rank 0.

use anyhow::{Context, Result};
use aqueduct::comm::Comm;

use super::SearchSettings;
use super::range_search::{PartHit, PartOutcome, SequencePosition};
use crate::hit::Hit;
use crate::input::database::DatabaseFile;
use crate::query::ResidueKind;

/// A part's outcome with its place.
pub(super) struct PlacedOutcome {
    pub(super) file: usize,
    pub(super) position: SequencePosition,
    /// The name of the sequence that is open at the start of the part.
    pub(super) name: String,
    pub(super) outcome: PartOutcome,
}

impl PlacedOutcome {
    /// The hits with their places in whole sequences.
    pub(super) fn into_hits(
        self,
        files: &[DatabaseFile],
        kind: ResidueKind,
    ) -> impl Iterator<Item = Hit> + '_ {
        let Self { file, position, name, outcome } = self;
        let PartOutcome { hits, names, last_name, .. } = outcome;
        let name_of = move |segment: u64| {
            if segment == 0 {
                return name.clone();
            }
            let known = names.binary_search_by_key(&segment, |(known, _)| *known);
            known.map_or(last_name.clone(), |at| names[at].1.clone())
        };
        hits.into_iter().map(move |hit| {
            let PartHit { segment, start, reverse, term_lengths, mut residues } = hit;
            let start = start + if segment == 0 { position.residues } else { 0 };
            if kind == ResidueKind::Rna {
                residues.iter_mut().filter(|letter| **letter == b'T').for_each(|letter| *letter = b'U');
            }
            Hit {
                file_number: file as u64,
                sequence: position.sequence + segment,
                start: start + 1,
                end: start + residues.len() as u64,
                reverse: u8::from(reverse),
                term_lengths: term_lengths.into_iter().map(u64::from).collect(),
                file: files[file].name.clone(),
                name: name_of(segment),
                residues: String::from_utf8_lossy(&residues).into_owned(),
            }
        })
    }
}

/// The hits of all ranks in order, on rank 0, and whether none was left out: the first ones within the limits of the settings.
pub(super) fn gather_hits(world: &Comm, hits: &[Hit], settings: &SearchSettings) -> Result<(Vec<Hit>, bool)> {
    let counts = world.gather(0, &[hits.len() as u64])?;
    let parts = world.gather_varied(0, &aqueduct::object::encode_all(hits))?;
    let mut all = Vec::new();
    for (count, part) in counts.iter().flatten().zip(parts.iter().flatten()) {
        all.extend(aqueduct::object::decode_all::<Hit>(part, *count as usize).context("hits of a rank")?);
    }
    all.sort();
    let most = usize::try_from(settings.most).unwrap_or(usize::MAX);
    let mut memory = 0;
    let fits = |hit: &&Hit| {
        memory += hit.memory();
        memory <= settings.most_bytes
    };
    let kept = all.iter().take(most).take_while(fits).count();
    let has_all = kept == all.len();
    all.truncate(kept);
    Ok((all, has_all))
}
