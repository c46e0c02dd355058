//! `aqueduct verify`: whether files are whole.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use anyhow::Result;

use crate::data::{self, Finding, Shape};
use crate::{TROUBLE, out};

/// Says of each file whether it is whole, damaged, or that this cannot be told. What is unsupported or cannot be read is not damaged.
///
/// Exit status: 0 if all are whole, 1 if one is damaged, else 2.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Files of any kind that the command knows, and checkpoint stores
    #[arg(required = true)]
    files: Vec<OsString>,
    #[command(flatten)]
    raw: Shape,
}

/// What is concluded of a file. The order is that of importance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Whole,
    CannotTell,
    Damaged,
}

impl Verdict {
    fn of(findings: &[Finding]) -> Self {
        let each =
            findings.iter().map(|finding| if finding.is_damage { Self::Damaged } else { Self::CannotTell });
        each.max().unwrap_or(Self::Whole)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::CannotTell => "cannot tell",
            Self::Damaged => "damaged",
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut worst = Verdict::Whole;
    for name in &arguments.files {
        let findings = find(name, &arguments.raw).unwrap_or_else(|error| vec![Finding::of(&error)]);
        let verdict = Verdict::of(&findings);
        worst = worst.max(verdict);
        let (shown, word) = (name.display(), verdict.word());
        // What could not be found out does not matter where there is damage.
        let told = findings.iter().filter(|finding| finding.is_damage == (verdict == Verdict::Damaged));
        let lines: Vec<String> = told.map(|finding| format!("{shown}: {word}: {}\n", finding.text)).collect();
        out::tell(&if lines.is_empty() { format!("{shown}: {word}\n") } else { lines.concat() })?;
    }
    Ok(match worst {
        Verdict::Whole => ExitCode::SUCCESS,
        Verdict::CannotTell => ExitCode::from(TROUBLE),
        Verdict::Damaged => ExitCode::FAILURE,
    })
}

fn find(name: &OsStr, raw: &Shape) -> Result<Vec<Finding>> {
    data::alone(|world| {
        let file = data::open(world, name, raw)?;
        let mut findings = file.findings()?;
        if file.has_checksums() {
            return Ok(findings);
        }
        // Elements of any size are looked at by those who know them.
        let arrays = file.arrays().iter().enumerate().filter(|(_, array)| array.element.size > 0);
        for (at, array) in arrays.filter(|(at, _)| file.is_stored(*at)) {
            let whole = array.parts().try_for_each(|part| file.read(at, &part).map(drop));
            findings.extend(whole.err().map(|error| Finding::of_part(&array.name, &error)));
        }
        Ok(findings)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_outweighs_what_cannot_be_told() {
        assert_eq!(Verdict::of(&[]), Verdict::Whole);
        assert_eq!(Verdict::of(&[Finding::unknown("a")]), Verdict::CannotTell);
        assert_eq!(Verdict::of(&[Finding::unknown("a"), Finding::damage("b")]), Verdict::Damaged);
    }
}
