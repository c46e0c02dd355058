//! The search of one part of a file: it says which bytes it needs next and is fed with them, so that any number of ranks can read together.
//!
//! # Which hits belong to a part
//! A part owns the residues whose bytes are in it, and on the forward strand the hits that start at them. With hits of at most `L` residues, it reads
//! `L - 1` more residues of the same sequence. On the reverse strand it owns the hits whose first residue in the direction of the strand is
//! `L - 1` residues after an owned one; those in the first `L - 1` residues of a sequence belong to the part with its header. So each hit
//! belongs to one part, and a part needs no residues before its own.

use std::ops::Range;
use std::sync::Arc;

use crate::hit::{HIT_OVERHEAD, Regions};
use crate::input::PieceRequest;
use crate::input::fasta::{FastaEvents, FastaParser, LineState, append_normal};
use crate::matcher::Matcher;
use crate::query::ResidueKind;
use crate::query::alphabet::reverse_complement;

/// Residues that are searched at once.
const WINDOW: usize = 1 << 18;
/// The lengths of so many sequences are kept.
const MOST_LENGTHS: usize = 1 << 20;
/// The least number of bytes that is read beyond the end of a part.
const LEAST_OVERLAP_READ: usize = 1 << 12;

/// Where the first residues of a part are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SequencePosition {
    /// The number of headers before.
    pub(crate) sequence: u64,
    /// The number of residues of the sequence before.
    pub(crate) residues: u64,
}

/// A part of a file to search.
#[derive(Clone, Debug)]
pub(crate) struct FilePart {
    pub(crate) file: usize,
    /// The bytes of the contents.
    pub(crate) bytes: Range<u64>,
    /// The length of the contents.
    pub(crate) file_length: u64,
    /// What the first byte is inside of.
    pub(crate) state: LineState,
}

/// A hit with positions relative to the part.
#[derive(Clone, Debug)]
pub(crate) struct PartHit {
    /// The number of headers before it in the part.
    pub(crate) segment: u64,
    /// The first residue in its sequence or, in segment 0, from the first residue of the part on.
    pub(crate) start: u64,
    pub(crate) reverse: bool,
    pub(crate) term_lengths: Vec<u32>,
    pub(crate) residues: Vec<u8>,
}

impl PartHit {
    /// The memory that the hit takes, with its name.
    fn memory(&self, name: &str) -> u64 {
        (HIT_OVERHEAD + self.residues.len() + 8 * self.term_lengths.len() + name.len()) as u64
    }
}

/// Regions, with the name of the file and the position of the part.
pub(crate) type PartRegions = Option<(Arc<Regions>, String, SequencePosition)>;

/// What is searched for.
#[derive(Clone, Debug)]
pub(crate) struct PartSearch {
    /// Without: sequences and residues are counted only.
    pub(crate) matcher: Option<Matcher>,
    pub(crate) kind: ResidueKind,
    pub(crate) both_strands: bool,
    /// The most hits, and the most memory that they may take.
    pub(crate) most: u64,
    pub(crate) most_bytes: u64,
    /// Whether the lengths of sequences are kept, instead of their places, if no query is searched.
    pub(crate) keeps_lengths: bool,
    /// Only in these regions; the position of the part must be known.
    pub(crate) regions: PartRegions,
}

impl PartSearch {
    /// Counts sequences and residues.
    pub(crate) fn counting(kind: ResidueKind, keeps_lengths: bool) -> Self {
        Self {
            matcher: None,
            kind,
            both_strands: false,
            most: 0,
            most_bytes: 0,
            keeps_lengths,
            regions: None,
        }
    }
}

/// The search of a part.
#[derive(Debug)]
pub(crate) struct RangeSearch {
    pub(crate) part: FilePart,
    buffer_size: usize,
    cursor: u64,
    parser: FastaParser,
    segments: SegmentSearch,
}

/// The residues and hits of a part.
#[derive(Debug)]
struct SegmentSearch {
    search: PartSearch,
    /// Residues of the open sequence that are not searched yet, and those after them that are read already.
    residues: Vec<u8>,
    /// How many residues of the segment were before them.
    base: u64,
    /// How many of them are owned, after the end of the part.
    owned: Option<usize>,
    /// Whether the part has the start of the open sequence.
    has_start: bool,
    segment: u64,
    names: Vec<(u64, String)>,
    name: String,
    hits: Vec<PartHit>,
    hit_bytes: u64,
    headers: Vec<u64>,
    /// The residues of each sequence that has ended, if they are only counted.
    lengths: Vec<u64>,
    offset: u64,
    residue_count: u64,
    reversed: Vec<u8>,
    is_done: bool,
}

/// What is known after the search of a part.
#[derive(Debug)]
pub(crate) struct PartOutcome {
    pub(crate) hits: Vec<PartHit>,
    /// The names of segments with hits.
    pub(crate) names: Vec<(u64, String)>,
    /// The number of headers.
    pub(crate) headers: u64,
    /// The offsets of headers, if no query was searched.
    pub(crate) header_offsets: Vec<u64>,
    /// For each segment from 0 on its residues, if that was asked for.
    pub(crate) lengths: Vec<u64>,
    /// The residues after the last header.
    pub(crate) tail: u64,
    /// The name of the last sequence.
    pub(crate) last_name: String,
    pub(crate) residues: u64,
}

