//! The checksum of metadata blocks: Bob Jenkins' `lookup3` hash. Pure.

use super::byte_cursor::Decoded;

/// The hash of `bytes`.
pub(crate) fn lookup3(bytes: &[u8]) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let (mut a, mut b, mut c) = (start, start, start);
    let word = |bytes: &[u8], at: usize| {
        let byte = |index: usize| bytes.get(at + index).map_or(0, |byte| u32::from(*byte) << (8 * index));
        byte(0) | byte(1) | byte(2) | byte(3)
    };
    let mut rest = bytes;
    while rest.len() > 12 {
        a = a.wrapping_add(word(rest, 0));
        b = b.wrapping_add(word(rest, 4));
        c = c.wrapping_add(word(rest, 8));
        for (first, second, third) in [(4, 6, 8), (16, 19, 4)] {
            a = a.wrapping_sub(c) ^ c.rotate_left(first);
            c = c.wrapping_add(b);
            b = b.wrapping_sub(a) ^ a.rotate_left(second);
            a = a.wrapping_add(c);
            c = c.wrapping_sub(b) ^ b.rotate_left(third);
            b = b.wrapping_add(a);
        }
        rest = &rest[12..];
    }
    if rest.is_empty() {
        return c;
    }
    a = a.wrapping_add(word(rest, 0));
    b = b.wrapping_add(word(rest, 4));
    c = c.wrapping_add(word(rest, 8));
    let step = |target: &mut u32, other: u32, rotation: u32| {
        *target = (*target ^ other).wrapping_sub(other.rotate_left(rotation));
    };
    step(&mut c, b, 14);
    step(&mut a, c, 11);
    step(&mut b, a, 25);
    step(&mut c, b, 16);
    step(&mut a, c, 4);
    step(&mut b, a, 14);
    step(&mut c, b, 24);
    c
}

/// Checks a block whose last four bytes are its checksum; the bytes before it.
pub(crate) fn checked(block: &[u8]) -> Decoded<&[u8]> {
    let (body, stored) = block.split_last_chunk::<4>().ok_or("a block without a checksum")?;
    let (stored, computed) = (u32::from_le_bytes(*stored), lookup3(body));
    if stored == computed {
        return Ok(body);
    }
    Err(format!("the checksum is {stored:#010x}, that of the bytes {computed:#010x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values() {
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
        assert!(checked(b"abc").is_err());
    }
}
