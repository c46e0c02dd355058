//! Reading ahead: the next values of a sequence of reads are read while the program processes the current ones. The memory has a limit, and is part of
//! the memory budget of the process.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use aqueduct_comm::Comm;

use super::request::Request;
use super::step_predictor::StepPredictor;
use crate::error::Result;
use crate::write_behind::memory_budget::{BudgetUser, MemoryBudget};
use crate::write_behind::memory_ledger::OwnerLimits;

/// The most places that are read ahead.
const PLACES: usize = 8;
/// What a read of memory costs: a read that is not slower gains nothing when it is made ahead.
const CHEAP_CALL: Duration = Duration::from_micros(50);
const CHEAP_BYTES_PER_MICROSECOND: u64 = 2000;

/// Statistics of reading ahead; see [`File::prefetch_stats`](super::File::prefetch_stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefetchStats {
    /// Reads whose values were being read or had been read.
    pub hits: u64,
    /// Reads that were not expected.
    pub misses: u64,
    /// Bytes that are held, and their peak.
    pub held: u64,
    /// See `held`.
    pub peak: u64,
    /// The limit of `held`.
    pub cap: u64,
}

/// The requests that were made ahead of the program. Reads of one kind `K` at places with a constant distance are a sequence.
pub struct Prefetcher<K> {
    predictor: StepPredictor<K>,
    /// By kind and place.
    in_flight: HashMap<(K, u64), PrefetchRequest>,
    /// Requests that are not needed any more and could not be cancelled; their memory counts until they are done.
    abandoned: Vec<PrefetchRequest>,
    /// The number of reads, and the last read of each kind for which something is in flight.
    reads: u64,
    last_reads: HashMap<K, u64>,
    stats: PrefetchStats,
    /// None until something is read ahead.
    budget: Option<BudgetUser>,
}

/// A read that may be one of a sequence.
#[derive(Clone, Debug)]
pub struct SequenceRead<K> {
    /// Reads of one kind differ in their places only.
    pub kind: K,
    /// Where it begins.
    pub place: u64,
    /// The distance of adjacent places.
    pub unit: u64,
}

/// Values that are being read.
struct PrefetchRequest {
    request: Request<Vec<u8>>,
    bytes: u64,
}

/// Whether a read of so many bytes took longer than a copy in memory would have.
pub fn is_worth_prefetching(bytes: u64, took: Duration) -> bool {
    took > CHEAP_CALL + Duration::from_micros(bytes / CHEAP_BYTES_PER_MICROSECOND)
}

impl<K: Clone + Eq + Hash> Prefetcher<K> {
    /// With a limit of the memory in bytes.
    pub fn new(cap: u64) -> Self {
        Self {
            predictor: StepPredictor::default(),
            in_flight: HashMap::new(),
            abandoned: Vec::new(),
            reads: 0,
            last_reads: HashMap::new(),
            stats: PrefetchStats { cap, ..PrefetchStats::default() },
            budget: None,
        }
    }

    /// What was done so far.
    pub fn stats(&self) -> PrefetchStats {
        self.stats
    }

    /// Sets the limit; all requests are dropped, those in progress as soon as they are done.
    pub fn limit(&mut self, cap: u64) {
        self.stats.cap = cap;
        self.drop_requests();
    }

    /// The request of a read, if it was made ahead. An error of it is ignored: the read is repeated and returns it.
    pub fn take(&mut self, read: &SequenceRead<K>) -> Option<PrefetchedValues> {
        let key = (read.kind.clone(), read.place);
        let Some(PrefetchRequest { request, bytes }) = self.in_flight.remove(&key) else {
            self.stats.misses += 1;
            return None;
        };
        self.stats.hits += 1;
        self.give(bytes);
        Some(PrefetchedValues { request, bytes })
    }

