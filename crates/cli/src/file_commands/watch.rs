//! `aqueduct watch`: follows a file that a program writes.

mod watched_array;

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use aqueduct::comm::{Comm, Launch};

use self::watched_array::WatchedArray;
use crate::array_file::{self, ArrayFile, RawShape};
use crate::finding::{is_damage, is_missing};
use crate::particle_run::is_launched;
use crate::standard_output::lock_stdout;
use crate::terminal::{Palette, TextRole};

#[derive(clap::Args)]
pub(crate) struct WatchArguments {
    /// A file of any kind whose arrays grow: a stream file, netCDF, HDF5, an object file; it need not exist yet
    file: OsString,
    /// Only this array, or all arrays of this group
    #[arg(long)]
    array: Option<String>,
    /// Seconds between two looks at the file
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    every: f64,
    /// End after this time [default: when the writer has finished]
    #[arg(long = "for", value_name = "SECONDS")]
    limit: Option<f64>,
    /// Print a line of JSON for each array with new steps
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &WatchArguments) -> Result<ExitCode> {
    let every = Duration::try_from_secs_f64(arguments.every);
    let limit = arguments.limit.map(Duration::try_from_secs_f64).transpose();
    let (Ok(every), Ok(limit)) = (every, limit) else {
        return Err(anyhow!("--every and --for must be numbers of seconds greater than or equal to 0"));
    };
    // A look is small: one rank reads the last steps.
    let outcome = Launch::threads(1)
        .run(|world| Ok::<_, aqueduct::comm::Error>(follow(world, arguments, every, limit)))?;
    outcome.into_iter().collect::<Result<Vec<()>>>()?;
    Ok(ExitCode::SUCCESS)
}

/// Looks at the file until its writer has finished, or the time has passed.
fn follow(world: &Comm, arguments: &WatchArguments, every: Duration, limit: Option<Duration>) -> Result<()> {
    let start = Instant::now();
    let mut table = WatchTable::new(arguments);
    loop {
        // A file that is being created may be incomplete: it is tried again.
        let looked = look(world, &arguments.file, arguments, &mut table, start.elapsed().as_secs_f64());
        if matches!(looked, Ok(true)) {
            return table.end("the writer has finished");
        }
        let passed = limit.is_some_and(|limit| start.elapsed() >= limit);
        match looked {
            Ok(_) if passed => return table.end("the time has passed"),
            Err(error) if passed => return Err(error),
            Err(error) if !is_temporary(&error) => return Err(error),
            _ => {}
        }
        let left = limit.map_or(every, |limit| limit.saturating_sub(start.elapsed()).min(every));
        std::thread::sleep(left.max(Duration::from_millis(1)));
    }
}

/// Whether a program that creates or extends the file may be the cause of an error.
fn is_temporary(error: &anyhow::Error) -> bool {
    is_damage(error) || is_missing(error)
}

/// Shows the new steps; whether the writer has finished.
fn look(
    world: &Comm,
    name: &OsStr,
    arguments: &WatchArguments,
    table: &mut WatchTable,
    now: f64,
) -> Result<bool> {
    let file = array_file::open(world, name, &RawShape::default())?;
    let chosen = array_file::select_arrays(file.arrays(), arguments.array.as_deref())?;
    let growing: Vec<usize> = chosen.into_iter().filter(|at| file.arrays()[*at].grows).collect();
    ensure!(!growing.is_empty(), "{}: no array grows; there is nothing to follow", name.display());
    table.update(&*file, &growing, now)?;
    Ok(file.is_finished() == Some(true))
}

/// The arrays that are followed, and how they are shown.
struct WatchTable {
    arrays: Vec<WatchedArray>,
    is_json: bool,
    /// Whether the lines are replaced in place.
    is_refreshing: bool,
    lines: usize,
    palette: Palette,
}

impl WatchTable {
    fn new(arguments: &WatchArguments) -> Self {
        let is_refreshing = std::io::stdout().is_terminal() && !is_launched() && !arguments.json;
        let palette = Palette::of_stdout();
        Self { arrays: Vec::new(), is_json: arguments.json, is_refreshing, lines: 0, palette }
    }

    /// Reads and shows what is new.
    fn update(&mut self, file: &dyn ArrayFile, growing: &[usize], now: f64) -> Result<()> {
        let mut changed = Vec::new();
        for at in growing {
            let array = &file.arrays()[*at];
            let known = self.arrays.iter().position(|known| known.name() == array.name);
            let number = known.unwrap_or_else(|| {
                self.arrays.push(WatchedArray::new(array));
                self.arrays.len() - 1
            });
            if self.arrays[number].update(file, *at, now)? {
                changed.push(number);
            }
        }
        let mut out = lock_stdout();
        if self.is_refreshing {
            if self.lines > 0 {
                // Up to the first line of the table; each line is erased before it is printed.
                write!(out, "\x1b[{}A", self.lines)?;
            }
            for array in &self.arrays {
                writeln!(out, "\x1b[2K{}", array.row(self.palette))?;
            }
            self.lines = self.arrays.len();
        } else {
            for array in changed.into_iter().map(|number| &self.arrays[number]) {
                let line = if self.is_json { array.json().to_string() } else { array.line() };
                writeln!(out, "{line}")?;
            }
        }
        Ok(out.flush()?)
    }

    fn end(&self, why: &str) -> Result<()> {
        if !self.is_json {
            let mut out = lock_stdout();
            writeln!(out, "{}", self.palette.paint(TextRole::Faint, why))?;
            out.flush()?;
        }
        Ok(())
    }
}
