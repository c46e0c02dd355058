//! Two-phase transfers between nodes, round by round.
//!
//! Writing, a rank copies its bytes into the window of an aggregator on its node, or into the message that its node sends to the
//! aggregator elsewhere. The ranks meet; then the messages are sent, the windows of the round before are written, and the messages of
//! this round are put into their windows meanwhile. Reading is the same the other way round. A meeting tells whether any rank has failed: all
//! stop there, and no message is left behind, because those of earlier rounds have been received before it.

use std::ops::Range;
use std::sync::Arc;

use aqueduct_device::{HandleExt, LockKind, Piece};

use super::{Exchange, Job};
use crate::core::Core;
use crate::error::{Error, Result};
use crate::flow::{Inflow, Outflow};
use crate::layout::Strip;
use crate::plan::{Round, inside};
use crate::staging::Stage;
use crate::two_phase::cache::Rounds;

/// The tag of data, in the communicator of the file.
const DATA: u32 = 1;

/// The first byte of the file that is not there, where all are.
const NO_END: u64 = u64::MAX;

impl<'a> Exchange<'a> {
    /// Collective.
    pub(super) fn new(core: &'a Core, job: &'a Job<'a>, rounds: &'a mut Rounds) -> Result<Self> {
        let between = core.between(job.domains)?;
        let ranks = core.comm.ranks_of_node(core.comm.node_of(core.comm.rank()));
        let local = ranks.iter().filter_map(|rank| job.domains.place_of(*rank)).collect();
        Ok(Self { core, job, between, local, rounds, turn: 0 })
    }

    /// Writes; all of `data`, or none of it for certain.
    pub(super) fn write(&mut self, data: &Outflow<'_>, mut failed: Option<Error>) -> Result<u64> {
        let mut waiting: Option<(u64, Arc<Round>)> = None;
        for number in 0..self.job.domains.rounds() {
            let round = self.round(number)?;
            for step in 0..round.steps {
                self.fill(number, &round, step, data)?;
                if self.meet(failed.as_ref(), NO_END)?.is_none() {
                    return failed.map_or(Ok(0), Err);
                }
                self.send_parcels(&round, step)?;
                let due = waiting.take();
                let write =
                    || due.as_ref().map_or(Ok(()), |(number, round)| self.write_window(*number, round));
                let busy = due.as_ref().is_some_and(|(_, round)| !round.ranges.is_empty());
                let (written, received) =
                    beside(busy, &write, || self.receive_deliveries(number, &round, step))?;
                failed = failed.or(written.err()).or(received.err());
                self.turn += 1;
            }
            waiting = Some((number, round));
        }
        let last = waiting.filter(|_| failed.is_none());
        failed = failed.or(last.and_then(|(number, round)| self.write_window(number, &round).err()));
        failed.map_or(Ok(data.len()), Err)
    }

    /// Reads; how much was there.
    pub(super) fn read(&mut self, data: &mut Inflow<'_>, mut failed: Option<Error>) -> Result<u64> {
        let (mut end, mut next) = (NO_END, None);
        for number in 0..self.job.domains.rounds() {
            let round = match next.take() {
                Some(round) => round,
                None => {
                    let round = self.round(number)?;
                    end = end.min(self.load(number, &round, &mut failed));
                    round
                }
            };
            for step in 0..round.steps {
                self.send_deliveries(number, &round, step, failed.is_some())?;
                if step == 0 && number + 1 < self.job.domains.rounds() {
                    next = Some(self.round(number + 1)?);
                }
                let ahead = next.as_ref().filter(|_| step == 0);
                let mut broken = None;
                let load = || match ahead.filter(|_| failed.is_none()) {
                    Some(round) => self.load_window(number + 1, round),
                    None => Ok(NO_END),
                };
                let busy = ahead.is_some_and(|round| !round.ranges.is_empty());
                let (loaded, received) = beside(busy, &load, || self.receive_parcels(&round, step))?;
                match loaded {
                    Ok(there) => end = end.min(there),
                    Err(error) => broken = Some(error),
                }
                failed = failed.or(broken).or(received.err());
                let Some(agreed) = self.meet(failed.as_ref(), end)? else {
                    return failed.map_or(Ok(0), Err);
                };
                end = agreed;
                self.empty(number, &round, step, self.until(end), data)?;
                self.turn += 1;
            }
        }
        Ok(self.until(end) - self.job.window.start)
    }

    /// Data bytes up to here lie before the end of the file.
    fn until(&self, end: u64) -> u64 {
        let Job { pattern, window, .. } = *self.job;
        if end == NO_END { window.end } else { inside(pattern, window, &(0..end)).end }
    }

