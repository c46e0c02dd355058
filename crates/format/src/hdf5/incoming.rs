//! Reads of a queue: where their bytes go, and what those get that the file does not have.

use aqueduct_object::{Object, bytes_mut, decode_all};

use super::container::Container;
use super::place::Places;
use crate::combine::Combined;
use crate::error::{Kind, Result};
use crate::region::Region;

/// A read that waits.
pub(super) struct Get<'q> {
    pub(super) places: Places,
    pub(super) bytes: usize,
    /// The bytes of an element that nobody has written; none for zeros.
    pub(super) fill: Vec<u8>,
    pub(super) values: Box<dyn Incoming + 'q>,
}

pub(super) trait Incoming {
    /// The memory of the values, where bytes can be put into it as they are.
    fn memory(&mut self) -> Option<&mut [u8]>;

    /// Takes the values from their bytes.
    fn take(&mut self, bytes: &[u8]) -> std::result::Result<(), String>;
}

impl<T: Object> Incoming for &mut [T] {
    fn memory(&mut self) -> Option<&mut [u8]> {
        bytes_mut(self)
    }

    fn take(&mut self, bytes: &[u8]) -> std::result::Result<(), String> {
        let values = decode_all(bytes, self.len()).map_err(|error| error.to_string())?;
        self.iter_mut().zip(values).for_each(|(to, value)| *to = value);
        Ok(())
    }
}

/// Memory that takes bytes as they are, whatever they stand for.
pub(super) struct Bytes<'q>(pub(super) &'q mut [u8]);

impl Incoming for Bytes<'_> {
    fn memory(&mut self) -> Option<&mut [u8]> {
        Some(self.0)
    }

    fn take(&mut self, bytes: &[u8]) -> std::result::Result<(), String> {
        self.0.copy_from_slice(bytes);
        Ok(())
    }
}

impl Get<'_> {
    /// The memory that the bytes of the file can be read into as they are: it is whole, and of one place.
    pub(super) fn straight(&mut self) -> Option<&mut [u8]> {
        let Places { places, gaps } = &self.places;
        let whole = matches!(&places[..], [place] if place.memory.steps.is_empty()) && gaps.is_empty();
        if whole { self.values.memory() } else { None }
    }
}

/// Gives reads their values: from the bytes of all their places in the order of the file, if they have any, and where the file has nothing, fill values.
pub(super) fn scatter(
    container: &Container,
    gets: &mut [Get<'_>],
    combined: Option<&Combined>,
    bytes: &[u8],
) -> Result<()> {
    let bad = |what: String| container.core.error(Kind::Damaged, "read", what);
    let shares = combined.map_or(&[][..], |combined| &combined.shares);
    let mut item = 0;
    for get in gets {
        let own = item..item + get.places.places.len();
        item = own.end;
        let mut decoded = Vec::new();
        let memory = match get.values.memory() {
            Some(memory) => memory,
            None => {
                decoded.resize(get.bytes, 0);
                decoded.as_mut_slice()
            }
        };
        let first = shares.partition_point(|share| share.item < own.start);
        for share in shares[first..].iter().take_while(|share| own.contains(&share.item)) {
            let place = &get.places.places[share.item - own.start];
            let length = (share.bytes.end - share.bytes.start) as usize;
            let from = &bytes[share.at as usize..share.at as usize + length];
            let outcome = container.memory(&place.memory)?.scatter(from, share.bytes.start, memory);
            outcome.map_err(|error| bad(error.to_string()))?;
        }
        for gap in &get.places.gaps {
            fill(gap, &get.fill, memory);
        }
        if !decoded.is_empty() {
            get.values.take(&decoded).map_err(bad)?;
        }
    }
    Ok(())
}

/// Gives a region of memory the value that elements have which nobody has written.
fn fill(gap: &Region, value: &[u8], memory: &mut [u8]) {
    if let Some(parts) = gap.split() {
        parts.for_each(|part| fill(&part, value, memory));
        return;
    }
    let run = &mut memory[gap.offset as usize..(gap.offset + gap.run) as usize];
    if value.is_empty() {
        run.fill(0);
    } else {
        // A run is whole elements.
        run.chunks_exact_mut(value.len()).for_each(|element| element.copy_from_slice(value));
    }
}
