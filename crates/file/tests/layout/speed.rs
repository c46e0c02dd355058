//! How fast scattered bytes are copied, next to a plain copy: printed, not checked.

use std::hint::black_box;
use std::time::{Duration, Instant};

use aqueduct_file::layout::{Basic, Layout, Pattern, Result, Vector};

const BYTES: usize = 1 << 22;

fn best(mut work: impl FnMut()) -> Duration {
    let time = |()| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    std::iter::repeat_n((), 7).map(time).min().unwrap_or_default()
}

fn print_speed(name: &str, pattern: &Pattern) -> Result<()> {
    let mut memory = vec![1_u8; pattern.highest() as usize];
    let mut packed = vec![2_u8; BYTES];
    let source = vec![3_u8; BYTES];
    let copy = best(|| packed.copy_from_slice(black_box(&source)));
    let mut outcome = Ok(());
    let gather = best(|| outcome = pattern.gather(black_box(&memory), 0, &mut packed));
    outcome?;
    assert!(packed.iter().all(|&byte| byte == 1));
    let mut outcome = Ok(());
    let scatter = best(|| outcome = pattern.scatter(black_box(&packed), 0, &mut memory));
    outcome?;
    let walk = best(|| {
        black_box(pattern.runs(..).map(|run| run.offset).fold(0, i64::wrapping_add));
    });
    let mut other = vec![4_u8; memory.len()];
    let whole = best(|| other.copy_from_slice(black_box(&memory)));
    let share = |copy: Duration, time: Duration| 100.0 * copy.as_secs_f64() / time.as_secs_f64();
    println!(
        "{name}: gather {:.0} %, scatter {:.0} % of a plain copy of the data; {:.0} %, {:.0} % of one of all the memory; {:.1} ns a run",
        share(copy, gather),
        share(copy, scatter),
        share(whole, gather),
        share(whole, scatter),
        walk.as_secs_f64() * 1e9 / pattern.run_count() as f64
    );
    Ok(())
}

#[test]
fn copies_against_a_plain_copy() -> Result<()> {
    for (basic, block) in [(Basic::I32, 4), (Basic::F64, 8), (Basic::ComplexF64, 16)] {
        for gaps in [2, 4] {
            let vector = Vector { count: (BYTES / block) as u64, block: 1, stride: gaps };
            let layout = Layout::from(basic).vector(vector)?;
            print_speed(&format!("{block} bytes of every {}", block as i64 * gaps), layout.pattern())?;
        }
    }
    let irregular =
        Layout::from(Basic::F64).indexed_block(1, (0..(BYTES / 8) as i64).map(|i| 2 * i + i % 3 / 2))?;
    print_speed("8 bytes at listed places", irregular.pattern())?;
    let record = Layout::from(Basic::I32).indexed([(1, 0), (2, 2), (1, 7)])?.tiled((BYTES / 16) as u64)?;
    print_speed("records of 4, 8 and 4 bytes", &record)
}
