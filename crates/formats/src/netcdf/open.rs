//! Creating, opening and following, collectively.

use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use aqueduct_comm::Comm;
use aqueduct_comm::agreement::from_root;
use aqueduct_file::File;

use super::file::NetcdfFile;
use super::header::NetcdfHeader;
use super::header_decode::NetcdfHeaderError;
use super::header_swap::{BEING_REPLACED, find_interrupted_swap};
use super::layout_planner::ReservedSpace;
use super::sizes::DatasetSizes;
use super::version::CdfVersion;
use crate::error::{Error, Kind, Result};
use crate::format_file::{FormatFile, FormatOpenOptions};

/// Bytes of the first read of a header.
const FIRST_LOOK: u64 = 64 << 10;
/// The longest header that is taken for one.
const LONGEST: u64 = 256 << 20;
/// The most bytes that other programs leave out at the end of a file: padding.
const PADDING: u64 = 3;
const ROOM: ReservedSpace = ReservedSpace { header: 64 << 10, fixed: 64 << 10 };

/// How to create a file; the same on all ranks.
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_formats::netcdf::{NetcdfCreateOptions, CdfVersion};
///
/// Launch::threads(2).run(|world| {
///     let create = NetcdfCreateOptions::new().version(CdfVersion::Cdf2).replace().header_room(1 << 20);
///     create.create(world, "memfs:created.nc")?.close()
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct NetcdfCreateOptions {
    options: FormatOpenOptions,
    version: CdfVersion,
    room: ReservedSpace,
}

impl Default for NetcdfCreateOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl NetcdfCreateOptions {
    /// CDF-5, 64 KiB of room for definitions to come; a file that exists is refused.
    pub fn new() -> Self {
        Self { options: FormatOpenOptions::new(true), version: CdfVersion::default(), room: ROOM }
    }

    /// In this version of the format.
    #[must_use]
    pub fn version(mut self, version: CdfVersion) -> Self {
        self.version = version;
        self
    }

    /// Replaces an existing file.
    #[doc(alias = "NC_CLOBBER")]
    #[must_use]
    pub fn replace(mut self) -> Self {
        self.options.replace = true;
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
        self.options.durable = false;
        self
    }

    /// Adds a hint for the file layer.
    #[must_use]
    pub fn hint(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.info.set(key, value);
        self
    }

    /// Creates `name` on all ranks of `comm`: a file with nothing in it. Its header is written when the ranks next meet to write together or to
    /// [commit](NetcdfFile::commit). Collective: it succeeds on all ranks or on none.
    #[doc(alias = "ncmpi_create")]
    pub fn create(&self, comm: &Comm, name: impl AsRef<OsStr>) -> Result<NetcdfFile> {
        let core = self.options.create(comm, name.as_ref())?;
        let unwritten = AtomicBool::new(true);
        Ok(NetcdfFile { reserved: self.room, unwritten, ..assemble(core, NetcdfHeader::new(self.version))? })
    }
}

/// How to open a file; the same on all ranks.
///
/// ```
/// # use aqueduct_comm::Launch;
/// # use aqueduct_formats::netcdf::{NetcdfCreateOptions, NetcdfOpenOptions};
/// # Launch::threads(2).run(|world| {
/// # NetcdfCreateOptions::new().replace().create(world, "memfs:opened.nc")?.close()?;
/// let dataset = NetcdfOpenOptions::new().writable().open(world, "memfs:opened.nc")?;
/// assert!(dataset.header().variables.is_empty());
/// # dataset.close()
/// # })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct NetcdfOpenOptions {
    options: FormatOpenOptions,
    room: ReservedSpace,
}

impl Default for NetcdfOpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl NetcdfOpenOptions {
    /// For reading.
    pub fn new() -> Self {
        Self { options: FormatOpenOptions::new(false), room: ROOM }
    }

    /// For writing too.
    #[must_use]
    pub fn writable(mut self) -> Self {
        self.options.writable = true;
        self
    }

    /// As [`NetcdfCreateOptions::without_sync`].
    #[must_use]
    pub fn without_sync(mut self) -> Self {
        self.options.durable = false;
        self
    }

    /// Adds a hint for the file layer.
    #[must_use]
    pub fn hint(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.options.info.set(key, value);
        self
    }

    /// Opens `name` on all ranks of `comm`. Rank 0 reads the header for all. Collective: it succeeds on all ranks or on none.
    #[doc(alias = "ncmpi_open")]
    pub fn open(&self, comm: &Comm, name: impl AsRef<OsStr>) -> Result<NetcdfFile> {
        let core = self.options.open(comm, name.as_ref())?;
        let found = if core.is_root() {
            read_raw_header(&core.file, &core.name).map(RawHeader::encode)
        } else {
            Ok(Vec::new())
        };
        let found = from_root(&core.comm, "open", &core.name, found)?;
        let RawHeader { length, bytes, interrupted } = RawHeader::decode(found);
        let header = NetcdfHeader::decode(&bytes, length).map_err(|flaw| damaged(&flaw, &core.name))?;
        let touched = AtomicBool::new(!header.variables.is_empty());
        let dataset = NetcdfFile { reserved: self.room, touched, ..assemble(core, header)? };
        if interrupted && self.options.writable {
            dataset.finish_header("open", &bytes, length)?;
        }
        Ok(dataset)
    }
}

