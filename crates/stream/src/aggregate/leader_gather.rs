//! Gathering the bytes of a group at its leader, window by window.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use aqueduct_comm::Comm;

use super::GatherPlan;
use crate::error::{Error, Kind, Result};
use crate::target::ChunkSource;

/// The bytes of a rank in portions that differ from its chunks.
pub(super) struct PortionReader<'a> {
    source: &'a mut dyn ChunkSource,
    /// The length of the current chunk, and how much of it was used.
    length: usize,
    at: usize,
    /// A portion that is in several chunks.
    joined: Vec<u8>,
}

impl<'a> PortionReader<'a> {
    pub(super) fn new(source: &'a mut dyn ChunkSource) -> Self {
        Self { source, length: 0, at: 0, joined: Vec::new() }
    }

    /// Calls `show` with the next bytes; with none, and an error, if they are not available.
    fn with<R>(&mut self, bytes: usize, show: impl FnOnce(&[u8]) -> R) -> (Result<()>, R) {
        match self.advance(bytes) {
            Ok(true) => (Ok(()), show(&self.joined)),
            Ok(false) => (Ok(()), show(&self.source.current()[self.at - bytes..self.at])),
            Err(error) => (Err(error), show(&[])),
        }
    }

    /// Moves forward by this number of bytes; true if they are in several chunks and were joined.
    fn advance(&mut self, bytes: usize) -> Result<bool> {
        if self.at == self.length && bytes > 0 {
            self.next()?;
        }
        if self.length - self.at >= bytes {
            self.at += bytes;
            return Ok(false);
        }
        self.joined.clear();
        // Exactly as much as needed, because it is counted.
        self.joined.reserve_exact(bytes);
        loop {
            let now = (self.length - self.at).min(bytes - self.joined.len());
            self.joined.extend_from_slice(&self.source.current()[self.at..self.at + now]);
            self.at += now;
            if self.joined.len() == bytes {
                return Ok(true);
            }
            self.next()?;
        }
    }

    fn next(&mut self) -> Result<()> {
        (self.length, self.at) = (0, 0);
        self.length = self.source.next()?.len();
        if self.length == 0 {
            let detail = "a rank has fewer bytes than it declared";
            return Err(Error::new(Kind::BadArgument, "write", "the output", detail));
        }
        Ok(())
    }
}

/// The bytes that a member sends.
pub(super) struct MemberSource<'a> {
    pub(super) group: &'a Comm,
    pub(super) name: &'a str,
    pub(super) own: PortionReader<'a>,
    /// Bytes for each window.
    pub(super) wanted: &'a [u64],
    pub(super) next: usize,
    pub(super) memory_peak: &'a AtomicU64,
}

impl MemberSource<'_> {
    /// Sends the bytes of the next window.
    fn give(&mut self) -> Result<()> {
        let (group, bytes) = (self.group, self.wanted[self.next] as usize);
        self.next += 1;
        let (mine, given) = self.own.with(bytes, |bytes| group.gather_into(0, bytes, &mut []));
        given.map_err(|error| Error::from_comm("write", self.name, &error))?;
        self.memory_peak.fetch_max(self.own.joined.capacity() as u64, Ordering::Relaxed);
        mine
    }

    /// Sends the rest, even after a failure.
    pub(super) fn give_rest(&mut self) -> Result<()> {
        let mut outcome = Ok(());
        while self.next < self.wanted.len() {
            let given = self.give();
            if given.as_ref().is_err_and(|error| error.kind() == Kind::Communication) {
                return given;
            }
            outcome = outcome.and(given);
        }
        outcome
    }
}

/// The bytes that a leader gathers.
pub(super) struct LeaderGather<'a> {
    pub(super) group: &'a Comm,
    pub(super) name: &'a str,
    pub(super) plan: &'a GatherPlan,
    /// Bytes of the largest window.
    pub(super) capacity: u64,
    pub(super) own: PortionReader<'a>,
    /// The leader's own bytes for each window.
    pub(super) wanted: &'a [u64],
    pub(super) next: usize,
    /// The start of the next window.
    pub(super) start: u64,
    /// Memory for members whose bytes are not contiguous in a window; kept, so that its pages stay allocated.
    pub(super) apart: &'a mut Vec<Vec<u8>>,
    pub(super) memory_peak: &'a AtomicU64,
}

