//! The perfectly matched layer: factors by which fields decay at the borders. Pure.

/// The layer at both ends of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PmlLayer {
    /// Its thickness in points; 0 for none.
    pub size: usize,
    /// Its absorption per point in nepers.
    pub alpha: f64,
}

impl PmlLayer {
    /// The factors of half a step for a direction. `shift` is ½ at the places of the velocity, half a point to the right, else 0.
    pub fn factors(&self, points: usize, spacing: f64, speed: f64, dt: f64, shift: f64) -> Vec<f64> {
        let strength = self.alpha * speed / spacing;
        let thickness = self.size as f64;
        let factor = |depth: f64| (-strength * (depth / thickness).powi(4) * dt / 2.0).exp();
        let mut factors = vec![1.0; points];
        for point in 0..self.size.min(points) {
            let number = (point + 1) as f64;
            factors[point] = factor(thickness + 1.0 - number - shift);
            factors[points - self.size.min(points) + point] = factor(number + shift);
        }
        factors
    }
}
