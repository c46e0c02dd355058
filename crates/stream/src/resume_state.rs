//! The state of an output in a checkpoint: how far it is, and its reductions; independent of the number of ranks.

use aqueduct_comm::Comm;
use aqueduct_comm::agreement::agree_same;
use aqueduct_object::Object;

use crate::declare::declaration::Declaration;
use crate::declare::stream::{Reduction, Streams};
use crate::declare::stream_info::{StreamFileMetadata, StreamInfo};
use crate::error::{Error, Kind, Result, agree};
use crate::pack::accumulator::Accumulator;
use crate::wire::{decode_message, encode_message, wire_struct};

/// The state of an output on one rank, for a checkpoint: [`Output::state`](crate::Output::state).
///
/// A restart passes the states of all ranks to [`Options::resume`](crate::Options::resume), divided in any way among any
/// number of ranks.
#[derive(Clone, Debug, PartialEq, Object)]
pub struct ResumeState {
    /// The number of steps that were committed.
    step: u64,
    /// A checksum of the declaration.
    declaration: u64,
    reductions: Vec<ReductionState>,
}

/// A part of the reduction of a stream.
#[derive(Clone, Debug, PartialEq, Object)]
pub(crate) struct ReductionState {
    stream: u64,
    samples: u64,
    /// The numbers of the values in the stream, as runs: start and length.
    runs: Vec<(u64, u64)>,
    /// The values so far, as they are reduced.
    values: Vec<u8>,
}

/// A part of a reduction on its way to another rank.
struct ReductionPart {
    stream: u64,
    start: u64,
    values: Vec<u8>,
}

/// Values that a rank needs.
struct ReductionRequest {
    stream: u64,
    start: u64,
    count: u64,
}

wire_struct!(ReductionPart { stream, start, values });
wire_struct!(ReductionRequest { stream, start, count });

impl ResumeState {
    /// The number of steps that were committed: the program continues with this one.
    pub fn step(&self) -> u64 {
        self.step
    }

    pub(crate) fn new(declared: &Declaration, accumulators: &[Option<Accumulator>], step: u64) -> Self {
        let mut reductions = Vec::new();
        for (stream, accumulator) in accumulators.iter().enumerate() {
            let Some(accumulator) = accumulator.as_ref().filter(|accumulator| accumulator.samples() > 0)
            else {
                continue;
            };
            let runs = runs_of(declared, stream);
            let values = accumulator.values().map_or(Vec::new(), <[u8]>::to_vec);
            reductions.push(ReductionState {
                stream: stream as u64,
                samples: accumulator.samples(),
                runs,
                values,
            });
        }
        Self { step, declaration: checksum(declared), reductions }
    }

    /// The state after so many steps of an output whose streams keep nothing between two steps. Collective.
    pub(crate) fn without_reductions(comm: &Comm, name: &str, streams: &Streams, step: u64) -> Result<Self> {
        let declared = Declaration::new(comm, name, streams)?;
        let keeps = |info: &&StreamInfo| info.reduction != Reduction::None || info.every.is_some();
        if let Some(info) = declared.streams.iter().find(keeps) {
            let stream = &info.name;
            let detail =
                format!("stream {stream:?} has a reduction; continue with the states of a checkpoint");
            return Err(Error::new(Kind::Unsupported, "resume", name, detail));
        }
        Ok(Self::new(&declared, &[], step))
    }

    /// The step of all states of all ranks, which are of an output with this declaration. Collective.
    pub(crate) fn agree_on_step(
        comm: &Comm,
        name: &str,
        declared: &Declaration,
        states: &[Self],
    ) -> Result<u64> {
        let refusal = |detail: &str| Error::new(Kind::BadArgument, "resume", name, detail);
        let refuse = |detail: &str| Err(refusal(detail));
        let mine = match states {
            [] => Ok(None),
            [first, ..] if states.iter().any(|state| state.declaration != checksum(declared)) => {
                let step = first.step;
                refuse(&format!(
                    "the state of step {step} is of an output with other streams; declare the same ones"
                ))
            }
            [first, rest @ ..] if rest.iter().any(|state| state.step != first.step) => {
                refuse("the states are of different steps; pass those of one checkpoint")
            }
            [first, ..] => Ok(Some(first.step)),
        };
        // Ranks without a state agree with any.
        let step = mine.as_ref().ok().copied().flatten();
        let greatest = step.map_or(0, |step| step + 1);
        let (_, [greatest]) = agree_same(comm, "resume", name, mine, "", None, [greatest])?;
        let same = step.is_none_or(|step| step + 1 == greatest);
        let mine = match (greatest, same) {
            (0, _) => Err(refusal("no rank has a state of the output; pass those of a checkpoint")),
            (_, false) => Err(refusal("the states are of different steps; pass those of one checkpoint")),
            _ => Ok(greatest - 1),
        };
        agree(comm, "resume", name, mine)
    }