impl LeaderGather<'_> {
    /// Assembles the next window: contiguous bytes are received at their place.
    pub(super) fn fill(&mut self, buffer: &mut Vec<u8>) -> Result<()> {
        let window = self.plan.window(self.start, self.capacity);
        let length = (window.end - window.start) as usize;
        if buffer.capacity() < length {
            buffer.reserve_exact(length - buffer.len());
        }
        buffer.resize(length, 0);
        let parts: Vec<Range<u64>> =
            (0..self.group.size()).map(|member| self.plan.member_range(member, &window)).collect();
        let mut apart = self.take_apart(&parts);
        let mut places = WindowSlices::new(buffer);
        for ((member, part), apart) in parts.iter().enumerate().zip(&mut apart) {
            places.add(self.plan.contiguous_run(member, part, &window), part, apart);
        }
        let WindowSlices { mut each, scattered, .. } = places;
        let given = self.gather_window(&mut each);
        let taken: usize = apart.iter().map(Vec::capacity).sum();
        let taken = taken + buffer.capacity() * self.wanted.len().min(2) + self.own.joined.capacity();
        self.memory_peak.fetch_max(taken as u64, Ordering::Relaxed);
        let put = given.and_then(|given| {
            self.check(&given, &parts)?;
            scattered.iter().try_for_each(|member| {
                let (first, part) = (parts[*member].start, &apart[*member]);
                let put = self.plan.scatter(*member, first, part, window.start, buffer);
                put.map_err(|error| Error::new(Kind::BadArgument, "write", self.name, error.to_string()))
            })
        });
        *self.apart = apart;
        put
    }

    /// Memory for bytes that are not contiguous; that of earlier windows is freed if both would exceed a window.
    fn take_apart(&mut self, parts: &[Range<u64>]) -> Vec<Vec<u8>> {
        let mut apart = std::mem::take(self.apart);
        apart.resize(parts.len(), Vec::new());
        let needed =
            |(apart, part): (&Vec<u8>, &Range<u64>)| (apart.capacity() as u64).max(part.end - part.start);
        if apart.iter().zip(parts).map(needed).sum::<u64>() > self.capacity {
            apart.fill(Vec::new());
        }
        apart
    }

    /// Receives the windows of the members, which send all of them even after a failure.
    pub(super) fn take_rest(&mut self) -> Result<()> {
        while self.next < self.wanted.len() {
            let mut nowhere: Vec<&mut [u8]> = (0..self.group.size()).map(|_| &mut [][..]).collect();
            self.gather_window(&mut nowhere)?;
        }
        Ok(())
    }

    /// Receives the members' bytes of the next window at these places; returns how many each sent.
    fn gather_window(&mut self, places: &mut [&mut [u8]]) -> Result<Vec<usize>> {
        let (group, bytes) = (self.group, self.wanted[self.next] as usize);
        self.next += 1;
        self.start = self.plan.window(self.start, self.capacity).end;
        let (mine, given) = self.own.with(bytes, |bytes| group.gather_into(0, bytes, places));
        let given = given.map_err(|error| Error::from_comm("write", self.name, &error))?;
        mine.map(|()| given)
    }

    fn check(&self, given: &[usize], parts: &[Range<u64>]) -> Result<()> {
        let wrong = given.iter().zip(parts).position(|(given, part)| *given as u64 != part.end - part.start);
        wrong.map_or(Ok(()), |member| {
            let detail = format!("rank {member} of the group could not send its bytes");
            Err(Error::new(Kind::BadArgument, "write", self.name, detail))
        })
    }
}

/// The destination of each member's bytes of a window: members whose bytes are contiguous share the window itself.
struct WindowSlices<'a> {
    each: Vec<&'a mut [u8]>,
    /// Members whose bytes are not contiguous.
    scattered: Vec<usize>,
    rest: &'a mut [u8],
    done: usize,
}

impl<'a> WindowSlices<'a> {
    fn new(window: &'a mut [u8]) -> Self {
        Self { each: Vec::new(), scattered: Vec::new(), rest: window, done: 0 }
    }

    fn add(&mut self, run: Option<Range<usize>>, part: &Range<u64>, apart: &'a mut Vec<u8>) {
        let bytes = (part.end - part.start) as usize;
        let place = match run.filter(|run| run.start >= self.done) {
            _ if bytes == 0 => &mut [],
            Some(run) => {
                let (before, behind) = std::mem::take(&mut self.rest).split_at_mut(run.end - self.done);
                (self.rest, self.done) = (behind, run.end);
                let skipped = before.len() - bytes;
                &mut before[skipped..]
            }
            None => {
                self.scattered.push(self.each.len());
                apart.clear();
                apart.reserve_exact(bytes);
                apart.resize(bytes, 0);
                apart.as_mut_slice()
            }
        };
        self.each.push(place);
    }
}
