//! Copies between memory with a pattern and contiguous bytes.

use super::error::{LayoutError, Problem, Result};
use super::pattern::Pattern;
use super::strips::Strip;

impl Pattern {
    /// Copies data bytes `first..first + packed.len()` out of the memory, which has offset 0 at its start, into `packed`.
    ///
    /// ```
    /// use aqueduct_file::layout::{Basic, Layout};
    ///
    /// let odd = Layout::from(Basic::Byte).resized(0, 2)?.tiled(4)?.shifted(1)?;
    /// let mut packed = [0; 4];
    /// odd.gather(b"abcdefgh", 0, &mut packed)?;
    /// assert_eq!(&packed, b"bdfh");
    /// # Ok::<_, aqueduct_file::layout::LayoutError>(())
    /// ```
    #[doc(alias = "MPI_Pack")]
    pub fn gather(&self, memory: &[u8], first: u64, packed: &mut [u8]) -> Result<()> {
        self.check("gather", memory.len(), first, packed.len())?;
        let mut rest = packed;
        for strip in self.strips(first..first + rest.len() as u64) {
            let (now, later) = rest.split_at_mut(strip.size() as usize);
            gather(memory, &strip, now);
            rest = later;
        }
        Ok(())
    }

    /// Copies `packed` to data bytes `first..first + packed.len()` of the memory, which has offset 0 at its start. Bytes that
    /// are not in the pattern stay as they are; of bytes described twice the later data stays.
    ///
    /// ```
    /// use aqueduct_file::layout::{Basic, Layout};
    ///
    /// let odd = Layout::from(Basic::Byte).resized(0, 2)?.tiled(4)?.shifted(1)?;
    /// let mut memory = *b"abcdefgh";
    /// odd.scatter(b"XY", 2, &mut memory)?;
    /// assert_eq!(&memory, b"abcdeXgY");
    /// # Ok::<_, aqueduct_file::layout::LayoutError>(())
    /// ```
    #[doc(alias = "MPI_Unpack")]
    pub fn scatter(&self, packed: &[u8], first: u64, memory: &mut [u8]) -> Result<()> {
        self.check("scatter", memory.len(), first, packed.len())?;
        let mut rest = packed;
        for strip in self.strips(first..first + rest.len() as u64) {
            let (now, later) = rest.split_at(strip.size() as usize);
            scatter(now, &strip, memory);
            rest = later;
        }
        Ok(())
    }

    /// Refuses memory of so many bytes that does not hold all of the pattern.
    pub fn check_memory(&self, memory: usize) -> Result<()> {
        self.check("lay out", memory, 0, usize::try_from(self.size()).unwrap_or(usize::MAX))
    }

    /// Refuses windows that are not in the pattern or touch bytes that are not in the memory.
    fn check(&self, operation: &'static str, memory: usize, first: u64, len: usize) -> Result<()> {
        let end = first.saturating_add(len as u64);
        if end > self.size() {
            let problem = Problem::OutsideData { asked: first..end, size: self.size() };
            return Err(LayoutError::new(operation, problem));
        }
        let inside = |low: i64, high: i64| low >= 0 && usize::try_from(high).is_ok_and(|high| high <= memory);
        // The cheap question first: everything inside makes every window inside.
        if inside(self.lowest(), self.highest()) {
            return Ok(());
        }
        let touched = self.span(first..end);
        if inside(touched.start, touched.end) {
            return Ok(());
        }
        Err(LayoutError::new(operation, Problem::OutsideMemory { touched, memory }))
    }
}

/// Calls the function for a length known to the compiler where there is one: a load and a store instead of a call.
macro_rules! by_length {
    ($strip:expr, $fixed:ident, $any:ident, $($argument:expr),+) => {
        match $strip.len {
            1 => $fixed::<1>($($argument),+),
            2 => $fixed::<2>($($argument),+),
            4 => $fixed::<4>($($argument),+),
            8 => $fixed::<8>($($argument),+),
            12 => $fixed::<12>($($argument),+),
            16 => $fixed::<16>($($argument),+),
            24 => $fixed::<24>($($argument),+),
            32 => $fixed::<32>($($argument),+),
            64 => $fixed::<64>($($argument),+),
            _ => $any($($argument),+),
        }
    };
}

pub(crate) use by_length;

#[inline]
fn gather(memory: &[u8], strip: &Strip, packed: &mut [u8]) {
    by_length!(strip, gather_fixed, gather_any, memory, strip, packed);
}

#[inline]
fn scatter(packed: &[u8], strip: &Strip, memory: &mut [u8]) {
    by_length!(strip, scatter_fixed, scatter_any, packed, strip, memory);
}

fn gather_any(memory: &[u8], strip: &Strip, packed: &mut [u8]) {
    let mut at = strip.offset;
    for to in packed.chunks_exact_mut(strip.len as usize) {
        to.copy_from_slice(&memory[at as usize..][..to.len()]);
        at = at.wrapping_add(strip.stride);
    }
}

fn scatter_any(packed: &[u8], strip: &Strip, memory: &mut [u8]) {
    let mut at = strip.offset;
    for from in packed.chunks_exact(strip.len as usize) {
        memory[at as usize..][..from.len()].copy_from_slice(from);
        at = at.wrapping_add(strip.stride);
    }
}

/// Runs that are far enough apart to be the heads of equal pieces of memory: no index needs a check.
#[inline]
fn gather_fixed<const N: usize>(memory: &[u8], strip: &Strip, packed: &mut [u8]) {
    if strip.count < LONG || strip.stride < N as i64 {
        return gather_any_fixed::<N>(memory, strip, packed);
    }
    let (to, _) = packed.as_chunks_mut::<N>();
    let (span, stride) = (strip.span(), strip.stride as usize);
    let memory = &memory[span.start as usize..span.end as usize];
    let Some((last, to)) = to.split_last_mut() else { return };
    for (to, from) in to.iter_mut().zip(memory.chunks_exact(stride)) {
        to.copy_from_slice(&from[..N]);
    }
    last.copy_from_slice(&memory[memory.len() - N..]);
}

/// As [`gather_fixed`].
#[inline]
fn scatter_fixed<const N: usize>(packed: &[u8], strip: &Strip, memory: &mut [u8]) {
    if strip.count < LONG || strip.stride < N as i64 {
        return scatter_any_fixed::<N>(packed, strip, memory);
    }
    let (from, _) = packed.as_chunks::<N>();
    let (span, stride) = (strip.span(), strip.stride as usize);
    let memory = &mut memory[span.start as usize..span.end as usize];
    let Some((last, from)) = from.split_last() else { return };
    for (from, to) in from.iter().zip(memory.chunks_exact_mut(stride)) {
        to[..N].copy_from_slice(from);
    }
    let end = memory.len() - N;
    memory[end..].copy_from_slice(last);
}

/// From how many runs on it pays to set up the quick loop.
const LONG: u64 = 8;

#[inline]
fn gather_any_fixed<const N: usize>(memory: &[u8], strip: &Strip, packed: &mut [u8]) {
    let mut at = strip.offset;
    for to in packed.as_chunks_mut::<N>().0 {
        to.copy_from_slice(&memory[at as usize..][..N]);
        at = at.wrapping_add(strip.stride);
    }
}

#[inline]
fn scatter_any_fixed<const N: usize>(packed: &[u8], strip: &Strip, memory: &mut [u8]) {
    let mut at = strip.offset;
    for from in packed.as_chunks::<N>().0 {
        memory[at as usize..][..N].copy_from_slice(from);
        at = at.wrapping_add(strip.stride);
    }
}
