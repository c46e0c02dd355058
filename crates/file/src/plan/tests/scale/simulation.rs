//! What a collective write costs every rank, computed by the functions the engine plans with, without any rank.

use std::collections::BTreeMap;
use std::ops::Range;

use super::super::super::{
    AccessFacts, AccessSize, AccessSummary, Calibration, CostModel, ExchangePlan, ExchangeRound, FileDomains,
    IncomingMessage, LocalPart, NodeMessage, OutgoingMessage, PlanInput, RankTopology, RemotePart,
    aggregator_ranges, assign_steps, local_parts, make_plan, node_sender,
};
use crate::hints::{Hints, Toggle, TransferDirection};
use crate::layout::Strip;
use aqueduct_device::Capabilities;

use super::pattern::Kind;

/// What one rank pays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Messages to other nodes, and bytes in them: of this rank's data, and all others.
    pub(crate) data: [u64; 2],
    pub(crate) talk: [u64; 2],
    /// What it costs the first time only.
    pub(crate) planning: [u64; 2],
    /// Calls of the device.
    pub(crate) calls: u64,
    /// The most memory that its plan takes at once.
    pub(crate) memory: usize,
}

pub(crate) struct Machine {
    pub(crate) ranks: usize,
    pub(crate) per_node: usize,
    pub(crate) hints: Hints,
}

pub(crate) struct Outcome {
    pub(crate) costs: Vec<Cost>,
    pub(crate) rounds: u64,
    pub(crate) steps: u64,
    /// The shared buffers of a node.
    pub(crate) buffers: u64,
    /// Bytes that come to be announced per window and node, at most.
    pub(crate) longest: u64,
}

type Place = (u64, usize);

/// The data of a node's ranks in a window of another node: the ranks, their parts, and the strips.
type Parts = (Vec<usize>, Vec<LocalPart>, Vec<Vec<Strip>>);

/// What comes to an aggregator for a window.
#[derive(Default)]
struct Inbox {
    strips: Vec<Strip>,
    incoming: usize,
}

impl RankTopology for Machine {
    fn ranks(&self) -> usize {
        self.ranks
    }

    fn nodes(&self) -> usize {
        self.ranks.div_ceil(self.per_node)
    }

    fn rank_at(&self, node: usize, place: usize) -> Option<usize> {
        self.ranks_of(node).nth(place)
    }
}

impl Machine {
    fn ranks_of(&self, node: usize) -> Range<usize> {
        node * self.per_node..((node + 1) * self.per_node).min(self.ranks)
    }

    fn summary(&self, kind: Kind) -> AccessSummary {
        let mut all = AccessSummary::NOTHING;
        for rank in 0..self.ranks {
            let (pattern, window) = kind.pattern(rank, self.ranks);
            all.merge(&AccessSummary::of(&pattern, window));
        }
        all
    }

    /// A write of all ranks.
    pub(crate) fn write(&self, kind: Kind) -> Outcome {
        let all = self.summary(kind);
        let capabilities = Capabilities { block: 4096, ..Capabilities::default() };
        let calibration = Calibration::default();
        let model = CostModel::new(&self.hints, &capabilities, &calibration);
        let size = AccessSize { span: 1, bytes: 1, runs: 1, new_pages: false };
        let access = AccessFacts::AllRanks { size, summary: &all, topology: self, cached: None };
        let plan = make_plan(PlanInput { direction: TransferDirection::Write, model, access });
        let Some(ExchangePlan { domains, dense }) = plan.exchange else {
            panic!("{} is written in two phases", kind.name());
        };
        let seats = 2.min(self.per_node) as u64;
        let buffers = domains.buffer() * seats * if self.nodes() > 1 { 3 } else { 2 };
        let parcels = if self.nodes() > 1 { 2 * domains.message_buffer() } else { 0 };
        let costs = vec![Cost::default(); self.ranks];
        let outcome =
            Outcome { costs, rounds: domains.rounds(), steps: 0, buffers: buffers + parcels, longest: 0 };
        let mut sum =
            Sum { machine: self, kind, domains, outcome, inboxes: BTreeMap::new(), steps: BTreeMap::new() };
        (0..self.nodes()).for_each(|node| sum.add_node(node));
        sum.add_aggregators(dense);
        sum.add_talk();
        sum.outcome
    }
}

