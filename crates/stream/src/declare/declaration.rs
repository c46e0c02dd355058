//! The streams on which all ranks have agreed, and this rank's part of each.

use std::collections::HashSet;

use aqueduct_comm::agreement::{agree_same, hash_of};
use aqueduct_comm::{Comm, Op};

use crate::declare::output_plan::OutputPlan;
use crate::declare::rank_points::{PointRun, RankPoints, check_numbers};
use crate::declare::rank_share::RankShare;
use crate::declare::stream::{Reduction, SampledRegion, Stream, Streams};
use crate::declare::stream_info::{StreamFileMetadata, StreamInfo, StreamRegion};
use crate::error::{Error, Kind, Result, agree};
use aqueduct_file::hyperslab::Hyperslab;

/// The streams of an output.
#[derive(Clone, Debug)]
pub struct Declaration {
    pub(crate) streams: Vec<StreamInfo>,
    pub(crate) shares: Vec<RankShare>,
    /// This rank's points of each stream.
    pub(crate) points: Vec<RankPoints>,
    pub(crate) plan: OutputPlan,
}

impl Declaration {
    /// Checks the declaration of each rank, and those of all ranks together. Collective.
    pub(crate) fn new(comm: &Comm, file: &str, streams: &Streams) -> Result<Self> {
        let mut abouts: Vec<StreamInfo> =
            streams.streams.iter().map(|(stream, kind)| StreamInfo::new(stream, *kind)).collect();
        let mine = check_alone(file, streams, &abouts).and_then(|()| check_host_byte_order(file));
        let what = "declaration of the streams (apart from blocks and points)";
        let listed = |(stream, _): &(Stream, _)| matches!(stream.sampled, SampledRegion::ListedPoints(_));
        let listed: Vec<bool> = streams.streams.iter().map(listed).collect();
        let hash = mine.is_ok().then(|| hash_of(&(StreamFileMetadata::encode(&abouts, None), &listed)));
        agree_same(comm, "create", file, mine, what, hash, [])?;
        let firsts = count_points(comm, file, streams, &mut abouts)?;
        let points: Vec<RankPoints> = streams
            .streams
            .iter()
            .zip(firsts)
            .map(|((stream, _), before)| own_points(stream, before))
            .collect();
        for ((about, points), _) in abouts.iter().zip(&points).zip(listed).filter(|(_, listed)| *listed) {
            check_numbers(comm, file, &about.name, &points.numbers, about.items().unwrap_or(0))?;
        }
        check_blocks(comm, file, streams)?;
        let pieces = make_shares(file, streams, &abouts, &points);
        let pieces = agree(comm, "create", file, pieces)?;
        check_covered(comm, file, &abouts, &pieces)?;
        Ok(Self { streams: abouts, shares: pieces, points, plan: OutputPlan::default() })
    }

    /// True if the output replaces a file that exists: [`Options::replace`](crate::Options::replace). Otherwise
    /// targets refuse existing files.
    pub fn replaces(&self) -> bool {
        self.plan.replace
    }

    /// The number of steps that the program will commit, if it is known: [`Options::steps`](crate::Options::steps).
    pub fn steps(&self) -> Option<u64> {
        self.plan.steps
    }

    /// The step with which a file that exists is continued: [`Options::resume`](crate::Options::resume). A target takes
    /// the steps from this one on back. None if the file is created.
    pub fn resumes_at(&self) -> Option<u64> {
        self.plan.resume_at
    }

    /// The streams, in order.
    pub fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    /// Bytes that this rank stores in a step at most, without lists and reductions that are stored at the end.
    pub(crate) fn bytes_of_a_step(&self) -> u64 {
        let during = |about: &StreamInfo| about.reduction == Reduction::None || about.every.is_some();
        let streams = self.streams.iter().zip(&self.shares).filter(|(about, _)| during(about));
        streams.map(|(about, piece)| piece.items * about.stored().width()).sum()
    }

    /// The parts of a stream's [boxes](StreamInfo::boxes) that this rank stores, in the order of its values: the
    /// number of the box, and the part, counted from the start of the global array. Empty for points and lists.
    pub fn parts(&self, stream: usize) -> &[(usize, Hyperslab)] {
        &self.shares[stream].parts
    }

    /// The points of a stream that this rank stores, in the order of its values.
    pub fn points(&self, stream: usize) -> &[u64] {
        &self.points[stream].points
    }

    /// The places of these points in the list of all points.
    pub fn point_runs(&self, stream: usize) -> Vec<PointRun> {
        self.points[stream].runs()
    }

    /// The layout of this rank's values in the stream's part of a batch; for a list, of one item.
    pub fn place(&self, stream: usize) -> &aqueduct_file::layout::Layout {
        &self.shares[stream].place
    }
}

/// The points of this rank; the ranks before it have `before` points.
fn own_points(stream: &Stream, before: u64) -> RankPoints {
    match &stream.sampled {
        SampledRegion::Points(points) => RankPoints { points: points.clone(), before, numbers: Vec::new() },
        SampledRegion::ListedPoints(points) => {
            let (numbers, points) = points.iter().copied().unzip();
            RankPoints { points, before, numbers }
        }
        _ => RankPoints { before, ..RankPoints::default() },
    }
}

