//! A seeded random number generator: the same seed gives the same faults and crash images on every machine.

/// A sequence of numbers that depends on its seed only (splitmix64).
#[derive(Clone, Debug)]
pub(super) struct SeededRandom(u64);

impl SeededRandom {
    /// The sequence of a seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A separate sequence for each list of numbers: choices keyed this way
    /// do not depend on the order of threads.
    pub(super) fn keyed(seed: u64, keys: &[u64]) -> Self {
        Self(keys.iter().fold(seed, |state, &key| Self(state ^ key).next()))
    }

    /// The next 64 bits.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `limit`; 0 if the limit is 0.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// True with the given probability.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        const SCALE: f64 = 1.0 / (1_u64 << 53) as f64;
        ((self.next() >> 11) as f64 * SCALE) < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frequency_of_true_is_close_to_the_probability() {
        let mut random = SeededRandom::new(1);
        let hits = (0..10_000).filter(|_| random.chance(0.3)).count();
        assert!((2800..3200).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| random.chance(1.0)));
        assert!(!(0..1000).any(|_| random.chance(0.0)));
    }

    #[test]
    fn numbers_are_below_the_limit() {
        let mut random = SeededRandom::new(2);
        assert!((0..1000).all(|_| random.below(7) < 7));
        assert_eq!(random.below(0), 0);
        assert_eq!((0..1000).map(|_| random.below(3)).max(), Some(2));
    }

    #[test]
    fn different_keys_give_different_sequences() {
        let first = |keys| SeededRandom::keyed(5, keys).next();
        assert_eq!(first(&[1, 2]), first(&[1, 2]));
        assert_ne!(first(&[1, 2]), first(&[2, 1]));
        assert_ne!(first(&[1, 2]), first(&[1, 3]));
    }
}
