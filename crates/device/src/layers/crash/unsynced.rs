//! The unsynced part of one file: every sector and the length as they were after each operation since the last sync.

use std::collections::BTreeMap;

use super::super::random::SeededRandom;
use super::image::{FileImage, SECTOR};
use crate::{Handle, HandleExt, Result, Segment, SegmentMut};

/// A sector as one operation left it.
struct SectorVersion {
    operation: u64,
    bytes: Box<[u8; SECTOR]>,
}

/// The file length that an operation set.
#[derive(Clone, Copy)]
struct LengthChange {
    operation: u64,
    len: u64,
}

/// What was done to a file since its last sync, over the durable file inside (called the base).
///
/// Operations are numbered from 1; 0 is the durable state. Truncation does not change the
/// versions: later truncations are applied when a version is read.
pub(super) struct UnsyncedChanges {
    durable: u64,
    operations: u64,
    sectors: BTreeMap<u64, Vec<SectorVersion>>,
    lengths: Vec<LengthChange>,
    /// The lengths that truncated the file.
    cuts: Vec<LengthChange>,
}

impl UnsyncedChanges {
    /// Nothing pending over a durable file of this length.
    pub(super) fn new(durable: u64) -> Self {
        Self { durable, operations: 0, sectors: BTreeMap::new(), lengths: Vec::new(), cuts: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sectors.is_empty() && self.lengths.is_empty()
    }

    pub(super) fn len(&self) -> u64 {
        self.lengths.last().map_or(self.durable, |length| length.len)
    }

    /// Whether nothing was stored at a place, neither since the last sync nor before.
    pub(super) fn is_hole(&self, place: u64, base: &dyn Handle) -> bool {
        let stored = self.sectors.contains_key(&(place / SECTOR as u64));
        !stored
            && (place >= self.durable || self.cuts.iter().any(|cut| cut.len <= place) || base.is_hole(place))
    }

    pub(super) fn set_len(&mut self, len: u64) {
        let before = self.len();
        self.operations += 1;
        let length = LengthChange { operation: self.operations, len };
        if len < before {
            self.cuts.push(length);
        }
        if len != before {
            self.lengths.push(length);
        }
    }

    /// Writes the segments over `base`, which is read where a sector is written in part.
    pub(super) fn write(&mut self, segments: &[Segment<'_>], base: &dyn Handle) -> Result<u64> {
        self.operations += 1;
        let mut done = 0;
        for segment in segments {
            for span in spans(segment.offset, segment.bytes.len()) {
                let bytes = &segment.bytes[span.at..span.at + span.size];
                self.write_span(&span, bytes, base).map_err(|error| error.after(done))?;
                done += span.size as u64;
            }
        }
        Ok(done)
    }

    fn write_span(&mut self, span: &SectorSpan, bytes: &[u8], base: &dyn Handle) -> Result<()> {
        let mut sector = Box::new([0; SECTOR]);
        if span.size < SECTOR {
            self.read_sector(span.sector, &mut sector, base)?;
        }
        sector[span.inside..span.inside + span.size].copy_from_slice(bytes);
        let version = SectorVersion { operation: self.operations, bytes: sector };
        let versions = self.sectors.entry(span.sector).or_default();
        match versions.last_mut() {
            Some(last) if last.operation == version.operation => *last = version,
            _ => versions.push(version),
        }
        let end = span.sector * SECTOR as u64 + (span.inside + span.size) as u64;
        if end > self.len() {
            let length = LengthChange { operation: self.operations, len: end };
            match self.lengths.last_mut() {
                Some(last) if last.operation == length.operation => *last = length,
                _ => self.lengths.push(length),
            }
        }
        Ok(())
    }

    /// Reads the segments up to the first end of file.
    pub(super) fn read(&self, segments: &mut [SegmentMut<'_>], base: &dyn Handle) -> Result<u64> {
        let mut done = 0;
        for segment in segments {
            let there = self.len().saturating_sub(segment.offset).min(segment.bytes.len() as u64) as usize;
            self.read_piece(segment.offset, &mut segment.bytes[..there], base)
                .map_err(|error| error.after(done))?;
            done += there as u64;
            if there < segment.bytes.len() {
                break;
            }
        }
        Ok(done)
    }

    /// Fills `bytes`, all of it inside the file: in one go from the base, then over it the sectors that are pending.
    fn read_piece(&self, offset: u64, bytes: &mut [u8], base: &dyn Handle) -> Result<()> {
        self.read_base(offset, bytes, base)?;
        let sector = SECTOR as u64;
        let touched = offset / sector..(offset + bytes.len() as u64).div_ceil(sector);
        for (&index, versions) in self.sectors.range(touched) {
            let Some(version) = versions.last() else { continue };
            let content = self.cut(index, version, u64::MAX);
            let start = (index * sector).max(offset);
            let end = ((index + 1) * sector).min(offset + bytes.len() as u64);
            let inside = (start - index * sector) as usize..(end - index * sector) as usize;
            bytes[(start - offset) as usize..(end - offset) as usize].copy_from_slice(&content[inside]);
        }
        Ok(())
    }

    /// A sector as it is now; zeros after the end of the file.
    fn read_sector(&self, sector: u64, bytes: &mut [u8; SECTOR], base: &dyn Handle) -> Result<()> {
        match self.sectors.get(&sector).and_then(|versions| versions.last()) {
            Some(version) => {
                *bytes = *self.cut(sector, version, u64::MAX);
                Ok(())
            }
            None => self.read_base(sector * SECTOR as u64, bytes, base),
        }
    }

    /// What the base holds and no later cut took away, zeros elsewhere.
    fn read_base(&self, offset: u64, bytes: &mut [u8], base: &dyn Handle) -> Result<()> {
        let end = self.lowest_cut(u64::MAX).unwrap_or(u64::MAX).min(self.durable);
        let there = end.saturating_sub(offset).min(bytes.len() as u64) as usize;
        let found = if there > 0 { base.read_at(offset, &mut bytes[..there])? as usize } else { 0 };
        bytes[found..].fill(0);
        Ok(())
    }

    /// A version without the parts truncated after it, up to and including operation `until`.
    fn cut(&self, sector: u64, version: &SectorVersion, until: u64) -> Box<[u8; SECTOR]> {
        let mut bytes = version.bytes.clone();
        let later = |cut: &&LengthChange| cut.operation > version.operation && cut.operation <= until;
        if let Some(lowest) = self.cuts.iter().filter(later).map(|cut| cut.len).min() {
            let keep = lowest.saturating_sub(sector * SECTOR as u64).min(SECTOR as u64);
            bytes[keep as usize..].fill(0);
        }
        bytes
    }

    /// The shortest that the file was cut to by the operations up to and with `until`.
    fn lowest_cut(&self, until: u64) -> Option<u64> {
        self.cuts.iter().filter(|cut| cut.operation <= until).map(|cut| cut.len).min()
    }

    /// Everything survives: the state of now.
    pub(super) fn newest(&self) -> FileImage {
        self.file_image(u64::MAX, |_, _| true)
    }

    /// A state that a power cut may leave: the length as after some operation, and each sector, too.
    ///
    /// All sectors of an operation survive or are lost together more often than in a uniform choice, so that the states
    /// that reveal errors in programs (this write survives, the one before it is lost) occur.
    pub(super) fn sample(&self, seed: u64) -> FileImage {
        let mut random = SeededRandom::new(seed);
        let until = match random.below(4) {
            0 => 0,
            1 => u64::MAX,
            _ => {
                let choice = random.below(self.lengths.len() as u64 + 1) as usize;
                choice.checked_sub(1).map_or(0, |index| self.lengths[index].operation)
            }
        };
        self.file_image(until, |operation, sector| match SeededRandom::keyed(seed, &[operation]).below(4) {
            0 => false,
            1 => true,
            _ => SeededRandom::keyed(seed, &[operation, sector]).chance(0.5),
        })
    }

    /// The state with the length as after operation `until`, where of each sector the last version that survives is left.
    fn file_image(&self, until: u64, survives: impl Fn(u64, u64) -> bool) -> FileImage {
        let length = self.lengths.iter().rev().find(|length| length.operation <= until);
        let len = length.map_or(self.durable, |length| length.len);
        let version = |(&sector, versions): (&u64, &Vec<SectorVersion>)| {
            let last = versions.iter().rev().find(|version| survives(version.operation, sector))?;
            let mut bytes = self.cut(sector, last, until).to_vec();
            bytes.truncate(len.saturating_sub(sector * SECTOR as u64).min(SECTOR as u64) as usize);
            (!bytes.is_empty()).then_some((sector * SECTOR as u64, bytes))
        };
        let sectors = self.sectors.iter().filter_map(version).collect();
        FileImage { cut: self.lowest_cut(until), sectors, len }
    }
}

/// The part of an access that falls into one sector.
struct SectorSpan {
    sector: u64,
    /// Where in the sector it begins.
    inside: usize,
    /// Where in the access it begins.
    at: usize,
    size: usize,
}

fn spans(offset: u64, size: usize) -> impl Iterator<Item = SectorSpan> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let place = offset + at as u64;
        let inside = (place % SECTOR as u64) as usize;
        let span =
            SectorSpan { sector: place / SECTOR as u64, inside, at, size: (size - at).min(SECTOR - inside) };
        at += span.size;
        (span.size > 0).then_some(span)
    })
}
