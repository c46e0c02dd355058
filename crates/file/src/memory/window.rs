//! Memory for a range of the file that several ranks access at the same time: aggregation buffers of a node, pages of a mapped file.
//!
//! `unsafe` here: copies go through raw pointers, because no reference to memory that other ranks change may exist. The program is
//! responsible for ranks not writing the same bytes at once; if they do, each byte has the value of one of them.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Range;

use crate::layout::{Pattern, Strip, by_length};

/// The prefetch distance in strips, and in runs of a strip: processors predict neither the next strip nor the next page.
const PREFETCH_DISTANCE: usize = 6;

/// Memory for the bytes of the file from `start` on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryWindow<'a> {
    memory: *mut u8,
    start: u64,
    len: u64,
    owner: PhantomData<&'a mut [u8]>,
}

impl<'a> MemoryWindow<'a> {
    /// Over a buffer that no other rank uses.
    pub(crate) fn over(buffer: &'a mut [u8], start: u64) -> Self {
        Self { memory: buffer.as_mut_ptr(), start, len: buffer.len() as u64, owner: PhantomData }
    }

    /// # Safety
    /// `len` bytes from `memory` on must be readable, and writable before [`put`](MemoryWindow::put) is called, as long as the window lives.
    pub(crate) unsafe fn new(memory: *mut u8, start: u64, len: u64) -> Self {
        Self { memory, start, len, owner: PhantomData }
    }

    /// Copies data bytes of a window of `pattern` to their places.
    pub(crate) fn put(&self, pattern: &Pattern, window: Range<u64>, data: &[u8]) {
        if self.is_filled_by(pattern, data) {
            // SAFETY: the window has room for as many bytes as there are.
            unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.memory, data.len()) };
            return;
        }
        self.put_strips(pattern.strips(window), data);
    }

    /// Copies data to the places of strips, one after the other.
    pub(crate) fn put_strips(&self, strips: impl IntoIterator<Item = Strip>, data: &[u8]) {
        let mut rest = data;
        for strip in self.prefetched(strips) {
            let (now, later) = rest.split_at(strip.size() as usize);
            let to = self.place(&strip);
            // SAFETY: `place` has checked that all runs of the strip lie in the window.
            unsafe { by_length!(&strip, scatter_fixed, scatter_any, &strip, to, now) };
            rest = later;
        }
    }

    /// Copies data bytes of a window of `pattern` from their places.
    pub(crate) fn get(&self, pattern: &Pattern, window: Range<u64>, data: &mut [u8]) {
        if self.is_filled_by(pattern, data) {
            // SAFETY: the window has as many bytes as there is room for.
            unsafe { std::ptr::copy_nonoverlapping(self.memory.cast_const(), data.as_mut_ptr(), data.len()) };
            return;
        }
        self.get_strips(pattern.strips(window), data);
    }

    /// True if data inside the window is all of it, in order: then no strips are needed.
    fn is_filled_by(&self, pattern: &Pattern, data: &[u8]) -> bool {
        self.len == data.len() as u64 && pattern.is_ascending()
    }

    /// Copies data from the places of strips, one after the other.
    pub(crate) fn get_strips(&self, strips: impl IntoIterator<Item = Strip>, data: &mut [u8]) {
        let mut rest = data;
        for strip in self.prefetched(strips) {
            let (now, later) = rest.split_at_mut(strip.size() as usize);
            let from = self.place(&strip).cast_const();
            // SAFETY: `place` has checked that all runs of the strip lie in the window.
            unsafe { by_length!(&strip, gather_fixed, gather_any, &strip, from, now) };
            rest = later;
        }
    }

    /// The same strips; the memory of each is prefetched a few strips before it is needed.
    fn prefetched(&self, strips: impl IntoIterator<Item = Strip>) -> impl Iterator<Item = Strip> {
        let (memory, start) = (self.memory, self.start as i64);
        let mut strips = strips.into_iter().inspect(move |strip| {
            prefetch(memory.wrapping_offset((strip.offset - start) as isize));
        });
        let mut waiting: [Option<Strip>; PREFETCH_DISTANCE] = std::array::from_fn(|_| strips.next());
        let mut first = 0;
        std::iter::from_fn(move || {
            let strip = std::mem::replace(&mut waiting[first], strips.next());
            first = (first + 1) % PREFETCH_DISTANCE;
            strip
        })
    }

    /// The address of the first run of a strip.
    fn place(&self, strip: &Strip) -> *mut u8 {
        let span = strip.span();
        let start = self.start as i64;
        assert!(
            span.start >= start && span.end - start <= self.len as i64,
            "runs lie in the window they are copied to"
        );
        self.memory.wrapping_add((strip.offset - start) as usize)
    }
}