    /// Notes a read, and starts those that are expected next, as far as there is memory. `find` returns the number of bytes of a place and what is
    /// needed to read it, if it can be read; `start` reads it.
    pub fn request_next<P>(
        &mut self,
        comm: &Comm,
        &SequenceRead { ref kind, place, unit }: &SequenceRead<K>,
        find: impl Fn(u64) -> Option<(u64, P)>,
        start: impl Fn(P, Vec<u8>) -> Result<Request<Vec<u8>>>,
    ) {
        if self.stats.cap == 0 {
            return;
        }
        let next: Vec<u64> = self.predictor.predict_after(kind, place, unit).take(PLACES).collect();
        self.forget(kind, &next);
        self.reads += 1;
        if !next.is_empty() {
            self.last_reads.insert(kind.clone(), self.reads);
        }
        for place in next {
            let key = (kind.clone(), place);
            if self.in_flight.contains_key(&key) {
                continue;
            }
            let Some((bytes, source)) = find(place) else { return };
            if !self.take_memory(comm, bytes) {
                self.drop_ended_sequences();
                if !self.take_memory(comm, bytes) {
                    return;
                }
            }
            match start(source, vec![0u8; bytes as usize]) {
                Ok(request) => _ = self.in_flight.insert(key, PrefetchRequest { request, bytes }),
                Err(_) => return self.give(bytes),
            }
        }
    }

    /// Notes a read without starting others: it was fast.
    pub fn note(&mut self, read: &SequenceRead<K>) {
        let _ = self.predictor.predict_after(&read.kind, read.place, read.unit);
    }

    /// Drops all requests and sequences: the file may have changed, or other places are meant.
    pub fn clear(&mut self) {
        self.predictor = StepPredictor::default();
        self.drop_requests();
    }

    fn drop_requests(&mut self) {
        self.last_reads.clear();
        for (_, request) in std::mem::take(&mut self.in_flight) {
            self.abandon(request);
        }
    }

    /// Drops the requests of kinds that are not read any more: a program that reads several in turn reads each of them again soon.
    fn drop_ended_sequences(&mut self) {
        let recent = self.reads.saturating_sub(2 * self.last_reads.len() as u64);
        self.last_reads.retain(|_, read| *read >= recent);
        let ended = self.in_flight.keys().filter(|(kind, _)| !self.last_reads.contains_key(kind));
        for key in ended.cloned().collect::<Vec<_>>() {
            if let Some(request) = self.in_flight.remove(&key) {
                self.abandon(request);
            }
        }
    }

    /// Drops the requests that are not expected any more.
    fn forget(&mut self, kind: &K, wanted: &[u64]) {
        let is_stale = |(other, place): &(K, u64)| other == kind && !wanted.contains(place);
        let keys: Vec<_> = self.in_flight.keys().filter(|key| is_stale(key)).cloned().collect();
        for key in keys {
            if let Some(request) = self.in_flight.remove(&key) {
                self.abandon(request);
            }
        }
        for abandoned in std::mem::take(&mut self.abandoned) {
            if abandoned.request.is_done() {
                self.give(abandoned.bytes);
            } else {
                self.abandoned.push(abandoned);
            }
        }
    }

    fn abandon(&mut self, PrefetchRequest { request, bytes }: PrefetchRequest) {
        if request.is_done() {
            return self.give(bytes);
        }
        match request.cancel() {
            Ok(_) => self.give(bytes),
            Err(request) => self.abandoned.push(PrefetchRequest { request, bytes }),
        }
    }

    fn take_memory(&mut self, comm: &Comm, bytes: u64) -> bool {
        if self.stats.held.saturating_add(bytes) > self.stats.cap {
            return false;
        }
        let limits = OwnerLimits { cap: u64::MAX, minimum: 0, reserved: 0 };
        let budget = self.budget.get_or_insert_with(|| MemoryBudget::of_process(comm).join(limits));
        if !budget.take(bytes) {
            budget.leave_queue();
            return false;
        }
        self.stats.held += bytes;
        self.stats.peak = self.stats.peak.max(self.stats.held);
        true
    }

    fn give(&mut self, bytes: u64) {
        self.stats.held -= bytes;
        if let Some(budget) = &self.budget {
            budget.give(bytes);
        }
    }
}

impl<K> Drop for Prefetcher<K> {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.give(self.stats.held);
        }
    }
}

/// Values that were requested ahead.
pub struct PrefetchedValues {
    request: Request<Vec<u8>>,
    bytes: u64,
}

impl PrefetchedValues {
    /// Waits for them; none if not all could be read.
    pub fn wait(self) -> Option<Vec<u8>> {
        let (values, count) = self.request.wait().ok()?;
        (count.bytes() == self.bytes).then_some(values)
    }
}
