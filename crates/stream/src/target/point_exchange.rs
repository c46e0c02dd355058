//! Points whose order in the list has nothing to do with the ranks that hold them: their values are exchanged before they are written, so that each
//! rank writes one piece of the list instead of many small ones.

use std::ops::Range;

use aqueduct_comm::{Comm, Op};

use crate::declare::declaration::Declaration;
use crate::declare::stream_info::StreamRegion;

/// Points of all ranks are scattered if they are more than this number of runs per rank.
const RUNS_PER_RANK: u64 = 2;

/// The exchange of a scattered list of points.
#[derive(Debug)]
struct PointPlan {
    /// The piece of the list that this rank writes.
    share: Range<u64>,
    /// Where the points of this rank end that go to each rank. They are ascending.
    ends: Vec<usize>,
    /// The places in the piece of the points that each rank sends.
    places: Vec<Vec<u64>>,
}

/// The exchanges of the streams of an output.
#[derive(Debug)]
pub(super) struct PointExchange {
    /// None for streams whose points are not scattered.
    plans: Vec<Option<PointPlan>>,
}

/// A piece of a list, and its values.
pub(super) struct ListPiece {
    pub(super) stream: usize,
    pub(super) start: u64,
    pub(super) count: u64,
    pub(super) bytes: Vec<u8>,
}

impl PointExchange {
    /// Plans the exchanges of all streams. Collective.
    pub(super) fn new(comm: &Comm, declared: &Declaration) -> aqueduct_comm::Result<Self> {
        let streams = declared.streams();
        let lists = streams.iter().map(|about| matches!(about.region, StreamRegion::Points(1..)));
        let lists: Vec<bool> = lists.collect();
        if comm.size() == 1 || !lists.contains(&true) {
            return Ok(Self { plans: streams.iter().map(|_| None).collect() });
        }
        let runs: Vec<u64> = (0..streams.len())
            .map(|stream| if lists[stream] { declared.point_runs(stream).len() as u64 } else { 0 })
            .collect();
        let all = comm.allreduce(Op::Sum, &runs)?;
        let mut plans = Vec::new();
        for (stream, (about, runs)) in streams.iter().zip(all).enumerate() {
            let StreamRegion::Points(count) = about.region else {
                plans.push(None);
                continue;
            };
            let scattered = runs > RUNS_PER_RANK * comm.size() as u64;
            plans.push(scattered.then(|| PointPlan::new(comm, declared, stream, count)).transpose()?);
        }
        Ok(Self { plans })
    }

    /// Whether the points of a stream are exchanged.
    pub(super) fn includes(&self, stream: usize) -> bool {
        self.plans[stream].is_some()
    }

    /// Exchanges the values of streams: number, bytes of a value, values of this rank in their order. Collective.
    pub(super) fn exchange(
        &self,
        comm: &Comm,
        values: &[(usize, u64, &[u8])],
    ) -> aqueduct_comm::Result<Vec<ListPiece>> {
        let plans = || values.iter().filter_map(|value| Some((value, self.plans[value.0].as_ref()?)));
        let mut parts: Vec<Vec<u8>> = vec![Vec::new(); comm.size()];
        for ((_, width, bytes), plan) in plans() {
            let mut start = 0;
            for (part, end) in parts.iter_mut().zip(&plan.ends) {
                let end = *end * *width as usize;
                part.extend_from_slice(bytes.get(start..end).unwrap_or_default());
                start = end;
            }
        }
        let received = comm.all_to_all_varied(&parts)?;
        let mut rests: Vec<&[u8]> = received.iter().map(Vec::as_slice).collect();
        let mut pieces = Vec::new();
        for ((stream, width, _), plan) in plans() {
            let width = *width as usize;
            let count = plan.share.end - plan.share.start;
            let mut bytes = vec![0; count as usize * width];
            for (rest, places) in rests.iter_mut().zip(&plan.places) {
                let (mine, later) = rest.split_at((places.len() * width).min(rest.len()));
                *rest = later;
                for (place, value) in places.iter().zip(mine.chunks_exact(width)) {
                    bytes[*place as usize * width..][..width].copy_from_slice(value);
                }
            }
            pieces.push(ListPiece { stream: *stream, start: plan.share.start, count, bytes });
        }
        Ok(pieces)
    }
}

impl PointPlan {
    fn new(comm: &Comm, declared: &Declaration, stream: usize, count: u64) -> aqueduct_comm::Result<Self> {
        let ranks = comm.size() as u64;
        let border = |rank: u64| (u128::from(count) * u128::from(rank) / u128::from(ranks)) as u64;
        let runs = declared.point_runs(stream);
        let numbers: Vec<u64> = runs.iter().flat_map(|run| run.start..run.start + run.count as u64).collect();
        let ends: Vec<usize> =
            (1..=ranks).map(|rank| numbers.partition_point(|number| *number < border(rank))).collect();
        let mut start = 0;
        let parts: Vec<Vec<u64>> = (0..ranks)
            .zip(&ends)
            .map(|(rank, end)| {
                let part = numbers[start..*end].iter().map(|number| number - border(rank)).collect();
                start = *end;
                part
            })
            .collect();
        let places = comm.all_to_all_varied(&parts)?;
        let rank = comm.rank() as u64;
        Ok(Self { share: border(rank)..border(rank + 1), ends, places })
    }
}

#[cfg(test)]
mod tests {
    use aqueduct_comm::Launch;

    use super::*;
    use crate::declare::stream::{Stream, Streams};

    /// The points of an array of 40 values, every seventh in turn, on ranks that hold ten each.
    #[test]
    fn each_rank_gets_its_piece_of_the_list() {
        let list: Vec<u64> = (0..40).map(|number| number * 7 % 40).collect();
        let run = |world: &Comm| {
            let first = 10 * world.rank() as u64;
            let mine: Vec<(u64, u64)> = (0..)
                .zip(list.iter().copied())
                .filter(|(_, point)| (first..first + 10).contains(point))
                .collect();
            let mut streams = Streams::new();
            let array = |name| Stream::array(name, [40]).block([first], [10]);
            streams.add::<u16>(array("scattered").listed_points(mine.clone()));
            streams.add::<u16>(array("in order").points(first..first + 10));
            let declared = Declaration::new(world, "memfs:none", &streams).unwrap();
            let exchange = PointExchange::new(world, &declared)?;
            assert_eq!([0, 1].map(|stream| exchange.includes(stream)), [true, false]);
            let values: Vec<u8> = mine.iter().flat_map(|(_, point)| (*point as u16).to_le_bytes()).collect();
            let pieces = exchange.exchange(world, &[(0, 2, &values), (1, 2, &[])])?;
            assert_eq!(pieces.len(), 1);
            let piece = &pieces[0];
            assert_eq!((piece.stream, piece.start, piece.count), (0, first, 10));
            let found: Vec<u64> = piece
                .bytes
                .chunks_exact(2)
                .map(|pair| u16::from_le_bytes([pair[0], pair[1]]).into())
                .collect();
            assert_eq!(found, list[first as usize..first as usize + 10]);
            Ok::<_, aqueduct_comm::Error>(())
        };
        Launch::threads(4).run(run).unwrap();
    }
}