    /// Fills the reductions of this rank from the states of all ranks. Collective.
    pub(crate) fn restore(
        comm: &Comm,
        name: &str,
        declared: &Declaration,
        states: &[Self],
        accumulators: &mut [Option<Accumulator>],
    ) -> Result<()> {
        let lost = |error: aqueduct_comm::Error| Error::from_comm("resume", name, &error);
        let samples = samples_of(states, accumulators.len());
        let samples = comm.allreduce(aqueduct_comm::Op::Max, &samples).map_err(lost)?;
        // Each rank keeps an equal part of the values of each stream between the two exchanges.
        let parts = agree(comm, "resume", name, split_states(name, declared, states, comm.size()))?;
        let kept = exchange::<ReductionPart>(comm, name, &parts)?;
        let mut kept: Vec<ReductionPart> = kept.into_iter().flatten().collect();
        kept.sort_by_key(|part| (part.stream, part.start));
        let requests = requests_of(declared, &samples, comm.size());
        let asked = exchange::<ReductionRequest>(comm, name, &requests)?;
        let answers =
            asked.iter().map(|asked| asked.iter().map(|ask| answer(declared, &kept, ask)).collect());
        let answers: Vec<Result<Vec<ReductionPart>>> = answers.collect();
        let answers = agree(comm, "resume", name, answers.into_iter().collect::<Result<Vec<_>>>())?;
        let answers = exchange::<ReductionPart>(comm, name, &answers)?;
        let filled = fill(name, declared, &requests, &answers, (&samples, accumulators));
        agree(comm, "resume", name, filled)
    }
}

fn checksum(declared: &Declaration) -> u64 {
    u64::from(crc32c::crc32c(&StreamFileMetadata::encode(&declared.streams, None)))
}

/// The numbers of this rank's values in a stream, in their order, as runs.
fn runs_of(declared: &Declaration, stream: usize) -> Vec<(u64, u64)> {
    let width = declared.streams[stream].stored().width();
    let place = &declared.shares[stream].place;
    if place.size() == 0 {
        return Vec::new();
    }
    place.pattern().runs(..).map(|run| (run.offset as u64 / width, run.len / width)).collect()
}

fn samples_of(states: &[ResumeState], streams: usize) -> Vec<u64> {
    let mut samples = vec![0; streams];
    for reduction in states.iter().flat_map(|state| &state.reductions) {
        if let Some(samples) = samples.get_mut(reduction.stream as usize) {
            *samples = reduction.samples.max(*samples);
        }
    }
    samples
}

/// A run of values, divided at the borders of the ranks' parts: rank, start, count.
fn divided(declared: &Declaration, stream: usize, run: (u64, u64), ranks: usize) -> Vec<(usize, u64, u64)> {
    let items = declared.streams[stream].items().unwrap_or(0);
    let part = items.div_ceil(ranks as u64).max(1);
    let (mut start, end) = (run.0, run.0.saturating_add(run.1).min(items));
    let mut pieces = Vec::new();
    while start < end {
        let rank = start / part;
        let count = ((rank + 1) * part).min(end) - start;
        pieces.push((rank as usize, start, count));
        start += count;
    }
    pieces
}

/// The reductions of the states, divided among the ranks.
fn split_states(
    name: &str,
    declared: &Declaration,
    states: &[ResumeState],
    ranks: usize,
) -> Result<Vec<Vec<ReductionPart>>> {
    let damaged = || {
        let detail = "the state of the output does not suit its streams: the checkpoint is damaged";
        Error::new(Kind::Damaged, "resume", name, detail)
    };
    let mut parts: Vec<Vec<ReductionPart>> = (0..ranks).map(|_| Vec::new()).collect();
    for reduction in states.iter().flat_map(|state| &state.reductions) {
        let stream = reduction.stream as usize;
        let about = declared.streams.get(stream).ok_or_else(damaged)?;
        let width = about.accumulated().width();
        let mut rest = &reduction.values[..];
        // A value that was never given has none: it is not sent.
        for run in reduction.runs.iter().filter(|_| !reduction.values.is_empty()) {
            let mut left = run.1;
            for (rank, start, count) in divided(declared, stream, *run, ranks) {
                let (values, later) = rest.split_at_checked((count * width) as usize).ok_or_else(damaged)?;
                parts[rank].push(ReductionPart { stream: reduction.stream, start, values: values.to_vec() });
                rest = later;
                left -= count;
            }
            if left > 0 {
                return Err(damaged());
            }
        }
    }
    Ok(parts)
}

