//! `aqueduct exec -- mpirun -n 4 program`: runs an MPI program with the interposition library.

mod handshake;

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use aqueduct::file::trace::TRACE_VARIABLE;
use handshake::HandshakeFile;

use crate::report;

const LIBRARY: &str = "libaqueduct_mpiio.so";
/// The variable with the file in which the library of each process records what it found.
const HANDSHAKE_VARIABLE: &str = "AQUEDUCT_NOTES";

#[derive(clap::Args)]
pub(crate) struct ExecArguments {
    /// Run the command without and with aqueduct, in turn, and print both times and their ratio
    #[arg(long)]
    compare: bool,
    /// How often each of both is run with --compare; the order alternates, because a run can find files in the page cache
    #[arg(long, default_value_t = 3, requires = "compare", value_parser = clap::value_parser!(u64).range(1..=1000))]
    rounds: u64,
    /// Fail after a successful run unless the library is known to have taken effect
    #[arg(long)]
    require: bool,
    /// Record all accesses to files in this folder, and make a page about them there: report.html
    #[arg(long, value_name = "FOLDER")]
    report: Option<PathBuf>,
    /// The library to preload [default: the one in the folder of this program]
    #[arg(long, env = "AQUEDUCT_MPIIO", value_name = "PATH")]
    library: Option<PathBuf>,
    /// The command, with its launcher: mpirun -n 4 program
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// How a launcher passes environment variables to the processes that it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LauncherKind {
    /// `-x NAME=VALUE`
    OpenMpi,
    /// `-genv NAME VALUE`
    Hydra,
    /// By its own environment: other launchers, and programs without a launcher.
    Environment,
}

/// Runs the command and returns its exit status.
pub(crate) fn run(arguments: &ExecArguments) -> Result<ExitCode> {
    let library = library(arguments.library.as_deref())?;
    let launcher = LauncherKind::of(&arguments.command[0]);
    let notes = HandshakeFile::new()?;
    let mut variables = forwarded_variables(std::env::vars_os());
    variables.push(("LD_PRELOAD".to_owned(), preload(&library, std::env::var_os("LD_PRELOAD"))));
    variables.push((HANDSHAKE_VARIABLE.to_owned(), notes.path().to_owned().into_os_string()));
    if let Some(folder) = &arguments.report {
        let folder = std::path::absolute(folder)?;
        report::remove_trace(&folder)?;
        variables.retain(|(name, _)| name != TRACE_VARIABLE);
        variables.push((TRACE_VARIABLE.to_owned(), folder.into_os_string()));
    }
    let words = launcher.words(&arguments.command, &variables);
    let environment = if launcher == LauncherKind::Environment { variables.as_slice() } else { &[] };
    let rounds = if arguments.compare { arguments.rounds } else { 1 };
    let (mut native, mut ours) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let native_first = round.is_multiple_of(2);
        if arguments.compare && native_first {
            native.push(start(&arguments.command, &[])?);
        }
        ours.push(start(&words, environment)?);
        if arguments.compare && !native_first {
            native.push(start(&arguments.command, &[])?);
        }
        if !ours[ours.len() - 1].status.success() {
            break;
        }
    }
    let status = ours[ours.len() - 1].status;
    let effect = notes.effect(&arguments.command);
    eprintln!("aqueduct: {}", effect.line);
    if arguments.compare {
        eprintln!("aqueduct: {}", comparison(&native, &ours));
    }
    if let Some(folder) = &arguments.report {
        let page = folder.join("report.html");
        match report::write_page(std::slice::from_ref(folder), &page) {
            Ok(runs) => {
                runs.iter().for_each(|run| eprintln!("aqueduct: {}", run.summary.headline()));
                eprintln!("aqueduct: report: {}", page.display());
            }
            // The exit status is that of the program.
            Err(error) => eprintln!("aqueduct: no report: {error:#}"),
        }
    }
    ensure!(
        effect.in_front || !arguments.require || !status.success(),
        "--require was given, but the library is not known to have taken effect"
    );
    Ok(ExitCode::from(exit_status(status)))
}

