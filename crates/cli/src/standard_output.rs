//! Text on the standard output stream.
//!
//! If the reader closes the pipe (`| head -1`), the command ends without a message, as other tools do. Other write errors are errors of
//! the command that name the stream.

use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};
use std::process::exit;

use aqueduct::comm::Comm;

/// The exit status that shells report for a program ended by SIGPIPE.
const SIGPIPE_STATUS: i32 = 141;

/// The standard output stream, buffered; the caller flushes it at the end.
pub(crate) struct StandardOutput(Option<BufWriter<StdoutLock<'static>>>);

pub(crate) fn lock_stdout() -> StandardOutput {
    StandardOutput(Some(BufWriter::new(io::stdout().lock())))
}

/// The standard output stream on rank 0; what other ranks write is dropped. The ranks may be threads of one process.
pub(crate) fn root_output(world: &Comm) -> StandardOutput {
    if world.rank() == 0 { lock_stdout() } else { StandardOutput(None) }
}

/// Prints text and flushes it.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = lock_stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(stream) = &mut self.0 else { return Ok(bytes.len()) };
        stream.write(bytes).map_err(|error| exit_on_broken_pipe(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        let Some(stream) = &mut self.0 else { return Ok(()) };
        stream.flush().map_err(|error| exit_on_broken_pipe(&error))
    }
}

fn exit_on_broken_pipe(error: &io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::BrokenPipe => exit(SIGPIPE_STATUS),
        kind => io::Error::new(kind, format!("writing to the standard output stream: {error}")),
    }
}
