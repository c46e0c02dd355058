//! The order of bytes: values of a machine that has the lowest byte first, as they lie in a file, and back.
//!
//! `unsafe` here: calls of code for wider registers, if the processor has them. Swapping value by value takes longer than
//! copying them.
#![allow(unsafe_code)]

/// Copies values of so many bytes each, as many as there are, with the bytes of each in the other order.
pub(crate) fn copy(width: usize, from: &[u8], to: &mut [u8]) {
    assert_eq!(from.len(), to.len(), "values are copied to as many");
    if width == 1 || cfg!(target_endian = "big") {
        to.copy_from_slice(from);
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has these registers, as checked above.
        unsafe { copy_wide(width, from, to) };
        return;
    }
    copy_scalar(width, from, to);
}

/// What [`plainly`] does, made for registers of 32 bytes.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn copy_wide(width: usize, from: &[u8], to: &mut [u8]) {
    copy_scalar(width, from, to);
}

#[inline(always)]
#[allow(clippy::inline_always, reason = "the inlined code is compiled for wide registers")]
fn copy_scalar(width: usize, from: &[u8], to: &mut [u8]) {
    match width {
        2 => each(from, to, |value| u16::from_ne_bytes(value).swap_bytes().to_ne_bytes()),
        4 => each(from, to, |value| u32::from_ne_bytes(value).swap_bytes().to_ne_bytes()),
        8 => each(from, to, |value| u64::from_ne_bytes(value).swap_bytes().to_ne_bytes()),
        _ => unreachable!("numbers have 1, 2, 4 or 8 bytes"),
    }
}

#[inline(always)]
#[allow(clippy::inline_always, reason = "the inlined code is compiled for wide registers")]
fn each<const N: usize>(from: &[u8], to: &mut [u8], turned: impl Fn([u8; N]) -> [u8; N]) {
    let (from, to) = (from.as_chunks::<N>().0, to.as_chunks_mut::<N>().0);
    from.iter().zip(to).for_each(|(from, to)| *to = turned(*from));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every width and length, where memory is aligned and where it is not: registers are filled or not.
    #[test]
    fn bytes_of_values_are_turned_round() {
        let memory: Vec<u8> = (0..=255).cycle().take(1000).map(|byte: u8| byte.wrapping_mul(7)).collect();
        for width in [1, 2, 4, 8] {
            for (start, count) in (0..9).flat_map(|start| (0..100).map(move |count| (start, count))) {
                let from = &memory[start..start + count * width];
                let mut out = vec![0; from.len()];
                copy(width, from, &mut out);
                let mut expected = from.to_vec();
                if cfg!(target_endian = "little") {
                    expected.chunks_exact_mut(width).for_each(<[u8]>::reverse);
                }
                assert_eq!(out, expected, "{count} values of {width} bytes from {start} on");
            }
        }
    }
}
