//! Undoes the filters of a chunk. Pure: any rank and any thread decodes its own chunks.

use std::borrow::Cow;
use std::io::Read;

use super::{lzf, n_bit, scale_offset};
use crate::hdf5::model::chunk_table::ChunkFilter;

const DEFLATE: u16 = 1;
const SHUFFLE: u16 = 2;
const FLETCHER32: u16 = 3;
const SZIP: u16 = 4;
const N_BIT: u16 = 5;
const SCALE_OFFSET: u16 = 6;
const LZF: u16 = 32000;
const BLOSC: u16 = 32001;
const LZ4: u16 = 32004;
const BITSHUFFLE: u16 = 32008;
const ZSTD: u16 = 32015;

/// Chunks up to this size are decoded whatever their stored size is.
const HARMLESS: usize = 32 << 20;
/// Larger chunks may have so many bytes for each stored one: more is no compression but damage.
const LARGEST_RATIO: usize = 1 << 16;

/// The first filter that is not undone here, by its name and with a remedy.
pub(crate) fn unsupported(filters: &[ChunkFilter]) -> Option<String> {
    let known = [DEFLATE, SHUFFLE, FLETCHER32, N_BIT, SCALE_OFFSET, LZF, LZ4, ZSTD];
    let filter = filters.iter().find(|filter| !known.contains(&filter.id))?;
    let name = match filter.id {
        SZIP => "szip",
        BLOSC => "blosc",
        BITSHUFFLE => "bitshuffle",
        _ if filter.name.is_empty() => "unknown",
        _ => &filter.name,
    };
    let id = filter.id;
    Some(format!(
        "its chunks went through the filter {name} ({id}), which is not supported; `h5repack -f GZIP=4` replaces it"
    ))
}

/// The `wanted` bytes of a chunk from those that the file has; filters whose bit is set in `mask` were not applied.
pub(crate) fn decode_chunk<'c>(
    filters: &[ChunkFilter],
    mask: u32,
    stored: &'c [u8],
    wanted: usize,
) -> Result<Cow<'c, [u8]>, String> {
    if wanted > HARMLESS && wanted / stored.len().max(1) > LARGEST_RATIO {
        return Err(format!("a chunk of {wanted} bytes is stored in {} bytes", stored.len()));
    }
    let mut bytes = Cow::Borrowed(stored);
    for (at, filter) in filters.iter().enumerate().rev() {
        if mask.checked_shr(at as u32).unwrap_or(0) & 1 == 0 {
            let limit = wanted.saturating_add(wanted / 8 + 1024);
            bytes = undo(filter, bytes, limit).map_err(|error| format!("filter {}: {error}", filter.id))?;
        }
    }
    if bytes.len() < wanted {
        return Err(format!("a chunk has {} bytes instead of {wanted}", bytes.len()));
    }
    Ok(bytes)
}

/// Undoes one filter; the result has at most `limit` bytes.
fn undo<'c>(filter: &ChunkFilter, bytes: Cow<'c, [u8]>, limit: usize) -> Result<Cow<'c, [u8]>, String> {
    Ok(match filter.id {
        DEFLATE => Cow::Owned(bounded(flate2::read::ZlibDecoder::new(&*bytes), limit)?),
        SHUFFLE => Cow::Owned(unshuffle(&bytes, filter.parameters.first().copied().unwrap_or(1) as usize)),
        FLETCHER32 => without_fletcher32(bytes)?,
        N_BIT => Cow::Owned(n_bit::decode(&filter.parameters, &bytes, limit)?),
        SCALE_OFFSET => Cow::Owned(scale_offset::decode(&filter.parameters, &bytes, limit)?),
        LZF => Cow::Owned(lzf::decode(&bytes, limit)?),
        LZ4 => Cow::Owned(lz4(&bytes, limit)?),
        ZSTD => {
            let decoder =
                zstd::stream::read::Decoder::with_buffer(&*bytes).map_err(|error| error.to_string())?;
            Cow::Owned(bounded(decoder, limit)?)
        }
        id => return Err(format!("filter {id} is not supported")),
    })
}

