//! Two-phase I/O between nodes, round by round.
//!
//! In a write, a rank copies its bytes into the window of an aggregator on its node, or into the message of its node to an aggregator of
//! another node. After a barrier the messages are sent, the windows of the previous round are written, and at the same time the messages of
//! this round are copied into their windows. A read goes in the opposite direction. The barrier is a reduction that also says whether any rank
//! has failed: all stop there, and no message is pending, because those of earlier rounds have been received before it.

use std::ops::Range;
use std::sync::Arc;

use aqueduct_device::{HandleExt, LockKind, Segment};

use super::aggregation_buffers::WindowBuffer;
use super::inter_node_buffers::InterNodeBuffers;
use super::plan_cache::RoundSource;
use super::{TwoPhaseAccess, write_pieces};
use crate::context::FileContext;
use crate::error::{Error, Kind, Result};
use crate::layout::Strip;
use crate::memory::chunks::{ReadBuffer, WriteData};
use crate::plan::{ExchangeRound, data_inside};
use crate::trace::{self, CallPhase};

/// The tag of data messages, in the communicator of the file.
const DATA: u32 = 1;

/// The end of the file, if no rank has reached it.
const NO_END: u64 = u64::MAX;

/// A two-phase access between nodes, in progress.
pub(super) struct InterNodeExchange<'a> {
    pub(super) cx: &'a FileContext,
    pub(super) access: &'a TwoPhaseAccess<'a>,
    pub(super) buffers: InterNodeBuffers,
    /// The windows whose aggregators are on this node.
    local_windows: Vec<usize>,
    rounds: &'a mut RoundSource,
    /// Counts the steps: which message buffer is in use.
    turn: u64,
}

impl<'a> InterNodeExchange<'a> {
    pub(super) fn new(
        cx: &'a FileContext,
        access: &'a TwoPhaseAccess<'a>,
        buffers: InterNodeBuffers,
        rounds: &'a mut RoundSource,
    ) -> Self {
        let ranks = cx.comm.ranks_of_node(cx.comm.node_of(cx.comm.rank()));
        let local_windows = ranks.iter().filter_map(|rank| access.domains.aggregator_index(*rank)).collect();
        Self { cx, access, buffers, local_windows, rounds, turn: 0 }
    }

    /// Writes all of `data`; with an error it is not known how much was written.
    pub(super) fn write(&mut self, data: &WriteData<'_>, mut failed: Option<Error>) -> Result<u64> {
        let mut to_write: Option<(u64, Arc<ExchangeRound>)> = None;
        for number in 0..self.access.domains.rounds() {
            let round = self.round(number)?;
            for step in 0..round.steps {
                self.copy_in(number, &round, step, data)?;
                if self.barrier(failed.as_ref(), NO_END)?.is_none() {
                    return failed.map_or(Ok(0), Err);
                }
                self.send_outgoing(&round, step)?;
                let due = to_write.take();
                let write =
                    || due.as_ref().map_or(Ok(()), |(number, round)| self.write_window(*number, round));
                let busy = due.as_ref().is_some_and(|(_, round)| !round.ranges.is_empty());
                let (written, received) =
                    overlap(busy, &write, || self.receive_incoming(number, &round, step))?;
                failed = failed.or(written.err()).or(received.err());
                self.turn += 1;
            }
            to_write = Some((number, round));
        }
        let last = to_write.filter(|_| failed.is_none());
        failed = failed.or(last.and_then(|(number, round)| self.write_window(number, &round).err()));
        failed.map_or(Ok(data.len()), Err)
    }

