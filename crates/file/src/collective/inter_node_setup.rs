//! The setup of rounds between nodes: which rank sends which bytes to which aggregator.
//!
//! For each window, one rank of a node sends for the node. The other ranks send it the strips that they have in the window; it merges them,
//! assigns each rank its part of the node's message buffer, and announces the merged strips to the aggregator. Inside the node this goes
//! through shared memory, between nodes by [`route`](aqueduct_comm::Comm::route), so that only ranks with data for each other take part.
//! After that, data is sent without any description.

use std::collections::BTreeMap;
use std::ops::Range;

use aqueduct_comm::Op;

use super::TwoPhaseAccess;
use super::inter_node_buffers::InterNodeBuffers;
use super::strip_codec::WindowStrips;
use super::two_phase_inter_node::InterNodeExchange;
use crate::error::{Kind, Result};
use crate::hints::TransferDirection;
use crate::layout::Strip;
use crate::plan::{
    ExchangeRound, IncomingMessage, LocalPart, NodeMessage, OutgoingMessage, RemotePart, aggregator_ranges,
    assign_steps, local_parts, node_sender,
};

/// A window of some round.
type WindowPlace = (u64, usize);

/// For each window the strips of some of the node's ranks.
type Strips = BTreeMap<WindowPlace, Vec<(usize, Vec<Strip>)>>;

/// The messages of a node to other nodes: those that this rank sends, and the step and position of all of them.
struct Outbox {
    messages: Vec<(WindowPlace, NodeMessage, Vec<usize>)>,
    rooms: BTreeMap<WindowPlace, (u64, Range<u64>)>,
}

