//! Exact conversion between numbers and text, which limits the throughput of ASCII files.
//!
//! Doubles are written as the shortest text that is read back as the same double (`zmij`). Reading multiplies a decimal mantissa by a
//! 128-bit inverse of a power of five, similar to D. Lemire, Number parsing at a gigabyte per second, Software: Practice and Experience
//! 51(8), 2021.

use crate::digit_parser;

/// Powers of five that fit 64 bits.
const FIVES: [u64; 28] = {
    let mut fives = [1; 28];
    let mut k = 1;
    while k < 28 {
        fives[k] = fives[k - 1] * 5;
        k += 1;
    }
    fives
};

/// 2^191 divided by each power of five (shifted to 64 bits), rounded down: 128 bits.
const INVERSES: [u128; 28] = {
    let mut inverses = [0; 28];
    let mut k = 1;
    while k < 28 {
        let five = (FIVES[k] << FIVES[k].leading_zeros()) as u128;
        let (high, rest) = ((1 << 127) / five, (1 << 127) % five);
        inverses[k] = (high << 64) | ((rest << 64) / five);
        k += 1;
    }
    inverses
};

/// The biased exponent of a quotient by each power of five, for a mantissa and a quotient that need no shift.
const POWERS: [u64; 28] = {
    let mut powers = [0; 28];
    let mut k = 0;
    while k < 28 {
        powers[k] = 1022 + FIVES[k].leading_zeros() as u64 - k as u64;
        k += 1;
    }
    powers
};

/// The greatest length of a number, in bytes.
pub(super) const WIDEST: usize = 24;

/// Writes numbers to the front of `out`, a blank before each, as the shortest texts that are read back as the same numbers; returns their
/// total length. The numbers must be finite.
#[inline]
pub(super) fn put_floats(out: &mut [u8], values: &[f64]) -> usize {
    // All numbers are formatted before any is copied: a copy right after the stores of single digits stalls (store forwarding).
    let mut buffers = [(); 13].map(|()| zmij::Buffer::new());
    let mut texts = [&b"0.0"[..]; 13];
    for ((buffer, text), value) in buffers.iter_mut().zip(&mut texts).zip(values) {
        // Molecules without rotation have many zeros.
        if value.to_bits() != 0 {
            *text = buffer.format_finite(*value).as_bytes();
        }
    }
    let mut at = 0;
    for text in &texts[..values.len()] {
        out[at] = b' ';
        at += 1 + put(&mut out[at + 1..], text);
    }
    at
}

/// The shortest text that is read back as the same number. The number must be finite.
pub(super) fn shortest(value: f64) -> String {
    zmij::Buffer::new().format_finite(value).to_owned()
}

/// Writes a whole number to the front of `out`; returns its length.
#[inline]
pub(super) fn put_whole(out: &mut [u8], mut value: u64) -> usize {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    put(out, &digits[at..])
}

/// Copies a text. A copy of unknown length is a call; most numbers have 16 digits or more, and two overlapping copies of 16 bytes are
/// four instructions.
#[inline]
fn put(out: &mut [u8], text: &[u8]) -> usize {
    let length = text.len();
    let out = &mut out[..length];
    if let (Some(first), Some(last)) = (text.first_chunk::<16>(), text.last_chunk::<16>()) {
        out[..16].copy_from_slice(first);
        out[length - 16..].copy_from_slice(last);
    } else {
        out.copy_from_slice(text);
    }
    length
}

/// The whole number that is the whole token.
#[inline]
pub(super) fn whole(token: &[u8]) -> Option<u64> {
    let short = (1..=20).contains(&token.len());
    let digits = |value: u64, byte: &u8| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then_some(()).and_then(|()| value.checked_mul(10)?.checked_add(u64::from(digit)))
    };
    short.then(|| token.iter().try_fold(0, digits)).flatten()
}

/// The finite number that is the whole token, correctly rounded.
pub(super) fn float(token: &[u8]) -> Option<f64> {
    let all = float_prefix(token).filter(|(_, length)| *length == token.len());
    all.map(|(value, _)| value).or_else(|| unusual(token))
}

