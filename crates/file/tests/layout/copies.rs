//! Copies of long rows: every length that has a loop of its own and some that do not, every kind of stride.

use aqueduct_file::layout::{Basic, Layout, Result, Vector};

/// The offset of every data byte, by the definition of a vector.
fn offsets(block: i64, stride: i64, count: i64) -> Vec<i64> {
    (0..count).flat_map(|i| i * stride..i * stride + block).collect()
}

fn check(block: i64, stride: i64, count: i64) -> Result<()> {
    let vector = Vector { count: count as u64, block: block as u64, stride };
    let layout = Layout::from(Basic::Byte).hvector(vector)?;
    let low = layout.true_lower_bound();
    let pattern = layout.pattern().shifted(-low)?;
    let places: Vec<usize> = offsets(block, stride, count).iter().map(|at| (at - low) as usize).collect();
    let memory: Vec<u8> = (0..layout.true_extent()).map(|i| (i * 31 + i / 256) as u8).collect();
    for window in [0..places.len(), 1..places.len() - 1, places.len() / 3..places.len() * 2 / 3] {
        let name = format!("{count} blocks of {block}, {stride} apart, bytes {window:?}");
        let mut packed = vec![0; window.len()];
        pattern.gather(&memory, window.start as u64, &mut packed)?;
        assert!(places[window.clone()].iter().map(|&at| memory[at]).eq(packed), "gather {name}");
        let fresh: Vec<u8> = (0..window.len()).map(|i| (i * 17 + 3) as u8).collect();
        let (mut scattered, mut expected) = (memory.clone(), memory.clone());
        pattern.scatter(&fresh, window.start as u64, &mut scattered)?;
        places[window].iter().zip(fresh).for_each(|(&at, byte)| expected[at] = byte);
        assert_eq!(scattered, expected, "scatter {name}");
    }
    Ok(())
}

#[test]
fn long_rows_of_every_length_and_stride() -> Result<()> {
    for block in [1, 2, 3, 4, 5, 8, 12, 16, 17, 24, 32, 100] {
        for stride in
            [-2 * block - 1, -block, -1, 0, 1, block - 1, block, block + 1, 2 * block, 5 * block + 3]
        {
            for count in [2, 7, 8, 9, 40] {
                check(block, stride, count)?;
            }
        }
    }
    Ok(())
}
