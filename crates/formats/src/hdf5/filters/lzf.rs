//! The filter LZF of h5py. Pure.

/// Decompresses up to `limit` bytes.
pub(super) fn decode(bytes: &[u8], limit: usize) -> Result<Vec<u8>, String> {
    const CUT_OFF: &str = "LZF data is cut off";
    let mut out = Vec::with_capacity(limit.min(1 << 20));
    let mut at = 0;
    let mut next = || {
        let byte = bytes.get(at).copied();
        at += 1;
        byte
    };
    while let Some(control) = next() {
        let control = usize::from(control);
        if control < 32 {
            for _ in 0..=control {
                out.push(next().ok_or(CUT_OFF)?);
            }
        } else {
            let mut length = control >> 5;
            if length == 7 {
                length += usize::from(next().ok_or(CUT_OFF)?);
            }
            let back = ((control & 31) << 8 | usize::from(next().ok_or(CUT_OFF)?)) + 1;
            let start = out.len().checked_sub(back).ok_or("LZF data refers to bytes before its beginning")?;
            // What is copied may overlap what it is copied from.
            for from in start..start + length + 2 {
                let byte = out[from];
                out.push(byte);
            }
        }
        if out.len() > limit {
            return Err(format!("LZF data has more than {limit} bytes"));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn runs_repeat_themselves() {
        assert_eq!(decode(&[1, 7, 8, 0x20 | (2 << 5), 1], 100), Ok(vec![7, 8, 7, 8, 7, 8, 7]));
        assert!(decode(&[0x20, 5], 100).is_err() && decode(&[3, 1], 100).is_err());
    }
}
