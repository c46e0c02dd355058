//! A checksum of values that does not depend on which ranks hold them, nor on the order.
//!
//! One loop, compiled for several instruction sets: with wide multiplications it runs at memory bandwidth, without
//! them it would take longer than the copies.
//!
//! `unsafe` here: calls of functions for instruction sets that were detected before.
#![allow(unsafe_code)]

/// 2⁶⁴ divided by the golden ratio: it spreads neighbouring places.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The checksum of contiguous values of `width` bytes from `place` on.
///
/// # Panics
/// If the width is not 1, 2, 4, 8 or 16: values of 16 bytes count as two.
pub(crate) fn position_checksum(width: u64, place: u64, bytes: &[u8]) -> u64 {
    match width {
        1 => dispatch_simd::<1>(place, bytes),
        2 => dispatch_simd::<2>(place, bytes),
        4 => dispatch_simd::<4>(place, bytes),
        8 | 16 => dispatch_simd::<8>(place, bytes),
        _ => unreachable!("no value has {width} bytes"),
    }
}

fn dispatch_simd<const WIDTH: usize>(place: u64, bytes: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        if has_avx512() {
            // SAFETY: the processor has the instruction set, as was checked.
            return unsafe { with_avx512::<WIDTH>(place, bytes) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: as above.
            return unsafe { with_avx2::<WIDTH>(place, bytes) };
        }
    }
    each::<WIDTH>(place, bytes)
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,avx512vl")]
fn with_avx512<const WIDTH: usize>(place: u64, bytes: &[u8]) -> u64 {
    each::<WIDTH>(place, bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2<const WIDTH: usize>(place: u64, bytes: &[u8]) -> u64 {
    each::<WIDTH>(place, bytes)
}

#[expect(clippy::inline_always, reason = "it is compiled for what its caller is compiled for")]
#[inline(always)]
fn each<const WIDTH: usize>(place: u64, bytes: &[u8]) -> u64 {
    let (values, _) = bytes.as_chunks::<WIDTH>();
    let step = SPREAD.wrapping_mul(WIDTH as u64);
    let mut at = SPREAD.wrapping_mul(place);
    let mut sum = 0u64;
    for value in values {
        let mut wide = [0; 8];
        wide[..WIDTH].copy_from_slice(value);
        sum = sum.wrapping_add(mix(u64::from_le_bytes(wide).wrapping_add(at)));
        at = at.wrapping_add(step);
    }
    sum
}

/// The finaliser of splitmix64.
#[expect(clippy::inline_always, reason = "it is compiled for what its caller is compiled for")]
#[inline(always)]
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_of_parts_add_up_in_any_order() {
        let bytes: Vec<u8> = (0..=255).collect();
        for width in [1, 2, 4, 8] {
            let whole = position_checksum(width, 40, &bytes);
            let (front, back) = bytes.split_at(96);
            assert_eq!(
                whole,
                position_checksum(width, 136, back).wrapping_add(position_checksum(width, 40, front))
            );
            let mut changed = bytes.clone();
            changed[77] ^= 1;
            assert_ne!(whole, position_checksum(width, 40, &changed));
            changed.copy_from_slice(&bytes);
            changed.swap(8, 16);
            assert_ne!(whole, position_checksum(width, 40, &changed), "places matter");
            assert_ne!(whole, position_checksum(width, 48, &bytes), "places matter");
        }
    }

    fn every_way<const WIDTH: usize>(place: u64, bytes: &[u8]) {
        let plain = each::<WIDTH>(place, bytes);
        assert_eq!(position_checksum(WIDTH as u64, place, bytes), plain, "{WIDTH} at {place}");
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has the instruction set, as was checked.
            assert_eq!(unsafe { with_avx2::<WIDTH>(place, bytes) }, plain, "{WIDTH} at {place}");
        }
    }

    #[test]
    fn all_instruction_sets_give_the_same_checksum() {
        let bytes: Vec<u8> = (0..3000u32).map(|number| ((number * number) >> 3) as u8).collect();
        for length in (0..200).chain([1000, 2999, 3000]) {
            every_way::<1>(length as u64, &bytes[..length]);
            every_way::<2>(u64::MAX - 100, &bytes[..length]);
            every_way::<4>(8, &bytes[bytes.len() - length..]);
            every_way::<8>(1 << 40, &bytes[..length]);
        }
    }

    #[test]
    fn the_checksum_is_that_of_the_format() {
        assert_eq!(position_checksum(8, 0, &[0; 8]), 0);
        assert_eq!(
            position_checksum(1, 1, &[0]),
            0xe220_a839_7b1d_cdaf,
            "the first number of splitmix64 with seed 0"
        );
    }
}
