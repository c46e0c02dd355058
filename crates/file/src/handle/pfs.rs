//! The access modes of Intel's Parallel File System, for programs that think in them: one word says how all reads and writes work.
//!
//! | mode | pointer | what it is here |
//! |---|---|---|
//! | `M_UNIX` | each rank its own | `file.next()` |
//! | `M_LOG` | shared, first come first served | `file.shared()` |
//! | `M_SYNC` | shared, in rank order | `file.shared().all()` |
//! | `M_RECORD` | each rank its own, records of fixed size interleaved | a round-robin view of records, `file.next().all()` |
//! | `M_GLOBAL` | all at the same place, the data is read once | `file.next().all()` |
//! | `M_ASYNC` | each rank its own, without waiting | `file.next()`, `start_read` and `start_write` |
//!
//! ```text
//!  M_UNIX, M_ASYNC   a→      b→   c→          three pointers
//!  M_LOG             b c a a c b →            one pointer, in the order of arrival
//!  M_SYNC            a b c a b c →            one pointer, in rank order, any lengths
//!  M_RECORD          |a|b|c|a|b|c|            fixed records, each rank its own column
//!  M_GLOBAL          (abc)→                   all read the same bytes, once from the device
//! ```

use super::file::File;
use super::request::Count;
use crate::error::{Kind, Result};
use crate::layout::Layout;
use crate::memory::{Sink, Source};
use crate::view::View;

/// How all reads and writes of a file work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PfsMode {
    /// Each rank has its own pointer.
    Unix,
    /// One pointer, first come first served.
    Log,
    /// One pointer, in rank order.
    Sync,
    /// Each rank has its own pointer over records of this many bytes, interleaved.
    Record {
        /// Bytes of a record.
        bytes: u64,
    },
    /// All ranks read the same data, once from the device.
    Global,
    /// As [`Unix`](PfsMode::Unix); reads and writes may be started without waiting, through [`File::at_pointer`].
    Async,
}

/// A file in one of the modes.
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_file::{File, PfsMode};
///
/// Launch::threads(3).run(|world| {
///     let file = File::create(world, "memfs:pfs")?;
///     let records = file.in_mode(PfsMode::Record { bytes: 16 })?;
///     records.write(&[world.rank() as u8; 16])?;
///     records.write(&[world.rank() as u8; 16])?;
///     assert_eq!(file.size()?, 2 * 3 * 16);
///     file.close()
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Pfs<'f> {
    file: &'f File,
    mode: PfsMode,
}

impl File {
    /// Puts the file in a mode: sets its view and moves its pointers to the start. Collective.
    pub fn in_mode(&self, mode: PfsMode) -> Result<Pfs<'_>> {
        let view = match mode {
            PfsMode::Record { bytes } => Layout::bytes(bytes).map_or_else(
                |error| Err(self.cx().error(Kind::BadLayout, "in_mode", error.to_string())),
                |record| View::round_robin_of(self.comm(), &record),
            ),
            _ => Ok(View::default()),
        };
        self.set_view(&self.cx().agree("in_mode", view)?)?;
        Ok(Pfs { file: self, mode })
    }
}

impl Pfs<'_> {
    /// Writes `data` as the mode has it.
    pub fn write<'d>(&self, data: impl Into<Source<'d>>) -> Result<Count> {
        match self.mode {
            PfsMode::Unix | PfsMode::Async => self.file.at_pointer().write(data),
            PfsMode::Log => self.file.shared().write(data),
            PfsMode::Sync => self.file.shared().all().write(data),
            PfsMode::Record { .. } | PfsMode::Global => self.file.at_pointer().all().write(data),
        }
    }

    /// Fills `data` as the mode has it.
    pub fn read<'d>(&self, data: impl Into<Sink<'d>>) -> Result<Count> {
        match self.mode {
            PfsMode::Unix | PfsMode::Async => self.file.at_pointer().read(data),
            PfsMode::Log => self.file.shared().read(data),
            PfsMode::Sync => self.file.shared().all().read(data),
            PfsMode::Record { .. } | PfsMode::Global => self.file.at_pointer().all().read(data),
        }
    }
}