impl RangeSearch {
    pub(crate) fn new(part: FilePart, search: PartSearch, buffer_size: usize) -> Self {
        let segments = SegmentSearch {
            search,
            residues: Vec::new(),
            base: 0,
            owned: None,
            has_start: part.bytes.start == 0 && part.state == LineState::Start,
            segment: 0,
            names: Vec::new(),
            name: String::new(),
            hits: Vec::new(),
            hit_bytes: 0,
            headers: Vec::new(),
            lengths: Vec::new(),
            offset: 0,
            residue_count: 0,
            reversed: Vec::new(),
            is_done: part.bytes.is_empty(),
        };
        let parser = FastaParser::new(part.state);
        Self { cursor: part.bytes.start, part, buffer_size, parser, segments }
    }

    /// The bytes that are needed next; none if the search is complete.
    pub(crate) fn next_request(&self) -> Option<PieceRequest> {
        if self.segments.is_done {
            return None;
        }
        let end = self.part.bytes.end;
        let length = if self.cursor < end {
            (end - self.cursor).min(self.buffer_size as u64)
        } else {
            let wanted = (self.segments.overlap() + LEAST_OVERLAP_READ).min(self.buffer_size);
            (self.part.file_length - self.cursor).min(wanted as u64)
        };
        Some(PieceRequest { file: self.part.file, offset: self.cursor, length: length as usize })
    }

    /// The request after the next one, if it is known before the next piece is searched.
    pub(crate) fn request_after_next(&self) -> Option<PieceRequest> {
        let next = self.next_request()?;
        let offset = next.offset + next.length as u64;
        let left = self.part.bytes.end.checked_sub(offset).filter(|left| *left > 0)?;
        let length = left.min(self.buffer_size as u64) as usize;
        Some(PieceRequest { file: self.part.file, offset, length })
    }

    /// The number of bytes of the part that were searched.
    pub(crate) fn progress(&self) -> u64 {
        self.cursor.min(self.part.bytes.end) - self.part.bytes.start
    }

    pub(crate) fn hit_count(&self) -> u64 {
        self.segments.hits.len() as u64
    }

    /// The memory of the hits.
    pub(crate) fn hit_bytes(&self) -> u64 {
        self.segments.hit_bytes
    }

    /// Searches the piece that was requested.
    pub(crate) fn feed(&mut self, piece: &[u8]) {
        let end = self.part.bytes.end;
        let inside = (end.saturating_sub(self.cursor)).min(piece.len() as u64) as usize;
        self.parse(&piece[..inside]);
        if self.cursor == end && self.segments.owned.is_none() {
            self.segments.owned = Some(self.segments.residues.len());
        }
        self.parse(&piece[inside..]);
        if self.segments.is_done {
            return;
        }
        if self.cursor >= self.part.file_length {
            self.finish();
        } else if self.segments.owned.is_some() && self.has_enough() {
            self.segments.end_of_segment();
            self.segments.is_done = true;
        }
    }

    /// The end of the contents, if their length was not known before.
    pub(crate) fn finish(&mut self) {
        self.parser.finish(&mut self.segments);
        self.segments.end_of_segment();
        self.segments.is_done = true;
    }

    fn parse(&mut self, piece: &[u8]) {
        if !self.segments.is_done {
            self.segments.offset = self.cursor;
            self.parser.parse(piece, &mut self.segments);
            self.cursor += piece.len() as u64;
        }
    }

    /// Whether no residue after those that were read can be part of a hit. A header that the part has must be complete.
    fn has_enough(&self) -> bool {
        let open_header = self.parser.state() == LineState::Header && self.segments.segment > 0;
        !open_header && self.segments.missing_overlap() == 0
    }

    pub(crate) fn into_outcome(self) -> PartOutcome {
        let segments = self.segments;
        PartOutcome {
            hits: segments.hits,
            names: segments.names,
            headers: segments.segment,
            header_offsets: segments.headers,
            lengths: segments.lengths,
            tail: segments.base,
            last_name: segments.name,
            residues: segments.residue_count,
        }
    }
}

impl SegmentSearch {
    /// The number of residues after a hit's first one that it may have.
    fn overlap(&self) -> usize {
        self.search.matcher.as_ref().map_or(0, |matcher| matcher.longest().saturating_sub(1))
    }

    fn missing_overlap(&self) -> usize {
        let owned = self.owned.unwrap_or(0);
        let needs = owned > 0 || (self.has_start && self.search.both_strands);
        if needs { (owned + self.overlap()).saturating_sub(self.residues.len()) } else { 0 }
    }

    /// Searches all residues that can be searched before the sequence or the part ends.
    fn search_window(&mut self) {
        let overlap = self.overlap();
        if self.owned.is_none() && self.residues.len() >= WINDOW + overlap {
            let owned = self.residues.len() - overlap;
            self.search_owned(owned);
            self.residues.drain(..owned);
            self.base += owned as u64;
            self.has_start = false;
        }
    }

