//! Doing an access: where it begins, what it brings, and its data between memory and the layers that move bytes.

use std::sync::Arc;

use crate::buffer::Reach;
use crate::core::Core;
use crate::error::{Kind, Result};
use crate::flow::{Inflow, Outflow};
use crate::memory::{Sink, Source};
use crate::plan::Direction;
use crate::request::Count;
use crate::transfer::Company;
use crate::view::View;

/// Where an access begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    At(u64),
    Next,
    Shared,
    /// The start of a view that comes with the access.
    Through,
}

/// What an access needs besides memory.
pub(crate) struct Placed {
    pub(crate) view: Arc<View>,
    /// The first data byte.
    pub(crate) first: u64,
}

/// What a rank brings to a collective operation.
pub(crate) struct Claim {
    pub(crate) view: Arc<View>,
    pub(crate) start: u64,
    pub(crate) etypes: u64,
}

impl Claim {
    /// Where it lies in the data bytes of the view, once all ranks have come.
    fn place(self, core: &Core, position: Position, direction: Direction) -> Result<Placed> {
        let start = match position {
            Position::Shared => core.advance_ordered(name_of(direction), self.etypes)?,
            Position::At(_) | Position::Next | Position::Through => self.start,
        };
        let first = first_byte(core, direction, &self.view, start, self.etypes)?;
        Ok(Placed { view: self.view, first })
    }
}

fn place_together(
    core: &Core,
    position: Position,
    direction: Direction,
    claim: Result<Claim>,
) -> (Arc<View>, Result<u64>) {
    match claim {
        Ok(claim) => {
            let view = Arc::clone(&claim.view);
            let placed = claim.place(core, position, direction);
            (view, placed.map(|placed| placed.first))
        }
        Err(error) => {
            // The others count this rank's part, empty, before they go on.
            let counted = if position == Position::Shared {
                core.advance_ordered(name_of(direction), 0)
            } else {
                Ok(0)
            };
            (Arc::new(View::default()), counted.and(Err(error)))
        }
    }
}

pub(crate) fn claim_and_write(
    core: &Core,
    position: Position,
    claim: Result<Claim>,
    data: &Source<'_>,
) -> Result<Count> {
    let written = metered(core, Direction::Write, || write_claimed(core, position, claim, data));
    handed_over(core, Direction::Write, written)
}

/// Does an operation and counts it.
fn metered(core: &Core, direction: Direction, operation: impl FnOnce() -> Result<Count>) -> Result<Count> {
    let meter = core.tally.operation(direction);
    let count = operation()?;
    meter.done(count.bytes());
    Ok(count)
}

fn write_claimed(core: &Core, position: Position, claim: Result<Claim>, data: &Source<'_>) -> Result<Count> {
    let (view, first) = place_together(core, position, Direction::Write, claim);
    if let Some(buffer) = core.accepting() {
        // Each rank accepts its part for itself; that all could is agreed as ever.
        let turn = Some(buffer.turn());
        let accepted = first.and_then(|first| {
            let flow = stored(core, &view, first, data)?;
            buffer.accept(&core.tally, &view, first, &flow, turn)
        });
        return core.agree("write_all", accepted).map(|()| Count::new(data.size()));
    }
    let flow = first.and_then(|first| Ok((first, stored(core, &view, first, data)?)));
    let (first, flow) = match &flow {
        Ok((first, flow)) => (*first, Ok(flow)),
        Err(error) => (0, Err(error.clone())),
    };
    core.write_together(position, view.pattern(), first, flow).map(|_| Count::new(data.size()))
}

pub(crate) fn claim_and_read(
    core: &Core,
    position: Position,
    claim: Result<Claim>,
    data: &mut Sink<'_>,
) -> Result<Count> {
    let read = metered(core, Direction::Read, || read_claimed(core, position, claim, data));
    handed_over(core, Direction::Read, read)
}

/// An operation in the background is done when MPI has everything that others wait for.
fn handed_over(core: &Core, direction: Direction, outcome: Result<Count>) -> Result<Count> {
    let passed = core.talk(name_of(direction), core.comm.flush_background());
    outcome.and_then(|count| passed.map(|()| count))
}

fn read_claimed(core: &Core, position: Position, claim: Result<Claim>, data: &mut Sink<'_>) -> Result<Count> {
    let checked = data.check().map_err(|error| core.error(Kind::BadCount, "read", error.to_string()));
    let (view, first) = place_together(core, position, Direction::Read, claim);
    let first = first.and_then(|first| checked.map(|()| first));
    let first = first.and_then(|first| settled(core, &view, first, data.size()));
    let (first, failed) = first.map_or_else(|error| (0, Some(error)), |first| (first, None));
    if view.representation().is_native() && failed.is_none() {
        return core.read_together(position, view.pattern(), first, Ok(&mut data.flow())).map(Count::new);
    }
    let mut packed = if failed.is_none() { room(&view, data) } else { Vec::new() };
    let flow = &mut Inflow::Straight(&mut packed);
    let count = core.read_together(position, view.pattern(), first, failed.map_or(Ok(flow), Err))?;
    packed.truncate(count as usize);
    // All ranks have come this far, and they have one representation; its conversion may fail on any of them.
    core.agree("read_all", loaded(core, &view, first, packed, data))
}