/// The exit status that shells report.
fn exit_status(status: ExitStatus) -> u8 {
    // Exit statuses have eight bits, signal numbers seven.
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(1) as u8
}

/// The settings of aqueduct in this environment, which all ranks need, also those on other nodes.
fn forwarded_variables(set: impl Iterator<Item = (OsString, OsString)>) -> Vec<(String, OsString)> {
    let known = set.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    let ours =
        |name: &str| name == "ROMIO_HINTS" || (name.starts_with("AQUEDUCT_") && name != HANDSHAKE_VARIABLE);
    known.filter(|(name, _)| ours(name)).collect()
}

/// A finished run.
struct ProgramRun {
    status: ExitStatus,
    time: Duration,
}

fn start(words: &[OsString], variables: &[(String, OsString)]) -> Result<ProgramRun> {
    let since = Instant::now();
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).envs(variables.iter().map(|(name, value)| (name, value)));
    let status = command.status().with_context(|| format!("starting {}", words[0].display()))?;
    Ok(ProgramRun { status, time: since.elapsed() })
}

/// The medians of the times of both, and the ratio of each round.
fn comparison(native: &[ProgramRun], ours: &[ProgramRun]) -> String {
    let median = |runs: &[ProgramRun]| {
        let mut times: Vec<f64> = runs.iter().map(|run| run.time.as_secs_f64()).collect();
        times.sort_by(f64::total_cmp);
        f64::midpoint(times[(times.len() - 1) / 2], times[times.len() / 2])
    };
    let failed = |runs: &[ProgramRun]| {
        let failed = runs.iter().find(|run| !run.status.success());
        failed.map_or(String::new(), |run| format!(" ({})", run.status))
    };
    let ratios =
        || native.iter().zip(ours).map(|(one, other)| one.time.as_secs_f64() / other.time.as_secs_f64());
    let (least, most) =
        ratios().fold((f64::INFINITY, 0.0f64), |(least, most), ratio| (least.min(ratio), most.max(ratio)));
    let (before, now) = (median(native), median(ours));
    format!(
        "medians of {} runs in turn: without aqueduct {before:.3} s{}, with aqueduct {now:.3} s{}: {:.2} times as fast \
         ({least:.2} to {most:.2})",
        ours.len(),
        failed(native),
        failed(ours),
        before / now,
    )
}

fn library(given: Option<&Path>) -> Result<PathBuf> {
    let program = std::env::current_exe().unwrap_or_default();
    let folder = program.parent().unwrap_or(Path::new(".")).to_path_buf();
    let beside = [folder.join(LIBRARY), folder.join("../lib").join(LIBRARY)];
    let candidates = given.map_or_else(|| beside.to_vec(), |given| vec![given.to_path_buf()]);
    let found = candidates.iter().find_map(|path| path.canonicalize().ok());
    let looked =
        || candidates.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(" and ");
    found.with_context(|| {
        format!("the library does not exist at {}; build it with `cargo xtask mpiio`, or give its path with --library", looked())
    })
}

/// The value of `LD_PRELOAD`: libraries that the user preloads stay first, since they may be tools that observe MPI calls.
fn preload(library: &Path, before: Option<OsString>) -> OsString {
    let mut all = before.filter(|before| !before.is_empty()).unwrap_or_default();
    if !all.is_empty() {
        all.push(":");
    }
    all.push(library);
    all
}

impl LauncherKind {
    fn of(program: &OsStr) -> Self {
        let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
        if !["mpirun", "mpiexec", "orterun", "prterun"].iter().any(|known| name.starts_with(known)) {
            return Self::Environment;
        }
        let output = Command::new(program).arg("--version").output();
        output
            .map_or(Self::Environment, |output| Self::from_version(&String::from_utf8_lossy(&output.stdout)))
    }