struct Sum<'a> {
    machine: &'a Machine,
    kind: Kind,
    domains: FileDomains,
    outcome: Outcome,
    inboxes: BTreeMap<Place, Inbox>,
    /// Steps of each round.
    steps: BTreeMap<u64, u64>,
}

impl Sum<'_> {
    fn node_of(&self, window: usize) -> usize {
        self.domains.aggregators()[window] / self.machine.per_node
    }

    /// What the ranks of a node do, in all rounds.
    fn add_node(&mut self, node: usize) {
        let mut far: BTreeMap<Place, Parts> = BTreeMap::new();
        let ranks = self.machine.ranks_of(node);
        let mut plans: Vec<BTreeMap<u64, ExchangeRound>> = vec![BTreeMap::new(); ranks.len()];
        for (at, rank) in ranks.clone().enumerate() {
            let (pattern, window) = self.kind.pattern(rank, self.machine.ranks);
            for share in local_parts(&self.domains, 0..self.domains.rounds(), &pattern, &window) {
                let strips = pattern.strips(share.data.clone()).collect();
                let place = (share.round, share.window);
                if self.node_of(share.window) == node {
                    self.inboxes.entry(place).or_default().strips.extend(&strips);
                    plans[at].entry(share.round).or_default().local.push(share);
                } else {
                    let entry = far.entry(place).or_default();
                    entry.0.push(at);
                    entry.1.push(share);
                    entry.2.push(strips);
                }
            }
        }
        let mut bundles: BTreeMap<u64, Vec<(usize, Vec<Strip>)>> = BTreeMap::new();
        for ((round, window), (members, parts, strips)) in far {
            let bundle = NodeMessage::of(&strips, &self.domains.window(round, window).range);
            let NodeMessage { strips, places } = bundle;
            for ((at, share), places) in members.into_iter().zip(parts).zip(places) {
                let far = RemotePart { step: 0, data: share.data, places };
                plans[at].entry(round).or_default().remote.push(far);
            }
            bundles.entry(round).or_default().push((window, strips));
        }
        for (round, bundles) in bundles {
            self.add_messages(node, round, bundles, &mut plans);
        }
        for (rank, plans) in ranks.zip(plans) {
            self.add_memory(
                rank,
                &plans.into_iter().map(|(round, plan)| (round, plan.memory_size())).collect::<Vec<_>>(),
            );
        }
    }

    /// The messages of a node in a round, and how they are announced.
    fn add_messages(
        &mut self,
        node: usize,
        round: u64,
        bundles: Vec<(usize, Vec<Strip>)>,
        plans: &mut [BTreeMap<u64, ExchangeRound>],
    ) {
        let rooms =
            assign_steps(bundles.iter().map(|(_, strips)| bytes_of(strips)), self.domains.message_buffer());
        let steps = rooms.iter().map(|(step, _)| step + 1).max().unwrap_or(1);
        let known = self.steps.entry(round).or_insert(1);
        *known = steps.max(*known);
        let (first, nodes) = (self.machine.ranks_of(node).start, self.machine.nodes());
        for ((window, strips), (step, at)) in bundles.into_iter().zip(rooms) {
            let place = node_sender(plans.len(), round, window);
            let peer = self.domains.aggregators()[window];
            let parcel = OutgoingMessage { peer, step, room: at..at + bytes_of(&strips) };
            plans[place].entry(round).or_default().outgoing.push(parcel);
            add(&mut self.outcome.costs[first + place].data, 1, bytes_of(&strips));
            // A head of four words, four for each strip; a header of 16 bytes on each part of the way.
            let announced = 8 * (4 + 4 * strips.len() as u64);
            self.outcome.longest = self.outcome.longest.max(announced);
            let mut at = node;
            let way = (self.node_of(window) + nodes - node) % nodes;
            for hop in (0..usize::BITS).map(|bit| 1 << bit).filter(|hop| way & hop != 0) {
                self.outcome.costs[self.machine.ranks_of(at).start].planning[1] += announced + 16;
                at = (at + hop) % nodes;
            }
            let inbox = self.inboxes.entry((round, window)).or_default();
            inbox.incoming += 1;
            inbox.strips.extend(strips);
        }
    }

    /// What the aggregators do.
    fn add_aggregators(&mut self, dense: bool) {
        let mut weights: BTreeMap<usize, Vec<(u64, usize)>> = BTreeMap::new();
        for ((round, window), inbox) in &self.inboxes {
            let range = self.domains.window(*round, *window).range;
            let ranges = aggregator_ranges(
                TransferDirection::Write,
                self.domains.touched(&range),
                dense,
                &inbox.strips,
            );
            let rank = self.domains.aggregators()[*window];
            self.outcome.costs[rank].calls += ranges.len() as u64;
            let weight = inbox.incoming * size_of::<IncomingMessage>()
                + if inbox.incoming > 0 { size_of_val(&inbox.strips[..]) } else { 0 }
                + size_of_val(&ranges[..]);
            weights.entry(rank).or_default().push((*round, weight));
        }
        weights.iter().for_each(|(rank, weights)| self.add_memory(*rank, weights));
    }

    /// The most that a rank's rounds take at once: those that are arranged together.
    fn add_memory(&mut self, rank: usize, weights: &[(u64, usize)]) {
        let ahead = self.domains.rounds_per_setup();
        let mut sums: BTreeMap<u64, usize> = BTreeMap::new();
        weights.iter().for_each(|(round, weight)| *sums.entry(round / ahead).or_default() += weight);
        self.outcome.costs[rank].memory += sums.into_values().max().unwrap_or(0);
    }

    /// What the collective calls of a write send, between the leaders of nodes.
    fn add_talk(&mut self) {
        let rounds = self.domains.rounds();
        let steps: u64 = (0..rounds).map(|round| self.steps.get(&round).copied().unwrap_or(1)).sum();
        self.outcome.steps = steps;
        // The summary, a barrier in each step, and the outcome.
        self.reduce(8 * AccessSummary::WORDS as u64, false);
        (0..steps).for_each(|_| self.reduce(16, false));
        self.reduce(8, false);
        // The first time: for some rounds at once, announcements and the number of steps.
        let nodes = self.machine.nodes();
        let ahead = self.domains.rounds_per_setup();
        for start in (0..rounds).step_by(ahead as usize).take(if nodes > 1 { usize::MAX } else { 0 }) {
            self.reduce(8 * (1 + ahead.min(rounds - start)), true);
            for node in 0..nodes {
                let leader = self.machine.ranks_of(node).start;
                self.outcome.costs[leader].planning[0] +=
                    u64::from(nodes.next_power_of_two().trailing_zeros());
            }
        }
    }

    /// A reduction: up a binomial tree of the leaders and down again.
    fn reduce(&mut self, bytes: u64, planning: bool) {
        let nodes = self.machine.nodes();
        for node in 0..nodes {
            let powers = (0..usize::BITS).map(|bit| 1usize << bit).take_while(|power| *power < nodes);
            let down = powers.filter(|power| node < *power && node + power < nodes).count() as u64;
            let messages = down + u64::from(node > 0);
            let cost = &mut self.outcome.costs[self.machine.ranks_of(node).start];
            add(if planning { &mut cost.planning } else { &mut cost.talk }, messages, messages * bytes);
        }
    }
}

fn bytes_of(strips: &[Strip]) -> u64 {
    strips.iter().map(Strip::size).sum()
}

fn add(into: &mut [u64; 2], messages: u64, bytes: u64) {
    into[0] += messages;
    into[1] += bytes;
}

/// Hints that make ranks work together whatever it is worth.
pub(crate) fn together() -> Hints {
    Hints { collective_write: Toggle::Enable, ..Hints::default() }
}
