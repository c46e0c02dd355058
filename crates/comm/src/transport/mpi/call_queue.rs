//! Packets of background threads, on their way to a thread of the program, which passes them to MPI.
//!
//! Below thread level multiple only threads of the program may call MPI. An operation that a background thread performs leaves its packets here and
//! finds the answers in the mailbox; whichever call of the program makes progress moves both.

use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::matching::packet::{PacketBody, PacketHeader};
use crate::transport::CounterOp;
use crate::{Error, Result};

/// How long a background thread sleeps before it looks whether the transport has failed.
const NAP: Duration = Duration::from_millis(2);

/// What a background thread wants MPI to do.
pub(crate) enum QueuedCall {
    /// Send this packet.
    Send { to: usize, header: PacketHeader, body: PacketBody },
    /// Change the counter at this place; the answer is waited for.
    Count { place: usize, change: CounterOp },
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
    /// Calls handed over and calls passed to MPI so far.
    handed: u64,
    passed: u64,
    answers: HashMap<u64, Result<u64>>,
}

impl MpiCallQueue {
    /// Adds a call; its number.
    pub(crate) fn push(&self, call: QueuedCall) -> u64 {
        let mut state = self.lock();
        state.waiting.push_back(call);
        state.handed += 1;
        state.handed
    }

    /// Whether the call with this number has been passed to MPI.
    pub(crate) fn is_passed(&self, number: u64) -> bool {
        self.lock().passed >= number
    }

    /// Passes the calls in order to `pass` until it leaves one (`Ok(None)`) or fails; whether any was passed. A call that was left comes first the next time.
    pub(crate) fn run_queued(
        &self,
        mut pass: impl FnMut(QueuedCall) -> Result<QueuedCallOutcome>,
    ) -> Result<bool> {
        let mut any = false;
        loop {
            // Not locked while MPI is called: it may call back.
            let Some(call) = self.lock().waiting.pop_front() else { return Ok(any) };
            match pass(call)? {
                QueuedCallOutcome::Left(call) => {
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

    /// Waits until the call with this number has been passed to MPI, or `failure` gives a reason why it never will be.
    pub(crate) fn wait_passed(&self, number: u64, failure: impl Fn() -> Option<Error>) -> Result<()> {
        let mut state = self.lock();
        while state.passed < number {
            if let Some(error) = failure() {
                return Err(error);
            }
            state = self.change.wait_timeout(state, NAP).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// The same for all calls so far.
    pub(crate) fn wait_all_passed(&self, failure: impl Fn() -> Option<Error>) -> Result<()> {
        let last = self.lock().handed;
        self.wait_passed(last, failure)
    }

    /// The answer of a counter, once the call with this number has been passed.
    pub(crate) fn take_answer(&self, number: u64) -> Option<Result<u64>> {
        self.lock().answers.remove(&number)
    }

    fn lock(&self) -> MutexGuard<'_, MpiCallQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What became of a call.
pub(crate) enum QueuedCallOutcome {
    Sent,
    Counted(Result<u64>),
    /// Not now.
    Left(QueuedCall),
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
    fn calls_are_passed_in_order_and_one_that_is_left_comes_first_again() {
        let handover = MpiCallQueue::default();
        let numbers: Vec<u64> = (0..3).map(|tag| handover.push(call(tag))).collect();
        let mut seen = Vec::new();
        let mut pass = |call: QueuedCall| {
            let QueuedCall::Send { header, .. } = &call else { return Ok(QueuedCallOutcome::Left(call)) };
            seen.push(header.tag);
            Ok(if seen.len() == 2 { QueuedCallOutcome::Left(call) } else { QueuedCallOutcome::Sent })
        };
        assert!(handover.run_queued(&mut pass).unwrap());
        assert!(handover.is_passed(numbers[0]) && !handover.is_passed(numbers[1]));
        assert!(handover.run_queued(&mut pass).unwrap());
        assert_eq!(seen, [0, 1, 1, 2]);
        handover.wait_all_passed(|| None).unwrap();
    }

    #[test]
    fn a_wait_ends_when_the_transport_has_failed() {
        let handover = MpiCallQueue::default();
        let number = handover.push(call(0));
        let failure = || Some(Error::new(crate::Kind::Mpi, "send", "MPI has ended"));
        assert!(handover.wait_passed(number, failure).is_err());
    }
}