    /// The launcher that prints this text for `--version`.
    fn from_version(version: &str) -> Self {
        let version = version.to_lowercase();
        if version.contains("open mpi") || version.contains("openrte") || version.contains("prrte") {
            Self::OpenMpi
        } else if version.contains("hydra") || version.contains("intel(r) mpi") {
            Self::Hydra
        } else {
            Self::Environment
        }
    }

    /// The command that passes the variables to all processes.
    fn words(self, command: &[OsString], variables: &[(String, OsString)]) -> Vec<OsString> {
        let mut words = vec![command[0].clone()];
        for (name, value) in variables {
            match self {
                Self::OpenMpi => {
                    let mut both = OsString::from(format!("{name}="));
                    both.push(value);
                    words.extend(["-x".into(), both]);
                }
                Self::Hydra => words.extend(["-genv".into(), OsString::from(name), value.clone()]),
                Self::Environment => {}
            }
        }
        words.extend_from_slice(&command[1..]);
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(launcher: LauncherKind) -> Vec<String> {
        let command: Vec<OsString> = ["mpirun", "-n", "2", "program"].map(OsString::from).to_vec();
        let words = launcher.words(&command, &[("LD_PRELOAD".into(), "/lib/ours.so".into())]);
        words.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn variables_are_passed_in_the_syntax_of_each_launcher() {
        assert_eq!(words(LauncherKind::OpenMpi)[..4], ["mpirun", "-x", "LD_PRELOAD=/lib/ours.so", "-n"]);
        assert_eq!(words(LauncherKind::Hydra)[..4], ["mpirun", "-genv", "LD_PRELOAD", "/lib/ours.so"]);
        assert_eq!(words(LauncherKind::Environment), ["mpirun", "-n", "2", "program"]);
    }

    #[test]
    fn launchers_are_recognised_by_their_version_text() {
        assert_eq!(LauncherKind::from_version("mpirun.openmpi (OpenRTE) 4.1.4\n"), LauncherKind::OpenMpi);
        assert_eq!(LauncherKind::from_version("mpirun (Open MPI) 5.0.11\n"), LauncherKind::OpenMpi);
        assert_eq!(
            LauncherKind::from_version("HYDRA build details:\n    Version: 4.0.2\n"),
            LauncherKind::Hydra
        );
        assert_eq!(LauncherKind::from_version("something else"), LauncherKind::Environment);
    }

    #[test]
    fn all_settings_of_aqueduct_are_passed_to_the_ranks() {
        let set = [
            "AQUEDUCT_BUFFER",
            "AQUEDUCT_SPILL",
            "ROMIO_HINTS",
            "HOME",
            HANDSHAKE_VARIABLE,
            "AQUEDUCT_URING",
        ];
        let handed = forwarded_variables(set.iter().map(|name| (name.into(), "value".into())));
        let names: Vec<&str> = handed.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["AQUEDUCT_BUFFER", "AQUEDUCT_SPILL", "ROMIO_HINTS", "AQUEDUCT_URING"]);
    }

    #[test]
    fn a_signal_becomes_the_exit_status_of_shells() {
        assert_eq!(exit_status(ExitStatus::from_raw(0)), 0);
        assert_eq!(exit_status(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(exit_status(ExitStatus::from_raw(11)), 139);
    }

    #[test]
    fn a_comparison_has_medians_and_the_range_of_ratios() {
        let run = |seconds: f64| ProgramRun {
            status: ExitStatus::from_raw(0),
            time: Duration::from_secs_f64(seconds),
        };
        let text = comparison(&[9.0, 2.0, 2.2].map(run), &[1.0, 1.1, 1.0].map(run));
        assert!(text.contains("without aqueduct 2.200 s, with aqueduct 1.000 s: 2.20 times"), "{text}");
        assert!(text.contains("(1.82 to 9.00)"), "{text}");
    }

    #[test]
    fn preloaded_tools_stay_first() {
        let ours = Path::new("/lib/ours.so");
        assert_eq!(preload(ours, None), "/lib/ours.so");
        assert_eq!(preload(ours, Some("/lib/tool.so".into())), "/lib/tool.so:/lib/ours.so");
    }
}
