//! What the file has to be: who has which byte, as plainly as it can be said. A third way to say it, beside layouts and datatypes.

use super::case::ComparisonCase;

/// Bytes through the shared pointer in one piece.
const SHARED_PIECE: u64 = 4096;

/// The sum over the bytes of the file, as `crates/bench/src/contents.rs` has it.
pub(super) fn sum(cell: &ComparisonCase, ranks: u64) -> u64 {
    let period = if cell.family.pattern == "shared" { SHARED_PIECE / 8 } else { u64::MAX };
    let half = |offset: u64| {
        let (rank, at) = owner(cell, ranks, offset);
        let word = (rank << 48 | (at / 8)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word >> (8 * (at % 8)) & 0xffff_ffff
    };
    (0..ranks * cell.bytes / 8).fold(0, |sum: u64, place| {
        let word = half(8 * place) | half(8 * place + 4) << 32;
        sum.wrapping_add((word ^ word >> 29).wrapping_mul(2 * (place % period) + 1))
    })
}

/// Whose byte lies at an offset of the file, and where among that rank's bytes it is.
fn owner(cell: &ComparisonCase, ranks: u64, offset: u64) -> (u64, u64) {
    let columns = (1..=ranks).find(|columns| columns * columns >= ranks && ranks.is_multiple_of(*columns));
    let columns = columns.unwrap_or(1);
    match cell.family.pattern {
        "round-robin-4" | "objects" => round_robin_owner(offset, 4, ranks),
        "round-robin-64" => round_robin_owner(offset, 64, ranks),
        "round-robin-4096" | "ordered" => round_robin_owner(offset, 4096, ranks),
        "tiles" => tile(offset, [cell.bytes / 1024, 1024], columns),
        "page-tiles" => tile(offset, [cell.bytes / 4096, 4096], columns),
        "blocks" => {
            let cells = (cell.bytes / 8).ilog2();
            let x = cells.div_ceil(3);
            let y = (cells - x).div_ceil(2);
            let (width, height) = (8 << x, 1 << y);
            // Planes one behind the other, each dealt out as tiles are.
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
        _ => (offset / cell.bytes, offset % cell.bytes),
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
    use super::super::case::PATTERNS;
    use super::*;

    /// Each byte of each rank lies at one place.
    #[test]
    fn patterns_deal_out_the_whole_file() {
        for (pattern, ranks) in PATTERNS.iter().flat_map(|pattern| [1, 2, 4, 6].map(|ranks| (pattern, ranks)))
        {
            for cell in pattern.cases(&[65536]) {
                let mut seen = vec![false; (ranks * cell.bytes) as usize];
                for offset in 0..ranks * cell.bytes {
                    let (rank, at) = owner(&cell, ranks, offset);
                    assert!(rank < ranks && at < cell.bytes, "{cell}: {offset}");
                    let seen = &mut seen[(rank * cell.bytes + at) as usize];
                    assert!(!*seen, "{cell}: {offset}");
                    *seen = true;
                }
            }
        }
    }
}
