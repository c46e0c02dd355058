//! Accesses to strips: each chunk is looked up and locked once for all runs in it.

use super::sparse_bytes::{CHUNK, Chunk, SparseBytes, shared};
use crate::Strip;
use crate::strip::StripCursor;

/// Runs that lie in one chunk, whose first one begins at `start` in it.
struct ChunkRuns {
    start: usize,
    strip: Strip,
}

impl ChunkRuns {
    /// Takes the next runs of one chunk off; with the number of the chunk.
    fn take(cursor: &mut StripCursor) -> Option<(u64, Self)> {
        let place = cursor.position()?;
        let number = place / CHUNK as u64;
        let first = number * CHUNK as u64;
        let strip = cursor.take(&(first..first + CHUNK as u64), u64::MAX)?;
        Some((number, Self { start: (place - first) as usize, strip }))
    }

    /// The end of the highest run in the file.
    fn end(&self) -> u64 {
        self.strip.span().end as u64
    }

    /// The end of the highest run in the chunk.
    fn end_in_chunk(&self) -> usize {
        self.start + (self.strip.span().end - self.strip.offset) as usize
    }

    /// The places of the runs in the chunk.
    fn places(&self) -> impl Iterator<Item = usize> + use<> {
        let (start, stride) = (self.start as i64, self.strip.stride);
        (0..self.strip.count as i64).map(move |at| (start + at * stride) as usize)
    }

    /// True if each run begins after the end of the one before it.
    fn is_ascending(&self) -> bool {
        self.strip.count == 1 || self.strip.stride >= self.strip.len as i64
    }

    /// From a run to the next one, if they are ascending.
    fn step(&self) -> usize {
        if self.strip.count == 1 { self.strip.len as usize } else { self.strip.stride as usize }
    }

    /// Copies to the runs, all of which are in `kept`.
    fn put(&self, kept: &mut [u8], bytes: &[u8]) {
        let (len, kept_runs) = (self.strip.len as usize, &mut kept[..self.end_in_chunk()]);
        if !self.is_ascending() {
            for (place, run) in self.places().zip(bytes.chunks_exact(len)) {
                kept_runs[place..place + len].copy_from_slice(run);
            }
            return;
        }
        let (to, step) = (&mut kept_runs[self.start..], self.step());
        match len {
            1 => put_fixed::<1>(to, step, bytes),
            2 => put_fixed::<2>(to, step, bytes),
            4 => put_fixed::<4>(to, step, bytes),
            8 => put_fixed::<8>(to, step, bytes),
            16 => put_fixed::<16>(to, step, bytes),
            _ => {
                let runs = to.chunks_mut(step).zip(bytes.chunks_exact(len));
                runs.for_each(|(place, run)| place[..len].copy_from_slice(run));
            }
        }
    }

    /// Copies from the runs, all of which are inside the file; what is missing in `kept` is zero.
    fn get(&self, kept: &[u8], bytes: &mut [u8]) {
        let len = self.strip.len as usize;
        if !self.is_ascending() || kept.len() < self.end_in_chunk() {
            for (place, run) in self.places().zip(bytes.chunks_exact_mut(len)) {
                let there = kept.get(place..).unwrap_or_default();
                let (copied, zeroed) = run.split_at_mut(there.len().min(len));
                copied.copy_from_slice(&there[..copied.len()]);
                zeroed.fill(0);
            }
            return;
        }
        let (from, step) = (&kept[self.start..self.end_in_chunk()], self.step());
        match len {
            1 => get_fixed::<1>(from, step, bytes),
            2 => get_fixed::<2>(from, step, bytes),
            4 => get_fixed::<4>(from, step, bytes),
            8 => get_fixed::<8>(from, step, bytes),
            16 => get_fixed::<16>(from, step, bytes),
            _ => {
                let runs = from.chunks(step).zip(bytes.chunks_exact_mut(len));
                runs.for_each(|(place, run)| run.copy_from_slice(&place[..len]));
            }
        }
    }
}

/// Runs of a length that the compiler knows: each is one instruction.
fn put_fixed<const N: usize>(to: &mut [u8], step: usize, bytes: &[u8]) {
    let runs = to.chunks_mut(step).zip(bytes.as_chunks::<N>().0);
    runs.for_each(|(place, run)| place[..N].copy_from_slice(run));
}

