//! Decodes datatypes: constructors of MPI become constructors of layouts.
//!
//! `unsafe` here: MPI fills sizes and bounds.
#![allow(unsafe_code)]

use aqueduct_file::hyperslab::Hyperslab;
use aqueduct_file::layout::{Basic, Distributed, Distribution, Layout, LayoutError, Member, Order, Vector};

use super::contents::{DatatypeContents, contents};
use crate::abi::Kind;
use crate::host::Mpi;
use crate::host::{MpiError, Outcome};

/// The sizes of values.
#[derive(Clone, Copy)]
pub(crate) enum ValueSizes<'a> {
    /// As in memory: the bounds are those of MPI.
    Memory,
    /// As in a file: the size of each predefined datatype there; bounds follow from it.
    File(&'a dyn Fn(usize, &Layout) -> Outcome<u64>),
}

/// The layout of a named datatype.
pub(crate) fn named(mpi: &Mpi, handle: usize, kind: Kind, sizes: ValueSizes<'_>) -> Outcome<Layout> {
    let memory = in_memory(mpi, handle, kind)?;
    let ValueSizes::File(stored) = sizes else { return Ok(memory) };
    let bytes = stored(handle, &memory)?;
    if bytes == memory.size() {
        return Ok(memory);
    }
    Layout::bytes(bytes).map_err(|error| refuse(mpi, &error))
}

fn in_memory(mpi: &Mpi, handle: usize, kind: Kind) -> Outcome<Layout> {
    let by_size = |choices: &[Basic]| -> Outcome<Layout> {
        let (size, _, _) = measure(mpi, handle)?;
        let fitting = choices.iter().find(|basic| basic.size() == size as u64);
        fitting.map_or_else(|| raw(mpi, size), |basic| Ok(Layout::from(*basic)))
    };
    match kind {
        Kind::One(basic) => Ok(basic.into()),
        Kind::Pair(first, second) => {
            let displacement = first.size().next_multiple_of(second.alignment()) as i64;
            let first = Member { count: 1, displacement: 0, layout: first.into() };
            let second = Member { count: 1, displacement, layout: second.into() };
            let pair = Layout::structure([first, second]).map_err(|error| refuse(mpi, &error))?;
            bounded(mpi, handle, pair)
        }
        Kind::Logical => by_size(&[Basic::Logical, Basic::I64, Basic::I16, Basic::I8]),
        Kind::Integer => by_size(&[Basic::I32, Basic::I64, Basic::I16, Basic::I8, Basic::I128]),
        Kind::Real => by_size(&[Basic::F64, Basic::F32, Basic::F128, Basic::F16]),
        Kind::Complex => {
            by_size(&[Basic::ComplexF64, Basic::ComplexF32, Basic::ComplexF128, Basic::ComplexF16])
        }
        Kind::Mark => Ok(Layout::empty()),
    }
}

/// Bytes of an unknown type.
fn raw(mpi: &Mpi, size: i64) -> Outcome<Layout> {
    Layout::bytes(size.max(0) as u64).map_err(|error| refuse(mpi, &error))
}

/// Size, lower bound and extent according to MPI.
fn measure(mpi: &Mpi, handle: usize) -> Outcome<(i64, i64, i64)> {
    let (mut size, mut lower, mut extent) = (0, 0, 0);
    // SAFETY: a datatype, and integers that live here.
    unsafe {
        mpi.check("MPI_Type_size_x", (mpi.functions.type_size_x)(handle, &raw mut size))?;
        let asked = (mpi.functions.type_get_extent_x)(handle, &raw mut lower, &raw mut extent);
        mpi.check("MPI_Type_get_extent_x", asked)?;
    }
    Ok((size, lower, extent))
}

/// The layout with the bounds of MPI: implementations differ in how they round them.
fn bounded(mpi: &Mpi, handle: usize, layout: Layout) -> Outcome<Layout> {
    let (size, lower, extent) = measure(mpi, handle)?;
    if layout.size() != size as u64 {
        let text = format!(
            "a datatype of {size} bytes was decoded as one of {}; please report this defect",
            layout.size()
        );
        return Err(MpiError::new(mpi.constants.integers.intern, text));
    }
    if (layout.lower_bound(), layout.extent()) == (lower, extent) {
        return Ok(layout);
    }
    layout.resized(lower, extent).map_err(|error| refuse(mpi, &error))
}

