//! Reading ahead: the next steps of a program that walks through time are read while it looks at this one. Memory for it has a cap that holds.

use std::collections::HashMap;

use aqueduct_file::{File, Request, View};

use super::walk::Walk;

/// Bytes that are read ahead at most, unless the program says otherwise.
const CAP: u64 = 64 << 20;
/// Steps that are read ahead at most.
const STEPS: usize = 8;

/// Which values: of which stream, which box of it and which part (its start and shape); all of them where there is none.
pub(super) type Kind = (usize, Option<(usize, Vec<u64>, Vec<u64>)>);

/// What came of reading ahead; see [`Reader::prefetched`](super::Reader::prefetched).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefetched {
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
pub(super) struct Want {
    pub(super) view: View,
    pub(super) bytes: u64,
}

/// What has been asked for ahead of the program.
pub(super) struct Ahead {
    walk: Walk<Kind>,
    /// By kind and place.
    under_way: HashMap<(Kind, usize), Fetch>,
    /// What is no longer wanted and could not be called back; its memory counts until it is done.
    leaving: Vec<Fetch>,
    told: Prefetched,
}

/// Values on their way.
struct Fetch {
    request: Request<Vec<u8>>,
    bytes: u64,
}

impl Default for Ahead {
    fn default() -> Self {
        let told = Prefetched { cap: CAP, ..Prefetched::default() };
        Self { walk: Walk::default(), under_way: HashMap::new(), leaving: Vec::new(), told }
    }
}

impl Ahead {
    pub(super) fn told(&self) -> Prefetched {
        self.told
    }

    /// A new cap; nothing is held any more, or as soon as it is done.
    pub(super) fn limit(&mut self, cap: u64) {
        self.told.cap = cap;
        let all: Vec<_> = self.under_way.drain().collect();
        all.into_iter().for_each(|(_, fetch)| self.dismiss(fetch));
    }

    /// The values of a read, if they were asked for ahead. An error there is none here: the read is done again, and tells it.
    pub(super) fn take(&mut self, kind: &Kind, place: usize) -> Option<Vec<u8>> {
        let Some(Fetch { request, bytes }) = self.under_way.remove(&(kind.clone(), place)) else {
            self.told.misses += 1;
            return None;
        };
        self.told.hits += 1;
        self.told.held -= bytes;
        let (values, count) = request.wait().ok()?;
        (count.bytes() == bytes).then_some(values)
    }

    /// Asks for what the program will want after a read, as far as there is room. `find` tells where values lie, if they do.
    pub(super) fn go_on(
        &mut self,
        file: &File,
        kind: &Kind,
        place: usize,
        find: impl Fn(usize) -> Option<Want>,
    ) {
        if self.told.cap == 0 {
            return;
        }
        let next: Vec<usize> = self.walk.visit(kind, place).take(STEPS).collect();
        self.forget(kind, &next);
        for place in next {
            let key = (kind.clone(), place);
            if self.under_way.contains_key(&key) {
                continue;
            }
            let Some(want) = find(place) else { return };
            if self.told.held + want.bytes > self.told.cap {
                return;
            }
            let started = file.through(&want.view).start_read(vec![0u8; want.bytes as usize]);
            let Ok(request) = started else { return };
            self.told.held += want.bytes;
            self.told.peak = self.told.peak.max(self.told.held);
            self.under_way.insert(key, Fetch { request, bytes: want.bytes });
        }
    }

    /// Lets go what was asked for and is not wanted any more.
    fn forget(&mut self, kind: &Kind, wanted: &[usize]) {
        let stale = |(other, place): &(Kind, usize)| other == kind && !wanted.contains(place);
        let keys: Vec<_> = self.under_way.keys().filter(|key| stale(key)).cloned().collect();
        for key in keys {
            if let Some(fetch) = self.under_way.remove(&key) {
                self.dismiss(fetch);
            }
        }
        let held = &mut self.told.held;
        self.leaving.retain(|fetch| {
            let done = fetch.request.is_done();
            *held -= if done { fetch.bytes } else { 0 };
            !done
        });
    }

    fn dismiss(&mut self, Fetch { request, bytes }: Fetch) {
        match request.cancel() {
            Ok(_) => self.told.held -= bytes,
            Err(request) => self.leaving.push(Fetch { request, bytes }),
        }
    }
}
