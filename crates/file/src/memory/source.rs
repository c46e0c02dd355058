//! What is written: values in memory, contiguous, described by a layout, or generated when they are needed.

use aqueduct_comm::Plain;

use super::chunks::WriteData;
use super::contiguous_range;
use crate::error::Error;
use crate::layout::{Layout, LayoutError, Pattern};

/// What is written: values in memory, one after the other or laid out.
#[derive(Clone, Debug)]
pub struct Source<'a> {
    bytes: &'a [u8],
    /// None: one after the other.
    layout: Option<Pattern>,
    /// The source of data that is not in memory.
    generator: Option<DataGenerator<'a>>,
    objection: Option<Box<Error>>,
}

/// A function that generates data when it is needed.
#[derive(Clone, Copy)]
pub(crate) struct DataGenerator<'a> {
    pub(crate) size: u64,
    pub(crate) generate: &'a dyn Fn(u64, &mut [u8]),
}

impl std::fmt::Debug for DataGenerator<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Maker").field("size", &self.size).finish_non_exhaustive()
    }
}

impl<'a> Source<'a> {
    /// `count` copies of `layout` in `bytes`.
    pub fn laid_out(bytes: &'a [u8], layout: &Layout, count: u64) -> Result<Self, LayoutError> {
        Ok(Self::strided(bytes, layout.tiled(count)?))
    }

    /// The bytes that a pattern describes in `bytes`.
    pub fn strided(bytes: &'a [u8], pattern: Pattern) -> Self {
        Self { layout: Some(pattern), ..Self::contiguous(bytes) }
    }

    /// `size` bytes that are generated when they are needed, in chunks that fit in the processor's cache: `make` gets the index of the first byte
    /// and fills the slice. Values whose stored form differs from memory need no buffer of their own that way.
    ///
    /// ```
    /// # use aqueduct_comm::Launch;
    /// use aqueduct_file::{File, Source};
    ///
    /// # Launch::threads(2).run(|world| {
    /// let file = File::create(world, "memfs:made")?;
    /// let make = |from: u64, out: &mut [u8]| {
    ///     out.iter_mut().zip(from..).for_each(|(out, at)| *out = at as u8);
    /// };
    /// file.at(100 * world.rank() as u64).all().write(Source::generated(100, &make))?;
    /// # file.sync()?;
    /// # let mut back = [0u8; 1];
    /// # file.at(142).read(&mut back)?;
    /// # assert_eq!(back, [42]);
    /// # file.close()
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn generated(size: u64, make: &'a dyn Fn(u64, &mut [u8])) -> Self {
        Self { generator: Some(DataGenerator { size, generate: make }), ..Self::contiguous(&[]) }
    }

    fn contiguous(bytes: &'a [u8]) -> Self {
        Self { bytes, layout: None, generator: None, objection: None }
    }

    /// No memory, because of this error, with which the access fails. In a collective access the rank takes part all the same, so that
    /// no other rank waits for it.
    pub fn failing(error: Error) -> Self {
        Self { objection: Some(Box::new(error)), ..Self::contiguous(&[]) }
    }

    /// Fails with the error that it was made from, if it was.
    pub(crate) fn check_usable(&self) -> crate::error::Result<()> {
        self.objection.as_ref().map_or(Ok(()), |error| Err((**error).clone()))
    }

    /// The bytes, if they are contiguous in memory.
    pub(crate) fn as_contiguous(&self) -> Option<&'a [u8]> {
        let contiguous = self.layout.is_none() && self.generator.is_none() && self.objection.is_none();
        contiguous.then_some(self.bytes)
    }

    /// How many data bytes there are.
    pub fn size(&self) -> u64 {
        let generated = self.generator.map(|generator| generator.size);
        generated.unwrap_or_else(|| self.layout.as_ref().map_or(self.bytes.len() as u64, Pattern::size))
    }

    /// The data bytes, if the memory holds all of them.
    pub(crate) fn write_data(&self) -> Result<WriteData<'_>, LayoutError> {
        if let Some(generator) = self.generator {
            return Ok(WriteData::Generated(generator));
        }
        let Some(layout) = &self.layout else { return Ok(WriteData::Contiguous(self.bytes.into())) };
        layout.check_memory(self.bytes.len())?;
        Ok(match contiguous_range(layout) {
            Some(run) => WriteData::Contiguous(self.bytes[run].into()),
            None => WriteData::Strided(self.bytes, layout),
        })
    }
}

impl<'a, T: Plain> From<&'a [T]> for Source<'a> {
    fn from(values: &'a [T]) -> Self {
        Self::contiguous(bytemuck::cast_slice(values))
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

/// Memory that a request keeps, owned or borrowed, while it writes it.
pub trait Outgoing: Send {
    /// What to write of it.
    fn source(&self) -> Source<'_>;
}

impl<T: Plain> Outgoing for Vec<T> {
    fn source(&self) -> Source<'_> {
        self.as_slice().into()
    }
}

impl<T: Plain> Outgoing for &[T] {
    fn source(&self) -> Source<'_> {
        (*self).into()
    }
}
