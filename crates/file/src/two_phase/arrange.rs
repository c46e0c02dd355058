//! Arranging rounds between nodes: who has what for whom.
//!
//! The ranks of a node tell the one that speaks for their node about a window which strips they have there; it merges them, says where in the
//! node's message buffer each rank's bytes go, and announces the merged strips to the aggregator. Inside the node this goes through shared
//! memory, between nodes by [`route`](aqueduct_comm::Comm::route), so that only those who have something for each other are mentioned
//! anywhere. After that, data travels without any description.

use std::collections::BTreeMap;
use std::ops::Range;

use aqueduct_comm::Op;

use super::between::Between;
use super::message::Note;
use super::{Exchange, Job};
use crate::error::Result;
use crate::layout::Strip;
use crate::plan::{Bundle, Delivery, Direction, Far, Parcel, Round, Share, allot, duty, shares, speaker};

/// A window of some round.
type Place = (u64, usize);

/// For each window the strips of some of the node's ranks.
type Strips = BTreeMap<Place, Vec<(usize, Vec<Strip>)>>;

/// What a node sends to other nodes: the bundles this rank speaks for, and the room of all of them.
struct Outbox {
    bundles: Vec<(Place, Bundle, Vec<usize>)>,
    rooms: BTreeMap<Place, (u64, Range<u64>)>,
}

