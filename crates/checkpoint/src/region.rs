//! Boxes in space, such as the subdomain of a rank.

/// A half-open box: `low` is included, `high` is not, except where it is an upper face of the domain.
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

    /// Whether a position in a domain of this length belongs to the box. A position on the upper face of the domain (rounding can put
    /// one there) belongs to the boxes that end at that face.
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
    fn every_position_of_the_domain_belongs_to_exactly_one_half() {
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