/// Parses with the standard library; finite numbers only.
#[cold]
fn unusual(token: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(token).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

/// The finite number in a text from `start` to `end`, correctly rounded.
#[inline]
pub(super) fn float_between(text: &[u8], start: usize, end: usize) -> Option<f64> {
    plain_float(text, start, end).or_else(|| float(text.get(start..end)?))
}

/// The fast case of [`float_between`], nearly all numbers of a phase space: up to three digits, a point, at most four digits before the
/// last sixteen, and enough text before and after the number. The last sixteen digits are parsed at once; the digits before them are
/// joined with those before the point.
#[inline]
fn plain_float(text: &[u8], start: usize, end: usize) -> Option<f64> {
    const TENS: [u64; 17] = {
        let mut tens = [1; 17];
        let mut k = 1;
        while k < 17 {
            tens[k] = tens[k - 1] * 10;
            k += 1;
        }
        tens
    };
    let negative = *text.get(start)? == b'-';
    let start = start + usize::from(negative);
    let length = end.wrapping_sub(start);
    if start < 16 || !(3..=21).contains(&length) || (start + 8).max(end) > text.len() {
        return None;
    }
    let word = u64::from_le_bytes(digit_parser::part(text, start));
    let point = digit_parser::point(word as u32);
    if !(1..=3).contains(&point) || point + 2 > length {
        return None;
    }
    let places = length - point - 1;
    let last = places.min(16);
    let low = digit_parser::sixteen(digit_parser::part(text, end - 16), last);
    // The first four digits, without the point.
    let before = (1 << (8 * point)) - 1;
    let word = (word & before) | ((word >> 8) & !before);
    // 1844 · 10^16 and sixteen digits may exceed 64 bits.
    let high = digit_parser::few(word as u32, point + places - last).filter(|high| *high < 1844);
    let mantissa = high? * TENS[last] + low?;
    let value = if mantissa == 0 { 0.0 } else { by_inverse(mantissa, places)? };
    // No branch: signs are not predictable.
    Some(f64::from_bits(value.to_bits() | u64::from(negative) << 63))
}

/// The number at the front of a text, correctly rounded, and its length, if it is a usual one: up to 19 significant digits, few decimal
/// places. `None` for other numbers, and for text that is not a number.
#[inline]
pub(super) fn float_prefix(bytes: &[u8]) -> Option<(f64, usize)> {
    let first = *bytes.first()?;
    let negative = first == b'-';
    let unsigned = &bytes[usize::from(negative || first == b'+')..];
    let (mut mantissa, mut rest) = digit_parser::run(0, unsigned);
    let whole = unsigned.len() - rest.len();
    let (mut places, mut counting) = (0, whole);
    if let Some((b'.', fraction)) = rest.split_first() {
        let before = mantissa;
        (mantissa, rest) = digit_parser::run(before, fraction);
        places = fraction.len() - rest.len();
        counting = whole + places;
        // Leading zeros are not significant.
        if counting > 19 && before == 0 {
            counting = places - fraction.iter().take_while(|byte| **byte == b'0').count();
        }
    }
    if whole + places == 0 || counting > 19 {
        return None;
    }
    let mut power = 0;
    if let Some((b'e' | b'E', after)) = rest.split_first() {
        (power, rest) = small_power(after)?;
    }
    let value = scaled(mantissa, power - places as i32)?;
    // No branch: signs are not predictable.
    let value = f64::from_bits(value.to_bits() | u64::from(negative) << 63);
    Some((value, bytes.len() - rest.len()))
}

/// The whole number at the front of a text, and its length, if it has at most 19 digits.
#[inline]
pub(super) fn whole_prefix(bytes: &[u8]) -> Option<(u64, usize)> {
    let (value, rest) = digit_parser::run(0, bytes);
    let length = bytes.len() - rest.len();
    (1..=19).contains(&length).then_some((value, length))
}

/// The exponent at the front of a text, and the rest of the text.
#[inline]
fn small_power(text: &[u8]) -> Option<(i32, &[u8])> {
    let (negative, unsigned) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (value, rest) = digit_parser::run(0, unsigned);
    let value = (1..=3).contains(&(unsigned.len() - rest.len())).then_some(value as i32)?;
    Some((if negative { -value } else { value }, rest))
}

/// mantissa · 10^power, correctly rounded, if one exact operation gives it.
#[inline]
fn scaled(mantissa: u64, power: i32) -> Option<f64> {
    const EXACT: [f64; 23] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
        1e18, 1e19, 1e20, 1e21, 1e22,
    ];
    let places = power.unsigned_abs() as usize;
    // The most frequent case first. Whether a mantissa is below 2^53 is not predictable.
    if (-27..0).contains(&power)
        && mantissa != 0
        && let Some(value) = by_inverse(mantissa, places)
    {
        return Some(value);
    }
    if mantissa <= 1 << 53 && places <= 22 {
        let (value, ten) = (mantissa as f64, EXACT[places]);
        return Some(if power < 0 { value / ten } else { value * ten });
    }
    match power {
        _ if mantissa == 0 => Some(0.0),
        0 => Some(mantissa as f64),
        -27..0 => Some(by_division(mantissa, places)),
        _ => None,
    }
}