/// The layout of any datatype.
pub(crate) fn decode(mpi: &Mpi, handle: usize, sizes: ValueSizes<'_>) -> Outcome<Layout> {
    if let Some(kind) = mpi.constants.named.kind(handle) {
        return named(mpi, handle, kind, sizes);
    }
    let contents = contents(mpi, handle)?;
    let known = mpi.constants.integers;
    let fortran = [known.f90_integer, known.f90_real, known.f90_complex];
    let kinds = [Kind::Integer, Kind::Real, Kind::Complex];
    if let Some(which) = fortran.iter().position(|combiner| *combiner == contents.combiner) {
        return named(mpi, handle, kinds[which], sizes);
    }
    if contents.combiner == known.named {
        // An unknown predefined datatype: its bytes are not converted.
        let (size, _, _) = measure(mpi, handle)?;
        return bounded(mpi, handle, raw(mpi, size)?);
    }
    let inner: Vec<Layout> =
        contents.types.iter().map(|child| decode(mpi, child.handle, sizes)).collect::<Outcome<_>>()?;
    let built = DatatypeDecoder { mpi, contents: &contents, inner }.build()?;
    match sizes {
        ValueSizes::Memory => bounded(mpi, handle, built),
        ValueSizes::File(_) => Ok(built),
    }
}

fn refuse(mpi: &Mpi, error: &LayoutError) -> MpiError {
    MpiError::new(mpi.constants.integers.type_, format!("datatype: {error}"))
}

/// A datatype that is being decoded.
struct DatatypeDecoder<'a> {
    mpi: &'a Mpi,
    contents: &'a DatatypeContents,
    inner: Vec<Layout>,
}

