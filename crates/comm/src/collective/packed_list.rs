//! A list of byte strings as one byte string: count, lengths, contents.

/// Packs a list.
pub(super) fn encode<B: AsRef<[u8]>>(items: &[B]) -> Vec<u8> {
    let contents: usize = items.iter().map(|item| item.as_ref().len()).sum();
    let mut bytes = Vec::with_capacity(8 * (items.len() + 1) + contents);
    bytes.extend_from_slice(&(items.len() as u64).to_le_bytes());
    for item in items {
        bytes.extend_from_slice(&(item.as_ref().len() as u64).to_le_bytes());
    }
    for item in items {
        bytes.extend_from_slice(item.as_ref());
    }
    bytes
}

/// Unpacks a list; none if the bytes are not one.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let (count, rest) = number(bytes)?;
    let (lengths, mut contents) = rest.split_at_checked(count.checked_mul(8)?)?;
    let mut items = Vec::with_capacity(count);
    for length in lengths.chunks_exact(8) {
        let (item, rest) = contents.split_at_checked(number(length)?.0)?;
        items.push(item);
        contents = rest;
    }
    contents.is_empty().then_some(items)
}

fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((usize::try_from(u64::from_le_bytes(*number)).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_decoded_and_a_truncated_one_is_rejected() {
        let items: [&[u8]; 3] = [b"abc", b"", b"defgh"];
        let bytes = encode(&items);
        assert_eq!(decode(&bytes).unwrap(), items);
        assert_eq!(decode(&encode::<&[u8]>(&[])).unwrap(), Vec::<&[u8]>::new());
        for cut in 0..bytes.len() {
            assert!(decode(&bytes[..cut]).is_none());
        }
        let huge = [u64::MAX.to_le_bytes(), 0u64.to_le_bytes()].concat();
        assert!(decode(&huge).is_none());
    }
}
