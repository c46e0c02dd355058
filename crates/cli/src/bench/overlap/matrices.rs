//! Products of matrices: a fixed amount of work for a processor.

use std::hint::black_box;

const SIDE: usize = 64;

/// Two matrices, small enough for a processor's cache, and their product.
pub(crate) struct Matrices {
    left: Vec<f64>,
    right: Vec<f64>,
    product: Vec<f64>,
}

impl Matrices {
    pub(crate) fn new() -> Self {
        let matrix = |seed: usize| (0..SIDE * SIDE).map(|at| ((at * seed) % 17) as f64).collect();
        Self { left: matrix(3), right: matrix(5), product: vec![0.0; SIDE * SIDE] }
    }

    pub(crate) fn multiply(&mut self) {
        for (row, sums) in self.product.chunks_mut(SIDE).enumerate() {
            sums.fill(0.0);
            for (at, factor) in self.left[row * SIDE..(row + 1) * SIDE].iter().enumerate() {
                let terms = &self.right[at * SIDE..(at + 1) * SIDE];
                sums.iter_mut().zip(terms).for_each(|(sum, term)| *sum += factor * term);
            }
        }
        black_box(&self.product);
    }
}
