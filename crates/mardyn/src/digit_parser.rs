//! Parses many digits at once with SIMD instructions or in one machine word.
//!
//! The number of digits is hard to predict, and a mispredicted branch per digit costs more than the arithmetic.

use wide::{i16x8, u8x16};

/// Finds the blanks of a text, including line ends, in a pass of its own, so that parsing a number need not wait for its end.
pub(super) fn blanks(text: &[u8], found: &mut Vec<u32>) {
    let blank = |block: &[u8; 64], at: usize| {
        let bytes = u8x16::new(part(block, at));
        u64::from(bytes.min(u8x16::splat(b' ')).simd_eq(bytes).to_bitmask()) << at
    };
    found.clear();
    for (number, block) in text.chunks(64).enumerate() {
        let mut whole = [u8::MAX; 64];
        let whole = block.try_into().unwrap_or_else(|_| {
            whole[..block.len()].copy_from_slice(block);
            &whole
        });
        let mut blanks = blank(whole, 0) | blank(whole, 16) | blank(whole, 32) | blank(whole, 48);
        while blanks != 0 {
            found.push(64 * number as u32 + blanks.trailing_zeros());
            blanks &= blanks - 1;
        }
    }
}

/// The number of the last `count` of sixteen bytes, if they are digits. Pairs, fours and eights of digits are combined in parallel.
#[inline]
pub(super) fn sixteen(text: [u8; 16], count: usize) -> Option<u64> {
    let values = (u8x16::new(text) - u8x16::splat(b'0')) & u8x16::new(LAST[count]);
    let sound = values.min(u8x16::splat(9)).simd_eq(values).to_bitmask() == 0xffff;
    let digits: i16x8 = bytemuck::cast(values);
    let pairs: i16x8 = (digits & i16x8::splat(0xff)) * i16x8::splat(10) + (digits >> 8_i32);
    let fours = pairs.dot(i16x8::new([100, 1, 100, 1, 100, 1, 100, 1]));
    let halves: [u64; 2] = bytemuck::cast(fours);
    let [first, second] = halves.map(|half| u64::from(half as u32) * 10_000 + (half >> 32));
    sound.then(|| first * 100_000_000 + second)
}

/// Masks that keep the last `count` bytes and clear those before them.
const LAST: [[u8; 16]; 17] = {
    let mut last = [[0; 16]; 17];
    let mut count = 1;
    while count < 17 {
        last[count] = last[count - 1];
        last[count][16 - count] = u8::MAX;
        count += 1;
    }
    last
};

/// The index of the first decimal point in four bytes (the first is the lowest byte of the word), or 4.
#[inline]
pub(super) fn point(word: u32) -> usize {
    let others = word ^ 0x2e2e_2e2e;
    // The lowest marked byte is the first zero.
    let zeros = others.wrapping_sub(0x0101_0101) & !others & 0x8080_8080;
    zeros.trailing_zeros() as usize / 8
}

/// `N` bytes from `at` on; the caller ensures that the text has them.
#[inline]
pub(super) fn part<const N: usize>(text: &[u8], at: usize) -> [u8; N] {
    text.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// Appends the digits at the front of a text to a number, eight at a time; returns the number and the rest of the text. It wraps
/// around if there are too many digits, which the caller counts.
#[inline]
pub(super) fn run(mut value: u64, mut bytes: &[u8]) -> (u64, &[u8]) {
    const TENS: [u64; 9] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
    while let Some(eight) = bytes.first_chunk::<8>() {
        let (digits, count) = front(u64::from_le_bytes(*eight));
        value = value.wrapping_mul(TENS[count]).wrapping_add(digits);
        bytes = &bytes[count..];
        if count < 8 {
            return (value, bytes);
        }
    }
    while let Some((byte, rest)) = bytes.split_first() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        bytes = rest;
    }
    (value, bytes)
}

/// The number of the digits at the front of eight bytes (the first is the lowest byte of the word), and how many they are. Pairs, then
/// fours, then all are combined in one word.
#[inline]
fn front(word: u64) -> (u64, usize) {
    let zeros = word.wrapping_sub(0x3030_3030_3030_3030);
    let above = word.wrapping_add(0x4646_4646_4646_4646);
    // The lowest marked byte is the first that is not a digit; borrows and carries only go upwards.
    let count = ((zeros | above) & 0x8080_8080_8080_8080).trailing_zeros() as usize / 8;
    // The digits are shifted to the end, with zeros before them.
    let digits = if count == 0 { 0 } else { zeros << (64 - 8 * count) };
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    (fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff, count)
}

/// The number of the first `count` (1 to 4) of four bytes (the first is the lowest byte of the word), if they are digits.
#[inline]
pub(super) fn few(word: u32, count: usize) -> Option<u64> {
    let digits = (word ^ 0x3030_3030) << (32 - 8 * count);
    let sound = (digits | digits.wrapping_add(0x0606_0606)) & 0xf0f0_f0f0 == 0;
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8) & 0x00ff_00ff;
    sound.then(|| u64::from(pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0xffff))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_blanks_are_found() {
        let mut found = vec![7];
        for length in [0, 1, 63, 64, 65, 200] {
            let text: Vec<u8> = (0..length).map(|at| b" a\n1\t-\r.!\xff\x01~"[at * at % 12]).collect();
            let expected = (0..length).filter(|at| text[*at] <= b' ').map(|at| at as u32);
            blanks(&text, &mut found);
            assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }

    #[test]
    fn digits_are_parsed_to_their_number() {
        let digits = b"9876543210987654";
        for count in 0..=16 {
            let spelt = std::str::from_utf8(&digits[16 - count..]).unwrap();
            assert_eq!(sixteen(*digits, count), Some(spelt.parse().unwrap_or(0)), "{count}");
        }
        for count in 1..=4 {
            assert_eq!(few(u32::from_le_bytes(*b"9871"), count), Some([9, 98, 987, 9871][count - 1]));
        }
    }

    #[test]
    fn a_byte_that_is_not_a_digit_is_rejected_at_every_position() {
        for wrong in (0..=u8::MAX).filter(|byte| !byte.is_ascii_digit()) {
            for place in 0..16 {
                let mut text = *b"1234567890123456";
                text[place] = wrong;
                for count in 0..=16 {
                    assert_eq!(
                        sixteen(text, count).is_none(),
                        place >= 16 - count,
                        "{wrong} {place} {count}"
                    );
                }
                if place < 4 {
                    let word = u32::from_le_bytes(part(&text, 0));
                    for count in 1..=4 {
                        assert_eq!(few(word, count).is_none(), place < count, "{wrong} {place} {count}");
                    }
                    assert_eq!(point(word), if wrong == b'.' { place } else { 4 }, "{wrong} {place}");
                }
            }
        }
        assert_eq!(point(u32::from_le_bytes(*b"1..2")), 1);
    }
}
