//! Reading ahead: the next steps of a program that walks through time are read while it looks at this one. Memory for it has a cap that holds.

use std::collections::HashMap;

use aqueduct_file::{File, Request, View};

use super::step_predictor::StepPredictor;

/// Bytes that are read ahead at most, unless the program says otherwise.
const CAP: u64 = 64 << 20;
/// Steps that are read ahead at most.
const STEPS: usize = 8;

/// Which values: of which stream, which box of it and which part (its start and shape); all of them where there is none.
pub(super) type Kind = (usize, Option<(usize, Vec<u64>, Vec<u64>)>);

/// What came of reading ahead; see [`Reader::prefetch_stats`](super::Reader::prefetch_stats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefetchStats {
    /// Reads whose values were on their way or there.
    pub hits: u64,
    /// Reads that had to be begun.
    pub misses: u64,
    /// Bytes that are held, and the most there ever were.
    pub held: u64,
    /// See `held`.
    pub peak: u64,
    /// Never more than this.
    pub cap: u64,
}

/// Where values lie.
#[derive(Clone, Debug)]
pub(super) struct ValueLocation {
    pub(super) view: View,
    pub(super) bytes: u64,
}

/// What has been asked for ahead of the program.
pub(super) struct Prefetcher {
    predictor: StepPredictor<Kind>,
    /// By kind and place.
    in_flight: HashMap<(Kind, usize), PrefetchRequest>,
    /// What is no longer wanted and could not be called back; its memory counts until it is done.
    abandoned: Vec<PrefetchRequest>,
    stats: PrefetchStats,
}

/// Values on their way.
struct PrefetchRequest {
    request: Request<Vec<u8>>,
    bytes: u64,
}

impl Default for Prefetcher {
    fn default() -> Self {
        let told = PrefetchStats { cap: CAP, ..PrefetchStats::default() };
        Self {
            predictor: StepPredictor::default(),
            in_flight: HashMap::new(),
            abandoned: Vec::new(),
            stats: told,
        }
    }
}

impl Prefetcher {
    pub(super) fn stats(&self) -> PrefetchStats {
        self.stats
    }

    /// A new cap; nothing is held any more, or as soon as it is done.
    pub(super) fn limit(&mut self, cap: u64) {
        self.stats.cap = cap;
        let all: Vec<_> = self.in_flight.drain().collect();
        all.into_iter().for_each(|(_, fetch)| self.abandon(fetch));
    }

    /// The values of a read, if they were asked for ahead. An error there is none here: the read is done again, and tells it.
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

    /// Asks for what the program will want after a read, as far as there is room. `find` tells where values lie, if they do.
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

    /// Lets go what was asked for and is not wanted any more.
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

    fn abandon(&mut self, PrefetchRequest { request, bytes }: PrefetchRequest) {
        match request.cancel() {
            Ok(_) => self.stats.held -= bytes,
            Err(request) => self.abandoned.push(PrefetchRequest { request, bytes }),
        }
    }
}
