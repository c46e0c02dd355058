//! Bytes of test files: computed from a salt and the position in the file.

/// The byte that a write with this salt puts at this offset; never zero, so that it differs from a hole.
pub fn byte(salt: u8, offset: u64) -> u8 {
    let mixed = (offset ^ (u64::from(salt) << 56)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed >> 40) % 255) as u8 + 1
}

/// The bytes that such a write puts at `offset`.
pub fn pattern(salt: u8, offset: u64, length: usize) -> Vec<u8> {
    (offset..offset + length as u64).map(|offset| byte(salt, offset)).collect()
}