fn get_fixed<const N: usize>(from: &[u8], step: usize, bytes: &mut [u8]) {
    let runs = from.chunks(step).zip(bytes.as_chunks_mut::<N>().0);
    runs.for_each(|(place, run)| run.copy_from_slice(&place[..N]));
}

impl SparseBytes {
    /// Reads strips up to the first end of file and returns how many bytes that were.
    pub(super) fn read_strips(&self, strips: &[Strip], bytes: &mut [u8]) -> u64 {
        let chunks = self.chunks();
        let len = self.len();
        let mut done = 0;
        for strip in strips {
            let mut cursor = StripCursor::new(*strip);
            while let Some((number, mut runs)) = ChunkRuns::take(&mut cursor) {
                let is_last = runs.end() > len;
                if is_last {
                    // Those before the first that is not inside, and what there is of that one.
                    let each = |(offset, size): (u64, u64)| (len.saturating_sub(offset).min(size), size);
                    let whole = runs.strip.runs().map(each).take_while(|(there, size)| there == size).count();
                    let cut = runs.strip.runs().map(each).nth(whole).map_or(0, |(there, _)| there);
                    let place = runs.start as i64 + whole as i64 * runs.strip.stride;
                    runs.strip.count = whole as u64;
                    done += read_runs(chunks.get(&number), &runs, &mut bytes[done..]);
                    let start = number * CHUNK as u64 + place as u64;
                    let cut = ChunkRuns { start: place as usize, strip: Strip::run(start, cut) };
                    done += read_runs(chunks.get(&number), &cut, &mut bytes[done..]);
                    return done as u64;
                }
                done += read_runs(chunks.get(&number), &runs, &mut bytes[done..]);
            }
        }
        done as u64
    }

    /// Writes strips until the memory ends and returns how many bytes that were.
    pub(super) fn write_strips(&self, strips: &[Strip], bytes: &[u8]) -> u64 {
        let mut chunks = self.chunks();
        let mut done = 0;
        for strip in strips {
            let mut cursor = StripCursor::new(*strip);
            while let Some((number, runs)) = ChunkRuns::take(&mut cursor) {
                let chunk = loop {
                    match chunks.get(&number) {
                        Some(chunk) => break chunk,
                        None => {
                            drop(chunks);
                            if !self.add_chunk(number) {
                                return done as u64;
                            }
                            chunks = self.chunks();
                        }
                    }
                };
                let count = self.write_runs(chunk, &runs, &bytes[done..]);
                done += count;
                if (count as u64) < runs.strip.size() {
                    return done as u64;
                }
            }
        }
        done as u64
    }

    /// Writes runs into their chunk: all of them if there is memory for all, or else one after the other.
    fn write_runs(&self, chunk: &Chunk, runs: &ChunkRuns, bytes: &[u8]) -> usize {
        let size = runs.strip.size() as usize;
        // A single run is not filled with zeros before it is written.
        let is_many = runs.strip.count > 1;
        if is_many && let Some(mut kept) = self.extended(chunk, runs.end_in_chunk()) {
            runs.put(&mut kept, &bytes[..size]);
            self.reach(runs.end());
            return size;
        }
        let (len, mut done) = (runs.strip.len as usize, 0);
        for ((offset, _), place) in runs.strip.runs().zip(runs.places()) {
            let count = self.write_chunk(chunk, place, &bytes[done..done + len]);
            if count > 0 {
                self.reach(offset + count as u64);
            }
            done += count;
            if count < len {
                break;
            }
        }
        done
    }
}

/// Reads runs that are inside the file from their chunk, if it has one; how many bytes.
fn read_runs(chunk: Option<&Chunk>, runs: &ChunkRuns, bytes: &mut [u8]) -> usize {
    let bytes = &mut bytes[..runs.strip.size() as usize];
    if bytes.is_empty() {
        return 0;
    }
    match chunk.map(shared) {
        Some(kept) => runs.get(&kept, bytes),
        None => bytes.fill(0),
    }
    bytes.len()
}
