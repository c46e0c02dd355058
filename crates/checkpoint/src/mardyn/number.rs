//! Numbers as text, both ways, fast and exact: a phase space in ASCII is limited by this.

/// Powers of ten that fit 64 bits.
const TENS: [u64; 20] = {
    let mut tens = [1; 20];
    let mut k = 1;
    while k < 20 {
        tens[k] = tens[k - 1] * 10;
        k += 1;
    }
    tens
};

/// Appends the shortest text that is read back as the same number. Infinities and NaN are the caller's to refuse.
#[inline]
pub(super) fn put_float(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
}

/// Appends a whole number.
#[inline]
pub(super) fn put_whole(out: &mut Vec<u8>, mut value: u64) {
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
    out.extend_from_slice(&digits[at..]);
}

/// A whole number that fills the token.
#[inline]
pub(super) fn whole(token: &[u8]) -> Option<u64> {
    let short = (1..=20).contains(&token.len());
    let digits = |value: u64, byte: &u8| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then_some(()).and_then(|()| value.checked_mul(10)?.checked_add(u64::from(digit)))
    };
    short.then(|| token.iter().try_fold(0, digits)).flatten()
}

/// A finite number that fills the token, correctly rounded.
#[inline]
pub(super) fn float(token: &[u8]) -> Option<f64> {
    usual(token).or_else(|| unusual(token))
}

/// What the standard library reads, except what is not finite.
#[cold]
fn unusual(token: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(token).ok()?.parse().ok()?;
    value.is_finite().then_some(value)
}

/// Up to 19 digits with few decimal places, which is what simulations write; none where more care is needed.
#[inline]
fn usual(token: &[u8]) -> Option<f64> {
    let (negative, digits) = match token.first()? {
        b'-' => (true, &token[1..]),
        b'+' => (false, &token[1..]),
        _ => (false, token),
    };
    let (before, rest) = run_of_digits(0, digits);
    let whole = digits.len() - rest.len();
    let (mantissa, rest, places) = match rest.split_first() {
        Some((b'.', fraction)) => {
            let (mantissa, rest) = run_of_digits(before, fraction);
            (mantissa, rest, fraction.len() - rest.len())
        }
        _ => (before, rest, 0),
    };
    // 19 digits fit 64 bits; leading zeros are counted among them, at no loss but speed.
    if !(1..=19).contains(&(whole + places)) {
        return None;
    }
    let exponent = match rest.split_first() {
        None => 0,
        Some((b'e' | b'E', power)) => small_power(power)?,
        Some(_) => return None,
    };
    let value = scaled(mantissa, exponent - places as i32)?;
    Some(if negative { -value } else { value })
}

/// Takes digits off the front, onto a number; wraps around where there are too many, which the caller has counted.
#[inline]
fn run_of_digits(mut value: u64, mut bytes: &[u8]) -> (u64, &[u8]) {
    while let Some((eight, rest)) = bytes.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*eight);
        let Some(digits) = eight_digits(word) else { break };
        value = value.wrapping_mul(100_000_000).wrapping_add(digits);
        bytes = rest;
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

/// The number that eight digits make, the first in the lowest byte: pairs, then fours, then all, side by side in one word.
#[inline]
fn eight_digits(word: u64) -> Option<u64> {
    let zeros = word.wrapping_sub(0x3030_3030_3030_3030);
    let above = word.wrapping_add(0x4646_4646_4646_4646);
    if (zeros | above) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    let pairs = zeros.wrapping_mul(10).wrapping_add(zeros >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_ffff_0000_ffff;
    Some(fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff)
}

#[inline]
fn small_power(text: &[u8]) -> Option<i32> {
    let (negative, digits) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if !(1..=3).contains(&digits.len()) {
        return None;
    }
    let value = whole(digits)? as i32;
    Some(if negative { -value } else { value })
}

/// mantissa · 10^power, correctly rounded, where one exact operation gives it.
#[inline]
fn scaled(mantissa: u64, power: i32) -> Option<f64> {
    const EXACT: [f64; 23] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
        1e18, 1e19, 1e20, 1e21, 1e22,
    ];
    let places = power.unsigned_abs() as usize;
    if mantissa <= 1 << 53 && places <= 22 {
        let (value, ten) = (mantissa as f64, EXACT[places]);
        return Some(if power < 0 { value / ten } else { value * ten });
    }
    match power {
        0 => Some(mantissa as f64),
        -19..0 => Some(quotient(mantissa, TENS[places])),
        _ => None,
    }
}

