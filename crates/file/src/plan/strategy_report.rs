//! One line of text about the strategy of an access, with the estimates of the others.

use std::fmt;
use std::time::Duration;

use super::{AccessSize, Estimate};
use crate::context::AccessScope;
use crate::hints::TransferDirection;

/// The strategy of an access, as one line of text.
pub(crate) struct StrategyReport {
    pub(crate) direction: TransferDirection,
    pub(crate) scope: AccessScope,
    pub(crate) size: AccessSize,
    pub(crate) chosen: Estimate,
    /// The estimates of all strategies.
    pub(crate) estimates: Vec<Estimate>,
}

impl fmt::Display for StrategyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = match (self.direction, self.scope) {
            (TransferDirection::Read, AccessScope::Independent) => "read",
            (TransferDirection::Read, AccessScope::Collective) => "read_all",
            (TransferDirection::Write, AccessScope::Independent) => "write",
            (TransferDirection::Write, AccessScope::Collective) => "write_all",
        };
        let AccessSize { span, bytes, runs, new_pages } = self.size;
        let place = if new_pages { ", in new pages" } else { "" };
        write!(f, "{access} of {bytes} bytes, about {runs} runs over {span}{place}: ")?;
        write!(f, "{}", self.chosen)?;
        let others = self.estimates.iter().filter(|other| other.strategy != self.chosen.strategy);
        others.filter(|other| other.nanoseconds.is_finite()).try_for_each(|other| write!(f, "; {other}"))
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.strategy.name();
        if self.nanoseconds.is_finite() {
            write!(f, "{name} {:.1?}", Duration::from_nanos(self.nanoseconds as u64))
        } else {
            write!(f, "{name}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::Strategy;

    #[test]
    fn a_report_has_the_strategy_and_the_estimates_of_the_others() {
        let estimate = |strategy, nanoseconds| Estimate { strategy, nanoseconds };
        let chosen = estimate(Strategy::Map, 3e3);
        let others = [estimate(Strategy::List, 2e6), chosen, estimate(Strategy::Sieve, f64::NAN)];
        let access = StrategyReport {
            direction: TransferDirection::Write,
            scope: AccessScope::Collective,
            size: AccessSize { span: 100, bytes: 40, runs: 10, new_pages: false },
            chosen,
            estimates: others.to_vec(),
        };
        let line = "write_all of 40 bytes, about 10 runs over 100: map 3.0µs; list 2.0ms";
        assert_eq!(access.to_string(), line);
    }
}
