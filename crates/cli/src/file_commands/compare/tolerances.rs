//! Tolerances of arrays, and the selection of arrays by name. Pure.

use std::str::FromStr;

use super::CompareArguments;
use super::elements::Tolerance;

/// A tolerance for the arrays with a name.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ArrayTolerance {
    name: String,
    tolerance: Tolerance,
}

impl FromStr for ArrayTolerance {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, values) = text.rsplit_once('=').ok_or("expected NAME=RTOL or NAME=RTOL,ATOL")?;
        let number = |text: &str| match text.trim().parse::<f64>() {
            Ok(value) if value >= 0.0 => Ok(value),
            _ => Err(format!("{text:?} is not a number greater than or equal to 0")),
        };
        let (relative, absolute) = values.split_once(',').unwrap_or((values, "0"));
        let tolerance = Tolerance { relative: number(relative)?, absolute: number(absolute)? };
        Ok(Self { name: name.to_owned(), tolerance })
    }
}

/// The tolerances of all arrays.
pub(super) struct ToleranceTable<'c> {
    usual: Tolerance,
    others: &'c [ArrayTolerance],
}

impl<'c> ToleranceTable<'c> {
    pub(super) fn new(arguments: &'c CompareArguments) -> Self {
        let usual = Tolerance { relative: arguments.threshold, absolute: arguments.atol };
        Self { usual, others: &arguments.tolerance }
    }

    /// The tolerance of the array with this name.
    pub(super) fn of(&self, name: &str) -> Tolerance {
        let found = self.others.iter().rfind(|other| is_selected(name, &other.name));
        found.map_or(self.usual, |found| found.tolerance)
    }
}

/// Whether a pattern selects an array: by its name, by that of its group, or with `*` for any characters.
pub(super) fn is_selected(array: &str, pattern: &str) -> bool {
    let wanted = pattern.trim_matches('/').replace('/', ".");
    let is_in_group = array.strip_prefix(&wanted).is_some_and(|rest| rest.starts_with('.'));
    is_in_group || fits(array, &wanted)
}

/// Whether a name fits a pattern whose `*` stand for any characters.
fn fits(name: &str, pattern: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return name == pattern };
    let Some(mut name) = name.strip_prefix(start) else { return false };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let end = pieces.pop().unwrap_or_default();
    for piece in pieces {
        match name.split_once(piece) {
            Some((_, rest)) => name = rest,
            None => return false,
        }
    }
    name.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_select_names_and_groups() {
        for (name, pattern, expected) in [
            ("a.b", "a", true),
            ("a.b", "/a/b", true),
            ("ab", "a", false),
            ("ab", "a*", true),
            ("speed_x", "*_x", true),
            ("speed_xy", "*_x", false),
            ("abcab", "a*c*b", true),
            ("ab", "a*b*b", false),
            ("a", "*", true),
        ] {
            assert_eq!(is_selected(name, pattern), expected, "{name} {pattern}");
        }
    }

    #[test]
    fn the_last_tolerance_that_fits_is_used() {
        let one = |text: &str| text.parse::<ArrayTolerance>().unwrap();
        let others = [one("t*=1e-3"), one("t2=0,4"), one("g=1,2")];
        let usual = Tolerance { relative: 7.0, absolute: 8.0 };
        let table = ToleranceTable { usual, others: &others };
        let of = |name: &str| (table.of(name).relative, table.of(name).absolute);
        assert_eq!(
            (of("t1"), of("t2"), of("g.x"), of("x")),
            ((1e-3, 0.0), (0.0, 4.0), (1.0, 2.0), (7.0, 8.0))
        );
        for wrong in ["t", "t=", "t=x", "t=1,-1", "t=nan"] {
            assert!(wrong.parse::<ArrayTolerance>().is_err(), "{wrong}");
        }
    }
}
