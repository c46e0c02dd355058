//! A small seeded random generator: the same numbers on every rank and machine.

/// splitmix64.
#[derive(Clone, Debug)]
pub struct SeededRng(u64);

impl SeededRng {
    /// A generator; equal seeds give equal numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator with the seed of `AQUEDUCT_SEED`, or with this one. Prints the seed, which a failed test shows.
    pub fn from_environment(default: u64) -> Self {
        let seed = std::env::var("AQUEDUCT_SEED")
            .map_or(default, |seed| seed.parse().expect("AQUEDUCT_SEED is a number"));
        println!("AQUEDUCT_SEED={seed}");
        Self::new(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next number below `limit`, which must not be 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.number() % limit as u64) as usize
    }
}
