//! `aqueduct verify`: checks files for damage.

mod repair;

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use aqueduct::comm::Comm;
use serde_json::{Value, json};

use crate::FAILURE_STATUS;
use crate::array_file::{self, ArrayFile, ArrayPart, GenerationState, RawShape, VerifyDepth};
use crate::finding::Finding;
use crate::parallel::{RankCount, agree, in_order};
use crate::standard_output::{StandardOutput, root_output};
use crate::terminal::{Palette, TextRole, progress_bar};

#[derive(clap::Args)]
pub(crate) struct VerifyArguments {
    /// Files of any known kind, and checkpoint stores
    #[arg(required = true)]
    files: Vec<OsString>,
    /// Check metadata, lengths and completeness marks, but do not read all data
    #[arg(long)]
    quick: bool,
    /// Repair damaged object files before they are checked: whole objects are kept, a partial one at the end is truncated, index and
    /// checksums are computed from the data
    #[arg(long)]
    repair: bool,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    raw: RawShape,
    #[command(flatten)]
    ranks: RankCount,
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

    fn role(self) -> TextRole {
        match self {
            Self::Whole => TextRole::Good,
            Self::CannotTell => TextRole::Uncertain,
            Self::Damaged => TextRole::Bad,
        }
    }
}

/// The findings of a file.
#[derive(Default)]
struct FileReport {
    findings: Vec<Finding>,
    /// The generations of a checkpoint store.
    generations: Vec<GenerationState>,
    /// What was repaired.
    repaired: Option<String>,
}

pub(crate) fn run(arguments: &VerifyArguments) -> Result<ExitCode> {
    let files: Vec<&OsStr> = arguments.files.iter().map(|name| &**name).collect();
    let worst = arguments.ranks.run(&files, |world| {
        let out = &mut root_output(world);
        let (mut worst, mut all) = (VerifyStatus::Whole, Vec::new());
        for name in &files {
            // An error is the same on all ranks.
            let report = check(world, name, arguments).unwrap_or_else(|error| FileReport {
                findings: vec![Finding::of(&error)],
                ..FileReport::default()
            });
            let status = VerifyStatus::of(&report.findings);
            worst = worst.max(status);
            let printed = if arguments.json {
                all.push(report.json(name, status));
                Ok(())
            } else {
                report.print(name, status, out)
            };
            agree(world, printed)?;
        }
        let printed = if arguments.json { print_json(out, &all) } else { Ok(()) };
        agree(world, printed)?;
        Ok(worst)
    })?;
    Ok(match worst {
        VerifyStatus::Whole => ExitCode::SUCCESS,
        VerifyStatus::CannotTell => ExitCode::from(FAILURE_STATUS),
        VerifyStatus::Damaged => ExitCode::FAILURE,
    })
}

fn print_json(out: &mut StandardOutput, all: &[Value]) -> Result<()> {
    writeln!(out, "{:#}", json!({"files": all}))?;
    Ok(out.flush()?)
}

impl FileReport {
    /// A line for each finding. If there is damage, findings that are not damage are not printed.
    fn print(&self, name: &OsStr, status: VerifyStatus, out: &mut StandardOutput) -> Result<()> {
        let palette = Palette::of_stdout();
        let (shown, word) = (name.display(), palette.paint(status.role(), status.word()));
        if let Some(repaired) = &self.repaired {
            writeln!(out, "{shown}: repaired: {repaired}")?;
        }
        let findings =
            self.findings.iter().filter(|finding| finding.is_damage == (status == VerifyStatus::Damaged));
        let mut count = 0;
        for finding in findings {
            writeln!(out, "{shown}: {word}: {}", finding.text)?;
            count += 1;
        }
        if count == 0 {
            writeln!(out, "{shown}: {word}")?;
        }
        for one in &self.generations {
            let state = match &one.damage {
                None => palette.paint(TextRole::Good, "whole"),
                Some(_) => palette.paint(TextRole::Bad, "damaged"),
            };
            let about = one.about.as_ref().map_or(String::new(), |about| format!(", {about}"));
            let newest = if one.is_newest_whole { ", used by a restart" } else { "" };
            writeln!(out, "  generation {}: {state}{about}{newest}", one.number)?;
        }
        Ok(out.flush()?)
    }

    fn json(&self, name: &OsStr, status: VerifyStatus) -> Value {
        let finding = |one: &Finding| json!({"damage": one.is_damage, "text": one.text});
        let generation = |one: &GenerationState| {
            json!({"generation": one.number, "whole": one.damage.is_none(), "damage": one.damage,
                "about": one.about, "newest_whole": one.is_newest_whole})
        };
        json!({
            "file": name.to_string_lossy(),
            "status": status.word(),
            "findings": self.findings.iter().map(finding).collect::<Vec<_>>(),
            "generations": self.generations.iter().map(generation).collect::<Vec<_>>(),
            "repaired": self.repaired,
        })
    }
}

/// Checks a file; the same result on all ranks. Collective.
fn check(world: &Comm, name: &OsStr, arguments: &VerifyArguments) -> Result<FileReport> {
    let mut report = FileReport::default();
    if arguments.repair {
        report.repaired = repair::repair(world, name)?;
    }
    let depth = if arguments.quick { VerifyDepth::Quick } else { VerifyDepth::Full };
    let file = agree(world, array_file::open(world, name, &arguments.raw))?;
    report.findings = agree(world, file.findings(depth))?;
    report.generations = file.generations();
    if !file.has_checksums() {
        report.findings.extend(unreadable_arrays(world, &*file, depth));
    }
    Ok(report)
}

/// Reads the arrays, or only the last element of each; which of them cannot be read. Arrays of variable-size elements are checked by their
/// own format. Collective.
fn unreadable_arrays(world: &Comm, file: &dyn ArrayFile, depth: VerifyDepth) -> Vec<Finding> {
    let arrays = file.arrays().iter().enumerate();
    let arrays: Vec<usize> = arrays
        .filter(|(at, array)| array.element.size > 0 && file.is_stored(*at))
        .map(|(at, _)| at)
        .collect();
    let size = |at: &usize| file.arrays()[*at].rows().saturating_mul(file.arrays()[*at].row());
    let bar = progress_bar(world, arrays.iter().map(size).fold(0, u64::saturating_add));
    let mut findings = Vec::new();
    for at in arrays {
        let array = &file.arrays()[at];
        let read = |part: &ArrayPart| file.read(at, part).map(|_| Vec::new());
        let done = |part: &ArrayPart, _| {
            bar.inc(part.count * array.element.size);
            Ok(())
        };
        let whole = match depth {
            VerifyDepth::Full => in_order(world, file.readers(), array.parts(), read, done),
            VerifyDepth::Quick => in_order(world, 1, array.last_element().into_iter(), read, done),
        };
        findings.extend(whole.err().map(|error| Finding::of_part(&array.name, &error)));
    }
    bar.finish_and_clear();
    findings
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
