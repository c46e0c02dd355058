//! Reading ahead: the next steps of a sequence are read while the program processes the current one. The memory has a
//! limit.

use std::collections::HashMap;

use aqueduct_file::{File, Request, View};

use super::step_predictor::StepPredictor;

/// The default limit of the memory in bytes.
const CAP: u64 = 64 << 20;
/// The most steps that are read ahead.
const STEPS: usize = 8;

/// The values of a read: the stream, and a box with a part of it (its start and shape); all values if there is none.
pub(super) type Kind = (usize, Option<(usize, Vec<u64>, Vec<u64>)>);

/// Statistics of reading ahead; see [`Reader::prefetch_stats`](super::Reader::prefetch_stats).
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

/// The place of values.
#[derive(Clone, Debug)]
pub(super) struct ValueLocation {
    pub(super) view: View,
    pub(super) bytes: u64,
}

/// The requests that were made ahead of the program.
pub(super) struct Prefetcher {
    predictor: StepPredictor<Kind>,
    /// By kind and record.
    in_flight: HashMap<(Kind, usize), PrefetchRequest>,
    /// Requests that are not needed any more and could not be cancelled; their memory counts until they are done.
    abandoned: Vec<PrefetchRequest>,
    stats: PrefetchStats,
}

/// Values that are being read.
struct PrefetchRequest {
    request: Request<Vec<u8>>,
    bytes: u64,
}

impl Default for Prefetcher {
    fn default() -> Self {
        let stats = PrefetchStats { cap: CAP, ..PrefetchStats::default() };
        Self { predictor: StepPredictor::default(), in_flight: HashMap::new(), abandoned: Vec::new(), stats }
    }
}

impl Prefetcher {
    pub(super) fn stats(&self) -> PrefetchStats {
        self.stats
    }

    /// Sets the limit; all requests are dropped, those in progress as soon as they are done.
    pub(super) fn limit(&mut self, cap: u64) {
        self.stats.cap = cap;
        let all: Vec<_> = self.in_flight.drain().collect();
        all.into_iter().for_each(|(_, fetch)| self.abandon(fetch));
    }

    /// The values of a read, if they were requested ahead. An error is ignored here: the read is repeated and returns
    /// it.
    pub(super) fn take(&mut self, kind: &Kind, place: usize) -> Option<Vec<u8>> {
        let Some(PrefetchRequest { request, bytes }) = self.in_flight.remove(&(kind.clone(), place)) else {
            self.stats.misses += 1;
            return None;
        };
        self.stats.hits += 1;
        self.stats.held -= bytes;
        let (values, count) = request.wait().ok()?;
        (count.bytes() == bytes).then_some(values)
    }

    /// Requests the values that are expected next, as far as there is memory. `find` returns the place of values, if
    /// there are any.
    pub(super) fn request_next(
        &mut self,
        file: &File,
        kind: &Kind,
        place: usize,
        find: impl Fn(usize) -> Option<ValueLocation>,
    ) {
        if self.stats.cap == 0 {
            return;
        }
        let next: Vec<usize> = self.predictor.predict_after(kind, place).take(STEPS).collect();
        self.forget(kind, &next);
        for place in next {
            let key = (kind.clone(), place);
            if self.in_flight.contains_key(&key) {
                continue;
            }
            let Some(want) = find(place) else { return };
            if self.stats.held + want.bytes > self.stats.cap {
                return;
            }
            let started = file.with_view(&want.view).start_read(vec![0u8; want.bytes as usize]);
            let Ok(request) = started else { return };
            self.stats.held += want.bytes;
            self.stats.peak = self.stats.peak.max(self.stats.held);
            self.in_flight.insert(key, PrefetchRequest { request, bytes: want.bytes });
        }
    }

    /// Drops the requests that are not expected any more.
    fn forget(&mut self, kind: &Kind, wanted: &[usize]) {
        let stale = |(other, place): &(Kind, usize)| other == kind && !wanted.contains(place);
        let keys: Vec<_> = self.in_flight.keys().filter(|key| stale(key)).cloned().collect();
        for key in keys {
            if let Some(fetch) = self.in_flight.remove(&key) {
                self.abandon(fetch);
            }
        }
        let held = &mut self.stats.held;
        self.abandoned.retain(|fetch| {
            let done = fetch.request.is_done();
            *held -= if done { fetch.bytes } else { 0 };
            !done
        });
    }

    /// Drops all requests: the file is opened again.
    pub(super) fn clear(&mut self) {
        for (_, fetch) in std::mem::take(&mut self.in_flight) {
            self.abandon(fetch);
        }
    }

    fn abandon(&mut self, PrefetchRequest { request, bytes }: PrefetchRequest) {
        match request.cancel() {
            Ok(_) => self.stats.held -= bytes,
            Err(request) => self.abandoned.push(PrefetchRequest { request, bytes }),
        }
    }
}
