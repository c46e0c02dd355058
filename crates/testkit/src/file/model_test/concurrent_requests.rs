//! Many operations under way at once: non-blocking ones, alone and together, and a split one with others beside it.

use aqueduct_file::{Request, wait_all, wait_any, wait_some};

use super::super::memory::TestMemory;
use super::{AccessRequest, FileModelTest};

/// Etypes between the places of a bundle: no two of its writes meet.
const APART: u64 = 12;

/// One operation of a bundle, by all ranks.
struct ConcurrentRequest {
    wants: Vec<AccessRequest>,
    starts: Vec<u64>,
    collective: bool,
}

impl FileModelTest<'_> {
    pub(super) fn concurrent_requests(&mut self) {
        let write = self.common.apart && self.dice.below(3) > 0;
        let items = self.random_requests();
        if write {
            items.iter().for_each(|item| self.note_writes(&item.starts, &item.wants));
        }
        let split = items[0].collective && self.dice.below(2) == 0;
        let order = self.dice.below(3);
        let context = format!("step {}, a bundle, write {write} split {split} order {order}", self.step);
        let (first, rest) = items.split_first().expect("a bundle has operations");
        let rank = self.fixture.rank();
        if split {
            // Beside a split operation only those of this rank alone.
            let alone = rest.iter().filter(|item| !item.collective);
            let place = self.file.at(first.starts[rank]).all();
            let memory = self.memory(first, write);
            let begun = if write { place.begin_write(memory) } else { place.begin_read(memory) };
            let begun = begun.unwrap_or_else(|error| panic!("{error}: {context}"));
            let requests: Vec<_> = alone.clone().map(|item| (item, self.start(item, write))).collect();
            let ended = begun.end();
            self.check_request(first, write, ended, &context);
            requests
                .into_iter()
                .for_each(|(item, request)| self.check_request(item, write, request.wait(), &context));
            rest.iter().filter(|item| item.collective).for_each(|item| {
                let request = self.start(item, write);
                self.check_request(item, write, request.wait(), &context);
            });
        } else {
            let requests: Vec<_> = items.iter().map(|item| self.start(item, write)).collect();
            self.wait(&items, requests, write, order, &context);
        }
    }

    fn random_requests(&mut self) -> Vec<ConcurrentRequest> {
        let count = 2 + self.dice.below(4) as u64;
        let mut items = Vec::new();
        for at in 0..count {
            let wants = self.wants(APART as usize);
            let starts = vec![at * APART; wants.len()];
            items.push(ConcurrentRequest { wants, starts, collective: self.dice.below(2) == 0 });
        }
        items
    }

    fn memory(&self, item: &ConcurrentRequest, write: bool) -> TestMemory {
        let rank = self.fixture.rank();
        let (want, start) = (&item.wants[rank], item.starts[rank]);
        let data = self.data(rank, start, want.etypes);
        if write {
            TestMemory::holding(want.memory.as_ref(), &data)
        } else {
            TestMemory::empty(want.memory.as_ref(), data.len())
        }
    }

    fn start(&self, item: &ConcurrentRequest, write: bool) -> Request<TestMemory> {
        let place = self.file.at(item.starts[self.fixture.rank()]);
        let memory = self.memory(item, write);
        let request = match (item.collective, write) {
            (false, true) => place.start_write(memory),
            (false, false) => place.start_read(memory),
            (true, true) => place.all().start_write(memory),
            (true, false) => place.all().start_read(memory),
        };
        request.expect("an operation starts")
    }

    /// Waits for all of them, in one of several ways.
    fn wait(
        &self,
        items: &[ConcurrentRequest],
        mut requests: Vec<Request<TestMemory>>,
        write: bool,
        order: usize,
        context: &str,
    ) {
        let mut left: Vec<&ConcurrentRequest> = items.iter().collect();
        match order {
            0 => {
                let outcomes = wait_all(requests).unwrap_or_else(|error| panic!("{error}: {context}"));
                for (item, outcome) in items.iter().zip(outcomes) {
                    self.check_request(item, write, Ok(outcome), context);
                }
            }
            1 => {
                while let Some((place, outcome)) = wait_any(&mut requests) {
                    self.check_request(left.remove(place), write, outcome, context);
                }
            }
            _ => {
                // The last one first: it is done when those before it are.
                let (item, request) = (left.pop(), requests.pop());
                if let (Some(item), Some(request)) = (item, request) {
                    self.check_request(item, write, request.wait(), context);
                }
                while !requests.is_empty() {
                    let outcomes = wait_some(&mut requests);
                    outcomes.into_iter().for_each(|outcome| drop(outcome.expect("an operation")));
                }
            }
        }
    }

    fn check_request(
        &self,
        item: &ConcurrentRequest,
        write: bool,
        outcome: aqueduct_file::Result<(TestMemory, aqueduct_file::Count)>,
        context: &str,
    ) {
        let rank = self.fixture.rank();
        let (want, start) = (&item.wants[rank], item.starts[rank]);
        let (memory, count) = outcome.unwrap_or_else(|error| panic!("{error}: {context}"));
        if write {
            let written = want.etypes * self.views[rank].etype;
            assert_eq!(count.bytes(), written, "the count of a write: {context}");
            return;
        }
        let expected = self.expected(rank, start, want.etypes);
        assert_eq!(count.bytes(), expected.len() as u64, "the count of a read: {context}");
        memory.check(want.memory.as_ref(), &expected, context);
    }
}
