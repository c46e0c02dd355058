//! Creating and opening, collectively.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, AtomicU64};

use aqueduct_comm::Comm;
use aqueduct_file::File;

use super::arrange::Room;
use super::dataset::Dataset;
use super::decode::Flaw;
use super::geometry::Geometry;
use super::header::Header;
use super::replace::{BEING_REPLACED, interrupted};
use super::version::Version;
use crate::core::{Core, Opening};
use crate::error::{Error, Kind, Result};

/// What is read first of a header.
const FIRST_LOOK: u64 = 64 << 10;
/// The longest header that is taken for one.
const LONGEST: u64 = 256 << 20;
const ROOM: Room = Room { header: 64 << 10, fixed: 64 << 10 };

/// How to create a file; the same on all ranks.
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_format::netcdf::{Create, Version};
///
/// Launch::threads(2).run(|world| {
///     let create = Create::new().version(Version::Cdf2).replace().header_room(1 << 20);
///     create.create(world, "memfs:created.nc")?.close()
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Create {
    opening: Opening,
    version: Version,
    room: Room,
}

impl Default for Create {
    fn default() -> Self {
        Self::new()
    }
}

impl Create {
    /// CDF-5, 64 KiB of room for definitions to come; a file that exists is refused.
    pub fn new() -> Self {
        Self { opening: Opening::new(true), version: Version::default(), room: ROOM }
    }

    /// In this version of the format.
    #[must_use]
    pub fn version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// Throws away what is under the name, if anything is.
    #[doc(alias = "NC_CLOBBER")]
    #[must_use]
    pub fn replace(mut self) -> Self {
        self.opening.replace = true;
        self
    }

    /// How many bytes the header and its growth are given; 0 for not one more than it has. A header that already has two thirds of them gets more.
    #[must_use]
    pub fn header_room(mut self, bytes: u64) -> Self {
        self.room.header = bytes;
        self
    }

    /// How many bytes are left before the records, for variables without records that are defined later.
    #[must_use]
    pub fn fixed_room(mut self, bytes: u64) -> Self {
        self.room.fixed = bytes;
        self
    }

    /// Commits in order, but leaves it to the system when data reaches the disk: what was committed survives the end of the program by
    /// any means, not that of the machine.
    #[must_use]
    pub fn without_sync(mut self) -> Self {
        self.opening.durable = false;
        self
    }

    /// Adds a hint for the file layer.
    #[must_use]
    pub fn hint(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.opening.info.set(key, value);
        self
    }

    /// Creates `name` on all ranks of `comm`: a file with nothing in it. Its header is written when the ranks next meet to write together or to
    /// [commit](Dataset::commit). Collective: it succeeds on all ranks or on none.
    #[doc(alias = "ncmpi_create")]
    pub fn create(&self, comm: &Comm, name: impl AsRef<OsStr>) -> Result<Dataset> {
        let core = self.opening.create(comm, name.as_ref())?;
        let unwritten = AtomicBool::new(true);
        Ok(Dataset { room: self.room, unwritten, ..assemble(core, Header::new(self.version))? })
    }
}

/// How to open a file; the same on all ranks.
///
/// ```
/// # use aqueduct_comm::Launch;
/// # use aqueduct_format::netcdf::{Create, Open};
/// # Launch::threads(2).run(|world| {
/// # Create::new().replace().create(world, "memfs:opened.nc")?.close()?;
/// let dataset = Open::new().writable().open(world, "memfs:opened.nc")?;
/// assert!(dataset.header().variables.is_empty());
/// # dataset.close()
/// # })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Open {
    opening: Opening,
    room: Room,
}

impl Default for Open {
    fn default() -> Self {
        Self::new()
    }
}

impl Open {
    /// For reading.
    pub fn new() -> Self {
        Self { opening: Opening::new(false), room: ROOM }
    }

    /// For writing too.
    #[must_use]
    pub fn writable(mut self) -> Self {
        self.opening.writable = true;
        self
    }

    /// As [`Create::without_sync`].
    #[must_use]
    pub fn without_sync(mut self) -> Self {
        self.opening.durable = false;
        self
    }

    /// Adds a hint for the file layer.
    #[must_use]
    pub fn hint(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.opening.info.set(key, value);
        self
    }

    /// Opens `name` on all ranks of `comm`. Rank 0 reads the header for all. Collective: it succeeds on all ranks or on none.
    #[doc(alias = "ncmpi_open")]
    pub fn open(&self, comm: &Comm, name: impl AsRef<OsStr>) -> Result<Dataset> {
        let core = self.opening.open(comm, name.as_ref())?;
        let found = if core.is_first() { look(&core.file, &core.name) } else { Ok(Found::default()) };
        let found = core.agree("open", found)?;
        let mut numbers = [found.length, found.interrupted.into()];
        core.comm.broadcast(0, &mut numbers).map_err(|error| core.talk("open", &error))?;
        let bytes = core.comm.broadcast_vec(0, found.bytes).map_err(|error| core.talk("open", &error))?;
        let [length, interrupted] = numbers;
        let header = Header::decode(&bytes, length).map_err(|flaw| damaged(&flaw, &core.name))?;
        let touched = AtomicBool::new(!header.variables.is_empty());
        let dataset = Dataset { room: self.room, touched, ..assemble(core, header)? };
        if interrupted > 0 && self.opening.writable {
            dataset.finish_header("open", &bytes, length)?;
        }
        Ok(dataset)
    }
}

/// What rank 0 finds in a file.
#[derive(Default)]
struct Found {
    /// Of the file, without the copy of a header.
    length: u64,
    /// As many bytes as its header has, and some more.
    bytes: Vec<u8>,
    /// Whether they are a copy: a program ended while it replaced the header.
    interrupted: bool,
}

fn damaged(flaw: &Flaw, shown: &str) -> Error {
    Error::new(Kind::Damaged, "open", shown, flaw.to_string())
}

fn look(file: &File, shown: &str) -> Result<Found> {
    let length = file.size()?;
    let mut wanted = FIRST_LOOK.min(length);
    loop {
        let mut bytes = vec![0; wanted as usize];
        let count = file.at(0).read(&mut bytes)?.bytes();
        bytes.truncate(count as usize);
        if bytes.starts_with(&BEING_REPLACED)
            && let Some((bytes, length)) = interrupted(file, LONGEST)?
        {
            return Ok(Found { length, bytes, interrupted: true });
        }
        match Header::decode(&bytes, length) {
            Ok(_) => return Ok(Found { length, bytes, interrupted: false }),
            Err(Flaw::Cut { needed }) if needed <= LONGEST && count == wanted => {
                wanted = needed.max(2 * wanted).min(length).min(LONGEST.max(needed));
            }
            Err(Flaw::Cut { needed }) => {
                let detail =
                    format!("its header has at least {needed} bytes; more than {LONGEST} are not read");
                return Err(Error::new(Kind::Damaged, "open", shown, detail));
            }
            Err(flaw) => return Err(damaged(&flaw, shown)),
        }
    }
}

fn assemble(core: Core, header: Header) -> Result<Dataset> {
    let geometry = Geometry::of(&header).map_err(|what| core.error(Kind::Damaged, "open", what))?;
    let records = header.records;
    Ok(Dataset {
        core,
        room: ROOM,
        header,
        unwritten: AtomicBool::new(false),
        geometry,
        records: AtomicU64::new(records),
        committed: AtomicU64::new(records),
        touched: AtomicBool::new(false),
    })
}
