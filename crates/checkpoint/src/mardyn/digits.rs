//! Digits of a text, many at once: where they end, and the numbers they make.
//!
//! How many digits a number has is hard to predict, and a branch for each costs more than the arithmetic.

use wide::{i16x8, u8x16};

/// Which of the bytes are no digits, a bit for each, the first the lowest.
#[inline]
pub(super) fn others(text: &[u8; 32]) -> u32 {
    let digits = |at: usize| {
        let values = u8x16::new(part(text, at)) - u8x16::splat(b'0');
        values.min(u8x16::splat(9)).simd_eq(values).to_bitmask()
    };
    !(digits(0) | digits(16) << 16)
}

/// Where a text has blanks, line ends among them: what is found first needs not be waited for while numbers are read.
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

/// The number that the last `count` of sixteen bytes make, all digits: pairs, fours and eights of them side by side.
#[inline]
pub(super) fn sixteen(text: [u8; 16], count: usize) -> u64 {
    let digits: i16x8 = bytemuck::cast(u8x16::new(text) & u8x16::new(LAST[count]));
    let pairs: i16x8 = (digits & i16x8::splat(0xff)) * i16x8::splat(10) + (digits >> 8_i32);
    let fours = pairs.dot(i16x8::new([100, 1, 100, 1, 100, 1, 100, 1]));
    let halves: [u64; 2] = bytemuck::cast(fours);
    let [first, second] = halves.map(|half| u64::from(half as u32) * 10_000 + (half >> 32));
    first * 100_000_000 + second
}

/// What is left of digits in ASCII is their value; of the bytes before the last so many, nothing.
const LAST: [[u8; 16]; 17] = {
    let mut last = [[0; 16]; 17];
    let mut count = 1;
    while count < 17 {
        last[count] = last[count - 1];
        last[count][16 - count] = 0x0f;
        count += 1;
    }
    last
};

/// So many bytes from a place on, which the caller knows to be there.
#[inline]
pub(super) fn part<const N: usize>(text: &[u8], at: usize) -> [u8; N] {
    text.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
}

/// Takes digits off the front, onto a number; wraps around where there are too many, which the caller counts. Eight at a time, also where fewer are left.
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

/// The number that the digits at the front of eight bytes make, the first in the lowest byte, and how many they are: pairs, then fours, then all, side by side
/// in one word.
#[inline]
fn front(word: u64) -> (u64, usize) {
    let zeros = word.wrapping_sub(0x3030_3030_3030_3030);
    let above = word.wrapping_add(0x4646_4646_4646_4646);
    // The lowest byte that is marked is the first that is no digit; borrows and carries go upwards only.
    let count = ((zeros | above) & 0x8080_8080_8080_8080).trailing_zeros() as usize / 8;
    // Digits move to the end, with zeros before them; all of them out of the word where there are none.
    let digits = if count == 0 { 0 } else { zeros << (64 - 8 * count) };
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    (fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff, count)
}

/// The number of one to four digits at the front of four bytes, the first in the lowest byte.
#[inline]
pub(super) fn few(word: u32, count: usize) -> u64 {
    let digits = (word & 0x0f0f_0f0f) << (32 - 8 * count);
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8) & 0x00ff_00ff;
    u64::from(pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_are_found_wherever_they_are() {
        let mut found = vec![7];
        for length in [0, 1, 63, 64, 65, 200] {
            let text: Vec<u8> = (0..length).map(|at| b" a\n1\t-\r.!\xff\x01~"[at * at % 12]).collect();
            let expected = (0..length).filter(|at| text[*at] <= b' ').map(|at| at as u32);
            blanks(&text, &mut found);
            assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }

    #[test]
    fn digits_make_the_numbers_they_spell() {
        let text = *b"1.23456789 7654321-09/:8e00\xb0\xff4  ";
        let expected = (0..32).filter(|at| !text[*at].is_ascii_digit()).map(|at| 1 << at).sum::<u32>();
        assert_eq!(others(&text), expected);
        let digits = b"9876543210987654";
        for count in 0..=16 {
            let spelt = std::str::from_utf8(&digits[16 - count..]).unwrap();
            assert_eq!(sixteen(*digits, count), spelt.parse().unwrap_or(0), "{count}");
        }
        for count in 1..=4 {
            assert_eq!(few(u32::from_le_bytes(*b"9871"), count), [9, 98, 987, 9871][count - 1]);
        }
    }
}
