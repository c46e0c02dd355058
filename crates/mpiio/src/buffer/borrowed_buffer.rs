//! Memory of the program: an address, a datatype and a count, as a source or sink of the engine.
//!
//! `unsafe` here: the program promises that the memory is valid until the operation is complete; the rules of MPI exclude other accesses.
#![allow(unsafe_code)]

use aqueduct_file::layout::{Layout, LayoutError, Pattern};
use aqueduct_file::{Error, Incoming, Outgoing, Sink, Source};

/// A buffer of the program, borrowed by an operation.
#[derive(Debug)]
pub(crate) struct BorrowedBuffer {
    start: *mut u8,
    len: usize,
    /// None: the data is contiguous.
    pattern: Option<Pattern>,
    /// The error of an invalid buffer: the operation takes place and fails.
    error: Option<Error>,
}

// SAFETY: the program does not use a buffer until its operation is complete, on whichever thread it runs.
unsafe impl Send for BorrowedBuffer {}

impl BorrowedBuffer {
    /// `count` copies of `layout` at `address`.
    pub(crate) fn new(address: *mut u8, layout: &Layout, count: u64) -> Result<Self, LayoutError> {
        let bytes = layout.size().checked_mul(count).filter(|bytes| i64::try_from(*bytes).is_ok());
        if let (true, Some(bytes)) = (layout.is_contiguous(), bytes) {
            return Ok(Self::contiguous(address, bytes as usize));
        }
        // Sizes above the address space are rejected here.
        let pattern = layout.tiled(count)?;
        let (lowest, highest) = (pattern.lowest(), pattern.highest());
        let start = address.wrapping_offset(lowest as isize);
        let shifted = pattern.shifted(lowest.wrapping_neg())?;
        let len = highest.abs_diff(lowest) as usize;
        if pattern.is_contiguous() {
            return Ok(Self::contiguous(start, len));
        }
        let pattern = shifted;
        Ok(Self { start, len, pattern: Some(pattern), error: None })
    }

    /// Contiguous bytes.
    pub(crate) fn contiguous(start: *mut u8, len: usize) -> Self {
        Self { start, len, pattern: None, error: None }
    }

    /// No buffer: the operation fails with this error on all ranks.
    pub(crate) fn failing(error: Error) -> Self {
        Self { error: Some(error), ..Self::contiguous(std::ptr::null_mut(), 0) }
    }

    /// Copies the data out, packed.
    pub(crate) fn copy_out(&self, packed: &mut [u8]) -> Result<(), LayoutError> {
        match &self.pattern {
            Some(pattern) => pattern.gather(self.bytes(), 0, packed),
            None => {
                let len = packed.len().min(self.len);
                packed[..len].copy_from_slice(&self.bytes()[..len]);
                Ok(())
            }
        }
    }

    /// Copies packed data in.
    pub(crate) fn copy_in(mut self, packed: &[u8]) -> Result<(), LayoutError> {
        match self.pattern.clone() {
            Some(pattern) => pattern.scatter(packed, 0, self.bytes_mut()),
            None => {
                let len = packed.len().min(self.len);
                self.bytes_mut()[..len].copy_from_slice(&packed[..len]);
                Ok(())
            }
        }
    }

    fn bytes(&self) -> &[u8] {
        if self.start.is_null() || self.len == 0 {
            return &[];
        }
        // SAFETY: the program promises that all data bytes are there, and memory between the first and the last belongs to the same
        // object or is not touched.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        if self.start.is_null() || self.len == 0 {
            return &mut [];
        }
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.len) }
    }
}

impl Outgoing for BorrowedBuffer {
    fn source(&self) -> Source<'_> {
        match (&self.error, &self.pattern) {
            (Some(error), _) => Source::failing(error.clone()),
            (None, Some(pattern)) => Source::strided(self.bytes(), pattern.clone()),
            (None, None) => self.bytes().into(),
        }
    }
}

impl Incoming for BorrowedBuffer {
    fn sink(&mut self) -> Sink<'_> {
        match (&self.error, self.pattern.clone()) {
            (Some(error), _) => Sink::failing(error.clone()),
            (None, Some(pattern)) => Sink::strided(self.bytes_mut(), pattern),
            (None, None) => self.bytes_mut().into(),
        }
    }
}