    fn round(&mut self, number: u64) -> Result<Arc<Round>> {
        if let Some(round) = self.rounds.next(number) {
            return Ok(round);
        }
        let end = number.saturating_add(self.job.domains.ahead()).min(self.job.domains.rounds());
        for round in self.arrange(number..end)? {
            self.rounds.add(round);
        }
        let missing =
            || self.core.error(crate::Kind::Communication, self.job.operation(), "a round was lost");
        self.rounds.next(number).ok_or_else(missing)
    }

    /// Waits until all ranks have come: where the file ends as far as anyone knows, or none if any rank has failed.
    fn meet(&self, failed: Option<&Error>, end: u64) -> Result<Option<u64>> {
        let mine = [u64::from(failed.is_some()), end];
        let merge = |a: &mut [u64; 2], b: &[u64; 2]| *a = [a[0] | b[0], a[1].min(b[1])];
        let all = self.core.comm.allreduce_with(&[mine], merge);
        let [failed, end] = self.core.talk(self.job.operation(), all)?[0];
        Ok((failed == 0).then_some(end))
    }

    /// Whether the aggregator of a window is on this node.
    pub(super) fn is_near(&self, window: usize) -> bool {
        self.local.binary_search(&window).is_ok()
    }

    /// The buffer of a window on this node.
    fn stage(&self, number: u64, window: usize) -> Option<Stage> {
        let aggregator = self.local.binary_search(&window).ok()?;
        let start = self.job.domains.window(number, window).range.start;
        Some(Stage { turn: number, aggregator, start })
    }

    /// The window of this rank, if it aggregates.
    fn own_stage(&self, number: u64) -> Option<Stage> {
        self.stage(number, self.job.domains.place_of(self.core.comm.rank())?)
    }

    /// The message buffer of this step.
    fn buffer(&self) -> Stage {
        Stage { turn: self.turn, aggregator: 0, start: 0 }
    }

    /// A range of data bytes of the view as a part of this rank's data.
    fn place(&self, data: &Range<u64>) -> Range<u64> {
        let start = self.job.window.start;
        data.start - start..data.end - start
    }

    /// Counts bytes that this rank copied; those of messages are counted as sent.
    fn copied(&self, data: &Range<u64>) {
        self.core.tally.copied.add(data.end - data.start);
    }

    /// Copies this rank's bytes to where they go from.
    fn fill(&self, number: u64, round: &Round, step: u64, data: &Outflow<'_>) -> Result<()> {
        for share in round.near.iter().filter(|_| step == 0) {
            let Some(stage) = self.stage(number, share.window) else { continue };
            let field = self.between.windows.field(stage);
            self.core.put_shares(&field, self.job, &share.data, data)?;
        }
        for far in round.far.iter().filter(|far| far.step == step) {
            let field = self.between.parcels.field(self.buffer());
            let packed = data.packed(&self.core.tally, self.place(&far.data));
            field.put_strips(far.places.iter().copied(), &packed);
            self.copied(&far.data);
        }
        Ok(())
    }

    /// Copies this rank's bytes from where they have come to, as far as the file goes.
    fn empty(&self, number: u64, round: &Round, step: u64, until: u64, data: &mut Inflow<'_>) -> Result<()> {
        let there = |data: &Range<u64>| data.start..data.end.min(until).max(data.start);
        for share in round.near.iter().filter(|_| step == 0) {
            let Some(stage) = self.stage(number, share.window) else { continue };
            let field = self.between.windows.field(stage);
            self.core.get_shares(&field, self.job, &there(&share.data), data)?;
        }
        for far in round.far.iter().filter(|far| far.step == step) {
            let there = there(&far.data);
            let place = self.place(&there);
            self.copied(&there);
            let strips = front(&far.places, there.end - there.start);
            let field = self.between.parcels.field(self.buffer());
            data.whole(&self.core.tally, place, |packed| field.get_strips(strips, packed));
        }
        Ok(())
    }

    /// Sends what this rank speaks for.
    fn send_parcels(&self, round: &Round, step: u64) -> Result<()> {
        for parcel in round.parcels.iter().filter(|parcel| parcel.step == step) {
            let bytes = self.between.parcels.full(self.buffer(), &parcel.room).to_vec();
            self.send(parcel.peer, bytes)?;
        }
        Ok(())
    }

    fn receive_parcels(&self, round: &Round, step: u64) -> Result<Result<()>> {
        let mut outcome = Ok(());
        for parcel in round.parcels.iter().filter(|parcel| parcel.step == step) {
            let bytes = self.receive(parcel.peer)?;
            let room = self.between.parcels.empty(self.buffer(), &parcel.room);
            match bytes.len() {
                // The aggregator has failed, and tells everyone so.
                0 => {}
                len if len == room.len() => room.copy_from_slice(&bytes),
                _ => outcome = Err(self.core.garbled(self.job.operation(), parcel.peer)),
            }
        }
        Ok(outcome)
    }