impl Exchange<'_> {
    /// What this rank does in some rounds. Collective; fails on all ranks or on none, except where ranks cannot talk.
    pub(super) fn arrange(&self, rounds: Range<u64>) -> Result<Vec<Round>> {
        let mine = shares(self.job.domains, rounds.clone(), self.job.pattern, self.job.window);
        let told = self.tell_speakers(&rounds, &mine)?;
        let mut sound = told.is_some();
        let (near, far): (Strips, Strips) =
            told.unwrap_or_default().into_iter().partition(|((_, window), _)| self.is_near(*window));
        let outbox = self.pack(far)?;
        let places = self.tell_places(&outbox)?;
        let came = self.announce(&rounds, &outbox)?;
        sound &= places.is_some() && came.is_some();
        let steps = self.agree_steps(&rounds, &outbox, sound)?;
        let mut arranged: Vec<Round> =
            steps.iter().map(|steps| Round { steps: *steps, ..Round::default() }).collect();
        let at = |round: u64| (round - rounds.start) as usize;
        put_shares(mine, &places.unwrap_or_default(), &outbox, at, &mut arranged);
        for (place, bundle, _) in &outbox.bundles {
            let (step, room) = outbox.rooms[place].clone();
            debug_assert_eq!(room.end - room.start, bundle.bytes());
            let peer = self.job.domains.aggregators()[place.1];
            arranged[at(place.0)].parcels.push(Parcel { peer, step, room });
        }
        for (peer, note) in came.unwrap_or_default() {
            arranged[at(note.round)].deliveries.push(Delivery { peer, step: note.step, strips: note.strips });
        }
        for (number, round) in rounds.clone().zip(&mut arranged) {
            round.ranges = self.duty(number, &near, &round.deliveries);
        }
        Ok(arranged)
    }

    /// Tells each speaker of the node this rank's strips; what this rank is told, if it makes sense.
    fn tell_speakers(&self, rounds: &Range<u64>, mine: &[Share]) -> Result<Option<Strips>> {
        let Job { pattern, dense, direction, .. } = *self.job;
        let mut messages = vec![Vec::new(); self.between.size()];
        for Share { round, window, data } in mine {
            let strips: Vec<Strip> = match (self.is_near(*window), direction) {
                // Nobody needs to know more than that everything is written, or from where to where to read.
                (true, Direction::Write) if dense => continue,
                (true, Direction::Read) => {
                    let span = pattern.span(data.clone());
                    let len = (span.end - span.start) as u64;
                    vec![Strip { offset: span.start, len, stride: 0, count: 1 }]
                }
                _ => pattern.strips(data.clone()).collect(),
            };
            let to = self.speaker(*round, *window);
            Note { round: *round, window: *window, step: 0, strips }.encode(&mut messages[to]);
        }
        let told = self.between.trade(self.core, &messages)?;
        let mut strips = Strips::new();
        for (rank, message) in told.iter().enumerate() {
            let field = |round, window| self.field(rounds, round, window);
            let Some(notes) = Note::decode(message, field) else { return Ok(None) };
            for note in notes {
                strips.entry((note.round, note.window)).or_default().push((rank, note.strips));
            }
        }
        Ok(Some(strips))
    }

    /// Merges what this rank speaks for, and finds room for what all speakers of the node have. Collective in the node.
    fn pack(&self, far: Strips) -> Result<Outbox> {
        let bundle = |((round, window), parts): (Place, Vec<(usize, Vec<Strip>)>)| {
            let (ranks, strips): (Vec<usize>, Vec<Vec<Strip>>) = parts.into_iter().unzip();
            let range = self.job.domains.window(round, window).range;
            ((round, window), Bundle::of(&strips, &range), ranks)
        };
        let bundles: Vec<_> = far.into_iter().map(bundle).collect();
        let size = |((round, window), bundle, _): &(Place, Bundle, Vec<usize>)| {
            [*round, *window as u64, bundle.bytes()]
        };
        let sizes: Vec<[u64; 3]> = bundles.iter().map(size).collect();
        let all = self.between.gather(self.core, sizes.as_flattened())?;
        let mut all: Vec<[u64; 3]> =
            all.iter().flat_map(|words| words.as_chunks::<3>().0.iter().copied()).collect();
        all.sort_unstable();
        let mut rooms = BTreeMap::new();
        for round in all.chunk_by(|a, b| a[0] == b[0]) {
            let places = allot(round.iter().map(|[_, _, bytes]| *bytes), self.job.domains.room());
            for ([round, window, bytes], (step, at)) in round.iter().zip(places) {
                rooms.insert((*round, *window as usize), (step, at..at + bytes));
            }
        }
        Ok(Outbox { bundles, rooms })
    }

    /// Tells each rank of the node where its bytes go in the messages; what this rank is told, if it makes sense.
    fn tell_places(&self, outbox: &Outbox) -> Result<Option<BTreeMap<Place, Vec<Strip>>>> {
        let mut messages = vec![Vec::new(); self.between.size()];
        for ((round, window), bundle, ranks) in &outbox.bundles {
            for (rank, strips) in ranks.iter().zip(&bundle.places) {
                let note = Note { round: *round, window: *window, step: 0, strips: strips.clone() };
                note.encode(&mut messages[*rank]);
            }
        }
        let told = self.between.trade(self.core, &messages)?;
        let field = |round, window| {
            let (_, room) = outbox.rooms.get(&(round, window))?;
            Some(0..room.end - room.start)
        };
        let notes = told.iter().map(|message| Note::decode(message, field)).collect::<Option<Vec<_>>>();
        let places = |notes: Vec<Vec<Note>>| {
            notes.into_iter().flatten().map(|note| ((note.round, note.window), note.strips)).collect()
        };
        Ok(notes.map(places))
    }

    /// Announces the bundles to their aggregators; what is announced to this one, if it makes sense. Collective.
    fn announce(&self, rounds: &Range<u64>, outbox: &Outbox) -> Result<Option<Vec<(usize, Note)>>> {
        let mut parts = Vec::with_capacity(outbox.bundles.len());
        for ((round, window), bundle, _) in &outbox.bundles {
            let step = outbox.rooms[&(*round, *window)].0;
            let note = Note { round: *round, window: *window, step, strips: bundle.strips.clone() };
            let mut words = Vec::new();
            note.encode(&mut words);
            let to = self.job.domains.aggregators()[*window];
            parts.push((to, bytemuck::cast_slice(&words).to_vec()));
        }
        let came = self.core.talk(self.job.operation(), self.core.comm.route(&parts))?;
        let mine = self.job.domains.place_of(self.core.comm.rank());
        let field = |round, window| {
            let own = mine == Some(window);
            self.field(rounds, round, window).filter(|_| own)
        };
        let mut notes = Vec::with_capacity(came.len());
        for (peer, bytes) in came {
            let whole = bytes.len().is_multiple_of(8);
            let words: Vec<u64> = if whole { bytemuck::pod_collect_to_vec(&bytes) } else { return Ok(None) };
            let Some(told) = Note::decode(&words, field) else { return Ok(None) };
            notes.extend(told.into_iter().map(|note| (peer, note)));
        }
        Ok(Some(notes))
    }

    /// How many steps each round takes on all ranks; an error on all of them if something did not make sense on any.
    fn agree_steps(&self, rounds: &Range<u64>, outbox: &Outbox, sound: bool) -> Result<Vec<u64>> {
        let mut steps = vec![1; (rounds.end - rounds.start) as usize + 1];
        steps[0] = u64::from(!sound);
        for ((round, _), (step, _)) in &outbox.rooms {
            let needed = &mut steps[(round - rounds.start) as usize + 1];
            *needed = (*needed).max(step + 1);
        }
        let operation = self.job.operation();
        let mut all = self.core.talk(operation, self.core.comm.allreduce(Op::Max, &steps))?;
        if all[0] != 0 {
            let detail = "ranks told each other something else than a plan; do all run the same program?";
            return Err(self.core.error(crate::Kind::Communication, operation, detail));
        }
        all.remove(0);
        Ok(all)
    }

    /// What this rank accesses of the file in a round, as an aggregator.
    fn duty(&self, number: u64, near: &Strips, deliveries: &[Delivery]) -> Vec<Range<u64>> {
        let Some(window) = self.job.domains.place_of(self.core.comm.rank()) else { return Vec::new() };
        let here = near.get(&(number, window)).into_iter().flatten().flat_map(|(_, strips)| strips);
        let there = deliveries.iter().flat_map(|delivery| &delivery.strips);
        let strips: Vec<Strip> = here.chain(there).copied().collect();
        let whole = self.job.domains.touched(&self.job.domains.window(number, window).range);
        duty(self.job.direction, whole, self.job.dense, &strips)
    }

    /// The rank of the node that is told about a window: its aggregator, or who speaks for the node.
    fn speaker(&self, round: u64, window: usize) -> usize {
        let aggregator = self.job.domains.aggregators()[window];
        let near = self.is_near(window).then(|| Between::place_of(self.core, aggregator));
        near.flatten().unwrap_or_else(|| speaker(self.between.size(), round, window))
    }

    /// The bytes of the file that strips of a window may lie in; none if there is no such window.
    fn field(&self, rounds: &Range<u64>, round: u64, window: usize) -> Option<Range<u64>> {
        let exists = rounds.contains(&round) && window < self.job.domains.aggregators().len();
        exists.then(|| self.job.domains.window(round, window).range)
    }
}

/// Gives the shares of a rank their rounds: those that go through the message buffer with their places there.
fn put_shares(
    mine: Vec<Share>,
    places: &BTreeMap<Place, Vec<Strip>>,
    outbox: &Outbox,
    at: impl Fn(u64) -> usize,
    arranged: &mut [Round],
) {
    for share in mine {
        let round = &mut arranged[at(share.round)];
        let place = (share.round, share.window);
        match (places.get(&place), outbox.rooms.get(&place)) {
            (Some(strips), Some((step, room))) => {
                let inside = |strip: &Strip| Strip { offset: strip.offset + room.start as i64, ..*strip };
                let places = strips.iter().map(inside).collect();
                round.far.push(Far { step: *step, data: share.data, places });
            }
            _ => round.near.push(share),
        }
    }
}