/// Prefetches the memory at an address, which may be any: nothing is read.
#[inline]
fn prefetch(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint; it never fails, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// # Safety
/// All runs of the strip, from `to` on, must be memory that may be written.
unsafe fn scatter_fixed<const N: usize>(strip: &Strip, mut to: *mut u8, data: &[u8]) {
    for run in data.as_chunks::<N>().0 {
        // SAFETY: the caller's promise, for each run.
        unsafe { std::ptr::copy_nonoverlapping(run.as_ptr(), to, N) };
        to = to.wrapping_offset(strip.stride as isize);
    }
}

/// # Safety
/// As [`scatter_fixed`].
unsafe fn scatter_any(strip: &Strip, mut to: *mut u8, data: &[u8]) {
    let ahead = strip.stride.wrapping_mul(PREFETCH_DISTANCE as i64) as isize;
    for run in data.chunks_exact(strip.len as usize) {
        prefetch(to.wrapping_offset(ahead));
        // SAFETY: the caller's promise, for each run.
        unsafe { std::ptr::copy_nonoverlapping(run.as_ptr(), to, run.len()) };
        to = to.wrapping_offset(strip.stride as isize);
    }
}

/// # Safety
/// All runs of the strip, from `from` on, must be memory that may be read.
unsafe fn gather_fixed<const N: usize>(strip: &Strip, mut from: *const u8, data: &mut [u8]) {
    let interleaved = strip.stride.checked_div(N as i64).filter(|of| of * N as i64 == strip.stride);
    match interleaved {
        // SAFETY: the caller's promise.
        Some(2) => return unsafe { gather_interleaved::<N, 2>(from, data) },
        // SAFETY: the caller's promise.
        Some(3) => return unsafe { gather_interleaved::<N, 3>(from, data) },
        // SAFETY: the caller's promise.
        Some(4) => return unsafe { gather_interleaved::<N, 4>(from, data) },
        _ => {}
    }
    for run in data.as_chunks_mut::<N>().0 {
        // SAFETY: the caller's promise, for each run.
        unsafe { std::ptr::copy_nonoverlapping(from, run.as_mut_ptr(), N) };
        from = from.wrapping_offset(strip.stride as isize);
    }
}

/// Every `OF`th piece of `N` bytes: with a stride that the compiler knows, several runs are one instruction.
///
/// # Safety
/// As [`gather_fixed`].
unsafe fn gather_interleaved<const N: usize, const OF: usize>(from: *const u8, data: &mut [u8]) {
    for (index, run) in data.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        // SAFETY: the caller's promise, for each run.
        unsafe { std::ptr::copy_nonoverlapping(from.add(index * OF * N), run.as_mut_ptr(), N) };
    }
}

/// # Safety
/// As [`gather_fixed`].
unsafe fn gather_any(strip: &Strip, mut from: *const u8, data: &mut [u8]) {
    let ahead = strip.stride.wrapping_mul(PREFETCH_DISTANCE as i64) as isize;
    for run in data.chunks_exact_mut(strip.len as usize) {
        prefetch(from.wrapping_offset(ahead));
        // SAFETY: the caller's promise, for each run.
        unsafe { std::ptr::copy_nonoverlapping(from, run.as_mut_ptr(), run.len()) };
        from = from.wrapping_offset(strip.stride as isize);
    }
}
