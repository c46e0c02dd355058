//! The portable representation of the MPI standard: big-endian, integers of C's old sizes, IEEE numbers.

use crate::layout::Basic;

/// Appends values of one kind as they lie in a file; an error says which value has no place there.
pub(crate) fn store(basic: Basic, values: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let (part, _) = basic.components();
    for value in values.chunks_exact(part.size() as usize) {
        match part {
            Basic::LongDouble => out.extend_from_slice(&quad_of_extended(number(value)).to_be_bytes()),
            _ => narrow(part, value, out)?,
        }
    }
    Ok(())
}

/// Appends values of one kind as they lie in memory.
pub(crate) fn load(basic: Basic, stored: &[u8], out: &mut Vec<u8>) {
    let (part, _) = basic.components();
    let size = part.size() as usize;
    for value in stored.chunks_exact(part.external32_size() as usize) {
        if part == Basic::LongDouble {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(value);
            out.extend_from_slice(&extended_of_quad(u128::from_be_bytes(bytes)).to_ne_bytes());
            continue;
        }
        let negative = part == Basic::Long && value[0] & 0x80 != 0;
        let wide =
            value.iter().fold(if negative { u128::MAX } else { 0 }, |sum, byte| sum << 8 | u128::from(*byte));
        let bytes = wide.to_ne_bytes();
        out.extend_from_slice(if cfg!(target_endian = "little") {
            &bytes[..size]
        } else {
            &bytes[16 - size..]
        });
    }
}

/// A value in the machine's order as a number.
fn number(value: &[u8]) -> u128 {
    let add = |sum: u128, byte: &u8| sum << 8 | u128::from(*byte);
    if cfg!(target_endian = "little") { value.iter().rev().fold(0, add) } else { value.iter().fold(0, add) }
}

/// An integer, or a number whose bits are kept, in the bytes it has in a file.
fn narrow(part: Basic, value: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let stored = part.external32_size() as usize;
    let bits = number(value);
    let dropped = 8 * (value.len() - stored) as u32;
    let shift = 128 - 8 * value.len() as u32;
    let fits = match part {
        Basic::Long => {
            let wide = (bits << shift).cast_signed() >> shift;
            (wide << (shift + dropped)) >> (shift + dropped) == wide
        }
        _ => bits.leading_zeros() >= shift + dropped || dropped == 0,
    };
    if !fits {
        return Err(format!(
            "the {part:?} {bits:#x} does not fit the {stored} bytes it has in external32; use a kind of fixed width, such as I64"
        ));
    }
    out.extend_from_slice(&bits.to_be_bytes()[16 - stored..]);
    Ok(())
}

const EXPONENT: u128 = 0x7fff;
/// Fraction bits that quadruple precision has and the extended format has not.
const MORE: u32 = 49;

/// IEEE quadruple precision from the extended format of 80 bits, which shows its leading bit.
fn quad_of_extended(bits: u128) -> u128 {
    let (sign, exponent) = (bits >> 79 & 1, bits >> 64 & EXPONENT);
    let significand = bits & u128::from(u64::MAX);
    // A number with the least exponent that shows its leading bit all the same has the next one.
    let exponent = if exponent == 0 && significand >> 63 == 1 { 1 } else { exponent };
    let fraction = significand & (u128::from(u64::MAX) >> 1);
    sign << 127 | exponent << 112 | fraction << MORE
}

