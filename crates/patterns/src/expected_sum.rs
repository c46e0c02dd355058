//! The expected checksum of a file, from the owner of each byte by plain arithmetic: independent of layouts and of MPI datatypes.

use crate::bench_case::BenchCase;

/// Bytes of an access through the shared file pointer.
const SHARED_PIECE: u64 = 4096;

/// The checksum of the file after a case, as [`sum_of_file`](crate::sum_of_file) computes it.
pub fn expected_sum(case: &BenchCase, ranks: u64) -> u64 {
    let period = if case.family.pattern == "shared" { SHARED_PIECE / 8 } else { u64::MAX };
    let half = |offset: u64| {
        let (rank, at) = owner(case, ranks, offset);
        let word = (rank << 48 | (at / 8)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word >> (8 * (at % 8)) & 0xffff_ffff
    };
    (0..ranks * case.bytes / 8).fold(0, |sum: u64, place| {
        let word = half(8 * place) | half(8 * place + 4) << 32;
        sum.wrapping_add((word ^ word >> 29).wrapping_mul(2 * (place % period) + 1))
    })
}

/// The rank that owns the byte at an offset of the file, and its position among the bytes of that rank.
fn owner(case: &BenchCase, ranks: u64, offset: u64) -> (u64, u64) {
    let columns = (1..=ranks).find(|columns| columns * columns >= ranks && ranks.is_multiple_of(*columns));
    let columns = columns.unwrap_or(1);
    match case.family.pattern {
        "round-robin-4" | "objects" => round_robin_owner(offset, 4, ranks),
        "round-robin-64" => round_robin_owner(offset, 64, ranks),
        "round-robin-4096" | "ordered" => round_robin_owner(offset, 4096, ranks),
        "tiles" => tile(offset, [case.bytes / 1024, 1024], columns),
        "page-tiles" => tile(offset, [case.bytes / 4096, 4096], columns),
        "blocks" => {
            let elements = (case.bytes / 8).ilog2();
            let x = elements.div_ceil(3);
            let y = (elements - x).div_ceil(2);
            let (width, height) = (8 << x, 1 << y);
            // Consecutive planes, each distributed in tiles.
            let plane = width * height * ranks;
            let (rank, at) = tile(offset % plane, [height, width], columns);
            (rank, offset / plane * width * height + at)
        }
        "nested" => {
            let (record, at) = (offset / (1024 * ranks), offset % (1024 * ranks));
            let arrays = [(0, 768), (768, 128), (896, 128)];
            let inside = arrays.into_iter().rev().find(|(first, _)| first * ranks <= at);
            let (first, part) = inside.unwrap_or(arrays[0]);
            let at = at - first * ranks;
            (at / part, record * 1024 + first + at % part)
        }
        _ => (offset / case.bytes, offset % case.bytes),
    }
}

fn round_robin_owner(offset: u64, piece: u64, ranks: u64) -> (u64, u64) {
    let number = offset / piece;
    (number % ranks, number / ranks * piece + offset % piece)
}

fn tile(offset: u64, [height, width]: [u64; 2], columns: u64) -> (u64, u64) {
    let (y, x) = (offset / (width * columns), offset % (width * columns));
    (y / height * columns + x / width, y % height * width + x % width)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench_case::PATTERNS;

    #[test]
    fn every_byte_of_every_rank_has_one_offset() {
        for (pattern, ranks) in PATTERNS.iter().flat_map(|pattern| [1, 2, 4, 6].map(|ranks| (pattern, ranks)))
        {
            for case in pattern.cases(&[65536]) {
                let mut seen = vec![false; (ranks * case.bytes) as usize];
                for offset in 0..ranks * case.bytes {
                    let (rank, at) = owner(&case, ranks, offset);
                    assert!(rank < ranks && at < case.bytes, "{case}: {offset}");
                    let seen = &mut seen[(rank * case.bytes + at) as usize];
                    assert!(!*seen, "{case}: {offset}");
                    *seen = true;
                }
            }
        }
    }
}
