//! A box of space that a rank is in charge of.

/// A box: from `low` up to, not including, `high`. Of the domain it lies in, the upper faces belong to it where it reaches them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpatialRegion {
    /// The lower corner.
    pub low: [f64; 3],
    /// The upper corner.
    pub high: [f64; 3],
}

impl SpatialRegion {
    /// All of space.
    pub const EVERYWHERE: Self = Self { low: [f64::NEG_INFINITY; 3], high: [f64::INFINITY; 3] };

    /// The box between two corners.
    pub fn new(low: [f64; 3], high: [f64; 3]) -> Self {
        Self { low, high }
    }

    /// The box from the origin to `length`.
    pub fn of(length: [f64; 3]) -> Self {
        Self { low: [0.0; 3], high: length }
    }

    /// Whether a particle at this place of a domain of this length belongs here. What rounding has put on the upper face of the
    /// domain belongs to whoever reaches that face.
    pub fn contains(&self, position: [f64; 3], length: [f64; 3]) -> bool {
        (0..3).all(|d| {
            let (at, low, high) = (position[d], self.low[d], self.high[d]);
            at >= low && (at < high || (at >= length[d] && high >= length[d]))
        })
    }

    /// Whether a position lies in the box, all faces included.
    pub fn contains_closed(&self, position: [f64; 3]) -> bool {
        (0..3).all(|d| position[d] >= self.low[d] && position[d] <= self.high[d])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_of_the_domain_belongs_to_exactly_one_of_its_halves() {
        let length = [2.0; 3];
        let halves =
            [SpatialRegion::new([0.0; 3], [1.0, 2.0, 2.0]), SpatialRegion::new([1.0, 0.0, 0.0], [2.0; 3])];
        for x in [0.0, 0.5, 1.0, 1.5, 2.0] {
            let holders = halves.iter().filter(|half| half.contains([x, 2.0, 0.0], length)).count();
            assert_eq!(holders, 1, "{x}");
        }
        let domain = SpatialRegion::of(length);
        assert!(!domain.contains_closed([0.0, -1e-300, 0.0]) && domain.contains_closed([2.0; 3]));
        assert!(!domain.contains_closed([f64::NAN; 3]));
    }
}
