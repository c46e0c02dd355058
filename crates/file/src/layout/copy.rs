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
    pub(crate) fn check_memory(&self, memory: usize) -> Result<()> {
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

fn gather(memory: &[u8], strip: &Strip, packed: &mut [u8]) {
    match strip.len {
        _ if strip.count == 1 => packed.copy_from_slice(&memory[strip.offset as usize..][..packed.len()]),
        1 => gather_fixed::<1>(memory, strip, packed),
        2 => gather_fixed::<2>(memory, strip, packed),
        4 => gather_fixed::<4>(memory, strip, packed),
        8 => gather_fixed::<8>(memory, strip, packed),
        12 => gather_fixed::<12>(memory, strip, packed),
        16 => gather_fixed::<16>(memory, strip, packed),
        24 => gather_fixed::<24>(memory, strip, packed),
        32 => gather_fixed::<32>(memory, strip, packed),
        len => {
            let mut at = strip.offset;
            for to in packed.chunks_exact_mut(len as usize) {
                to.copy_from_slice(&memory[at as usize..][..len as usize]);
                at = at.wrapping_add(strip.stride);
            }
        }
    }
}

/// Runs of a length known to the compiler: a load and a store instead of a call.
fn gather_fixed<const N: usize>(memory: &[u8], strip: &Strip, packed: &mut [u8]) {
    let (to, _) = packed.as_chunks_mut::<N>();
    if strip.stride >= N as i64 {
        let span = strip.span();
        let from = memory[span.start as usize..span.end as usize].chunks(strip.stride as usize);
        for (to, from) in to.iter_mut().zip(from) {
            to.copy_from_slice(&from[..N]);
        }
    } else {
        let mut at = strip.offset;
        for to in to {
            to.copy_from_slice(&memory[at as usize..][..N]);
            at = at.wrapping_add(strip.stride);
        }
    }
}

fn scatter(packed: &[u8], strip: &Strip, memory: &mut [u8]) {
    match strip.len {
        _ if strip.count == 1 => memory[strip.offset as usize..][..packed.len()].copy_from_slice(packed),
        1 => scatter_fixed::<1>(packed, strip, memory),
        2 => scatter_fixed::<2>(packed, strip, memory),
        4 => scatter_fixed::<4>(packed, strip, memory),
        8 => scatter_fixed::<8>(packed, strip, memory),
        12 => scatter_fixed::<12>(packed, strip, memory),
        16 => scatter_fixed::<16>(packed, strip, memory),
        24 => scatter_fixed::<24>(packed, strip, memory),
        32 => scatter_fixed::<32>(packed, strip, memory),
        len => {
            let mut at = strip.offset;
            for from in packed.chunks_exact(len as usize) {
                memory[at as usize..][..len as usize].copy_from_slice(from);
                at = at.wrapping_add(strip.stride);
            }
        }
    }
}

/// As [`gather_fixed`].
fn scatter_fixed<const N: usize>(packed: &[u8], strip: &Strip, memory: &mut [u8]) {
    let (from, _) = packed.as_chunks::<N>();
    if strip.stride >= N as i64 {
        let span = strip.span();
        let to = memory[span.start as usize..span.end as usize].chunks_mut(strip.stride as usize);
        for (to, from) in to.zip(from) {
            to[..N].copy_from_slice(from);
        }
    } else {
        let mut at = strip.offset;
        for from in from {
            memory[at as usize..][..N].copy_from_slice(from);
            at = at.wrapping_add(strip.stride);
        }
    }
}
