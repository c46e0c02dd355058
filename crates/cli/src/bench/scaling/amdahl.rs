//! Amdahl's law: the part of a program that does not scale, from measured speed-ups.

/// The serial part α of 1/S(p) = α + (1 − α)/p that fits speed-ups S on p ranks best (least squares); `None` without runs on several ranks.
pub(super) fn serial_part(speedups: &[(u64, f64)]) -> Option<f64> {
    // 1/S − 1/p = α (1 − 1/p)
    let terms =
        speedups.iter().filter(|(ranks, speedup)| *ranks > 1 && *speedup > 0.0).map(|(ranks, speedup)| {
            let share = 1.0 / *ranks as f64;
            (1.0 - share, 1.0 / speedup - share)
        });
    let (squares, products) =
        terms.fold((0.0, 0.0), |(squares, products), (x, y)| (squares + x * x, products + x * y));
    (squares > 0.0).then(|| products / squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serial_part_of_exact_speedups_is_found() {
        for alpha in [0.0, 0.05, 0.4, 1.0] {
            let speedup = |ranks: u64| (ranks, 1.0 / (alpha + (1.0 - alpha) / ranks as f64));
            let found = serial_part(&[1, 2, 4, 8, 16].map(speedup)).unwrap();
            assert!((found - alpha).abs() < 1e-12, "{alpha}: {found}");
        }
        assert_eq!(serial_part(&[(1, 1.0)]), None);
    }
}
