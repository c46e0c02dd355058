//! The particles of a rank as a structure of arrays: one array for each quantity.

use crate::fluid::Fluid;
use crate::quantity::QuantityTable;

/// Particles, with the quantities of a [`QuantityTable`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParticleSet {
    /// The numbers of the particles, which they keep.
    pub ids: Vec<u64>,
    /// What they consist of.
    pub fluids: Vec<Fluid>,
    /// The scalars: an array for each.
    pub scalars: Vec<Vec<f64>>,
    /// The vectors: an array for each.
    pub vectors: Vec<Vec<[f64; 3]>>,
}

impl ParticleSet {
    /// No particles.
    pub fn new(table: &QuantityTable) -> Self {
        Self {
            ids: Vec::new(),
            fluids: Vec::new(),
            scalars: vec![Vec::new(); table.scalars.len()],
            vectors: vec![Vec::new(); table.vectors.len()],
        }
    }

    /// The number of particles.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Adds a particle whose quantities are zero; its index.
    pub fn push(&mut self, id: u64, fluid: Fluid) -> usize {
        self.ids.push(id);
        self.fluids.push(fluid);
        self.scalars.iter_mut().for_each(|values| values.push(0.0));
        self.vectors.iter_mut().for_each(|values| values.push([0.0; 3]));
        self.len() - 1
    }

    /// The number of words of a row.
    pub fn row_words(&self) -> usize {
        2 + self.scalars.len() + 3 * self.vectors.len()
    }

    /// Appends all quantities of a particle as words.
    pub fn pack_row(&self, at: usize, words: &mut Vec<u64>) {
        words.extend([self.ids[at], u64::from(self.fluids[at].code())]);
        words.extend(self.scalars.iter().map(|values| values[at].to_bits()));
        words.extend(self.vectors.iter().flat_map(|values| values[at].map(f64::to_bits)));
    }

    /// Adds particles from the words of [`pack_row`](Self::pack_row).
    pub fn unpack_rows(&mut self, words: &[u64]) {
        let (scalars, vectors) = (self.scalars.len(), self.vectors.len());
        for row in words.chunks_exact(self.row_words()) {
            self.ids.push(row[0]);
            self.fluids.push(Fluid::from_code(row[1] as u8).unwrap_or_default());
            for (values, word) in self.scalars.iter_mut().zip(&row[2..2 + scalars]) {
                values.push(f64::from_bits(*word));
            }
            for (number, values) in self.vectors.iter_mut().enumerate().take(vectors) {
                let at = 2 + scalars + 3 * number;
                values.push(std::array::from_fn(|axis| f64::from_bits(row[at + axis])));
            }
        }
    }

    /// Reorders the particles, and drops those that are not in `order`.
    pub fn select(&mut self, order: &[usize]) {
        fn pick<T: Copy>(values: &mut Vec<T>, order: &[usize]) {
            *values = order.iter().map(|at| values[*at]).collect();
        }
        pick(&mut self.ids, order);
        pick(&mut self.fluids, order);
        self.scalars.iter_mut().for_each(|values| pick(values, order));
        self.vectors.iter_mut().for_each(|values| pick(values, order));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_all_bits() {
        let mut set = ParticleSet::new(&QuantityTable::new(2, true, false));
        for number in 0..5u64 {
            let at = set.push(number * 3, [Fluid::Air, Fluid::Diesel, Fluid::Wall][number as usize % 3]);
            let value = |part: usize| {
                (number as f64 + 0.1).powi(part as i32) * if part.is_multiple_of(2) { -0.0 } else { 1e-300 }
            };
            for part in 0..set.scalars.len() {
                set.scalars[part][at] = value(part);
            }
            for part in 0..set.vectors.len() {
                set.vectors[part][at] = [value(part), 1.0, f64::from_bits(number + 1)];
            }
        }
        let mut words = Vec::new();
        (0..set.len()).for_each(|at| set.pack_row(at, &mut words));
        assert_eq!(words.len(), 5 * set.row_words());
        let mut copy = ParticleSet::new(&QuantityTable::new(2, true, false));
        copy.unpack_rows(&words);
        assert_eq!(copy, set);
        copy.select(&[4, 0]);
        assert_eq!((copy.ids.as_slice(), copy.len()), (&[12, 0][..], 2));
    }
}
