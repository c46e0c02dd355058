//! Filters that chunks go through when they are written: shuffle, deflate, Zstandard, Fletcher-32. Pure.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use crate::hdf5::model::chunk_table::ChunkFilter;

/// Registered numbers of filters.
pub(crate) mod filter_id {
    pub(crate) const DEFLATE: u16 = 1;
    pub(crate) const SHUFFLE: u16 = 2;
    pub(crate) const FLETCHER32: u16 = 3;
    pub(crate) const ZSTD: u16 = 32015;
}

/// Why chunks are not written through these filters, if they are not.
pub(crate) fn unwritable(filters: &[ChunkFilter]) -> Option<String> {
    use filter_id::{DEFLATE, FLETCHER32, SHUFFLE, ZSTD};
    let unknown = filters.iter().find(|filter| ![DEFLATE, SHUFFLE, FLETCHER32, ZSTD].contains(&filter.id))?;
    Some(format!("its chunks have filter {} ({}), which is not written here", unknown.id, unknown.name))
}

/// A chunk after its filters, and which of them were skipped, one bit each: compression that makes it no smaller is.
pub(crate) fn encode_chunk(filters: &[ChunkFilter], chunk: &[u8]) -> Result<(Vec<u8>, u32), String> {
    let (mut bytes, mut skipped) = (chunk.to_vec(), 0);
    for (number, filter) in filters.iter().enumerate() {
        let first = filter.parameters.first().copied().unwrap_or(0);
        bytes = match filter.id {
            filter_id::SHUFFLE => shuffle(&bytes, first as usize),
            filter_id::FLETCHER32 => {
                let sum = fletcher32(&bytes);
                bytes.extend_from_slice(&sum.to_le_bytes());
                bytes
            }
            filter_id::DEFLATE | filter_id::ZSTD => {
                let packed = if filter.id == filter_id::DEFLATE {
                    deflate(&bytes, first)
                } else {
                    zstd::bulk::compress(&bytes, first as i32)
                };
                let packed = packed.map_err(|error| format!("compression: {error}"))?;
                if packed.len() < bytes.len() {
                    packed
                } else {
                    skipped |= 1 << number;
                    bytes
                }
            }
            other => return Err(format!("filter {other} is not written")),
        };
    }
    Ok((bytes, skipped))
}

fn deflate(bytes: &[u8], level: u32) -> std::io::Result<Vec<u8>> {
    let mut out = ZlibEncoder::new(Vec::with_capacity(bytes.len() / 2), Compression::new(level.min(9)));
    out.write_all(bytes)?;
    out.finish()
}

/// The first bytes of all elements, then the second ones, and so on; what is left over at the end.
fn shuffle(bytes: &[u8], size: usize) -> Vec<u8> {
    if size < 2 || bytes.len() < size {
        return bytes.to_vec();
    }
    let count = bytes.len() / size;
    let mut out = vec![0; bytes.len()];
    match size {
        4 => transpose::<4>(bytes, &mut out, count),
        8 => transpose::<8>(bytes, &mut out, count),
        _ => {
            for (element, from) in bytes.chunks_exact(size).enumerate() {
                from.iter().enumerate().for_each(|(at, byte)| out[at * count + element] = *byte);
            }
        }
    }
    out[count * size..].copy_from_slice(&bytes[count * size..]);
    out
}

fn transpose<const N: usize>(bytes: &[u8], out: &mut [u8], count: usize) {
    let elements = bytes.as_chunks::<N>().0;
    for (at, plane) in out.chunks_exact_mut(count).take(N).enumerate() {
        plane.iter_mut().zip(elements).for_each(|(to, element)| *to = element[at]);
    }
}

/// The checksum of [Fletcher](https://doi.org/10.1109/TCOM.1982.1095369) over big-endian words of 16 bits, as the format has it.
fn fletcher32(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<2>();
    let (mut one, mut two) = (0u32, 0u32);
    let fold = |sum: u32| (sum & 0xFFFF) + (sum >> 16);
    // So many words do not overflow.
    for some in words.chunks(360) {
        for word in some {
            one += u32::from(u16::from_be_bytes(*word));
            two += one;
        }
        (one, two) = (fold(one), fold(two));
    }
    if let [last] = rest {
        one += u32::from(*last) << 8;
        two += one;
        (one, two) = (fold(one), fold(two));
    }
    (one, two) = (fold(one), fold(two));
    two << 16 | one
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_elements_are_shuffled() {
        assert_eq!(shuffle(&[1, 2, 3, 4, 5, 6, 7], 3), [1, 4, 2, 5, 3, 6, 7]);
        let numbers: Vec<u8> = (0..16).collect();
        assert_eq!(shuffle(&numbers, 8), [0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15]);
        assert_eq!(shuffle(&numbers[..2], 4), [0, 1]);
    }

    #[test]
    fn compression_that_does_not_help_is_skipped() {
        let deflate = ChunkFilter { id: filter_id::DEFLATE, name: String::new(), parameters: vec![6] };
        let shuffle = ChunkFilter { id: filter_id::SHUFFLE, name: String::new(), parameters: vec![4] };
        let (bytes, mask) = encode_chunk(&[shuffle.clone(), deflate.clone()], &[7; 4000]).unwrap();
        assert!(bytes.len() < 100 && mask == 0, "{}", bytes.len());
        assert_eq!(encode_chunk(&[shuffle, deflate], &[1, 2, 3, 4]).unwrap(), (vec![1, 2, 3, 4], 2));
        let unknown = ChunkFilter { id: 4, name: "szip".to_owned(), parameters: Vec::new() };
        assert!(unwritable(&[unknown]).unwrap().contains("szip"));
    }
}
