//! The plan of faults: built by calls or parsed from the parameters of a name.

use std::str::FromStr;
use std::time::Duration;

use super::super::parameters::LayerParameters;
use crate::units::{ByteSize, parse_duration};
use crate::{Error, Kind, Operation, Result};

pub(super) const GRAMMAR: &str = "fault=PART,PART,… where PART is one of seed=N, rank=N, OPERATION=WHEN or \
    OPERATION=KIND@WHEN, short=WHEN, delay=DURATION or delay=DURATION@WHEN, nospace=SIZE; \
    OPERATION is any, open, read, write, len, setlen, preallocate, sync, lock, close or delete; \
    WHEN is a probability (0.1), the n-th time (#3) or from the n-th time on (#3+); \
    KIND is io, nospace, quota, busy, permission, notfound, resource or unsupported";

const OPERATIONS: [(&str, Option<Operation>); 11] = [
    ("any", None),
    ("open", Some(Operation::Open)),
    ("read", Some(Operation::Read)),
    ("write", Some(Operation::Write)),
    ("len", Some(Operation::Len)),
    ("setlen", Some(Operation::SetLen)),
    ("preallocate", Some(Operation::Preallocate)),
    ("sync", Some(Operation::Sync)),
    ("lock", Some(Operation::Lock)),
    ("close", Some(Operation::Close)),
    ("delete", Some(Operation::Delete)),
];

const KINDS: [(&str, Kind); 8] = [
    ("io", Kind::Io),
    ("nospace", Kind::NoSpace),
    ("quota", Kind::Quota),
    ("busy", Kind::Busy),
    ("permission", Kind::PermissionDenied),
    ("notfound", Kind::NotFound),
    ("resource", Kind::ResourceLimit),
    ("unsupported", Kind::Unsupported),
];

/// When a rule applies. Each rule counts the operations it applies to, for every rank on its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultTrigger {
    /// With this probability, independently each time.
    Chance(f64),
    /// The n-th time only, counted from 1.
    Nth(u64),
    /// From the n-th time on.
    From(u64),
}

impl FromStr for FaultTrigger {
    type Err = &'static str;

    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        const EXPECTED: &str = "expected a probability from 0 to 1, #N or #N+ with N from 1";
        let count = |text: &str| text.parse().ok().filter(|&n| n > 0).ok_or(EXPECTED);
        match text.strip_prefix('#') {
            Some(nth) => match nth.strip_suffix('+') {
                Some(from) => count(from).map(Self::From),
                None => count(nth).map(Self::Nth),
            },
            None => text.parse().ok().filter(|p| (0.0..=1.0).contains(p)).map(Self::Chance).ok_or(EXPECTED),
        }
    }
}

/// What a rule does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FaultAction {
    Fail(Kind),
    Shorten,
    Delay(Duration),
}

/// A rule of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct FaultRule {
    /// `None`: all operations.
    pub(super) operation: Option<Operation>,
    pub(super) action: FaultAction,
    pub(super) when: FaultTrigger,
}

impl FaultRule {
    pub(super) fn applies_to(&self, operation: Operation) -> bool {
        let transfers = matches!(operation, Operation::Read | Operation::Write);
        self.operation.is_none_or(|own| own == operation)
            && (transfers || self.action != FaultAction::Shorten)
    }
}

/// The faults of a [`FaultDevice`](super::FaultDevice).
///
/// The same plan injects the same faults into the same operations of a rank, independently of other ranks.
///
/// ```
/// use aqueduct_device::layers::{FaultPlan, FaultTrigger};
/// use aqueduct_device::{Kind, Operation};
///
/// let built = FaultPlan::new(7)
///     .fail(Operation::Write, Kind::Busy, FaultTrigger::Nth(3))
///     .short(FaultTrigger::Chance(0.3))
///     .no_space(1 << 20);
/// assert_eq!(built, "seed=7,write=busy@#3,short=0.3,nospace=1MiB".parse().unwrap());
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    pub(super) seed: u64,
    pub(super) rank: Option<usize>,
    pub(super) no_space: Option<u64>,
    pub(super) rules: Vec<FaultRule>,
}

impl FaultPlan {
    /// A plan without faults; the seed determines all random choices.
    pub fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Affects only handles that this rank opens (operations of others are not counted). Deletions are never affected.
    #[must_use]
    pub fn rank(mut self, rank: usize) -> Self {
        self.rank = Some(rank);
        self
    }

    /// This operation fails with this kind. Nothing is transferred, unless the
    /// transfer is also [shortened](Self::short): then the error comes after the bytes that were.
    #[must_use]
    pub fn fail(self, operation: Operation, kind: Kind, when: FaultTrigger) -> Self {
        self.rule(Some(operation), FaultAction::Fail(kind), when)
    }