/// mantissa / 10^places as the nearest double; the mantissa is not 0. The product with the inverse is less than the quotient by at most
/// two units of its last place. `None` if that could change the rounding.
#[inline]
fn by_inverse(mantissa: u64, places: usize) -> Option<f64> {
    let up = mantissa.leading_zeros();
    let (inverse, factor) = (INVERSES[places], u128::from(mantissa << up));
    let low = ((inverse & u128::from(u64::MAX)) * factor) >> 64;
    let product = (inverse >> 64) * factor + low;
    let rest = product as u64;
    (2..u64::MAX - 2).contains(&rest).then(|| rounded((product >> 64) as u64, true, up, places))
}

/// mantissa / 10^places as the nearest double, by an exact division.
#[cold]
fn by_division(mantissa: u64, places: usize) -> f64 {
    let up = mantissa.leading_zeros();
    let (a, b) =
        (u128::from(mantissa << up) << 63, u128::from(FIVES[places] << FIVES[places].leading_zeros()));
    rounded((a / b) as u64, a % b != 0, up, places)
}

/// The nearest double to a quotient of 63 or 64 bits, with a remainder if `left`, of a mantissa that was shifted up by `up` bits.
#[inline]
fn rounded(bits: u64, left: bool, up: u32, places: usize) -> f64 {
    let short = 1 - (bits >> 63);
    let bits = bits << short;
    let (mantissa, below) = (bits >> 11, bits & 0x7ff);
    let odd = mantissa & 1 == 1;
    let mantissa = mantissa + u64::from(below > 0x400 || (below == 0x400 && (left || odd)));
    // The implicit leading one, and a carry of the rounding, are added to the exponent.
    f64::from_bits(((POWERS[places] - u64::from(up) - short) << 52) + mantissa)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aqueduct_testkit::rng::SeededRng;

    #[test]
    fn every_double_survives_conversion_to_text() {
        let mut random = SeededRng::new(7);
        for turn in 0..300_000 {
            let value = match turn % 3 {
                0 => f64::from_bits(random.number()),
                1 => random.number() as f64 / 2f64.powi(64) * 100.0,
                _ => (random.number() as i64 as f64) * 1e-19,
            };
            if value.is_finite() {
                let text = shortest(value).into_bytes();
                let mut line = [0; 3 * WIDEST];
                let length = put_floats(&mut line, &[value, 0.0]);
                assert_eq!(line[..length], [b" ", &text[..], b" 0.0"].concat());
                let back = float(&text).map(f64::to_bits);
                assert_eq!(back, Some(value.to_bits()), "{}", String::from_utf8_lossy(&text));
                let found = float_between(&amid(&text), 17, 17 + text.len());
                assert_eq!(found.map(f64::to_bits), Some(value.to_bits()));
            }
        }
    }

    #[test]
    fn any_text_is_parsed_as_by_the_standard_library() {
        let (mut random, mut plain) = (SeededRng::new(8), 0);
        for _ in 0..300_000 {
            let digits = |random: &mut SeededRng, most: usize| {
                let count = random.below(most + 1);
                (0..count).map(|_| char::from(b'0' + random.below(10) as u8)).collect::<String>()
            };
            let sign = ["", "-", "+"][random.below(3)];
            let (before, after) = (digits(&mut random, 12), digits(&mut random, 22));
            let power = [String::new(), format!("e{}", random.below(40)), format!("E-{}", random.below(340))];
            let text = format!("{sign}{before}.{after}{}", power[random.below(3)]);
            let standard = text.parse::<f64>().ok().filter(|value| value.is_finite());
            assert_eq!(float(text.as_bytes()).map(f64::to_bits), standard.map(f64::to_bits), "{text}");
            let (line, end) = (amid(text.as_bytes()), 17 + text.len());
            assert_eq!(float_between(&line, 17, end).map(f64::to_bits), standard.map(f64::to_bits), "{text}");
            plain += usize::from(plain_float(&line, 17, end).is_some());
        }
        assert!(plain > 3000, "only {plain} numbers took the fast case");
    }

    /// A number inside a line.
    fn amid(number: &[u8]) -> Vec<u8> {
        [b"1234567890 12345 ", number, b" 1 -0.25 0.125 0.0625 1234567 7\n"].concat()
    }

    #[test]
    fn multiplication_by_the_inverse_and_division_agree() {
        let mut random = SeededRng::new(9);
        let mut refused = 0;
        for turn in 0..300_000 {
            let mantissa = random.number() >> random.below(12);
            let places = 1 + turn % 27;
            match by_inverse(mantissa, places) {
                Some(value) => assert_eq!(
                    value.to_bits(),
                    by_division(mantissa, places).to_bits(),
                    "{mantissa} {places}"
                ),
                None => refused += 1,
            }
        }
        assert!(refused < 300_000 / 8, "{refused}");
        for mantissa in [5_u64.pow(27), 3 * 5_u64.pow(23), (1 << 63) + (1 << 9), (1 << 60) + (1 << 6)] {
            for places in 1..28 {
                let text = format!("{mantissa}e-{places}");
                let expected: f64 = text.parse().unwrap();
                let ways = [by_inverse(mantissa, places).unwrap_or(expected), by_division(mantissa, places)];
                assert_eq!(ways.map(f64::to_bits), [expected.to_bits(); 2], "{text}");
            }
        }
    }

    #[test]
    fn halfway_cases_round_to_even() {
        for text in [
            "9007199254740993",
            "9007199254740993.0",
            "9007199254740992.5",
            "4503599627370497.5",
            "0.1",
            "1e-400",
        ] {
            assert_eq!(float(text.as_bytes()), Some(text.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn text_that_is_not_a_number_is_rejected() {
        for text in
            ["", "-", ".", "1.2.3", "1e", "1e+", "0x10", "nan", "inf", "-inf", "1e999", "12a", "1 2", "١"]
        {
            assert_eq!(float(text.as_bytes()), None, "{text}");
            assert_eq!(float_between(&amid(text.as_bytes()), 17, 17 + text.len()), None, "{text}");
        }
        for text in ["", "-1", "1.0", "18446744073709551616", "99999999999999999999", "000000000000000000001"]
        {
            assert_eq!(whole(text.as_bytes()), None, "{text}");
        }
        assert_eq!(whole(b"18446744073709551615"), Some(u64::MAX));
    }

    #[test]
    fn whole_numbers_survive_conversion_to_text() {
        for value in [0, 1, 9, 10, 99, 100, 12_345, u64::MAX] {
            let mut text = [0; WIDEST];
            let length = put_whole(&mut text, value);
            assert_eq!(whole(&text[..length]), Some(value));
        }
    }
}
