//! The memory side of an access: slices, layouts over slices, and buffers that a request owns.

use std::ops::Range;

use aqueduct_comm::Plain;

use crate::flow::{Inflow, Outflow};
use crate::layout::{Layout, LayoutError, Pattern};

/// What is written: values in memory, one after the other or laid out.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    bytes: &'a [u8],
    /// None: one after the other.
    layout: Option<Pattern>,
}

/// Where to read to: values in memory, one after the other or laid out.
#[derive(Debug)]
pub struct Sink<'a> {
    bytes: &'a mut [u8],
    layout: Option<Pattern>,
}

impl<'a> Source<'a> {
    /// `count` copies of `layout` in `bytes`.
    pub fn laid_out(bytes: &'a [u8], layout: &Layout, count: u64) -> Result<Self, LayoutError> {
        Ok(Self { bytes, layout: Some(layout.tiled(count)?) })
    }

    /// How many data bytes there are.
    pub fn size(&self) -> u64 {
        self.layout.as_ref().map_or(self.bytes.len() as u64, Pattern::size)
    }

    /// The data bytes on their way, if the memory holds them all.
    pub(crate) fn flow(&self) -> Result<Outflow<'_>, LayoutError> {
        let Some(layout) = &self.layout else { return Ok(Outflow::Straight(self.bytes.into())) };
        layout.check_memory(self.bytes.len())?;
        Ok(match one_run(layout) {
            Some(run) => Outflow::Straight(self.bytes[run].into()),
            None => Outflow::LaidOut(self.bytes, layout),
        })
    }
}

impl<'a> Sink<'a> {
    /// `count` copies of `layout` in `bytes`.
    pub fn laid_out(bytes: &'a mut [u8], layout: &Layout, count: u64) -> Result<Self, LayoutError> {
        Ok(Self { bytes, layout: Some(layout.tiled(count)?) })
    }

    /// How many data bytes there is room for.
    pub fn size(&self) -> u64 {
        self.layout.as_ref().map_or(self.bytes.len() as u64, Pattern::size)
    }

    /// Refuses a layout that the memory does not hold, before anything is read.
    pub(crate) fn check(&self) -> Result<(), LayoutError> {
        self.layout.as_ref().map_or(Ok(()), |layout| layout.check_memory(self.bytes.len()))
    }

    /// Where the data bytes go; the memory has been [checked](Sink::check).
    pub(crate) fn flow(&mut self) -> Inflow<'_> {
        match &self.layout {
            None => Inflow::Straight(self.bytes),
            Some(layout) => match one_run(layout) {
                Some(run) => Inflow::Straight(&mut self.bytes[run]),
                None => Inflow::LaidOut(self.bytes, layout),
            },
        }
    }

    /// Puts the first data bytes in their places.
    pub(crate) fn unpack(&mut self, packed: &[u8]) -> Result<(), LayoutError> {
        match &self.layout {
            None => self.bytes[..packed.len()].copy_from_slice(packed),
            Some(layout) => layout.scatter(packed, 0, self.bytes)?,
        }
        Ok(())
    }
}

/// Where a layout's bytes lie, if they lie in one piece; it has been checked to lie in memory.
fn one_run(layout: &Pattern) -> Option<Range<usize>> {
    let span = layout.span(0..layout.size());
    let dense = layout.is_ascending() && (span.end - span.start) as u64 == layout.size();
    dense.then_some(span.start as usize..span.end as usize)
}

impl<'a, T: Plain> From<&'a [T]> for Source<'a> {
    fn from(values: &'a [T]) -> Self {
        Self { bytes: bytemuck::cast_slice(values), layout: None }
    }
}

impl<'a, T: Plain> From<&'a Vec<T>> for Source<'a> {
    fn from(values: &'a Vec<T>) -> Self {
        values.as_slice().into()
    }
}

impl<'a, T: Plain, const N: usize> From<&'a [T; N]> for Source<'a> {
    fn from(values: &'a [T; N]) -> Self {
        values.as_slice().into()
    }
}

impl<'a, T: Plain> From<&'a mut [T]> for Sink<'a> {
    fn from(values: &'a mut [T]) -> Self {
        Self { bytes: bytemuck::cast_slice_mut(values), layout: None }
    }
}

impl<'a, T: Plain> From<&'a mut Vec<T>> for Sink<'a> {
    fn from(values: &'a mut Vec<T>) -> Self {
        values.as_mut_slice().into()
    }
}

impl<'a, T: Plain, const N: usize> From<&'a mut [T; N]> for Sink<'a> {
    fn from(values: &'a mut [T; N]) -> Self {
        values.as_mut_slice().into()
    }
}

/// Memory that a request keeps, its own or lent to it, while it writes it.
pub trait Outgoing: Send {
    /// What to write of it.
    fn source(&self) -> Source<'_>;
}

/// Memory that a request keeps, its own or lent to it, while it fills it.
pub trait Incoming: Send {
    /// Where to read to.
    fn sink(&mut self) -> Sink<'_>;
}

impl<T: Plain> Outgoing for Vec<T> {
    fn source(&self) -> Source<'_> {
        self.as_slice().into()
    }
}

impl<T: Plain> Incoming for Vec<T> {
    fn sink(&mut self) -> Sink<'_> {
        self.as_mut_slice().into()
    }
}

impl<T: Plain> Outgoing for &[T] {
    fn source(&self) -> Source<'_> {
        (*self).into()
    }
}

impl<T: Plain> Incoming for &mut [T] {
    fn sink(&mut self) -> Sink<'_> {
        (&mut **self).into()
    }
}

/// Bytes and the layout of the data in them, for requests.
#[derive(Clone, Debug)]
pub struct LaidOut {
    /// The memory.
    pub bytes: Vec<u8>,
    layout: Pattern,
}

impl LaidOut {
    /// `count` copies of `layout` in `bytes`.
    pub fn new(bytes: Vec<u8>, layout: &Layout, count: u64) -> Result<Self, LayoutError> {
        Ok(Self { bytes, layout: layout.tiled(count)? })
    }
}

impl Outgoing for LaidOut {
    fn source(&self) -> Source<'_> {
        Source { bytes: &self.bytes, layout: Some(self.layout.clone()) }
    }
}

impl Incoming for LaidOut {
    fn sink(&mut self) -> Sink<'_> {
        Sink { bytes: &mut self.bytes, layout: Some(self.layout.clone()) }
    }
}
