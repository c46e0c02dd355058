//! What the rates of a sweep say: from which size on two contenders are equal, and where rates drop.

use aqueduct::device::units::ByteSize;
use aqueduct_patterns::timing::median;

use super::{SweepTest, SweepTimes};

/// Rates that differ by less are equal.
const EQUAL: f64 = 0.05;
/// A rate below this share of that of the next smaller size is a dip.
const DIP: f64 = 0.8;

/// Sentences about a test.
pub(super) fn findings(test: SweepTest, names: &[&str], all: &[SweepTimes]) -> Vec<String> {
    let rates = |contender: usize| -> Vec<(u64, f64)> {
        let times = all.iter().filter(|times| times.test == test && times.contender == contender);
        let mut rates: Vec<(u64, f64)> = times
            .filter_map(|times| Some((times.bytes, times.bytes as f64 / median(&times.access)?)))
            .collect();
        rates.sort_by_key(|(bytes, _)| *bytes);
        rates
    };
    let bytes = rates(0);
    let mut found = Vec::new();
    for (contender, name) in names.iter().enumerate().skip(1) {
        let others = rates(contender);
        // Objects cost what they are slower than bytes; another interface is compared with what it is faster.
        let (slower, faster) = if contender == 1 { (&others, &bytes) } else { (&bytes, &others) };
        let (who, than) = if contender == 1 { (*name, names[0]) } else { (names[0], *name) };
        found.push(match equal_from(slower, faster) {
            Some(size) => format!(
                "{}: {who} is within 5 % of {than}, or faster, from {} on",
                test.name(),
                ByteSize(size)
            ),
            None => format!("{}: {who} does not come within 5 % of {than}", test.name()),
        });
    }
    for (contender, name) in names.iter().enumerate() {
        let dips = dips(&rates(contender));
        if !dips.is_empty() {
            let dips: Vec<String> = dips.into_iter().map(|size| ByteSize(size).to_string()).collect();
            found.push(format!("{}: dips of {name} at {}", test.name(), dips.join(", ")));
        }
    }
    found
}

/// The size from which on all rates of one are at most 5 % below those of the other.
fn equal_from(slower: &[(u64, f64)], faster: &[(u64, f64)]) -> Option<u64> {
    let rate = |size: u64| faster.iter().find(|(bytes, _)| *bytes == size).map(|(_, rate)| *rate);
    let mut from = None;
    for (size, own) in slower.iter().rev() {
        let Some(other) = rate(*size) else { continue };
        if *own < (1.0 - EQUAL) * other {
            break;
        }
        from = Some(*size);
    }
    from
}

/// Sizes whose rate is below that of the next smaller one.
fn dips(rates: &[(u64, f64)]) -> Vec<u64> {
    rates.windows(2).filter(|pair| pair[1].1 < DIP * pair[0].1).map(|pair| pair[1].0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equality_holds_from_a_size_on() {
        let faster = [(1, 10.0), (2, 20.0), (4, 40.0), (8, 80.0)];
        assert_eq!(equal_from(&[(1, 9.9), (2, 10.0), (4, 39.0), (8, 90.0)], &faster), Some(4));
        assert_eq!(equal_from(&[(1, 9.9), (2, 19.9), (4, 39.0), (8, 1.0)], &faster), None);
        assert_eq!(equal_from(&[(1, 10.0)], &faster), Some(1));
    }

    #[test]
    fn a_rate_below_its_smaller_neighbour_is_a_dip() {
        assert_eq!(dips(&[(1, 10.0), (2, 9.0), (4, 7.0), (8, 20.0), (16, 2.0)]), [4, 16]);
    }
}