pub(crate) fn write_alone(core: &Core, placed: &Placed, data: &Source<'_>) -> Result<Count> {
    metered(core, Direction::Write, || write_placed(core, placed, data))
}

pub(crate) fn read_alone(core: &Core, placed: &Placed, data: &mut Sink<'_>) -> Result<Count> {
    metered(core, Direction::Read, || read_placed(core, placed, data))
}

fn write_placed(core: &Core, placed: &Placed, data: &Source<'_>) -> Result<Count> {
    let flow = stored(core, &placed.view, placed.first, data)?;
    if let Some(buffer) = core.accepting() {
        buffer.accept(&core.tally, &placed.view, placed.first, &flow, None)?;
        return Ok(Count::new(data.size()));
    }
    core.write_window(Company::Alone, placed.view.pattern(), placed.first, &flow)
        .map(|_| Count::new(data.size()))
}

fn read_placed(core: &Core, placed: &Placed, data: &mut Sink<'_>) -> Result<Count> {
    let (view, first) = (&placed.view, placed.first);
    data.check().map_err(|error| core.error(Kind::BadCount, "read", error.to_string()))?;
    settled(core, view, first, data.size())?;
    if view.representation().is_native() {
        return core.read_window(Company::Alone, view.pattern(), first, &mut data.flow()).map(Count::new);
    }
    let mut packed = room(view, data);
    let flow = &mut Inflow::Straight(&mut packed);
    let count = core.read_window(Company::Alone, view.pattern(), first, flow)?;
    packed.truncate(count as usize);
    loaded(core, view, first, packed, data)
}

/// The first data byte of a read, once what is buffered and may lie in its way is in the file.
fn settled(core: &Core, view: &View, first: u64, bytes: u64) -> Result<u64> {
    let stored = bytes / view.etype().size() * view.stored();
    if core.buffer.get().is_some() && stored > 0 {
        let reach = Reach::of(view, &(first..first + stored));
        let length = core.len("read")?;
        // Behind the end of the file, whatever makes it longer makes the read longer.
        core.settle(&if reach.hull.end > length { reach.onwards() } else { reach })?;
    }
    Ok(first)
}

/// The data as it lies in the file.
fn stored<'d>(core: &Core, view: &View, first: u64, data: &'d Source<'_>) -> Result<Outflow<'d>> {
    let broken = |error: crate::layout::LayoutError| core.error(Kind::BadCount, "write", error.to_string());
    let flow = data.flow().map_err(broken)?;
    if view.representation().is_native() {
        return Ok(flow);
    }
    let (kinds, from) = view.kinds(first);
    let packed = flow.packed(&core.tally, 0..flow.len()).into_owned();
    let stored = view.representation().store(kinds, from, packed);
    let stored = stored.map_err(|text| core.error(Kind::Conversion, "write", text))?;
    Ok(Outflow::Straight(stored.into()))
}

/// Room for the data of a read as it lies in the file.
fn room(view: &View, data: &Sink<'_>) -> Vec<u8> {
    vec![0; (data.size() / view.etype().size() * view.stored()) as usize]
}

/// Puts data that was read in its place in memory.
fn loaded(core: &Core, view: &View, first: u64, packed: Vec<u8>, data: &mut Sink<'_>) -> Result<Count> {
    let (kinds, from) = view.kinds(first);
    let converted = view.representation().load(kinds, from, packed);
    let values = converted.map_err(|text| core.error(Kind::Conversion, "read", text))?;
    let broken = |error: crate::layout::LayoutError| core.error(Kind::BadCount, "read", error.to_string());
    data.unpack(&values).map_err(broken)?;
    Ok(Count::new(values.len() as u64))
}

pub(crate) fn name_of(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "read",
        Direction::Write => "write",
    }
}

/// The first data byte of `etypes` from `start` on, if all of them lie where a file can be.
pub(crate) fn first_byte(
    core: &Core,
    direction: Direction,
    view: &View,
    start: u64,
    etypes: u64,
) -> Result<u64> {
    let last = start.checked_add(etypes);
    if last.is_none_or(|last| etypes > 0 && view.byte_offset(last).is_none()) {
        let detail = format!("{etypes} etypes from {start} on reach behind every file");
        return Err(core.error(Kind::BadArgument, name_of(direction), detail));
    }
    Ok(start.saturating_mul(view.stored()))
}