/// The extended format from quadruple precision, rounded to the nearest, ties to even.
fn extended_of_quad(bits: u128) -> u128 {
    let (sign, exponent) = (bits >> 127, bits >> 112 & EXPONENT);
    let fraction = bits & ((1 << 112) - 1);
    let leading = u128::from(exponent != 0) << 63;
    let kept = leading | fraction >> MORE;
    let rest = fraction & ((1 << MORE) - 1);
    let half = 1 << (MORE - 1);
    if exponent == EXPONENT {
        // What is not a number stays so, even if all that says so are bits that are dropped.
        let kept = if fraction != 0 && kept == leading { kept | 1 } else { kept };
        return sign << 79 | exponent << 64 | kept;
    }
    let up = u128::from(rest > half || (rest == half && kept & 1 == 1));
    // A carry out of the significand leaves it zero and moves the exponent up, also from the least to the next and to infinity.
    let rounded = kept + up;
    let (exponent, rounded) = match rounded >> 63 {
        2 => (exponent + 1, 1 << 63),
        1 if exponent == 0 => (1, rounded),
        _ => (exponent, rounded),
    };
    sign << 79 | exponent << 64 | rounded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(basic: Basic, values: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        store(basic, values, &mut out).unwrap();
        out
    }

    fn back(basic: Basic, values: &[u8]) {
        let mut out = Vec::new();
        load(basic, &stored(basic, values), &mut out);
        assert_eq!(out, values, "{basic:?}");
    }

    #[test]
    fn integers_of_other_sizes_are_narrowed_and_widened() {
        assert_eq!(stored(Basic::Long, &(-2i64).to_ne_bytes()), [0xff, 0xff, 0xff, 0xfe]);
        for value in [0, 1, -1, i64::from(i32::MAX), i64::from(i32::MIN)] {
            back(Basic::Long, &value.to_ne_bytes());
        }
        back(Basic::UnsignedLong, &u64::from(u32::MAX).to_ne_bytes());
        for (basic, value) in [(Basic::Long, 1u64 << 31), (Basic::UnsignedLong, 1 << 32)] {
            assert!(store(basic, &value.to_ne_bytes(), &mut Vec::new()).is_err(), "{basic:?} {value}");
        }
    }

    #[test]
    fn others_are_big_endian() {
        assert_eq!(stored(Basic::I32, &0x0102_0304i32.to_ne_bytes()), [1, 2, 3, 4]);
        assert_eq!(
            stored(Basic::ComplexF32, &[1.0f32.to_ne_bytes(), 2.0f32.to_ne_bytes()].concat())[..2],
            [0x3f, 0x80]
        );
        for basic in Basic::ALL {
            let small: Vec<u8> = (0..basic.size()).map(|at| u8::from(at == 0)).collect();
            if cfg!(target_endian = "little") {
                back(basic, &small);
            }
        }
    }

    #[test]
    fn long_doubles_are_quadruple_precision_in_a_file() {
        // 1, -2.5, the least normal number, the least of all, infinity.
        let known: [(u128, u128); 5] = [
            (0x3fff_8000_0000_0000_0000, 0x3fff_0000_0000_0000_0000_0000_0000_0000),
            (0xc000_a000_0000_0000_0000, 0xc000_4000_0000_0000_0000_0000_0000_0000),
            (0x0001_8000_0000_0000_0000, 0x0001_0000_0000_0000_0000_0000_0000_0000),
            (0x0000_0000_0000_0000_0001, 1 << MORE),
            (0x7fff_8000_0000_0000_0000, 0x7fff_0000_0000_0000_0000_0000_0000_0000),
        ];
        for (extended, quad) in known {
            assert_eq!(quad_of_extended(extended), quad, "{extended:#x}");
            assert_eq!(extended_of_quad(quad_of_extended(extended)), extended);
        }
    }

    #[test]
    fn quadruple_precision_is_rounded_to_even() {
        let one = 0x3fff_u128 << 112;
        let half = 1u128 << (MORE - 1);
        assert_eq!(extended_of_quad(one | half), extended_of_quad(one));
        assert_eq!(extended_of_quad(one | half | 1), extended_of_quad(one) + 1);
        assert_eq!(extended_of_quad(one | half | half << 1), extended_of_quad(one) + 2);
        let below_two = one | ((1 << 112) - 1);
        assert_eq!(extended_of_quad(below_two), 0x4000_8000_0000_0000_0000);
        let nan = 0x7fff_u128 << 112 | 1;
        assert_ne!(extended_of_quad(nan) & u128::from(u64::MAX >> 1), 0);
    }
}
