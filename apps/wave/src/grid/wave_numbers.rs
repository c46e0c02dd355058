//! Wave numbers of the discrete Fourier transform. Pure.

use std::f64::consts::PI;

/// The wave numbers of a direction in the order of the transform; that of the highest frequency of an even number of points is negative.
pub fn wave_numbers(points: usize, spacing: f64) -> Vec<f64> {
    let step = 2.0 * PI / (points as f64 * spacing);
    let signed = |index: usize| if 2 * index < points { index as f64 } else { index as f64 - points as f64 };
    (0..points).map(|index| signed(index) * step).collect()
}

/// sin(h) / h.
pub fn sinc(h: f64) -> f64 {
    if h == 0.0 { 1.0 } else { h.sin() / h }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_the_transform() {
        let scaled = |points| wave_numbers(points, 2.0 * PI / points as f64);
        assert_eq!(scaled(4), [0.0, 1.0, -2.0, -1.0]);
        assert_eq!(scaled(5), [0.0, 1.0, 2.0, -2.0, -1.0]);
    }
}
