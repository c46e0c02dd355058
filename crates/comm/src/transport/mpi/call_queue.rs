//! The queue of MPI calls of background threads, which a thread of the program makes for them.
//!
//! Below thread level multiple only threads of the program may call MPI. An operation of a background thread queues its packets here and
//! gets the replies from the mailbox; any call of the program that makes progress transfers both.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::matching::packet::{PacketBody, PacketHeader};
use crate::transport::CounterOp;
use crate::{Error, Result};

/// Time a background thread sleeps before it checks whether the transport has failed.
const CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// A call to be made by a thread of the program.
pub(crate) enum QueuedCall {
    /// Send this packet.
    Send { to: usize, header: PacketHeader, body: PacketBody },
    /// Change the counter `slot` and return its previous value.
    Count { slot: usize, change: CounterOp },
}

/// The calls of all background threads of a transport, in the order they were made.
#[derive(Default)]
pub(crate) struct MpiCallQueue {
    state: Mutex<MpiCallQueueState>,
    change: Condvar,
}

#[derive(Default)]
struct MpiCallQueueState {
    waiting: VecDeque<QueuedCall>,
    /// Calls queued and calls passed to MPI so far.
    queued: u64,
    passed: u64,
    answers: HashMap<u64, Result<u64>>,
}

impl MpiCallQueue {
    /// Adds a call; its number.
    pub(crate) fn push(&self, call: QueuedCall) -> u64 {
        let mut state = self.lock();
        state.waiting.push_back(call);
        state.queued += 1;
        state.queued
    }

    /// True if the call with this number has been passed to MPI.
    pub(crate) fn is_passed(&self, number: u64) -> bool {
        self.lock().passed >= number
    }

    /// Passes the calls in order to `pass` until it defers one or fails; true if any was passed. A deferred call is the first one next time.
    pub(crate) fn run_queued(
        &self,
        mut pass: impl FnMut(QueuedCall) -> Result<QueuedCallOutcome>,
    ) -> Result<bool> {
        let mut any = false;
        loop {
            // Not locked while MPI is called: a progress hook may call back.
            let Some(call) = self.lock().waiting.pop_front() else { return Ok(any) };
            match pass(call)? {
                QueuedCallOutcome::Deferred(call) => {
                    self.lock().waiting.push_front(call);
                    return Ok(any);
                }
                QueuedCallOutcome::Sent => self.lock().passed += 1,
                QueuedCallOutcome::Counted(answer) => {
                    let mut state = self.lock();
                    state.passed += 1;
                    let number = state.passed;
                    state.answers.insert(number, answer);
                }
            }
            any = true;
            self.change.notify_all();
        }
    }

    /// Waits until the call with this number has been passed to MPI, or `failure` returns an error.
    pub(crate) fn wait_passed(&self, number: u64, failure: impl Fn() -> Option<Error>) -> Result<()> {
        let mut state = self.lock();
        while state.passed < number {
            if let Some(error) = failure() {
                return Err(error);
            }
            state = self.change.wait_timeout(state, CHECK_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// As [`wait_passed`](Self::wait_passed), for all calls so far.
    pub(crate) fn wait_all_passed(&self, failure: impl Fn() -> Option<Error>) -> Result<()> {
        let last = self.lock().queued;
        self.wait_passed(last, failure)
    }

    /// The previous value of a counter, after the call with this number has been passed.
    pub(crate) fn take_answer(&self, number: u64) -> Option<Result<u64>> {
        self.lock().answers.remove(&number)
    }

    fn lock(&self) -> MutexGuard<'_, MpiCallQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The outcome of a queued call.
pub(crate) enum QueuedCallOutcome {
    Sent,
    Counted(Result<u64>),
    /// To be retried later.
    Deferred(QueuedCall),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective_id::CollectiveId;

    fn call(tag: u32) -> QueuedCall {
        let header = PacketHeader { context: 2, source: 0, tag, call: [0; CollectiveId::LEN] };
        QueuedCall::Send { to: 1, header, body: PacketBody::new(vec![0u8]) }
    }

    #[test]
    fn calls_are_passed_in_order_and_a_deferred_call_is_first_again() {
        let queue = MpiCallQueue::default();
        let numbers: Vec<u64> = (0..3).map(|tag| queue.push(call(tag))).collect();
        let mut seen = Vec::new();
        let mut pass = |call: QueuedCall| {
            let QueuedCall::Send { header, .. } = &call else { return Ok(QueuedCallOutcome::Deferred(call)) };
            seen.push(header.tag);
            Ok(if seen.len() == 2 { QueuedCallOutcome::Deferred(call) } else { QueuedCallOutcome::Sent })
        };
        assert!(queue.run_queued(&mut pass).unwrap());
        assert!(queue.is_passed(numbers[0]) && !queue.is_passed(numbers[1]));
        assert!(queue.run_queued(&mut pass).unwrap());
        assert_eq!(seen, [0, 1, 1, 2]);
        queue.wait_all_passed(|| None).unwrap();
    }

    #[test]
    fn a_wait_ends_when_the_transport_has_failed() {
        let queue = MpiCallQueue::default();
        let number = queue.push(call(0));
        let failure = || Some(Error::new(crate::Kind::Mpi, "send", "MPI has ended"));
        assert!(queue.wait_passed(number, failure).is_err());
    }
}