impl InterNodeExchange<'_> {
    /// This rank's transfers in some rounds. Collective; fails on all ranks or on none, except for errors of communication.
    pub(super) fn set_up(&self, rounds: Range<u64>) -> Result<Vec<ExchangeRound>> {
        let mine = local_parts(self.access.domains, rounds.clone(), self.access.pattern, self.access.window);
        let received = self.send_strips(&rounds, &mine)?;
        let mut is_valid = received.is_some();
        let (local, remote): (Strips, Strips) =
            received.unwrap_or_default().into_iter().partition(|((_, window), _)| self.is_local(*window));
        let outbox = self.merge_messages(remote)?;
        let places = self.send_places(&outbox)?;
        let announced = self.announce(&rounds, &outbox)?;
        is_valid &= places.is_some() && announced.is_some();
        let steps = self.agree_steps(&rounds, &outbox, is_valid)?;
        let mut planned: Vec<ExchangeRound> =
            steps.iter().map(|steps| ExchangeRound { steps: *steps, ..ExchangeRound::default() }).collect();
        let at = |round: u64| (round - rounds.start) as usize;
        assign_parts(mine, &places.unwrap_or_default(), &outbox, at, &mut planned);
        for (place, message, _) in &outbox.messages {
            let (step, room) = outbox.rooms[place].clone();
            debug_assert_eq!(room.end - room.start, message.bytes());
            let peer = self.access.domains.aggregators()[place.1];
            planned[at(place.0)].outgoing.push(OutgoingMessage { peer, step, room });
        }
        for (peer, part) in announced.unwrap_or_default() {
            planned[at(part.round)].incoming.push(IncomingMessage {
                peer,
                step: part.step,
                strips: part.strips,
            });
        }
        for (number, round) in rounds.clone().zip(&mut planned) {
            round.ranges = self.own_ranges(number, &local, &round.incoming);
        }
        Ok(planned)
    }

    /// Sends this rank's strips to the sender of each window; the strips that this rank receives, unless they are malformed.
    fn send_strips(&self, rounds: &Range<u64>, mine: &[LocalPart]) -> Result<Option<Strips>> {
        let TwoPhaseAccess { pattern, dense, direction, .. } = *self.access;
        let mut messages = vec![Vec::new(); self.buffers.size()];
        for LocalPart { round, window, data } in mine {
            let strips: Vec<Strip> = match (self.is_local(*window), direction) {
                // The aggregator knows that everything is written, or needs only the span to read.
                (true, TransferDirection::Write) if dense => continue,
                (true, TransferDirection::Read) => {
                    let span = pattern.span(data.clone());
                    let len = (span.end - span.start) as u64;
                    vec![Strip { offset: span.start, len, stride: 0, count: 1 }]
                }
                _ => pattern.strips(data.clone()).collect(),
            };
            let to = self.sender(*round, *window);
            WindowStrips { round: *round, window: *window, step: 0, strips }.encode(&mut messages[to]);
        }
        let received = self.buffers.all_to_all(self.cx, &messages)?;
        let mut strips = Strips::new();
        for (rank, message) in received.iter().enumerate() {
            let bounds = |round, window| self.bounds(rounds, round, window);
            let Some(parts) = WindowStrips::decode(message, bounds) else { return Ok(None) };
            for part in parts {
                strips.entry((part.round, part.window)).or_default().push((rank, part.strips));
            }
        }
        Ok(Some(strips))
    }

    /// Merges the strips of each window for which this rank sends, and assigns all messages of the node a step and a position. Collective in the
    /// node.
    fn merge_messages(&self, remote: Strips) -> Result<Outbox> {
        let merge = |((round, window), parts): (WindowPlace, Vec<(usize, Vec<Strip>)>)| {
            let (ranks, strips): (Vec<usize>, Vec<Vec<Strip>>) = parts.into_iter().unzip();
            let range = self.access.domains.window(round, window).range;
            ((round, window), NodeMessage::of(&strips, &range), ranks)
        };
        let messages: Vec<_> = remote.into_iter().map(merge).collect();
        let size = |((round, window), message, _): &(WindowPlace, NodeMessage, Vec<usize>)| {
            [*round, *window as u64, message.bytes()]
        };
        let sizes: Vec<[u64; 3]> = messages.iter().map(size).collect();
        let all = self.buffers.gather(self.cx, sizes.as_flattened())?;
        let mut all: Vec<[u64; 3]> =
            all.iter().flat_map(|words| words.as_chunks::<3>().0.iter().copied()).collect();
        all.sort_unstable();
        let mut rooms = BTreeMap::new();
        for round in all.chunk_by(|a, b| a[0] == b[0]) {
            let places =
                assign_steps(round.iter().map(|[_, _, bytes]| *bytes), self.access.domains.message_buffer());
            for ([round, window, bytes], (step, at)) in round.iter().zip(places) {
                rooms.insert((*round, *window as usize), (step, at..at + bytes));
            }
        }
        Ok(Outbox { messages, rooms })
    }

    /// Sends each rank of the node the positions of its bytes in the messages; the positions that this rank receives, unless they are malformed.
    fn send_places(&self, outbox: &Outbox) -> Result<Option<BTreeMap<WindowPlace, Vec<Strip>>>> {
        let mut messages = vec![Vec::new(); self.buffers.size()];
        for ((round, window), message, ranks) in &outbox.messages {
            for (rank, strips) in ranks.iter().zip(&message.places) {
                let part = WindowStrips { round: *round, window: *window, step: 0, strips: strips.clone() };
                part.encode(&mut messages[*rank]);
            }
        }
        let received = self.buffers.all_to_all(self.cx, &messages)?;
        let bounds = |round, window| {
            let (_, room) = outbox.rooms.get(&(round, window))?;
            Some(0..room.end - room.start)
        };
        let parts = received.iter().map(|message| WindowStrips::decode(message, bounds));
        let places = |parts: Vec<Vec<WindowStrips>>| {
            parts.into_iter().flatten().map(|part| ((part.round, part.window), part.strips)).collect()
        };
        Ok(parts.collect::<Option<Vec<_>>>().map(places))
    }

    /// Announces the messages to their aggregators; the announcements that this rank receives, unless they are malformed. Collective.
    fn announce(&self, rounds: &Range<u64>, outbox: &Outbox) -> Result<Option<Vec<(usize, WindowStrips)>>> {
        let mut parts = Vec::with_capacity(outbox.messages.len());
        for ((round, window), message, _) in &outbox.messages {
            let step = outbox.rooms[&(*round, *window)].0;
            let part = WindowStrips { round: *round, window: *window, step, strips: message.strips.clone() };
            let mut words = Vec::new();
            part.encode(&mut words);
            let to = self.access.domains.aggregators()[*window];
            parts.push((to, bytemuck::cast_slice(&words).to_vec()));
        }
        let received = self.cx.comm_result(self.access.operation(), self.cx.comm.route(&parts))?;
        let mine = self.access.domains.aggregator_index(self.cx.comm.rank());
        let bounds = |round, window| {
            let own = mine == Some(window);
            self.bounds(rounds, round, window).filter(|_| own)
        };
        let mut announced = Vec::with_capacity(received.len());
        for (peer, bytes) in received {
            let whole = bytes.len().is_multiple_of(8);
            let words: Vec<u64> = if whole { bytemuck::pod_collect_to_vec(&bytes) } else { return Ok(None) };
            let Some(parts) = WindowStrips::decode(&words, bounds) else { return Ok(None) };
            announced.extend(parts.into_iter().map(|part| (peer, part)));
        }
        Ok(Some(announced))
    }

    /// The number of steps of each round on all ranks; an error on all of them if any has received a malformed message.
    fn agree_steps(&self, rounds: &Range<u64>, outbox: &Outbox, is_valid: bool) -> Result<Vec<u64>> {
        let mut steps = vec![1; (rounds.end - rounds.start) as usize + 1];
        steps[0] = u64::from(!is_valid);
        for ((round, _), (step, _)) in &outbox.rooms {
            let needed = &mut steps[(round - rounds.start) as usize + 1];
            *needed = (*needed).max(step + 1);
        }
        let operation = self.access.operation();
        let mut all = self.cx.comm_result(operation, self.cx.comm.allreduce(Op::Max, &steps))?;
        if all[0] != 0 {
            let detail = "a rank received a malformed plan; check that all ranks run the same program";
            return Err(self.cx.error(Kind::Communication, operation, detail));
        }
        all.remove(0);
        Ok(all)
    }

    /// The ranges of the file that this rank accesses in a round, as an aggregator.
    fn own_ranges(&self, number: u64, local: &Strips, incoming: &[IncomingMessage]) -> Vec<Range<u64>> {
        let Some(window) = self.access.domains.aggregator_index(self.cx.comm.rank()) else {
            return Vec::new();
        };
        let here = local.get(&(number, window)).into_iter().flatten().flat_map(|(_, strips)| strips);
        let there = incoming.iter().flat_map(|message| &message.strips);
        let strips: Vec<Strip> = here.chain(there).copied().collect();
        let whole = self.access.domains.touched(&self.access.domains.window(number, window).range);
        aggregator_ranges(self.access.direction, whole, self.access.dense, &strips)
    }

    /// The rank of the node that collects the strips of a window: its aggregator, or the rank that sends for the node.
    fn sender(&self, round: u64, window: usize) -> usize {
        let aggregator = self.access.domains.aggregators()[window];
        let local = self.is_local(window).then(|| InterNodeBuffers::place_in_node(self.cx, aggregator));
        local.flatten().unwrap_or_else(|| node_sender(self.buffers.size(), round, window))
    }

    /// The range of the file in which strips of a window may lie; none if there is no such window.
    fn bounds(&self, rounds: &Range<u64>, round: u64, window: usize) -> Option<Range<u64>> {
        let exists = rounds.contains(&round) && window < self.access.domains.aggregators().len();
        exists.then(|| self.access.domains.window(round, window).range)
    }
}

/// Assigns the parts of a rank to their rounds; those in windows of other nodes with their positions in the message buffer.
fn assign_parts(
    mine: Vec<LocalPart>,
    places: &BTreeMap<WindowPlace, Vec<Strip>>,
    outbox: &Outbox,
    at: impl Fn(u64) -> usize,
    planned: &mut [ExchangeRound],
) {
    for part in mine {
        let round = &mut planned[at(part.round)];
        let place = (part.round, part.window);
        match (places.get(&place), outbox.rooms.get(&place)) {
            (Some(strips), Some((step, room))) => {
                let inside = |strip: &Strip| Strip { offset: strip.offset + room.start as i64, ..*strip };
                let places = strips.iter().map(inside).collect();
                round.remote.push(RemotePart { step: *step, data: part.data, places });
            }
            _ => round.local.push(part),
        }
    }
}
