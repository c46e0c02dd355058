//! The figure: from the bandwidths of types and methods.

use super::{EffectiveMethod, EffectiveType, PatternMeasurement, TypeMeasurement};

/// All measurements of a partition.
#[derive(Clone, Debug)]
pub(super) struct PartitionFigures {
    pub(super) interface: String,
    pub(super) ranks: usize,
    pub(super) measurements: Vec<PatternMeasurement>,
    pub(super) types: Vec<TypeMeasurement>,
}

impl PartitionFigures {
    /// Bytes per second of a type by a method, with opening and closing; none if it was not done.
    pub(super) fn bandwidth(&self, kind: EffectiveType, method: EffectiveMethod) -> Option<f64> {
        let found = self.types.iter().find(|found| (found.kind, found.method) == (kind, method))?;
        Some(found.bytes as f64 / found.seconds)
    }

    /// The mean of the first writes of all types and the rewrite of type 0.
    pub(super) fn writing(&self) -> f64 {
        let first = EffectiveType::ALL.map(|kind| (kind, EffectiveMethod::Write));
        let rewrite = (EffectiveType::Scatter, EffectiveMethod::Rewrite);
        self.mean(first.into_iter().chain([rewrite]))
    }

    /// The mean of the reads of all types; type 0 counts twice.
    pub(super) fn reading(&self) -> f64 {
        let all = EffectiveType::ALL.map(|kind| (kind, EffectiveMethod::Read));
        self.mean(all.into_iter().chain([(EffectiveType::Scatter, EffectiveMethod::Read)]))
    }

    fn mean(&self, all: impl Iterator<Item = (EffectiveType, EffectiveMethod)>) -> f64 {
        let rates: Vec<f64> = all.map(|(kind, method)| self.bandwidth(kind, method).unwrap_or(0.0)).collect();
        rates.iter().sum::<f64>() / rates.len() as f64
    }

    /// The value of the partition: the geometric mean of writing and reading.
    pub(super) fn effective(&self) -> f64 {
        (self.writing() * self.reading()).sqrt()
    }

    pub(super) fn errors(&self) -> u64 {
        self.measurements.iter().map(|measurement| measurement.errors).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_is_the_geometric_mean_of_the_weighted_means() {
        let measurement = |kind, method, bytes| TypeMeasurement { kind, method, bytes, seconds: 2.0 };
        let mut types = Vec::new();
        for (at, kind) in EffectiveType::ALL.into_iter().enumerate() {
            types.push(measurement(kind, EffectiveMethod::Write, 2 * (at as u64 + 1)));
            types.push(measurement(kind, EffectiveMethod::Read, 20 * (at as u64 + 1)));
        }
        types.push(measurement(EffectiveType::Scatter, EffectiveMethod::Rewrite, 2 * 9));
        // Rewrites of other types do not count.
        types.push(measurement(EffectiveType::Shared, EffectiveMethod::Rewrite, 2 * 1000));
        let figures =
            PartitionFigures { interface: "aqueduct".into(), ranks: 4, measurements: Vec::new(), types };
        assert!((figures.writing() - (1.0 + 2.0 + 3.0 + 4.0 + 5.0 + 9.0) / 6.0).abs() < 1e-12);
        assert!((figures.reading() - (2.0 * 10.0 + 20.0 + 30.0 + 40.0 + 50.0) / 6.0).abs() < 1e-12);
        assert!((figures.effective() - (4.0f64 * 160.0 / 6.0).sqrt()).abs() < 1e-9);
    }
}