    /// Every operation fails with this kind.
    #[must_use]
    pub fn fail_any(self, kind: Kind, when: FaultTrigger) -> Self {
        self.rule(None, FaultAction::Fail(kind), when)
    }

    /// Reads and writes of more than one byte transfer less than asked for, but at least one byte.
    #[must_use]
    pub fn short(self, when: FaultTrigger) -> Self {
        self.rule(None, FaultAction::Shorten, when)
    }

    /// Operations take longer.
    #[must_use]
    pub fn delay(self, delay: Duration, when: FaultTrigger) -> Self {
        self.rule(None, FaultAction::Delay(delay), when)
    }

    /// The medium is full after exactly so many bytes were written through it, rewritten ones included.
    /// The write that goes beyond transfers what fits and fails with [`Kind::NoSpace`]. Preallocation that would extend
    /// the file by more than what is left fails too, but uses nothing up.
    #[must_use]
    pub fn no_space(mut self, after: u64) -> Self {
        self.no_space = Some(after);
        self
    }

    fn rule(mut self, operation: Option<Operation>, action: FaultAction, when: FaultTrigger) -> Self {
        self.rules.push(FaultRule { operation, action, when });
        self
    }

    /// Adds one `key=value` of a name.
    fn part(mut self, parameters: LayerParameters<'_>, key: &str, value: &str) -> Result<Self> {
        match key {
            "seed" => self.seed = parameters.value(key, value)?,
            "rank" => self.rank = Some(parameters.value(key, value)?),
            "nospace" => self.no_space = Some(parameters.value::<ByteSize>(key, value)?.0),
            "short" => return Ok(self.short(parameters.value(key, value)?)),
            "delay" => {
                let (delay, when) = value.split_once('@').unwrap_or((value, "1"));
                let delay = parse_duration(delay).map_err(|error| parameters.refuse(error))?;
                return Ok(self.delay(delay, parameters.value(key, when)?));
            }
            _ => {
                let operation = named(&OPERATIONS, key).ok_or_else(|| {
                    parameters.refuse(format_args!("{key:?} is neither a setting nor an operation"))
                })?;
                let (kind, when) = value.split_once('@').unwrap_or(("io", value));
                let kind = named(&KINDS, kind)
                    .ok_or_else(|| parameters.refuse(format_args!("{kind:?} is not a kind of error")))?;
                return Ok(self.rule(operation, FaultAction::Fail(kind), parameters.value(key, when)?));
            }
        }
        Ok(self)
    }
}

impl FromStr for FaultPlan {
    type Err = Error;

    /// Parses the parameters of a name, without `fault=`; an error shows the grammar.
    fn from_str(text: &str) -> Result<Self> {
        let parameters = LayerParameters { prefix: "fault", text, grammar: GRAMMAR };
        parameters.pairs().try_fold(Self::default(), |plan, pair| {
            let (key, value) = pair?;
            plan.part(parameters, key, value)
        })
    }
}

fn named<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsed_and_built_plans_are_equal() {
        let text =
            "seed=9,rank=2,any=0.5,sync=#4+,lock=resource@#1,short=#2,delay=2ms,delay=1s@0.25,nospace=10kB";
        let built = FaultPlan::new(9)
            .rank(2)
            .fail_any(Kind::Io, FaultTrigger::Chance(0.5))
            .fail(Operation::Sync, Kind::Io, FaultTrigger::From(4))
            .fail(Operation::Lock, Kind::ResourceLimit, FaultTrigger::Nth(1))
            .short(FaultTrigger::Nth(2))
            .delay(Duration::from_millis(2), FaultTrigger::Chance(1.0))
            .delay(Duration::from_secs(1), FaultTrigger::Chance(0.25))
            .no_space(10_000);
        assert_eq!(text.parse::<FaultPlan>().unwrap(), built);
        assert_eq!("".parse::<FaultPlan>().unwrap(), FaultPlan::default());
    }

    #[test]
    fn every_name_of_the_tables_is_in_the_grammar() {
        for name in OPERATIONS.map(|(name, _)| name).iter().chain(&KINDS.map(|(name, _)| name)) {
            assert!(GRAMMAR.contains(name), "{name}");
        }
    }

    #[test]
    fn bad_parameters_show_the_grammar() {
        for text in [
            "write",
            "wrote=0.1",
            "write=1.5",
            "write=-1",
            "write=NaN",
            "write=#0",
            "write=#",
            "write=#1-",
            "write=x@0.1",
            "seed=x",
            "seed=-1",
            "rank=",
            "short=",
            "delay=1",
            "delay=1ms@2",
            "nospace=lots",
            ",",
            "write=0.1,",
        ] {
            let error = text.parse::<FaultPlan>().expect_err(text);
            assert_eq!(error.kind(), Kind::InvalidName, "{text}");
            let message = error.to_string();
            assert!(message.contains(GRAMMAR) && message.contains(&format!("fault={text}")), "{message}");
        }
    }
}