    /// Reads; the count is less at the end of the file.
    pub(super) fn read(&mut self, data: &mut ReadBuffer<'_>, mut failed: Option<Error>) -> Result<u64> {
        let (mut end, mut next) = (NO_END, None);
        for number in 0..self.access.domains.rounds() {
            let round = match next.take() {
                Some(round) => round,
                None => {
                    let round = self.round(number)?;
                    end = end.min(self.load(number, &round, &mut failed));
                    round
                }
            };
            for step in 0..round.steps {
                self.return_incoming(number, &round, step, failed.is_some())?;
                if step == 0 && number + 1 < self.access.domains.rounds() {
                    next = Some(self.round(number + 1)?);
                }
                let ahead = next.as_ref().filter(|_| step == 0);
                let mut broken = None;
                let load = || match ahead.filter(|_| failed.is_none()) {
                    Some(round) => self.load_window(number + 1, round),
                    None => Ok(NO_END),
                };
                let busy = ahead.is_some_and(|round| !round.ranges.is_empty());
                let (loaded, received) = overlap(busy, &load, || self.receive_outgoing(&round, step))?;
                match loaded {
                    Ok(found) => end = end.min(found),
                    Err(error) => broken = Some(error),
                }
                failed = failed.or(broken).or(received.err());
                let Some(agreed) = self.barrier(failed.as_ref(), end)? else {
                    return failed.map_or(Ok(0), Err);
                };
                end = agreed;
                self.copy_out(number, &round, step, self.data_end(end), data)?;
                self.turn += 1;
            }
        }
        Ok(self.data_end(end) - self.access.window.start)
    }

    /// The data bytes before the end of the file end here.
    fn data_end(&self, end: u64) -> u64 {
        let TwoPhaseAccess { pattern, window, .. } = *self.access;
        if end == NO_END { window.end } else { data_inside(pattern, window, &(0..end)).end }
    }

    fn round(&mut self, number: u64) -> Result<Arc<ExchangeRound>> {
        if let Some(round) = self.rounds.next(number) {
            return Ok(round);
        }
        let end =
            number.saturating_add(self.access.domains.rounds_per_setup()).min(self.access.domains.rounds());
        for round in self.set_up(number..end)? {
            self.rounds.add(round);
        }
        let missing = || {
            self.cx.error(
                Kind::Communication,
                self.access.operation(),
                "a round of the exchange is missing; this is a defect, please report it",
            )
        };
        self.rounds.next(number).ok_or_else(missing)
    }

    /// Waits for all ranks; the end of the file, as far as any rank has found it, or none if any rank has failed.
    fn barrier(&self, failed: Option<&Error>, end: u64) -> Result<Option<u64>> {
        let mine = [u64::from(failed.is_some()), end];
        let merge = |a: &mut [u64; 2], b: &[u64; 2]| *a = [a[0] | b[0], a[1].min(b[1])];
        let _phase = trace::enter(CallPhase::Wait);
        let all = self.cx.comm.allreduce_with(&[mine], merge);
        let [failed, end] = self.cx.comm_result(self.access.operation(), all)?[0];
        Ok((failed == 0).then_some(end))
    }

    /// True if the aggregator of a window is on this node.
    pub(super) fn is_local(&self, window: usize) -> bool {
        self.local_windows.binary_search(&window).is_ok()
    }

    /// The buffer of a window on this node.
    fn window_buffer(&self, number: u64, window: usize) -> Option<WindowBuffer> {
        let aggregator = self.local_windows.binary_search(&window).ok()?;
        let start = self.access.domains.window(number, window).range.start;
        Some(WindowBuffer { turn: number, aggregator, start })
    }

    /// The buffer of this rank's window, if it is an aggregator.
    fn own_buffer(&self, number: u64) -> Option<WindowBuffer> {
        self.window_buffer(number, self.access.domains.aggregator_index(self.cx.comm.rank())?)
    }

    /// The message buffer of this step.
    fn message_buffer(&self) -> WindowBuffer {
        WindowBuffer { turn: self.turn, aggregator: 0, start: 0 }
    }

    /// A range of data bytes of the view, counted from the start of this rank's data.
    fn place(&self, data: &Range<u64>) -> Range<u64> {
        let start = self.access.window.start;
        data.start - start..data.end - start
    }

    /// Counts bytes that this rank has copied; those of messages are counted as sent.
    fn count_copied(&self, data: &Range<u64>) {
        self.cx.counters.copied.add(data.end - data.start);
    }

    /// Copies this rank's bytes into windows and messages.
    fn copy_in(&self, number: u64, round: &ExchangeRound, step: u64, data: &WriteData<'_>) -> Result<()> {
        for part in round.local.iter().filter(|_| step == 0) {
            let Some(buffer) = self.window_buffer(number, part.window) else { continue };
            self.access.note_exchanged(self.cx, part.window, &part.data);
            let window = self.buffers.windows.window(buffer);
            self.access.copy_to_window(self.cx, &window, &part.data, data)?;
        }
        for part in round.remote.iter().filter(|part| part.step == step) {
            trace::note_exchanged(part.data.end - part.data.start);
            let _phase = trace::enter(CallPhase::Pack);
            let window = self.buffers.messages.window(self.message_buffer());
            let packed = data.packed(&self.cx.counters, self.place(&part.data));
            window.put_strips(part.places.iter().copied(), &packed);
            self.count_copied(&part.data);
        }
        Ok(())
    }