/// The values that this rank needs, by the rank that keeps them.
fn requests_of(declared: &Declaration, samples: &[u64], ranks: usize) -> Vec<Vec<ReductionRequest>> {
    let mut requests: Vec<Vec<ReductionRequest>> = (0..ranks).map(|_| Vec::new()).collect();
    for (stream, _) in samples.iter().enumerate().filter(|(_, samples)| **samples > 0) {
        for run in runs_of(declared, stream) {
            for (rank, start, count) in divided(declared, stream, run, ranks) {
                requests[rank].push(ReductionRequest { stream: stream as u64, start, count });
            }
        }
    }
    requests
}

/// The values that another rank asks for, from parts in the order of their places; without values if they were never given.
fn answer(declared: &Declaration, kept: &[ReductionPart], ask: &ReductionRequest) -> Result<ReductionPart> {
    let malformed =
        || Error::new(Kind::Communication, "resume", "the output", "a request of another rank is malformed");
    let about = declared.streams.get(ask.stream as usize).ok_or_else(malformed)?;
    let items = about.items().unwrap_or(0);
    if ask.start.checked_add(ask.count).is_none_or(|end| end > items) {
        return Err(malformed());
    }
    let width = about.accumulated().width();
    let mut values = vec![0; (ask.count * width) as usize];
    let mut found = 0;
    let place = |part: &ReductionPart| (part.stream, part.start);
    let next = kept.partition_point(|part| place(part) <= (ask.stream, ask.start));
    let here = |part: &&ReductionPart| place(part) < (ask.stream, ask.start + ask.count);
    for part in
        kept[next.saturating_sub(1)..].iter().take_while(here).filter(|part| part.stream == ask.stream)
    {
        let (start, end) = (part.start, part.start + part.values.len() as u64 / width);
        let (first, last) = (start.max(ask.start), end.min(ask.start + ask.count));
        if first < last {
            let there = ((first - start) * width) as usize..((last - start) * width) as usize;
            let here = ((first - ask.start) * width) as usize..((last - ask.start) * width) as usize;
            values[here].copy_from_slice(&part.values[there]);
            found += last - first;
        }
    }
    if found < ask.count {
        values.clear();
    }
    Ok(ReductionPart { stream: ask.stream, start: ask.start, values })
}

/// Stores the answers in the reductions, in the order of the requests.
fn fill(
    name: &str,
    declared: &Declaration,
    requests: &[Vec<ReductionRequest>],
    answers: &[Vec<ReductionPart>],
    (samples, accumulators): (&[u64], &mut [Option<Accumulator>]),
) -> Result<()> {
    let refuse = |detail: String| Err(Error::new(Kind::Damaged, "resume", name, detail));
    for (stream, accumulator) in accumulators.iter_mut().enumerate() {
        let (Some(accumulator), 1..) = (accumulator, samples[stream]) else { continue };
        let about = &declared.streams[stream];
        let (mut values, mut missing) = (Vec::new(), false);
        let mut next = vec![0; requests.len()];
        for run in runs_of(declared, stream) {
            for (rank, start, count) in divided(declared, stream, run, requests.len()) {
                let is_it = |part: &&ReductionPart| part.stream == stream as u64 && part.start == start;
                let found = answers[rank][next[rank]..].iter().position(|part| is_it(&part));
                let Some(at) = found else {
                    return refuse(format!(
                        "stream {:?}: a rank sent no values of its reduction",
                        about.name
                    ));
                };
                next[rank] += at + 1;
                let part = &answers[rank][next[rank] - 1];
                missing |= part.values.len() as u64 != count * about.accumulated().width();
                values.extend_from_slice(&part.values);
            }
        }
        match (missing, about.reduction) {
            (false, _) => accumulator.restore(samples[stream], Some(&values)),
            // It was not put in any step so far.
            (true, Reduction::Last) if values.is_empty() => accumulator.restore(samples[stream], None),
            _ => {
                return refuse(format!(
                    "stream {:?}: values of its reduction are missing; pass the states of all ranks of the checkpoint",
                    about.name
                ));
            }
        }
    }
    Ok(())
}

/// Sends lists to all ranks; the lists received, by sender. Collective.
fn exchange<T: crate::wire::WireEncoding>(comm: &Comm, name: &str, lists: &[Vec<T>]) -> Result<Vec<Vec<T>>>
where
    Vec<T>: crate::wire::WireEncoding,
{
    let messages: Vec<Vec<u8>> = lists.iter().map(encode_message).collect();
    let received =
        comm.all_to_all_varied(&messages).map_err(|error| Error::from_comm("resume", name, &error))?;
    agree(comm, "resume", name, received.iter().map(|message| decode_message(message)).collect())
}
