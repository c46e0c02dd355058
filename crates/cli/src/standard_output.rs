//! What commands tell: text on the standard output stream.
//!
//! Whoever has read enough (`| head -1`) ends the command without a complaint, as with every other tool; a stream that cannot be written is an
//! error with its name.

use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};
use std::process::exit;

/// What shells show of a program that SIGPIPE has ended.
const SIGPIPE_STATUS: i32 = 141;

/// The standard output stream, buffered; what is told last is flushed by whoever tells it.
pub(crate) struct StandardOutput(BufWriter<StdoutLock<'static>>);

pub(crate) fn lock_stdout() -> StandardOutput {
    StandardOutput(BufWriter::new(io::stdout().lock()))
}

/// Tells text at once.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = lock_stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(|error| exit_on_broken_pipe(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(|error| exit_on_broken_pipe(&error))
    }
}

fn exit_on_broken_pipe(error: &io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::BrokenPipe => exit(SIGPIPE_STATUS),
        kind => io::Error::new(kind, format!("writing to the standard output stream: {error}")),
    }
}
