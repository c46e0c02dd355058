//! A time-stepping program with all kinds of streams that files of arrays can hold, for any decomposition, which can
//! be stopped and continued; and the values that it stores.

use std::sync::Arc;

use aqueduct_comm::Comm;
use aqueduct_formats::hdf5::Hdf5CreateOptions;
use aqueduct_stream::target::{FileTarget, Hdf5Target, NetcdfTarget, OutputTarget};
use aqueduct_stream::{
    Declaration, Error, Hyperslab, Options, Output, Reduction, ResumeState, Stream, StreamAttribute,
    StreamKey, Streams,
};

/// The grid, z slowest.
pub(crate) const SHAPE: [u64; 3] = [6, 5, 7];
/// The first sampled step, and the number of steps.
pub(crate) const FROM: u64 = 2;
pub(crate) const STEPS: u64 = 12;
/// The points: unsorted, one of them three times.
pub(crate) const MASK: [u64; 9] = [208, 3, 77, 3, 150, 0, 112, 3, 36];

/// The value of a point in a step: small numbers whose squares are exact.
pub(crate) fn value(point: u64, step: u64) -> f64 {
    (point * 7 + step * 13) as f64 % 101.0 - 40.0
}

pub(crate) fn boxes() -> Vec<Hyperslab> {
    vec![Hyperslab::new([1, 0, 2], [4, 3, 5]), Hyperslab::new([0, 2, 0], [6, 3, 3])]
}

/// The number of ranks along z and y.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decomposition(pub(crate) usize, pub(crate) usize);

impl Decomposition {
    fn block(self, rank: usize) -> Hyperslab {
        let part = |size: u64, parts: usize, at: usize| {
            (size * at as u64 / parts as u64, size * (at as u64 + 1) / parts as u64)
        };
        let (z, y) = (part(SHAPE[0], self.0, rank / self.1), part(SHAPE[1], self.1, rank % self.1));
        Hyperslab::new([z.0, y.0, 0], [z.1 - z.0, y.1 - y.0, SHAPE[2]])
    }
}

/// The points of a block, in order.
fn points_of(block: &Hyperslab) -> Vec<u64> {
    let inside =
        |at: u64, axis: usize| (block.start[axis]..block.start[axis] + block.count[axis]).contains(&at);
    let all = 0..SHAPE.iter().product();
    all.filter(|point| inside(point / SHAPE[2] / SHAPE[1], 0) && inside(point / SHAPE[2] % SHAPE[1], 1))
        .collect()
}

/// A file, by the target that writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Stream,
    Hdf5,
    Netcdf,
}

/// What a run does.
#[derive(Clone)]
pub(crate) struct Run<'a> {
    pub(crate) name: &'a str,
    pub(crate) kind: FileKind,
    pub(crate) options: Options,
    pub(crate) decomposition: Decomposition,
    /// The states of a checkpoint to continue from.
    pub(crate) states: Option<&'a [ResumeState]>,
    /// Servers write.
    pub(crate) served: bool,
    /// The step before which the state is taken.
    pub(crate) checkpoint: Option<u64>,
    /// The step before which the program ends without `finish`.
    pub(crate) stop: Option<u64>,
}

struct Keys {
    boxes: StreamKey<f32>,
    mask: StreamKey<f64>,
    rms: StreamKey<f32>,
    peak: StreamKey<f64>,
    mean: StreamKey<f64>,
    last: StreamKey<f64>,
}

fn declare(block: &Hyperslab) -> (Streams, Keys) {
    let mut streams = Streams::new();
    let array = |name| Stream::array(name, SHAPE).block(block.start.clone(), block.count.clone()).from(FROM);
    let mine = points_of(block);
    let listed = || {
        let listed = MASK.iter().enumerate().filter(|(_, point)| mine.contains(point));
        listed.map(|(number, point)| (number as u64, *point)).collect::<Vec<_>>()
    };
    let text = |stream: Stream| stream.attribute("data_type", StreamAttribute::fixed("float"));
    let keys = Keys {
        boxes: streams.add(text(array("p").cuboids(boxes()).paths(["/p/1", "/p/2"]))),
        mask: streams
            .add(text(array("q").listed_points(listed()).stored_as::<f32>().paths(["/q"]).leading_ones(1))),
        rms: streams.add(
            array("rms")
                .listed_points(listed())
                .reduce(Reduction::Rms)
                .stored_as::<f32>()
                .paths(["/q_rms"])
                .leading_ones(2),
        ),
        peak: streams.add(array("peak").reduce(Reduction::Max).attribute("factor", 0.5)),
        mean: streams.add(array("mean").reduce(Reduction::Mean).every(4)),
        last: streams.add(array("last").reduce(Reduction::Last).stored_as::<f32>().paths(["/final/p"])),
    };
    (streams, keys)
}