    /// The sequence ends, or the part ends and has enough residues after it.
    fn end_of_segment(&mut self) {
        let owned = self.owned.unwrap_or(self.residues.len());
        let useful = self.residues.len().min(owned + self.overlap());
        self.residues.truncate(useful);
        if owned > 0 || self.has_start {
            self.search_owned(owned);
        }
        self.residue_count += self.base + owned as u64;
        self.base += owned as u64;
        self.residues.clear();
        if self.search.keeps_lengths && self.lengths.len() < MOST_LENGTHS {
            self.lengths.push(self.base);
        }
    }

    fn search_owned(&mut self, owned: usize) {
        if self.residues.is_empty() || self.is_full() {
            return;
        }
        let Some((regions, file, position)) = &self.search.regions else {
            return self.search_span(0..self.residues.len(), owned);
        };
        let before = if self.segment == 0 { position.residues } else { 0 };
        let from = before + self.base;
        let to = from + self.residues.len() as u64;
        let regions = Arc::clone(regions);
        let all = regions.of_sequence(file, position.sequence + self.segment);
        let first = all.partition_point(|region| region.end <= from);
        for region in all[first..].iter().take_while(|region| region.start < to) {
            let span = region.start.saturating_sub(from)..(region.end - from).min(to - from);
            self.search_span(span.start as usize..span.end as usize, owned);
        }
    }

    /// Searches a part of the residues for the hits that are owned.
    fn search_span(&mut self, span: Range<usize>, owned: usize) {
        let overlap = self.overlap();
        let Self { search, residues, reversed, hits, hit_bytes, base, segment, name, .. } = self;
        let Some(matcher) = &mut search.matcher else { return };
        // One more than may be kept, so that it is known whether there are more.
        let (most, most_bytes) = (search.most.saturating_add(1), search.most_bytes);
        let mut keep = |hit: PartHit| {
            *hit_bytes += hit.memory(name);
            hits.push(hit);
            (hits.len() as u64) < most && *hit_bytes <= most_bytes
        };
        let text = &residues[..span.end];
        matcher.search(text, span.start.min(owned)..owned.min(span.end), |start, ends| {
            keep(part_hit(*segment, *base + start as u64, false, start, ends, text))
        });
        if !search.both_strands {
            return;
        }
        let first = if self.has_start { 0 } else { overlap };
        let starts = first.max(span.start)..(owned + overlap).min(span.end);
        if starts.is_empty() {
            return;
        }
        reverse_complement(&residues[span.start..span.end], reversed);
        matcher.search(reversed, span.end - starts.end..span.end - starts.start, |start, ends| {
            let end = ends.last().copied().unwrap_or(start);
            let position = *base + (span.end - end) as u64;
            keep(part_hit(*segment, position, true, start, ends, reversed))
        });
    }

    /// Whether nothing more is searched: no query, the most hits, or interrupted.
    fn is_full(&self) -> bool {
        let stopped = self.search.matcher.as_ref().is_none_or(Matcher::was_stopped);
        stopped || self.hits.len() as u64 > self.search.most || self.hit_bytes > self.search.most_bytes
    }

    fn note_name(&mut self) {
        let has_hits = self.hits.last().is_some_and(|hit| hit.segment == self.segment);
        if has_hits && self.segment > 0 && self.names.last().is_none_or(|(known, _)| *known != self.segment) {
            self.names.push((self.segment, self.name.clone()));
        }
    }
}

fn part_hit(segment: u64, start: u64, reverse: bool, at: usize, ends: &[usize], text: &[u8]) -> PartHit {
    let mut from = at;
    let lengths = ends.iter().map(|end| {
        let length = end - from;
        from = *end;
        length as u32
    });
    let term_lengths: Vec<u32> = lengths.collect();
    PartHit { segment, start, reverse, term_lengths, residues: text[at..from].to_vec() }
}

impl FastaEvents for SegmentSearch {
    fn header_begins(&mut self, at: usize) -> bool {
        if self.is_done {
            return false;
        }
        self.end_of_segment();
        self.note_name();
        if self.owned.is_some() {
            // The sequence after the part belongs to the next one.
            self.is_done = true;
            return false;
        }
        if self.search.matcher.is_none() && !self.search.keeps_lengths {
            self.headers.push(self.offset + at as u64);
        }
        self.segment += 1;
        self.base = 0;
        self.has_start = true;
        self.name.clear();
        true
    }

    fn header_ended(&mut self, name: &[u8]) {
        if self.segment > 0 {
            self.name = String::from_utf8_lossy(name).into_owned();
        }
    }

    fn residues(&mut self, letters: &[u8]) {
        if self.search.matcher.is_none() {
            if self.owned.is_none() {
                self.base += letters.len() as u64;
            }
            return;
        }
        // Long lines are added in windows, so that memory stays bounded.
        for letters in letters.chunks(WINDOW) {
            append_normal(letters, self.search.kind, &mut self.residues);
            self.search_window();
        }
    }
}
