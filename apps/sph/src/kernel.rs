//! Five smoothing kernels in one, two and three dimensions.

use std::f64::consts::PI;

/// The shape of a kernel, as a function of q = r/h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelKind {
    /// The cubic B-spline.
    Cubic,
    /// The quartic B-spline.
    Quartic,
    /// The quintic B-spline.
    Quintic,
    /// A Gaussian that is cut at 3h.
    Gauss,
    /// Wendland's C² polynomial.
    Wendland,
}

impl KernelKind {
    /// All kernels.
    pub const ALL: [Self; 5] = [Self::Cubic, Self::Quartic, Self::Quintic, Self::Gauss, Self::Wendland];

    /// Its name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Quartic => "quartic",
            Self::Quintic => "quintic",
            Self::Gauss => "gauss",
            Self::Wendland => "wendland",
        }
    }

    /// The radius of the support in units of h.
    pub fn support(self) -> f64 {
        match self {
            Self::Cubic | Self::Wendland => 2.0,
            Self::Quartic => 2.5,
            Self::Quintic | Self::Gauss => 3.0,
        }
    }

    /// The factor that makes the integral one, without h.
    fn norm(self, dimensions: usize) -> f64 {
        let of = |factors: [f64; 3]| factors[dimensions - 1];
        match self {
            Self::Cubic => of([2.0 / 3.0, 10.0 / (7.0 * PI), 1.0 / PI]),
            Self::Quartic => of([1.0 / 24.0, 96.0 / (1199.0 * PI), 1.0 / (20.0 * PI)]),
            Self::Quintic => of([1.0 / 120.0, 7.0 / (478.0 * PI), 1.0 / (120.0 * PI)]),
            Self::Gauss => PI.powf(-0.5 * dimensions as f64),
            Self::Wendland => of([5.0 / 8.0, 7.0 / (4.0 * PI), 21.0 / (16.0 * PI)]),
        }
    }
}

/// A kernel W(r, h).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kernel {
    kind: KernelKind,
    dimensions: i32,
    norm: f64,
    support: f64,
}

impl Kernel {
    /// The kernel of this shape in one to three dimensions.
    pub fn new(kind: KernelKind, dimensions: usize) -> Self {
        assert!((1..=3).contains(&dimensions), "one to three dimensions");
        let norm = kind.norm(dimensions);
        Self { kind, dimensions: dimensions as i32, norm, support: kind.support() }
    }

    /// The radius of the support in units of h.
    pub fn support(&self) -> f64 {
        self.support
    }

    /// W(r, h).
    #[inline]
    pub fn value(&self, r: f64, h: f64) -> f64 {
        let q = r / h;
        if q >= self.support {
            return 0.0;
        }
        let shape = match self.kind {
            KernelKind::Cubic if q < 1.0 => 1.0 - q * q * (1.5 - 0.75 * q),
            KernelKind::Cubic => 0.25 * (2.0 - q).powi(3),
            KernelKind::Quartic => power(2.5 - q, 4) - 5.0 * power(1.5 - q, 4) + 10.0 * power(0.5 - q, 4),
            KernelKind::Quintic => power(3.0 - q, 5) - 6.0 * power(2.0 - q, 5) + 15.0 * power(1.0 - q, 5),
            KernelKind::Gauss => (-q * q).exp(),
            KernelKind::Wendland if self.dimensions == 1 => power(1.0 - 0.5 * q, 3) * (1.0 + 1.5 * q),
            KernelKind::Wendland => power(1.0 - 0.5 * q, 4) * (1.0 + 2.0 * q),
        };
        self.norm * shape / h.powi(self.dimensions)
    }

    /// dW/dr.
    #[inline]
    pub fn slope(&self, r: f64, h: f64) -> f64 {
        let q = r / h;
        if q >= self.support {
            return 0.0;
        }
        let shape = match self.kind {
            KernelKind::Cubic if q < 1.0 => q * (2.25 * q - 3.0),
            KernelKind::Cubic => -0.75 * (2.0 - q).powi(2),
            KernelKind::Quartic => {
                -4.0 * (power(2.5 - q, 3) - 5.0 * power(1.5 - q, 3) + 10.0 * power(0.5 - q, 3))
            }
            KernelKind::Quintic => {
                -5.0 * (power(3.0 - q, 4) - 6.0 * power(2.0 - q, 4) + 15.0 * power(1.0 - q, 4))
            }
            KernelKind::Gauss => -2.0 * q * (-q * q).exp(),
            KernelKind::Wendland if self.dimensions == 1 => -3.0 * q * power(1.0 - 0.5 * q, 2),
            KernelKind::Wendland => -5.0 * q * power(1.0 - 0.5 * q, 3),
        };
        self.norm * shape / h.powi(self.dimensions + 1)
    }

    /// The sum of the kernel over a square or cubic lattice, one of whose points is the centre: the number density of the lattice.
    pub fn lattice_sum(&self, spacing: f64, h: f64) -> f64 {
        let reach = (self.support * h / spacing).ceil() as i64;
        let along = |axis: i32| if axis < self.dimensions { -reach..=reach } else { 0..=0 };
        let mut sum = 0.0;
        for z in along(2) {
            for y in along(1) {
                for x in along(0) {
                    let square = (x * x + y * y + z * z) as f64;
                    sum += self.value(square.sqrt() * spacing, h);
                }
            }
        }
        sum
    }
}

/// A power of the positive part.
#[inline]
fn power(base: f64, exponent: i32) -> f64 {
    if base > 0.0 { base.powi(exponent) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integrals_are_one() {
        for kind in KernelKind::ALL {
            for dimensions in 1..=3 {
                let (kernel, h, steps) = (Kernel::new(kind, dimensions), 0.7, 20_000);
                let dr = kernel.support() * h / f64::from(steps);
                let shell = |r: f64| [2.0, 2.0 * PI * r, 4.0 * PI * r * r][dimensions - 1];
                let middle = |step: i32| (f64::from(step) + 0.5) * dr;
                let sum: f64 =
                    (0..steps).map(|step| kernel.value(middle(step), h) * shell(middle(step)) * dr).sum();
                assert!((sum - 1.0).abs() < 1e-3, "{kind:?} in {dimensions} dimensions: {sum}");
            }
        }
    }

    #[test]
    fn slopes_are_difference_quotients() {
        for kind in KernelKind::ALL {
            for dimensions in 1..=3 {
                let (kernel, h, step) = (Kernel::new(kind, dimensions), 1.3, 1e-6);
                let largest = kernel.value(0.0, h) / h;
                for at in 1..200 {
                    let r = f64::from(at) * 0.01 * kernel.support() * h * 0.499 + 1e-4;
                    let quotient = (kernel.value(r + step, h) - kernel.value(r - step, h)) / (2.0 * step);
                    let error = (quotient - kernel.slope(r, h)).abs() / largest;
                    assert!(error < 1e-5, "{kind:?} in {dimensions} dimensions at {r}: {error}");
                }
            }
        }
    }

    #[test]
    fn the_lattice_sum_is_about_the_number_density() {
        for kind in KernelKind::ALL {
            for dimensions in 1..=3 {
                let sum = Kernel::new(kind, dimensions).lattice_sum(0.1, 0.13);
                let exact = 10f64.powi(dimensions as i32);
                assert!((sum / exact - 1.0).abs() < 0.02, "{kind:?} in {dimensions} dimensions: {sum}");
            }
        }
    }
}
