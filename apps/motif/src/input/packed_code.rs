//! The codes of residues in packed sequence files.

/// The letters of codes with 4 bits: each bit is a nucleotide. Code 0 has no letter.
const LETTERS_4: &[u8; 16] = b"-ACMGRSVTWYHKDBN";
const LETTERS_2: &[u8; 4] = b"ACGT";

const TABLE_2: [[u8; 4]; 256] = {
    let mut table = [[0; 4]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut at = 0;
        while at < 4 {
            table[byte][at] = LETTERS_2[byte >> (2 * at) & 3];
            at += 1;
        }
        byte += 1;
    }
    table
};

const TABLE_4: [[u8; 4]; 256] = {
    let mut table = [[0; 4]; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte][0] = LETTERS_4[byte & 15];
        table[byte][1] = LETTERS_4[byte >> 4];
        byte += 1;
    }
    table
};

/// The letters of a byte: 4 with 2 bits each, or the first 2 with 4 bits.
#[inline]
pub(super) fn letters_of_byte(byte: u8, bits: u32) -> &'static [u8; 4] {
    if bits == 2 { &TABLE_2[usize::from(byte)] } else { &TABLE_4[usize::from(byte)] }
}

/// The bytes of so many residues.
pub(super) fn encoded_length(residues: u64, bits: u32) -> u64 {
    residues.div_ceil(u64::from(8 / bits))
}

/// The code of a letter in normal form, if it has one.
pub(super) fn code_of(letter: u8, bits: u32) -> Option<u8> {
    let letters: &[u8] = if bits == 2 { LETTERS_2 } else { LETTERS_4 };
    letters.iter().position(|known| *known == letter && letter != b'-').map(|code| code as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_survive_a_round_trip() {
        for (bits, letters) in [(2, &b"ACGT"[..]), (4, b"ACGTRYSWKMBDHVN")] {
            for letter in letters {
                let code = code_of(*letter, bits).unwrap();
                for place in 0..8 / bits {
                    assert_eq!(letters_of_byte(code << (place * bits), bits)[place as usize], *letter);
                }
            }
        }
        assert_eq!((code_of(b'N', 2), code_of(b'X', 4), code_of(b'-', 4)), (None, None, None));
        assert_eq!((encoded_length(5, 2), encoded_length(5, 4), encoded_length(0, 2)), (2, 3, 0));
    }
}
