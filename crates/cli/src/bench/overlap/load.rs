//! Loads of processor, memory and network between two steps.

use std::hint::black_box;

use anyhow::Result;
use aqueduct::comm::Comm;

use super::matrices::Matrices;

/// The load of one rank in one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadAmount {
    /// Products of matrices.
    pub(crate) products: f64,
    /// Bytes copied in memory.
    pub(crate) copied: u64,
    /// Bytes broadcast from one rank to all.
    pub(crate) broadcast: u64,
}

impl LoadAmount {
    /// The load per rank if fewer ranks share the total load.
    pub(crate) fn shared_by(self, ranks: usize, of: usize) -> Self {
        let factor = of as f64 / ranks as f64;
        let scaled = |bytes: u64| (bytes as f64 * factor) as u64;
        Self { products: self.products * factor, copied: scaled(self.copied), broadcast: self.broadcast }
    }
}

/// A load with its working memory.
pub(crate) struct SyntheticLoad {
    amount: LoadAmount,
    /// The fraction of a product that remains after the last step.
    rest: f64,
    matrices: Matrices,
    from: Vec<u8>,
    to: Vec<u8>,
    message: Vec<u8>,
}

/// The size of a memory copy in bytes, larger than processor caches.
const COPIED: u64 = 16 << 20;

impl SyntheticLoad {
    pub(crate) fn new(amount: LoadAmount) -> Self {
        let bytes = amount.copied.min(COPIED) as usize;
        Self {
            amount,
            rest: 0.0,
            matrices: Matrices::new(),
            from: vec![1; bytes],
            to: vec![0; bytes],
            message: vec![0; amount.broadcast as usize],
        }
    }

    /// Runs the load of one step. Collective if there is a network load.
    pub(crate) fn work(&mut self, comm: &Comm, step: u64) -> Result<()> {
        self.rest += self.amount.products;
        while self.rest >= 1.0 {
            self.matrices.multiply();
            self.rest -= 1.0;
        }
        let mut left = self.amount.copied;
        while left > 0 {
            let now = left.min(COPIED) as usize;
            self.to[..now].copy_from_slice(&self.from[..now]);
            black_box(&self.to);
            left -= now as u64;
        }
        if !self.message.is_empty() {
            comm.broadcast(step as usize % comm.size(), &mut self.message)?;
        }
        Ok(())
    }
}