impl NetcdfFile {
    /// Looks how many records there are now: another program may have committed more since the file was opened, and have defined more
    /// variables. Collective; nothing in a file that is being written here.
    ///
    /// There are no locks. The file is opened again, so that a file system with close-to-open consistency shows what was written: records are
    /// counted after their data was synced. Records beyond the end of the file, and a header that cannot be read, are ignored: not all of them
    /// has arrived, and a later call finds them. A file with other variables is an error.
    pub fn refresh(&mut self) -> Result<u64> {
        if self.core.writable {
            return Ok(self.records());
        }
        let found = if self.core.is_root() { self.find_header() } else { Ok(Vec::new()) };
        let found = from_root(&self.core.comm, "refresh", &self.core.name, found)?;
        if found.is_empty() {
            return Ok(self.records());
        }
        let RawHeader { length, bytes, .. } = RawHeader::decode(found);
        let header = NetcdfHeader::decode(&bytes, length).map_err(|flaw| damaged(&flaw, &self.core.name))?;
        let sizes = DatasetSizes::of(&header);
        let sizes = sizes.map_err(|what| self.core.error(Kind::Damaged, "refresh", what))?;
        self.check_is_same_file(&header)?;
        self.core.reopen()?;
        (self.header, self.sizes) = (header, sizes);
        let records = self.header.records;
        self.records.store(records, Ordering::Relaxed);
        self.committed.store(records, Ordering::Relaxed);
        Ok(records)
    }

    /// The header of the file, if it is whole and differs from the one that is known; else nothing.
    fn find_header(&self) -> Result<Vec<u8>> {
        let file = self.core.open_alone()?;
        let raw = match read_raw_header(&file, &self.core.name) {
            Ok(raw) => raw,
            Err(error) if error.kind() == Kind::Damaged => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let header = NetcdfHeader::decode(&raw.bytes, raw.length);
        let is_whole = |header: &NetcdfHeader| {
            let end = DatasetSizes::of(header).ok().and_then(|sizes| sizes.end(header, header.records));
            end.is_some_and(|end| end <= raw.length.saturating_add(PADDING))
        };
        let is_new = header.is_ok_and(|header| header != self.header && is_whole(&header));
        Ok(if is_new { raw.encode() } else { Vec::new() })
    }

    /// An error if a dimension or variable that is known is gone, or is another one.
    fn check_is_same_file(&self, header: &NetcdfHeader) -> Result<()> {
        let known = &self.header;
        let is_same = header.dimensions.starts_with(&known.dimensions)
            && header.variables.len() >= known.variables.len()
            && known.variables.iter().zip(&header.variables).all(|(old, new)| {
                (&old.name, old.kind, &old.dimensions) == (&new.name, new.kind, &new.dimensions)
            });
        if is_same {
            return Ok(());
        }
        let detail = "its variables are other ones: another file has replaced this one since it was opened; open it again";
        Err(self.core.error(Kind::Damaged, "refresh", detail))
    }
}

/// What rank 0 finds in a file.
struct RawHeader {
    /// Of the file, without the copy of a header.
    length: u64,
    /// As many bytes as its header has, and some more.
    bytes: Vec<u8>,
    /// Whether they are a copy: a program ended while it replaced the header.
    interrupted: bool,
}

impl RawHeader {
    /// The header, then its length and whether it is a copy, for the other ranks.
    fn encode(self) -> Vec<u8> {
        let mut bytes = self.bytes;
        bytes.extend_from_slice(&self.length.to_le_bytes());
        bytes.push(self.interrupted.into());
        bytes
    }

    fn decode(mut bytes: Vec<u8>) -> Self {
        let interrupted = bytes.pop() == Some(1);
        let length = bytes.split_off(bytes.len().saturating_sub(8));
        Self { length: u64::from_le_bytes(length.try_into().unwrap_or_default()), bytes, interrupted }
    }
}

fn damaged(flaw: &NetcdfHeaderError, shown: &str) -> Error {
    Error::new(Kind::Damaged, "open", shown, flaw.to_string())
}

fn read_raw_header(file: &File, shown: &str) -> Result<RawHeader> {
    let length = file.size()?;
    let mut wanted = FIRST_LOOK.min(length);
    loop {
        let mut bytes = vec![0; wanted as usize];
        let count = file.at(0).read_unprefetched(&mut bytes)?.bytes();
        bytes.truncate(count as usize);
        if bytes.starts_with(&BEING_REPLACED)
            && let Some((bytes, length)) = find_interrupted_swap(file, LONGEST)?
        {
            return Ok(RawHeader { length, bytes, interrupted: true });
        }
        match NetcdfHeader::decode(&bytes, length) {
            Ok(_) => return Ok(RawHeader { length, bytes, interrupted: false }),
            Err(NetcdfHeaderError::Truncated { needed }) if needed <= LONGEST && count == wanted => {
                wanted = needed.max(2 * wanted).min(length).min(LONGEST.max(needed));
            }
            Err(NetcdfHeaderError::Truncated { needed }) => {
                let detail =
                    format!("its header has at least {needed} bytes; more than {LONGEST} are not read");
                return Err(Error::new(Kind::Damaged, "open", shown, detail));
            }
            Err(flaw) => return Err(damaged(&flaw, shown)),
        }
    }
}

fn assemble(core: FormatFile, header: NetcdfHeader) -> Result<NetcdfFile> {
    let geometry = DatasetSizes::of(&header).map_err(|what| core.error(Kind::Damaged, "open", what))?;
    let records = header.records;
    Ok(NetcdfFile {
        core,
        reserved: ROOM,
        header,
        unwritten: AtomicBool::new(false),
        sizes: geometry,
        records: AtomicU64::new(records),
        committed: AtomicU64::new(records),
        touched: AtomicBool::new(false),
    })
}
