//! How a file is to be opened.

use std::ffi::OsStr;

use crate::{Error, Kind, Operation, Result};

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
        }
    }

    /// To be read; writes are `PermissionDenied`.
    pub fn read_only() -> Self {
        Self::new(true, false)
    }

    /// To be read and written.
    pub fn read_write() -> Self {
        Self::new(true, true)
    }

    /// To be written; reads are `PermissionDenied`.
    pub fn write_only() -> Self {
        Self::new(false, true)
    }

    /// The same without reading; reads are `PermissionDenied`.
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

    /// Together with [`create`](Self::create): an existing file is `AlreadyExists`. Alone it means nothing.
    #[must_use]
    pub fn exclusive(mut self, yes: bool) -> Self {
        self.exclusive = yes;
        self
    }

    /// Cuts an existing file to length zero.
    #[must_use]
    pub fn truncate(mut self, yes: bool) -> Self {
        self.truncate = yes;
        self
    }

    /// Passes by the cache of the operating system where the device can; a wish, not a demand.
    #[must_use]
    pub fn direct(mut self, yes: bool) -> Self {
        self.direct = yes;
        self
    }

    /// Begins to bring what is written to the medium while the program goes on, where the device can: for a file that is going to be synced, which then
    /// finds little left. A wish, and no promise: durable is what was synced.
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

    /// Whether an existing file is refused.
    pub fn is_exclusive(&self) -> bool {
        self.create && self.exclusive
    }

    /// Whether an existing file is cut to length zero.
    pub fn is_truncate(&self) -> bool {
        self.truncate
    }

    /// Whether the cache of the operating system is to be passed by.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Whether what is written is to be on its way to the medium at once.
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

    /// Refuses combinations that make no sense, the same way for every device: creating or cutting a file that is only to be read.
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
    fn exclusive_means_something_only_with_create() {
        assert!(!DeviceOpenOptions::read_write().exclusive(true).is_exclusive());
        assert!(DeviceOpenOptions::read_write().exclusive(true).create(true).is_exclusive());
    }

    #[test]
    fn a_file_only_read_is_neither_created_nor_cut() {
        let name = OsStr::new("x");
        for options in
            [DeviceOpenOptions::read_only().create(true), DeviceOpenOptions::read_only().truncate(true)]
        {
            assert_eq!(options.check(name).unwrap_err().kind(), Kind::InvalidArgument);
        }
        assert!(DeviceOpenOptions::write_only().create(true).truncate(true).check(name).is_ok());
    }
}