/// What a decoder yields; its memory grows with what there is.
fn bounded(decoder: impl Read, limit: usize) -> Result<Vec<u8>, String> {
    // For chunks of usual sizes the memory is taken at once.
    let mut bytes = Vec::with_capacity(limit.min(1 << 20));
    decoder.take(limit as u64).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// Brings the bytes of each element together again; the rest that is no whole element follows as it is.
fn unshuffle(bytes: &[u8], size: usize) -> Vec<u8> {
    fn fixed<const N: usize>(bytes: &[u8], out: &mut [u8], count: usize) {
        let parts: [&[u8]; N] = std::array::from_fn(|at| &bytes[at * count..(at + 1) * count]);
        for (at, element) in out.as_chunks_mut::<N>().0.iter_mut().enumerate() {
            for (byte, part) in element.iter_mut().zip(&parts) {
                *byte = part[at];
            }
        }
    }
    if size <= 1 || size > bytes.len() {
        return bytes.to_vec();
    }
    let count = bytes.len() / size;
    let mut out = bytes.to_vec();
    let whole = &mut out[..count * size];
    match size {
        2 => fixed::<2>(bytes, whole, count),
        4 => fixed::<4>(bytes, whole, count),
        8 => fixed::<8>(bytes, whole, count),
        _ => {
            for (at, part) in bytes[..count * size].chunks_exact(count).enumerate() {
                part.iter().enumerate().for_each(|(element, byte)| whole[element * size + at] = *byte);
            }
        }
    }
    out
}

fn without_fletcher32(bytes: Cow<'_, [u8]>) -> Result<Cow<'_, [u8]>, String> {
    let (data, stored) = bytes.split_last_chunk::<4>().ok_or("a chunk without a checksum")?;
    let (stored, computed) = (u32::from_le_bytes(*stored), fletcher32(data));
    // Old versions of the library stored each half with its bytes in the opposite order.
    let swapped = u32::from_be_bytes(computed.to_le_bytes()).rotate_left(16);
    if stored != computed && stored != swapped {
        return Err(format!("the checksum is {stored:#010x}, that of the bytes {computed:#010x}"));
    }
    let length = data.len();
    Ok(match bytes {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..length]),
        Cow::Owned(mut bytes) => {
            bytes.truncate(length);
            Cow::Owned(bytes)
        }
    })
}

/// The Fletcher checksum of big-endian words of 16 bits.
fn fletcher32(bytes: &[u8]) -> u32 {
    let (mut low, mut high) = (0u32, 0u32);
    // So many words do not overflow the sums.
    for words in bytes.chunks(2 * 360) {
        for word in words.chunks(2) {
            low += u32::from(word[0]) << 8 | word.get(1).map_or(0, |byte| u32::from(*byte));
            high += low;
        }
        (low, high) = ((low & 0xffff) + (low >> 16), (high & 0xffff) + (high >> 16));
    }
    (low, high) = ((low & 0xffff) + (low >> 16), (high & 0xffff) + (high >> 16));
    high << 16 | low
}

/// Blocks of LZ4, after the size of all of them and of each; one that could not be compressed is stored as it is.
fn lz4(bytes: &[u8], limit: usize) -> Result<Vec<u8>, String> {
    let number = |at: usize, count: usize| {
        let bytes = bytes.get(at..at + count).ok_or("the blocks are cut off")?;
        Ok::<_, String>(bytes.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte)))
    };
    let (whole, block) = (number(0, 8)?, number(8, 4)?.max(1));
    let whole = usize::try_from(whole).ok().filter(|whole| *whole <= limit);
    let whole = whole.ok_or_else(|| format!("more than {limit} bytes"))?;
    let (mut out, mut at) = (Vec::new(), 12);
    while out.len() < whole {
        let length = number(at, 4)? as usize;
        let part = bytes.get(at + 4..).and_then(|rest| rest.get(..length)).ok_or("the blocks are cut off")?;
        at += 4 + length;
        let plain = (whole - out.len()).min(block as usize);
        if length == plain {
            out.extend_from_slice(part);
        } else {
            let start = out.len();
            out.resize(start + plain, 0);
            let count = lz4_flex::block::decompress_into(part, &mut out[start..])
                .map_err(|error| error.to_string())?;
            if count != plain {
                return Err(format!("a block has {count} bytes instead of {plain}"));
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuffled_bytes_come_back() {
        assert_eq!(unshuffle(&[1, 3, 5, 2, 4, 6, 7], 2), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(unshuffle(&[1, 4, 2, 5, 3, 6], 3), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn damaged_chunks_are_refused() {
        let filter = |id| ChunkFilter { id, name: String::new(), parameters: vec![4; 30] };
        for id in [DEFLATE, SHUFFLE, FLETCHER32, N_BIT, SCALE_OFFSET, LZF, LZ4, ZSTD, 77] {
            for stored in
                [&b""[..], b"\xff\xff\xff\xff\xff", b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"]
            {
                assert!(decode_chunk(&[filter(id)], 0, stored, 1 << 20).is_err(), "{id} {stored:?}");
            }
        }
        assert!(unsupported(&[filter(SZIP)]).is_some_and(|why| why.contains("szip")));
    }
}