fn target(
    kind: FileKind,
    comm: &Comm,
    name: &str,
    declared: &Arc<Declaration>,
) -> Result<Box<dyn OutputTarget>, Error> {
    Ok(match kind {
        FileKind::Stream => Box::new(FileTarget::create(comm, name, declared)?),
        FileKind::Hdf5 if declared.resumes_at().is_none() => {
            let file = Hdf5CreateOptions::new().replace().create(comm, name)?;
            Box::new(Hdf5Target::write_into(comm, file, declared)?)
        }
        FileKind::Hdf5 => Box::new(Hdf5Target::create(comm, name, declared)?),
        FileKind::Netcdf => Box::new(NetcdfTarget::create(comm, name, declared)?),
    })
}

/// What servers create.
pub(crate) fn hdf5_target(
    comm: &Comm,
    name: &str,
    declared: &Arc<Declaration>,
) -> Result<Box<dyn OutputTarget>, Error> {
    target(FileKind::Hdf5, comm, name, declared)
}

/// Runs the program; the state of the checkpoint, if one was asked for.
pub(crate) fn run(comm: &Comm, run: &Run<'_>) -> Result<Option<ResumeState>, Error> {
    let Some(states) = run.states else {
        let (streams, keys) = declare(&run.decomposition.block(comm.rank()));
        let make = |comm: &Comm, declared: &Arc<Declaration>| target(run.kind, comm, run.name, declared);
        let options = run.options.clone().steps(STEPS).replace();
        let output = if run.served {
            options.create(comm, run.name, &streams)?
        } else {
            options.create_on(comm, run.name, &streams, make)?
        };
        return advance(comm, run, (output, keys), 0);
    };
    // Each rank brings a part of the states, in turn.
    let mine = states.iter().enumerate().filter(|(at, _)| at % comm.size() == comm.rank());
    let mine: Vec<ResumeState> = mine.map(|(_, state)| state.clone()).collect();
    run_resumed(comm, run, &mine)
}

/// Continues from the states that this rank brings.
pub(crate) fn run_resumed(
    comm: &Comm,
    run: &Run<'_>,
    mine: &[ResumeState],
) -> Result<Option<ResumeState>, Error> {
    let (streams, keys) = declare(&run.decomposition.block(comm.rank()));
    let make = |comm: &Comm, declared: &Arc<Declaration>| target(run.kind, comm, run.name, declared);
    let output = run.options.clone().steps(STEPS).resume_on(comm, run.name, &streams, mine, make)?;
    let first = output.steps();
    advance(comm, run, (output, keys), first)
}

/// Commits the steps from `first` on.
fn advance(
    comm: &Comm,
    run: &Run<'_>,
    (mut output, keys): (Output, Keys),
    first: u64,
) -> Result<Option<ResumeState>, Error> {
    let block = run.decomposition.block(comm.rank());
    let mut state = None;
    for step in first..STEPS {
        if run.checkpoint == Some(step) {
            output.flush()?;
            state = Some(output.state()?);
        }
        if run.stop == Some(step) {
            // All ranks have their state before one of them ends.
            comm.barrier()?;
            return Ok(state);
        }
        let values: Vec<f64> = points_of(&block).into_iter().map(|point| value(point, step)).collect();
        let floats: Vec<f32> = values.iter().map(|value| *value as f32).collect();
        let mut begun = output.step()?;
        if step >= FROM {
            begun = begun.put(keys.boxes, &floats).put(keys.mask, &values).put(keys.rms, &floats);
            begun = begun.put(keys.peak, &values).put(keys.mean, &values);
        }
        if step + 1 == STEPS || step == 4 {
            begun = begun.put(keys.last, &values);
        }
        begun.commit()?;
    }
    output.finish()?;
    Ok(state)
}

/// The sampled steps.
pub(crate) fn sampled() -> std::ops::Range<u64> {
    FROM..STEPS
}

/// The points of a box, in order.
pub(crate) fn box_points(number: usize) -> Vec<u64> {
    let boxes = boxes();
    let one = &boxes[number];
    let mut points = Vec::new();
    for z in one.start[0]..one.start[0] + one.count[0] {
        for y in one.start[1]..one.start[1] + one.count[1] {
            points.extend(
                (one.start[2]..one.start[2] + one.count[2]).map(|x| (z * SHAPE[1] + y) * SHAPE[2] + x),
            );
        }
    }
    points
}

pub(crate) fn rms(point: u64) -> f32 {
    let squares: f64 = sampled().map(|step| value(point, step).powi(2)).sum();
    (squares / sampled().count() as f64).sqrt() as f32
}

pub(crate) fn peak(point: u64) -> f64 {
    sampled().map(|step| value(point, step)).fold(f64::MIN, f64::max)
}
