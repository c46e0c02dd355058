//! The scale-offset filter: integers and rounded floating-point numbers as differences from a minimum, with few bits. Pure.

use super::bit_stream::BitStream;

/// Bytes before the packed values.
const HEADER: usize = 21;

/// Decompresses the values of a chunk.
pub(super) fn decode(parameters: &[u32], bytes: &[u8], limit: usize) -> Result<Vec<u8>, String> {
    let &[kind, scale, count, class, size, _sign, order, has_fill, ref fill @ ..] = parameters else {
        return Err(format!("{} parameters of scale-offset", parameters.len()));
    };
    let (count, size, is_float) = (count as usize, size as usize, class == 1);
    let sound = [1, 2, 4, 8].contains(&size) && (!is_float || (size >= 4 && kind == 0));
    let length = count.checked_mul(size).filter(|length| sound && *length <= limit);
    let length =
        length.ok_or_else(|| format!("{count} values of {size} bytes by scale-offset of kind {kind}"))?;
    let (header, packed) = bytes.split_at_checked(HEADER).ok_or("values without a header")?;
    let bits = header.first_chunk().map_or(0, |bits| u32::from_le_bytes(*bits));
    let minimum = header[5..13].first_chunk().map_or(0, |minimum| u64::from_le_bytes(*minimum));
    if bits as usize > 8 * size {
        return Err(format!("values of {bits} bits in {size} bytes"));
    }
    let mut out = vec![0; length];
    if bits as usize == 8 * size {
        // Stored as they are.
        out.copy_from_slice(packed.get(..length).ok_or("values are cut off")?);
    } else {
        let word = |at: usize| u64::from(fill.get(at).copied().unwrap_or(0));
        let fill = (has_fill != 0 && bits > 0).then(|| word(0) | word(1) << 32);
        let mut packed = BitStream::new(packed);
        for value in out.chunks_exact_mut(size) {
            let number = packed.take(bits)?;
            let number = match fill {
                Some(fill) if number == (1 << bits) - 1 => fill,
                _ if is_float => restore(number, minimum, scale as i32, size),
                _ => number.wrapping_add(minimum),
            };
            value.copy_from_slice(&number.to_le_bytes()[..size]);
        }
    }
    if order == 1 {
        out.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    Ok(out)
}

/// A floating-point number from its rounded difference from the minimum, as bits.
fn restore(number: u64, minimum: u64, digits: i32, size: usize) -> u64 {
    if size == 4 {
        let value = number as i32 as f32 / 10f32.powi(digits) + f32::from_bits(minimum as u32);
        u64::from(value.to_bits())
    } else {
        (number as i64 as f64 / 10f64.powi(digits) + f64::from_bits(minimum)).to_bits()
    }
}
