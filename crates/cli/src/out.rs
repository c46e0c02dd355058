//! What commands tell: text on the standard output stream.
//!
//! Whoever has read enough (`| head -1`) ends the command without a complaint, as with every other tool; a stream that cannot be written is an
//! error with its name.

use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};
use std::process::exit;

/// What shells show of a program that SIGPIPE has ended.
const NOBODY_READS: i32 = 141;

/// The standard output stream, buffered; what is told last is flushed by whoever tells it.
pub(crate) struct Out(BufWriter<StdoutLock<'static>>);

pub(crate) fn out() -> Out {
    Out(BufWriter::new(io::stdout().lock()))
}

/// Tells text at once.
pub(crate) fn tell(text: &str) -> io::Result<()> {
    let mut out = out();
    out.write_all(text.as_bytes())?;
    out.flush()
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(|error| judged(&error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(|error| judged(&error))
    }
}

fn judged(error: &io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::BrokenPipe => exit(NOBODY_READS),
        kind => io::Error::new(kind, format!("writing to the standard output stream: {error}")),
    }
}
