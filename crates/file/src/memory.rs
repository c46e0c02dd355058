//! The memory side of an access: slices, layouts over slices, and buffers that a request owns.

use std::ops::Range;

use aqueduct_comm::Plain;

use crate::error::Error;
use crate::flow::{Inflow, Outflow};
use crate::layout::{Layout, LayoutError, Pattern};

/// What is written: values in memory, one after the other or laid out.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    bytes: &'a [u8],
    /// None: one after the other.
    layout: Option<Pattern>,
    /// Where the data comes from, if it is not in memory.
    maker: Option<Maker<'a>>,
    objection: Option<Box<Error>>,
}

/// What makes data when it is wanted.
#[derive(Clone, Copy)]
pub(crate) struct Maker<'a> {
    pub(crate) size: u64,
    pub(crate) make: &'a dyn Fn(u64, &mut [u8]),
}

impl std::fmt::Debug for Maker<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Maker").field("size", &self.size).finish_non_exhaustive()
    }
}

/// Where to read to: values in memory, one after the other or laid out.
#[derive(Debug)]
pub struct Sink<'a> {
    bytes: &'a mut [u8],
    layout: Option<Pattern>,
    objection: Option<Box<Error>>,
}

impl<'a> Source<'a> {
    /// `count` copies of `layout` in `bytes`.
    pub fn laid_out(bytes: &'a [u8], layout: &Layout, count: u64) -> Result<Self, LayoutError> {
        Ok(Self::patterned(bytes, layout.tiled(count)?))
    }

    /// The bytes that a pattern describes in `bytes`.
    pub fn patterned(bytes: &'a [u8], pattern: Pattern) -> Self {
        Self { layout: Some(pattern), ..Self::straight(bytes) }
    }

    /// `size` bytes that are made when they are wanted, in pieces that the processor's cache holds: `make` is told from which byte on, and fills what it
    /// gets. Values that are stored in another form than in memory need no memory of their own that way.
    ///
    /// ```
    /// # use aqueduct_comm::Launch;
    /// use aqueduct_file::{Mode, Open, Source};
    ///
    /// # Launch::threads(2).run(|world| {
    /// let file = Open::new(Mode::read_write().create()).open(world, "memfs:made")?;
    /// let make = |from: u64, out: &mut [u8]| {
    ///     out.iter_mut().zip(from..).for_each(|(out, at)| *out = at as u8);
    /// };
    /// file.at(100 * world.rank() as u64).all().write(Source::made(100, &make))?;
    /// # file.sync()?;
    /// # let mut back = [0u8; 1];
    /// # file.at(142).read(&mut back)?;
    /// # assert_eq!(back, [42]);
    /// # file.close()
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn made(size: u64, make: &'a dyn Fn(u64, &mut [u8])) -> Self {
        Self { maker: Some(Maker { size, make }), ..Self::straight(&[]) }
    }

    fn straight(bytes: &'a [u8]) -> Self {
        Self { bytes, layout: None, maker: None, objection: None }
    }

    /// No memory, because something is wrong with it: the access fails with this error. In a collective one the rank takes part all the
    /// same, so that nobody waits for it.
    pub fn refused(error: Error) -> Self {
        Self { objection: Some(Box::new(error)), ..Self::straight(&[]) }
    }

    /// Fails if there is something wrong with it.
    pub(crate) fn accepted(&self) -> crate::error::Result<()> {
        self.objection.as_ref().map_or(Ok(()), |error| Err((**error).clone()))
    }

    /// How many data bytes there are.
    pub fn size(&self) -> u64 {
        let made = self.maker.map(|maker| maker.size);
        made.unwrap_or_else(|| self.layout.as_ref().map_or(self.bytes.len() as u64, Pattern::size))
    }

    /// The data bytes on their way, if the memory holds them all.
    pub(crate) fn flow(&self) -> Result<Outflow<'_>, LayoutError> {
        if let Some(maker) = self.maker {
            return Ok(Outflow::Made(maker));
        }
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
        Ok(Self { bytes, layout: Some(layout.tiled(count)?), objection: None })
    }

    /// The bytes that a pattern describes in `bytes`.
    pub fn patterned(bytes: &'a mut [u8], pattern: Pattern) -> Self {
        Self { bytes, layout: Some(pattern), objection: None }
    }

    /// No memory, because something is wrong with it: the access fails with this error. In a collective one the rank takes part all the
    /// same, so that nobody waits for it.
    pub fn refused(error: Error) -> Self {
        Self { bytes: &mut [], layout: None, objection: Some(Box::new(error)) }
    }

    /// Fails if there is something wrong with it.
    pub(crate) fn accepted(&self) -> crate::error::Result<()> {
        self.objection.as_ref().map_or(Ok(()), |error| Err((**error).clone()))
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
        Self::straight(bytemuck::cast_slice(values))
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
        Source::patterned(&self.bytes, self.layout.clone())
    }
}

impl Incoming for LaidOut {
    fn sink(&mut self) -> Sink<'_> {
        Sink { bytes: &mut self.bytes, layout: Some(self.layout.clone()), objection: None }
    }
}
