//! `aqueduct verify`: checks files for damage.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use anyhow::Result;

use crate::array_file::{self, Finding, RawShape};
use crate::{FAILURE_STATUS, standard_output};

#[derive(clap::Args)]
pub(crate) struct VerifyArguments {
    /// Files of any known kind, and checkpoint stores
    #[arg(required = true)]
    files: Vec<OsString>,
    #[command(flatten)]
    raw: RawShape,
}

/// The result for a file, in ascending order of importance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum VerifyStatus {
    Whole,
    CannotTell,
    Damaged,
}

impl VerifyStatus {
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

pub(crate) fn run(arguments: &VerifyArguments) -> Result<ExitCode> {
    let mut worst = VerifyStatus::Whole;
    for name in &arguments.files {
        let findings = find(name, &arguments.raw).unwrap_or_else(|error| vec![Finding::of(&error)]);
        let verdict = VerifyStatus::of(&findings);
        worst = worst.max(verdict);
        let (shown, word) = (name.display(), verdict.word());
        // If there is damage, findings that are not damage are not printed.
        let shown_findings =
            findings.iter().filter(|finding| finding.is_damage == (verdict == VerifyStatus::Damaged));
        let lines: Vec<String> =
            shown_findings.map(|finding| format!("{shown}: {word}: {}\n", finding.text)).collect();
        standard_output::print(&if lines.is_empty() {
            format!("{shown}: {word}\n")
        } else {
            lines.concat()
        })?;
    }
    Ok(match worst {
        VerifyStatus::Whole => ExitCode::SUCCESS,
        VerifyStatus::CannotTell => ExitCode::from(FAILURE_STATUS),
        VerifyStatus::Damaged => ExitCode::FAILURE,
    })
}

fn find(name: &OsStr, raw: &RawShape) -> Result<Vec<Finding>> {
    array_file::on_one_rank(|world| {
        let file = array_file::open(world, name, raw)?;
        let mut findings = file.findings()?;
        if file.has_checksums() {
            return Ok(findings);
        }
        // Arrays of variable-size elements are checked by their own format.
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
    fn damage_takes_precedence_over_unknown() {
        assert_eq!(VerifyStatus::of(&[]), VerifyStatus::Whole);
        assert_eq!(VerifyStatus::of(&[Finding::unknown("a")]), VerifyStatus::CannotTell);
        assert_eq!(VerifyStatus::of(&[Finding::unknown("a"), Finding::damage("b")]), VerifyStatus::Damaged);
    }
}