    /// Copies this rank's bytes from windows and messages, up to the end of the file.
    fn copy_out(
        &self,
        number: u64,
        round: &ExchangeRound,
        step: u64,
        until: u64,
        data: &mut ReadBuffer<'_>,
    ) -> Result<()> {
        let existing = |data: &Range<u64>| data.start..data.end.min(until).max(data.start);
        for part in round.local.iter().filter(|_| step == 0) {
            let Some(buffer) = self.window_buffer(number, part.window) else { continue };
            self.access.note_exchanged(self.cx, part.window, &part.data);
            let window = self.buffers.windows.window(buffer);
            self.access.copy_from_window(self.cx, &window, &existing(&part.data), data)?;
        }
        for part in round.remote.iter().filter(|part| part.step == step) {
            let data_range = existing(&part.data);
            trace::note_exchanged(data_range.end - data_range.start);
            let _phase = trace::enter(CallPhase::Pack);
            let place = self.place(&data_range);
            self.count_copied(&data_range);
            let strips = first_bytes(&part.places, data_range.end - data_range.start);
            let window = self.buffers.messages.window(self.message_buffer());
            data.fill_whole(&self.cx.counters, place, |packed| window.get_strips(strips, packed));
        }
        Ok(())
    }

    /// Sends the messages of this node that this rank sends.
    fn send_outgoing(&self, round: &ExchangeRound, step: u64) -> Result<()> {
        let _phase = trace::enter(CallPhase::Exchange);
        for message in round.outgoing.iter().filter(|message| message.step == step) {
            let bytes = self.buffers.messages.filled(self.message_buffer(), &message.room).to_vec();
            self.send(message.peer, bytes)?;
        }
        Ok(())
    }

    /// For reads: receives the data for the messages of this node that this rank would send.
    fn receive_outgoing(&self, round: &ExchangeRound, step: u64) -> Result<Result<()>> {
        let _phase = trace::enter(CallPhase::Exchange);
        let mut outcome = Ok(());
        for message in round.outgoing.iter().filter(|message| message.step == step) {
            let bytes = self.receive(message.peer)?;
            let room = self.buffers.messages.to_fill(self.message_buffer(), &message.room);
            match bytes.len() {
                // The aggregator has failed, which all ranks learn at the barrier.
                0 => {}
                len if len == room.len() => room.copy_from_slice(&bytes),
                _ => outcome = Err(self.cx.malformed_message(self.access.operation(), message.peer)),
            }
        }
        Ok(outcome)
    }

    /// Receives the messages of other nodes for this rank's window.
    fn receive_incoming(&self, number: u64, round: &ExchangeRound, step: u64) -> Result<Result<()>> {
        let _phase = trace::enter(CallPhase::Exchange);
        let mut outcome = Ok(());
        for message in round.incoming.iter().filter(|message| message.step == step) {
            let bytes = self.receive(message.peer)?;
            let Some(buffer) = self.own_buffer(number) else { continue };
            if bytes.len() as u64 == message.strips.iter().map(Strip::size).sum::<u64>() {
                let window = self.buffers.windows.window(buffer);
                window.put_strips(message.strips.iter().copied(), &bytes);
            } else {
                outcome = Err(self.cx.malformed_message(self.access.operation(), message.peer));
            }
        }
        Ok(outcome)
    }

    /// For reads: sends other nodes their bytes of this rank's window; after a failure empty messages, which end their wait.
    fn return_incoming(&self, number: u64, round: &ExchangeRound, step: u64, failed: bool) -> Result<()> {
        let _phase = trace::enter(CallPhase::Exchange);
        for message in round.incoming.iter().filter(|message| message.step == step) {
            let mut bytes = Vec::new();
            if let Some(buffer) = self.own_buffer(number).filter(|_| !failed) {
                bytes.resize(message.strips.iter().map(Strip::size).sum::<u64>() as usize, 0);
                self.buffers.windows.window(buffer).get_strips(message.strips.iter().copied(), &mut bytes);
            }
            self.send(message.peer, bytes)?;
        }
        Ok(())
    }

