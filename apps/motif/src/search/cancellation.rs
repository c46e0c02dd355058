//! Cancellation of a search on all ranks, also while they compute.
//!
//! A rank that computes checks its own flag and whether a message of rank 0 has arrived. Rank 0 has to send this message while the others compute;
//! therefore it waits for them by polling, in [`Cancellation::sum`], which replaces the reductions of a search that can be cancelled.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use aqueduct::comm::{Comm, Op};

use crate::matcher::work_meter::InterruptCondition;

/// The tag of messages that end a search.
const CANCEL_TAG: u32 = 0x6d01;
/// The tag of words to sum.
const SUM_TAG: u32 = 0x6d02;
/// The longest pause between two polls of rank 0.
const LONGEST_PAUSE: Duration = Duration::from_millis(1);

/// The number of the next search that rank 0 begins, so that a message of an earlier one is ignored.
static NEXT_SEARCH: AtomicU64 = AtomicU64::new(1);

/// The cancellation of one search.
#[derive(Debug)]
pub(super) struct Cancellation {
    world: Comm,
    flag: Option<Arc<AtomicBool>>,
    /// Whether any rank has a flag; otherwise the search cannot be cancelled.
    is_possible: bool,
    search: u64,
    is_cancelled: Cell<bool>,
    /// On rank 0: the message was sent. On the others: it was received.
    is_known: Cell<bool>,
}

impl Cancellation {
    /// For a search with this flag. Collective.
    pub(super) fn new(world: &Comm, flag: Option<&Arc<AtomicBool>>) -> Result<Self> {
        let number = if world.rank() == 0 { NEXT_SEARCH.fetch_add(1, Ordering::Relaxed) } else { 0 };
        let most = world.allreduce(Op::Max, &[u64::from(flag.is_some()), number])?;
        Ok(Self {
            world: world.clone(),
            flag: flag.cloned(),
            is_possible: most[0] > 0,
            search: most[1],
            is_cancelled: Cell::new(false),
            is_known: Cell::new(false),
        })
    }

    /// Whether the search can be cancelled.
    pub(super) fn is_possible(&self) -> bool {
        self.is_possible
    }

    /// The ranks of the search.
    pub(super) fn world(&self) -> &Comm {
        &self.world
    }

    fn poll(&self) -> Result<()> {
        if self.flag.as_ref().is_some_and(|flag| flag.load(Ordering::Relaxed)) {
            self.is_cancelled.set(true);
        }
        if self.world.rank() == 0 {
            if self.is_cancelled.get() && !self.is_known.replace(true) {
                for rank in 1..self.world.size() {
                    self.world.send(rank, CANCEL_TAG, &[self.search])?;
                }
            }
        } else if !self.is_known.get() && self.world.try_probe(0, CANCEL_TAG)?.is_some() {
            self.receive()?;
        }
        Ok(())
    }

    fn receive(&self) -> Result<()> {
        let (search, _) = self.world.receive::<u64>(0, CANCEL_TAG)?;
        if search.first() == Some(&self.search) {
            self.is_known.set(true);
            self.is_cancelled.set(true);
        }
        Ok(())
    }

    /// The sums of words of all ranks, and whether the search is cancelled. Collective.
    pub(super) fn sum(&self, words: &[u64]) -> Result<(Vec<u64>, bool)> {
        if !self.is_possible {
            return Ok((self.world.allreduce(Op::Sum, words)?, false));
        }
        self.poll()?;
        let mine = [words, &[u64::from(self.is_cancelled.get())]].concat();
        let mut sums = vec![0; mine.len() + 1];
        if self.world.rank() == 0 {
            let total = self.collect(mine)?;
            sums[..total.len()].copy_from_slice(&total);
            sums[total.len()] = u64::from(self.is_known.get());
        } else {
            self.world.send(0, SUM_TAG, &mine)?;
        }
        self.world.broadcast(0, &mut sums)?;
        let was_sent = sums.pop().is_some_and(|sent| sent > 0);
        while was_sent && !self.is_known.get() {
            self.receive()?;
        }
        let cancelled = sums.pop().is_some_and(|count| count > 0);
        Ok((sums, cancelled || was_sent))
    }

    /// On rank 0: adds the words of the other ranks, and sends them the message as soon as the search is cancelled.
    fn collect(&self, mut sums: Vec<u64>) -> Result<Vec<u64>> {
        let mut open = Vec::new();
        for rank in 1..self.world.size() {
            open.push(self.world.start_receive::<u64>(rank, SUM_TAG)?);
        }
        let mut pause = Duration::ZERO;
        while !open.is_empty() {
            let mut waiting = Vec::with_capacity(open.len());
            for mut receive in open {
                match receive.test()? {
                    Some((words, _)) => {
                        sums.iter_mut().zip(&words).for_each(|(sum, word)| *sum = sum.saturating_add(*word));
                        pause = Duration::ZERO;
                    }
                    None => waiting.push(receive),
                }
            }
            open = waiting;
            if sums.last().is_some_and(|cancelled| *cancelled > 0) {
                self.is_cancelled.set(true);
            }
            self.poll()?;
            if !open.is_empty() {
                if pause.is_zero() {
                    thread::yield_now();
                } else {
                    thread::sleep(pause);
                }
                pause = (pause + Duration::from_micros(10)).min(LONGEST_PAUSE);
            }
        }
        Ok(sums)
    }
}

impl InterruptCondition for Cancellation {
    fn is_met(&self) -> bool {
        // An error ends the search; the next reduction reports it.
        self.is_possible && (self.poll().is_err() || self.is_cancelled.get())
    }
}