    fn receive_deliveries(&self, number: u64, round: &Round, step: u64) -> Result<Result<()>> {
        let mut outcome = Ok(());
        for delivery in round.deliveries.iter().filter(|delivery| delivery.step == step) {
            let bytes = self.receive(delivery.peer)?;
            let Some(stage) = self.own_stage(number) else { continue };
            if bytes.len() as u64 == delivery.strips.iter().map(Strip::size).sum::<u64>() {
                let field = self.between.windows.field(stage);
                field.put_strips(delivery.strips.iter().copied(), &bytes);
            } else {
                outcome = Err(self.core.garbled(self.job.operation(), delivery.peer));
            }
        }
        Ok(outcome)
    }

    /// Sends what other nodes want of this rank's window; after a failure nothing, which they wait for too.
    fn send_deliveries(&self, number: u64, round: &Round, step: u64, failed: bool) -> Result<()> {
        for delivery in round.deliveries.iter().filter(|delivery| delivery.step == step) {
            let mut bytes = Vec::new();
            if let Some(stage) = self.own_stage(number).filter(|_| !failed) {
                bytes.resize(delivery.strips.iter().map(Strip::size).sum::<u64>() as usize, 0);
                self.between.windows.field(stage).get_strips(delivery.strips.iter().copied(), &mut bytes);
            }
            self.send(delivery.peer, bytes)?;
        }
        Ok(())
    }

    fn write_window(&self, number: u64, round: &Round) -> Result<()> {
        let Some(stage) = self.own_stage(number).filter(|_| !round.ranges.is_empty()) else { return Ok(()) };
        let piece = |range: &Range<u64>| Piece::new(range.start, self.between.windows.full(stage, range));
        let pieces: Vec<Piece<'_>> = round.ranges.iter().map(piece).collect();
        self.core.write_pieces(&pieces)
    }

    fn load(&self, number: u64, round: &Round, failed: &mut Option<Error>) -> u64 {
        if failed.is_some() {
            return NO_END;
        }
        self.load_window(number, round).unwrap_or_else(|error| {
            *failed = Some(error);
            NO_END
        })
    }

    /// Reads this rank's window of a round; the first byte that is not in the file.
    fn load_window(&self, number: u64, round: &Round) -> Result<u64> {
        let Some(stage) = self.own_stage(number) else { return Ok(NO_END) };
        let mut end = NO_END;
        for range in &round.ranges {
            let room = self.between.windows.empty(stage, range);
            let locks = self.core.locks_for_coherence();
            let lock = || self.core.lock("read_all", range.clone(), LockKind::Shared);
            let _guard = if locks { lock()? } else { None };
            let outcome = self.core.device("read_all", self.core.handle.read_at(range.start, room));
            let count = outcome.map_err(|error| error.after(0))?;
            if range.start + count < range.end {
                end = end.min(range.start + count);
            }
        }
        Ok(end)
    }

    fn send(&self, to: usize, bytes: Vec<u8>) -> Result<()> {
        // It goes on by itself: the receiver has it before the next meeting but one.
        self.core.talk(self.job.operation(), self.core.comm.start_send(to, DATA, bytes)).map(drop)
    }

    fn receive(&self, from: usize) -> Result<Vec<u8>> {
        let came = self.core.talk(self.job.operation(), self.core.comm.receive::<u8>(from, DATA))?;
        Ok(came.0)
    }
}

/// Does `work` on a thread of its own where it keeps one `busy`, so that messages come in meanwhile.
fn beside<T: Send, U>(
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
fn front(strips: &[Strip], mut bytes: u64) -> impl Iterator<Item = Strip> {
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
    fn the_front_of_strips_has_as_many_bytes() {
        let strips = [
            Strip { offset: 0, len: 4, stride: 8, count: 3 },
            Strip { offset: 50, len: 5, stride: 0, count: 1 },
        ];
        for bytes in 0..=17 {
            let front: Vec<Strip> = front(&strips, bytes).collect();
            assert_eq!(front.iter().map(Strip::size).sum::<u64>(), bytes);
            let at = |strips: &[Strip]| {
                let runs = strips.iter().flat_map(crate::plan::runs_of).flatten();
                runs.take(bytes as usize).collect::<Vec<u64>>()
            };
            assert_eq!(at(&front), at(&strips));
        }
    }

    #[test]
    fn work_beside_is_done_either_way() {
        for busy in [false, true] {
            assert_eq!(beside(busy, &|| 1, || Ok(2)).unwrap(), (1, 2));
        }
    }
}
