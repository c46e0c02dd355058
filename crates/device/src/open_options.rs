//! Options for opening a file.

use std::ffi::OsStr;

use crate::{Error, Kind, Operation, Result};

/// Which processes open a file together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpenedBy {
    /// This one only: its ranks are threads.
    #[default]
    Process,
    /// Processes of one node.
    Node,
    /// Processes of several nodes.
    Cluster,
}

/// Options for [`Device::open`](crate::Device::open).
///
/// Start from the access wanted and chain the rest:
///
/// ```
/// use aqueduct_device::DeviceOpenOptions;
///
/// let options = DeviceOpenOptions::read_write().create(true).truncate(true);
/// assert!(options.is_read() && options.is_write() && options.is_create());
/// assert_eq!(options.get_permissions(), 0o666);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is an independent yes or no")]
pub struct DeviceOpenOptions {
    read: bool,
    write: bool,
    create: bool,
    exclusive: bool,
    truncate: bool,
    direct: bool,
    write_behind: bool,
    permissions: u32,
    rank: usize,
    opened_by: OpenedBy,
}

impl DeviceOpenOptions {
    fn new(read: bool, write: bool) -> Self {
        Self {
            read,
            write,
            create: false,
            exclusive: false,
            truncate: false,
            direct: false,
            write_behind: false,
            permissions: 0o666,
            rank: 0,
            opened_by: OpenedBy::Process,
        }
    }

    /// For reading; writes are `PermissionDenied`.
    pub fn read_only() -> Self {
        Self::new(true, false)
    }

    /// For reading and writing.
    pub fn read_write() -> Self {
        Self::new(true, true)
    }

    /// For writing; reads are `PermissionDenied`.
    pub fn write_only() -> Self {
        Self::new(false, true)
    }

    /// The same options without reading; reads are `PermissionDenied`.
    #[must_use]
    pub fn for_writing_only(mut self) -> Self {
        (self.read, self.direct) = (false, false);
        self
    }

    /// Creates the file where it does not exist. Default: a missing file is `NotFound`.
    #[must_use]
    pub fn create(mut self, yes: bool) -> Self {
        self.create = yes;
        self
    }

    /// With [`create`](Self::create): an existing file is `AlreadyExists`. No effect without it.
    #[must_use]
    pub fn exclusive(mut self, yes: bool) -> Self {
        self.exclusive = yes;
        self
    }

    /// Truncates an existing file.
    #[must_use]
    pub fn truncate(mut self, yes: bool) -> Self {
        self.truncate = yes;
        self
    }

    /// Bypasses the page cache (`O_DIRECT`) if the device supports it.
    #[must_use]
    pub fn direct(mut self, yes: bool) -> Self {
        self.direct = yes;
        self
    }

    /// Starts writeback of written data in the background, if the device supports it: a later sync has
    /// less to write. Data is durable only after a sync.
    #[must_use]
    pub fn write_behind(mut self, yes: bool) -> Self {
        self.write_behind = yes;
        self
    }

    /// The permission bits of a file that gets created, before the umask. Default: `0o666`.
    #[must_use]
    pub fn permissions(mut self, bits: u32) -> Self {
        self.permissions = bits;
        self
    }

    /// The rank on whose behalf the file is opened, for traces and seeded faults. Default: 0.
    #[must_use]
    pub fn rank(mut self, rank: usize) -> Self {
        self.rank = rank;
        self
    }

    /// Which processes open the file together. Default: this one only.
    #[must_use]
    pub fn opened_by(mut self, processes: OpenedBy) -> Self {
        self.opened_by = processes;
        self
    }

    /// Whether reads are allowed.
    pub fn is_read(&self) -> bool {
        self.read
    }

    /// Whether writes are allowed.
    pub fn is_write(&self) -> bool {
        self.write
    }

    /// Whether a missing file is created.
    pub fn is_create(&self) -> bool {
        self.create
    }

    /// Whether an existing file is an error.
    pub fn is_exclusive(&self) -> bool {
        self.create && self.exclusive
    }

    /// Whether an existing file is truncated.
    pub fn is_truncate(&self) -> bool {
        self.truncate
    }

    /// Whether the page cache is bypassed.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Whether writeback of written data starts at once.
    pub fn is_write_behind(&self) -> bool {
        self.write_behind
    }

    /// The permission bits of a new file.
    pub fn get_permissions(&self) -> u32 {
        self.permissions
    }

    /// The rank on whose behalf the file is opened.
    pub fn get_rank(&self) -> usize {
        self.rank
    }

    /// Which processes open the file together.
    pub fn get_opened_by(&self) -> OpenedBy {
        self.opened_by
    }

    /// Rejects invalid combinations: creating or truncating a file that is opened for reading only.
    pub fn check(&self, name: &OsStr) -> Result<()> {
        if !self.write && (self.create || self.truncate) {
            let error = Error::new(Kind::InvalidArgument, Operation::Open, name);
            return Err(error.advise("create and truncate need an open mode that writes"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exclusive_has_an_effect_only_with_create() {
        assert!(!DeviceOpenOptions::read_write().exclusive(true).is_exclusive());
        assert!(DeviceOpenOptions::read_write().exclusive(true).create(true).is_exclusive());
    }

    #[test]
    fn create_and_truncate_need_write_access() {
        let name = OsStr::new("x");
        for options in
            [DeviceOpenOptions::read_only().create(true), DeviceOpenOptions::read_only().truncate(true)]
        {
            assert_eq!(options.check(name).unwrap_err().kind(), Kind::InvalidArgument);
        }
        assert!(DeviceOpenOptions::write_only().create(true).truncate(true).check(name).is_ok());
    }
}
