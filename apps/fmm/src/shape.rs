//! The shape of a packet: a product of cubic B-splines on [−2, 2].

/// Half the length of the support in each direction.
pub const SUPPORT: f64 = 2.0;

/// The second moment of the shape in each direction: `∫ψ y_a y_b = δ_ab / 3`.
pub const SECOND_MOMENT: f64 = 1.0 / 3.0;

/// The cubic B-spline with knots at integers, and its derivative.
#[inline]
pub fn spline(y: f64) -> (f64, f64) {
    let (distance, sign) = (y.abs(), y.signum());
    if distance < 1.0 {
        let value = 2.0 / 3.0 - distance * distance * (1.0 - 0.5 * distance);
        (value, sign * distance * (1.5 * distance - 2.0))
    } else if distance < SUPPORT {
        let rest = SUPPORT - distance;
        (rest * rest * rest / 6.0, -0.5 * sign * rest * rest)
    } else {
        (0.0, 0.0)
    }
}

/// The value of the shape.
#[inline]
pub fn value<const D: usize>(y: &[f64; D]) -> f64 {
    y.iter().map(|y| spline(*y).0).product()
}

/// The value of the shape and its gradient.
#[inline]
pub fn value_and_gradient<const D: usize>(y: &[f64; D]) -> (f64, [f64; D]) {
    let factors: [(f64, f64); D] = std::array::from_fn(|axis| spline(y[axis]));
    let gradient = std::array::from_fn(|axis| {
        let others = (0..D).filter(|other| *other != axis).map(|other| factors[other].0);
        others.product::<f64>() * factors[axis].1
    });
    (factors.iter().map(|factor| factor.0).product(), gradient)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The midpoint rule on the support.
    fn integrate(function: impl Fn(f64) -> f64) -> f64 {
        let count = 4000;
        let step = 2.0 * SUPPORT / f64::from(count);
        (0..count).map(|at| function(-SUPPORT + (f64::from(at) + 0.5) * step) * step).sum()
    }

    #[test]
    fn the_moments_of_the_shape() {
        assert!((integrate(|y| spline(y).0) - 1.0).abs() < 1e-9);
        assert!(integrate(|y| spline(y).0 * y).abs() < 1e-12);
        assert!((integrate(|y| spline(y).0 * y * y) - SECOND_MOMENT).abs() < 1e-6);
    }

    #[test]
    fn the_gradient_is_the_difference_quotient() {
        let point = [0.3, -1.4, 0.9];
        let (_, gradient) = value_and_gradient(&point);
        for axis in 0..3 {
            let at = |shift: f64| {
                let mut moved = point;
                moved[axis] += shift;
                value(&moved)
            };
            assert!(((at(1e-5) - at(-1e-5)) / 2e-5 - gradient[axis]).abs() < 1e-9);
        }
    }
}