fn refuse(file: &str, kind: Kind, detail: String) -> Error {
    Error::new(kind, "create", file, detail)
}

/// Values are stored as they are in memory, and the format is little-endian.
fn check_host_byte_order(file: &str) -> Result<()> {
    if cfg!(target_endian = "little") {
        return Ok(());
    }
    Err(refuse(file, Kind::Unsupported, "stream files are written on little-endian machines only".to_owned()))
}

fn check_alone(file: &str, streams: &Streams, abouts: &[StreamInfo]) -> Result<()> {
    let mut names = HashSet::new();
    for ((stream, _), about) in streams.streams.iter().zip(abouts) {
        let twice = (!names.insert(&stream.name)).then(|| "there is another one of this name".to_owned());
        if let Some(objection) = RankShare::objection(stream, about).or(twice) {
            return Err(refuse(file, Kind::BadArgument, format!("stream {:?}: {objection}", stream.name)));
        }
    }
    Ok(())
}

/// The number of points of each stream on the ranks before this one; the totals are stored in the declaration.
fn count_points(comm: &Comm, file: &str, streams: &Streams, abouts: &mut [StreamInfo]) -> Result<Vec<u64>> {
    let lost = |error: aqueduct_comm::Error| Error::from_comm("create", file, &error);
    let count = |(stream, _): &(Stream, _)| match &stream.sampled {
        SampledRegion::Points(points) => points.len() as u64,
        SampledRegion::ListedPoints(points) => points.len() as u64,
        _ => 0,
    };
    let counts: Vec<u64> = streams.streams.iter().map(count).collect();
    let before = comm.exclusive_scan(Op::Sum, &counts).map_err(lost)?;
    let totals = comm.allreduce(Op::Sum, &counts).map_err(lost)?;
    for (about, total) in abouts.iter_mut().zip(totals) {
        if let StreamRegion::Points(points) = &mut about.region {
            *points = total;
        }
    }
    Ok(before.unwrap_or_else(|| vec![0; counts.len()]))
}

/// Fails if two ranks hold the same element.
fn check_blocks(comm: &Comm, file: &str, streams: &Streams) -> Result<()> {
    let blocks = streams.streams.iter().map(|(stream, _)| &stream.block);
    let mine: Vec<u64> =
        blocks.flat_map(|block| [block.start.clone(), block.count.clone()].concat()).collect();
    // All ranks have declared arrays of the same dimensions, so that all pass the same number of values.
    let all = comm.allgather(&mine).map_err(|error| Error::from_comm("create", file, &error))?;
    let overlap = || {
        for (rank, blocks) in all.chunks(mine.len().max(1)).enumerate().skip(comm.rank() + 1) {
            let mut rest = blocks;
            for (stream, _) in &streams.streams {
                let (block, later) = rest.split_at(2 * stream.shape.len());
                rest = later;
                let (start, shape) = block.split_at(stream.shape.len());
                let common = stream.block.intersection(&Hyperslab::new(start, shape));
                if !common.is_empty() && stream.sampled != SampledRegion::List {
                    let (name, me) = (&stream.name, comm.rank());
                    let detail = format!(
                        "stream {name:?}: ranks {me} and {rank} both hold {common:?}; blocks must not overlap"
                    );
                    return Err(refuse(file, Kind::BadArgument, detail));
                }
            }
        }
        Ok(())
    };
    agree(comm, "create", file, overlap())
}

fn make_shares(
    file: &str,
    streams: &Streams,
    abouts: &[StreamInfo],
    points: &[RankPoints],
) -> Result<Vec<RankShare>> {
    let declared = streams.streams.iter().zip(abouts).zip(points);
    let piece = |(((stream, _), about), points): ((&(Stream, _), &StreamInfo), &RankPoints)| {
        let why = |error| refuse(file, Kind::BadArgument, format!("stream {:?}: {error}", stream.name));
        RankShare::new(stream, about, points).map_err(why)
    };
    declared.map(piece).collect()
}

/// Fails if an element that is to be stored is in no rank's block. Blocks do not overlap, so that counting is enough.
fn check_covered(comm: &Comm, file: &str, abouts: &[StreamInfo], pieces: &[RankShare]) -> Result<()> {
    let mine: Vec<u64> = pieces.iter().map(|piece| piece.items).collect();
    let held = comm.allreduce(Op::Sum, &mine).map_err(|error| Error::from_comm("create", file, &error))?;
    for (about, held) in abouts.iter().zip(held) {
        let wanted = about.items().unwrap_or(u64::MAX);
        if held != wanted {
            let name = &about.name;
            let detail = format!(
                "stream {name:?}: of {wanted} elements to be stored, the blocks of all ranks hold {held}; give every element to a rank"
            );
            return Err(refuse(file, Kind::BadArgument, detail));
        }
    }
    Ok(())
}
