//! Memory of Python: what the buffer protocol describes, as bytes and a layout.
//!
//! `unsafe` here: the buffer protocol gives addresses. A program that changes memory while a call uses it gets undefined values, as with every
//! library that releases the interpreter lock; the buffer keeps the memory alive.
#![allow(unsafe_code)]

use std::borrow::Cow;

use aqueduct::file::layout::{Layout, LayoutError, Member, Vector};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::prelude::*;

/// An array: its memory from the lowest byte on, and where its elements are in it.
pub(crate) struct Memory {
    start: *mut u8,
    length: usize,
    layout: Layout,
    contiguous: bool,
    readonly: bool,
    _buffer: PyUntypedBuffer,
}

// SAFETY: the memory belongs to the buffer, which may be used from any thread.
unsafe impl Send for Memory {}
// SAFETY: as above; what other threads of the program do with it meanwhile is up to the program.
unsafe impl Sync for Memory {}

/// The bytes of an element that are stored, as (offset, length): the fields of a structure with gaps. None: all.
pub(crate) type ItemRuns = Option<Vec<(u64, u64)>>;

impl Memory {
    /// The memory of an array.
    pub(crate) fn of(array: &Bound<'_, PyAny>, item: ItemRuns) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(array)?;
        if buffer.suboffsets().is_some() {
            return Err(PyBufferError::new_err(
                "memory with indirections is not supported; copy it to an array",
            ));
        }
        let size = buffer.item_size() as i64;
        let (mut low, mut high) = (0i64, size);
        for (length, stride) in buffer.shape().iter().zip(buffer.strides()) {
            let reach = (*length as i64 - 1).max(0) * *stride as i64;
            *(if reach < 0 { &mut low } else { &mut high }) += reach;
        }
        let empty = buffer.item_count() == 0;
        let contiguous = buffer.is_c_contiguous() && item.is_none();
        let layout = if empty {
            Ok(Layout::empty())
        } else if contiguous {
            Layout::bytes(buffer.len_bytes() as u64)
        } else {
            strided(&buffer, item, low)
        };
        let layout = layout.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let length = if empty { 0 } else { (high - low) as usize };
        // The lowest byte; an address of no bytes is not used.
        let start = buffer.buf_ptr().cast::<u8>().wrapping_offset(if empty { 0 } else { low as isize });
        Ok(Self { start, length, layout, contiguous, readonly: buffer.readonly(), _buffer: buffer })
    }

    /// The bytes from the lowest to the highest element.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: the buffer has these bytes, and is held.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }

    /// The elements among [`bytes`](Self::bytes), in the order of the last dimension first.
    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The elements side by side; borrowed if they are so.
    pub(crate) fn gathered(&self) -> Result<Cow<'_, [u8]>, LayoutError> {
        if self.contiguous || self.length == 0 {
            return Ok(Cow::Borrowed(self.bytes()));
        }
        let pattern = self.layout.tiled(1)?;
        let mut gathered = vec![0; pattern.size() as usize];
        pattern.gather(self.bytes(), 0, &mut gathered)?;
        Ok(Cow::Owned(gathered))
    }

    /// Memory to be filled.
    pub(crate) fn filled(&mut self) -> PyResult<&mut [u8]> {
        if self.readonly || !self.contiguous {
            return Err(PyValueError::new_err("the memory to be filled must be contiguous and writable"));
        }
        if self.length == 0 {
            return Ok(&mut []);
        }
        // SAFETY: the buffer has these bytes, is held, and may be written.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.start, self.length) })
    }
}

/// The layout of an array with strides whose lowest byte is `low` bytes from its first element.
fn strided(buffer: &PyUntypedBuffer, item: ItemRuns, low: i64) -> Result<Layout, LayoutError> {
    let size = buffer.item_size() as i64;
    let mut layout = match item {
        None => Layout::bytes(size as u64)?,
        Some(runs) => {
            let member = |(offset, length): (u64, u64)| {
                let layout = Layout::bytes(length)?;
                Ok(Member { count: 1, displacement: offset as i64, layout })
            };
            Layout::structure(runs.into_iter().map(member).collect::<Result<Vec<_>, LayoutError>>()?)?
                .resized(0, size)?
        }
    };
    for (length, stride) in buffer.shape().iter().zip(buffer.strides()).rev() {
        layout = layout.hvector(Vector { count: *length as u64, block: 1, stride: *stride as i64 })?;
    }
    Layout::structure([Member { count: 1, displacement: -low, layout }])
}