/// a / b to the nearest double; neither is 0. A quotient of 63 bits or more and whether anything is left over tell how to round.
#[inline]
fn quotient(a: u64, b: u64) -> f64 {
    let (up, down) = (a.leading_zeros(), b.leading_zeros());
    let (a, b) = (u128::from(a << up) << 63, u128::from(b << down));
    let (bits, left) = ((a / b) as u64, a % b != 0);
    let shift = bits.leading_zeros();
    let bits = bits << shift;
    let (mantissa, below) = (bits >> 11, bits & 0x7ff);
    let odd = mantissa & 1 == 1;
    let rounded = mantissa + u64::from(below > 0x400 || (below == 0x400 && (left || odd)));
    let power = 11 + i64::from(down) - i64::from(up) - 63 - i64::from(shift);
    rounded as f64 * f64::from_bits(((1023 + power) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aqueduct_testkit::seeded::Seeded;

    #[test]
    fn every_double_comes_back() {
        let mut random = Seeded::new(7);
        for turn in 0..300_000 {
            let value = match turn % 3 {
                0 => f64::from_bits(random.number()),
                1 => random.number() as f64 / 2f64.powi(64) * 100.0,
                _ => (random.number() as i64 as f64) * 1e-19,
            };
            if value.is_finite() {
                let mut text = Vec::new();
                put_float(&mut text, value);
                let back = float(&text).map(f64::to_bits);
                assert_eq!(back, Some(value.to_bits()), "{}", String::from_utf8_lossy(&text));
            }
        }
    }

    #[test]
    fn any_text_is_read_as_the_standard_library_does() {
        let mut random = Seeded::new(8);
        for _ in 0..300_000 {
            let digits = |random: &mut Seeded, most: usize| {
                let count = random.below(most + 1);
                (0..count).map(|_| char::from(b'0' + random.below(10) as u8)).collect::<String>()
            };
            let sign = ["", "-", "+"][random.below(3)];
            let (before, after) = (digits(&mut random, 12), digits(&mut random, 22));
            let power = ["".into(), format!("e{}", random.below(40)), format!("E-{}", random.below(340))];
            let text = format!("{sign}{before}.{after}{}", power[random.below(3)]);
            let standard = text.parse::<f64>().ok().filter(|value| value.is_finite());
            assert_eq!(float(text.as_bytes()).map(f64::to_bits), standard.map(f64::to_bits), "{text}");
        }
    }

    #[test]
    fn halfway_cases_go_to_the_even_neighbour() {
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
    fn what_is_no_number_is_none() {
        for text in
            ["", "-", ".", "1.2.3", "1e", "1e+", "0x10", "nan", "inf", "-inf", "1e999", "12a", "1 2", "١"]
        {
            assert_eq!(float(text.as_bytes()), None, "{text}");
        }
        for text in ["", "-1", "1.0", "18446744073709551616", "99999999999999999999", "000000000000000000001"]
        {
            assert_eq!(whole(text.as_bytes()), None, "{text}");
        }
        assert_eq!(whole(b"18446744073709551615"), Some(u64::MAX));
    }

    #[test]
    fn whole_numbers_come_back() {
        for value in [0, 1, 9, 10, 99, 100, 12_345, u64::MAX] {
            let mut text = Vec::new();
            put_whole(&mut text, value);
            assert_eq!(whole(&text), Some(value));
        }
    }
}
