//! Where a read puts its data: values in memory, contiguous or described by a layout.

use aqueduct_comm::Plain;

use super::chunks::ReadBuffer;
use super::contiguous_range;
use crate::error::Error;
use crate::layout::{Layout, LayoutError, Pattern};

/// Where to read to: values in memory, one after the other or laid out.
#[derive(Debug)]
pub struct Sink<'a> {
    bytes: &'a mut [u8],
    layout: Option<Pattern>,
    objection: Option<Box<Error>>,
}

impl<'a> Sink<'a> {
    /// `count` copies of `layout` in `bytes`.
    pub fn laid_out(bytes: &'a mut [u8], layout: &Layout, count: u64) -> Result<Self, LayoutError> {
        Ok(Self { bytes, layout: Some(layout.tiled(count)?), objection: None })
    }

    /// The bytes that a pattern describes in `bytes`.
    pub fn strided(bytes: &'a mut [u8], pattern: Pattern) -> Self {
        Self { bytes, layout: Some(pattern), objection: None }
    }

    /// No memory, because of this error, with which the access fails. In a collective access the rank takes part all the same, so that
    /// no other rank waits for it.
    pub fn failing(error: Error) -> Self {
        Self { bytes: &mut [], layout: None, objection: Some(Box::new(error)) }
    }

    /// Fails with the error that it was made from, if it was.
    pub(crate) fn check_usable(&self) -> crate::error::Result<()> {
        self.objection.as_ref().map_or(Ok(()), |error| Err((**error).clone()))
    }

    /// The memory, if it is contiguous.
    pub(crate) fn as_contiguous(&mut self) -> Option<&mut [u8]> {
        let contiguous = self.layout.is_none() && self.objection.is_none();
        contiguous.then_some(&mut *self.bytes)
    }

    /// How many data bytes there is room for.
    pub fn size(&self) -> u64 {
        self.layout.as_ref().map_or(self.bytes.len() as u64, Pattern::size)
    }

    /// Fails if the layout exceeds the memory, before anything is read.
    pub(crate) fn check(&self) -> Result<(), LayoutError> {
        self.layout.as_ref().map_or(Ok(()), |layout| layout.check_memory(self.bytes.len()))
    }

    /// The memory to fill, which has been [checked](Sink::check).
    pub(crate) fn read_buffer(&mut self) -> ReadBuffer<'_> {
        match &self.layout {
            None => ReadBuffer::Contiguous(self.bytes),
            Some(layout) => match contiguous_range(layout) {
                Some(run) => ReadBuffer::Contiguous(&mut self.bytes[run]),
                None => ReadBuffer::Strided(self.bytes, layout),
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

impl<'a, T: Plain> From<&'a mut [T]> for Sink<'a> {
    fn from(values: &'a mut [T]) -> Self {
        Self { bytes: bytemuck::cast_slice_mut(values), layout: None, objection: None }
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

/// Memory that a request keeps, owned or borrowed, while it fills it.
pub trait Incoming: Send {
    /// Where to read to.
    fn sink(&mut self) -> Sink<'_>;
}

impl<T: Plain> Incoming for Vec<T> {
    fn sink(&mut self) -> Sink<'_> {
        self.as_mut_slice().into()
    }
}

impl<T: Plain> Incoming for &mut [T] {
    fn sink(&mut self) -> Sink<'_> {
        (&mut **self).into()
    }
}