impl DatatypeDecoder<'_> {
    fn build(&self) -> Outcome<Layout> {
        let (known, combiner) = (self.mpi.constants.integers, self.contents.combiner);
        let is = |combiners: &[i64]| combiners.contains(&combiner);
        if is(&[known.subarray]) {
            return self.subarray();
        }
        if is(&[known.darray]) {
            return self.darray();
        }
        let first = self.inner.first().ok_or_else(|| self.unknown_combiner())?;
        // Made with large counts or not, all counts and displacements in their order.
        let all: Vec<i64> = if self.contents.large {
            self.contents.numbers.clone()
        } else {
            [self.contents.integers.as_slice(), self.contents.numbers.as_slice()].concat()
        };
        let number = |at: usize| all.get(at).copied().ok_or_else(|| self.unknown_combiner());
        let list = |from: usize, count: usize| {
            let part = from.checked_add(count).and_then(|end| all.get(from..end));
            part.ok_or_else(|| self.unknown_combiner())
        };
        let vector = || -> Outcome<Vector> {
            Ok(Vector { count: number(0)? as u64, block: number(1)? as u64, stride: number(2)? })
        };
        let built = if is(&[known.dup]) {
            Ok(first.clone())
        } else if is(&[known.contiguous]) {
            first.contiguous(number(0)? as u64)
        } else if is(&[known.vector]) {
            first.vector(vector()?)
        } else if is(&[known.hvector, known.hvector_integer]) {
            first.hvector(vector()?)
        } else if is(&[known.indexed, known.hindexed, known.hindexed_integer]) {
            let count = number(0)? as usize;
            let blocks = list(1, count)?.iter().map(|length| *length as u64);
            let blocks = blocks.zip(list(count.saturating_add(1), count)?.iter().copied());
            if is(&[known.indexed]) { first.indexed(blocks) } else { first.hindexed(blocks) }
        } else if is(&[known.indexed_block]) {
            let places = list(2, number(0)? as usize)?;
            first.indexed_block(number(1)? as u64, places.iter().copied())
        } else if is(&[known.hindexed_block]) {
            let places = list(2, number(0)? as usize)?;
            first.hindexed_block(number(1)? as u64, places.iter().copied())
        } else if is(&[known.structure, known.struct_integer]) {
            let count = number(0)? as usize;
            let (lengths, places) = (list(1, count)?, list(count.saturating_add(1), count)?);
            let members = lengths.iter().zip(places).zip(&self.inner);
            Layout::structure(members.map(|((length, place), layout)| Member {
                count: *length as u64,
                displacement: *place,
                layout: layout.clone(),
            }))
        } else if is(&[known.resized]) {
            first.resized(number(0)?, number(1)?)
        } else {
            return Err(self.unknown_combiner());
        };
        built.map_err(|error| refuse(self.mpi, &error))
    }

    fn subarray(&self) -> Outcome<Layout> {
        let integers = &self.contents.integers;
        let dimensions = *integers.first().ok_or_else(|| self.unknown_combiner())? as usize;
        let (numbers, order) = if self.contents.large {
            (self.contents.numbers.as_slice(), integers.get(1))
        } else {
            (integers.get(1..).unwrap_or_default(), integers.get(1 + 3 * dimensions))
        };
        let order = self.order(order)?;
        if numbers.len() < 3 * dimensions {
            return Err(self.unknown_combiner());
        }
        let list = |at: usize| -> Vec<u64> {
            numbers[at * dimensions..(at + 1) * dimensions].iter().map(|number| *number as u64).collect()
        };
        let (shape, part) = (list(0), Hyperslab::new(list(2), list(1)));
        let first = self.inner.first().ok_or_else(|| self.unknown_combiner())?;
        first.subarray(&shape, &part, order).map_err(|error| refuse(self.mpi, &error))
    }

    fn darray(&self) -> Outcome<Layout> {
        let integers = &self.contents.integers;
        let head = integers.get(..3).ok_or_else(|| self.unknown_combiner())?;
        let (rank, dimensions) = (head[1] as u64, head[2] as usize);
        let rest = &integers[3..];
        let (sizes, rest) = if self.contents.large {
            (self.contents.numbers.as_slice(), rest)
        } else {
            rest.split_at_checked(dimensions).ok_or_else(|| self.unknown_combiner())?
        };
        if rest.len() < 3 * dimensions || sizes.len() < dimensions {
            return Err(self.unknown_combiner());
        }
        let order = self.order(rest.get(3 * dimensions))?;
        let dealt = |at: usize| {
            let distribution = self.distribution(rest[at], rest[dimensions + at])?;
            let processes = rest[2 * dimensions + at] as u64;
            Ok(Distributed { size: sizes[at] as u64, distribution, processes })
        };
        let dealt: Vec<Distributed> = (0..dimensions).map(dealt).collect::<Outcome<_>>()?;
        let first = self.inner.first().ok_or_else(|| self.unknown_combiner())?;
        first.darray(rank, &dealt, order).map_err(|error| refuse(self.mpi, &error))
    }

    fn distribution(&self, kind: i64, argument: i64) -> Outcome<Distribution> {
        let known = self.mpi.constants.integers;
        let default = argument == known.default_argument;
        match kind {
            kind if kind == known.whole => Ok(Distribution::Whole),
            kind if kind == known.block && default => Ok(Distribution::Block),
            kind if kind == known.block => Ok(Distribution::BlockOf(argument as u64)),
            kind if kind == known.cyclic && default => Ok(Distribution::Cyclic),
            kind if kind == known.cyclic => Ok(Distribution::CyclicOf(argument as u64)),
            _ => Err(self.unknown_combiner()),
        }
    }

    fn order(&self, order: Option<&i64>) -> Outcome<Order> {
        let known = self.mpi.constants.integers;
        match order {
            Some(order) if *order == known.order_c => Ok(Order::C),
            Some(order) if *order == known.order_fortran => Ok(Order::Fortran),
            _ => Err(self.unknown_combiner()),
        }
    }

    fn unknown_combiner(&self) -> MpiError {
        let text = format!(
            "the contents of a datatype with combiner {} do not follow the MPI standard; please report it",
            self.contents.combiner
        );
        MpiError::new(self.mpi.constants.integers.type_, text)
    }
}