    fn write_window(&self, number: u64, round: &ExchangeRound) -> Result<()> {
        let Some(buffer) = self.own_buffer(number).filter(|_| !round.ranges.is_empty()) else {
            return Ok(());
        };
        let piece =
            |range: &Range<u64>| Segment::new(range.start, self.buffers.windows.filled(buffer, range));
        let pieces: Vec<Segment<'_>> = round.ranges.iter().map(piece).collect();
        write_pieces(self.cx, &pieces)
    }

    fn load(&self, number: u64, round: &ExchangeRound, failed: &mut Option<Error>) -> u64 {
        if failed.is_some() {
            return NO_END;
        }
        self.load_window(number, round).unwrap_or_else(|error| {
            *failed = Some(error);
            NO_END
        })
    }

    /// Reads this rank's window of a round; the end of the file, if it was reached.
    fn load_window(&self, number: u64, round: &ExchangeRound) -> Result<u64> {
        let Some(buffer) = self.own_buffer(number) else { return Ok(NO_END) };
        let mut end = NO_END;
        for range in &round.ranges {
            let room = self.buffers.windows.to_fill(buffer, range);
            let locks = self.cx.locks_for_coherence();
            let lock = || self.cx.lock("read_all", range.clone(), LockKind::Shared);
            let _guard = if locks { lock()? } else { None };
            let outcome = self.cx.device_result("read_all", self.cx.handle.read_at(range.start, room));
            let count = outcome.map_err(|error| error.after(0))?;
            if range.start + count < range.end {
                end = end.min(range.start + count);
            }
        }
        Ok(end)
    }

    fn send(&self, to: usize, bytes: Vec<u8>) -> Result<()> {
        // The request is not waited for: the message is received before the next barrier but one.
        self.cx.comm_result(self.access.operation(), self.cx.comm.start_send(to, DATA, bytes)).map(drop)
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        let came = self.cx.comm_result(self.access.operation(), self.cx.comm.receive::<u8>(from, DATA))?;
        Ok(came.0)
    }
}

/// Does `work` on a thread of its own if it is `busy`, so that messages are received at the same time.
fn overlap<T: Send, U>(
    busy: bool,
    work: &(impl Fn() -> T + Sync),
    meanwhile: impl FnOnce() -> Result<U>,
) -> Result<(T, U)> {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().name("aqueduct window".to_owned());
        let thread = if busy { builder.spawn_scoped(scope, work).ok() } else { None };
        let came = meanwhile();
        let done = match thread.map(std::thread::ScopedJoinHandle::join) {
            Some(Ok(done)) => done,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => work(),
        };
        Ok((done, came?))
    })
}

/// The first bytes of strips.
fn first_bytes(strips: &[Strip], mut bytes: u64) -> impl Iterator<Item = Strip> {
    strips.iter().flat_map(move |strip| {
        let count = strip.count.min(bytes / strip.len);
        bytes -= count * strip.len;
        let rest = if count < strip.count { bytes.min(strip.len) } else { 0 };
        bytes -= rest;
        let whole = (count > 0).then_some(Strip { count, ..*strip });
        let offset = strip.offset + count as i64 * strip.stride;
        whole.into_iter().chain((rest > 0).then_some(Strip { offset, len: rest, stride: 0, count: 1 }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_of_strips_are_as_many() {
        let strips = [
            Strip { offset: 0, len: 4, stride: 8, count: 3 },
            Strip { offset: 50, len: 5, stride: 0, count: 1 },
        ];
        for bytes in 0..=17 {
            let front: Vec<Strip> = first_bytes(&strips, bytes).collect();
            assert_eq!(front.iter().map(Strip::size).sum::<u64>(), bytes);
            let at = |strips: &[Strip]| {
                let runs = strips.iter().flat_map(crate::plan::runs_of).flatten();
                runs.take(bytes as usize).collect::<Vec<u64>>()
            };
            assert_eq!(at(&front), at(&strips));
        }
    }

    #[test]
    fn overlapping_work_is_done_with_and_without_a_thread() {
        for busy in [false, true] {
            assert_eq!(overlap(busy, &|| 1, || Ok(2)).unwrap(), (1, 2));
        }
    }
}
