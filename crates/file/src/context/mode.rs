//! The access mode of a file: the amode of `MPI_File_open`.

use std::fmt;

/// The access mode of a file, the same on all ranks: the amode of `MPI_File_open`. Programs set it with
/// [`OpenOptions`](crate::OpenOptions).
///
/// ```
/// use aqueduct_file::Mode;
/// let mode = Mode::read_write().create().delete_on_close();
/// assert!(mode.is_read() && mode.is_write());
/// assert_eq!(mode.to_string(), "read-write create delete-on-close");
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Mode(u32);

pub(crate) const READ: u32 = 1;
pub(crate) const WRITE: u32 = 2;
pub(crate) const CREATE: u32 = 4;
pub(crate) const EXCLUSIVE: u32 = 8;
pub(crate) const DELETE_ON_CLOSE: u32 = 16;
pub(crate) const UNIQUE_OPEN: u32 = 32;
pub(crate) const SEQUENTIAL: u32 = 64;
pub(crate) const APPEND: u32 = 128;

impl Mode {
    /// Reading only.
    #[doc(alias = "MPI_MODE_RDONLY")]
    pub fn read_only() -> Self {
        Self(READ)
    }

    /// Writing only.
    #[doc(alias = "MPI_MODE_WRONLY")]
    pub fn write_only() -> Self {
        Self(WRITE)
    }

    /// Reading and writing.
    #[doc(alias = "MPI_MODE_RDWR")]
    pub fn read_write() -> Self {
        Self(READ | WRITE)
    }

    /// Creates the file if it does not exist.
    #[must_use]
    #[doc(alias = "MPI_MODE_CREATE")]
    pub fn create(self) -> Self {
        Self(self.0 | CREATE)
    }

    /// Creates the file; one that exists is an error.
    #[must_use]
    #[doc(alias = "MPI_MODE_EXCL")]
    pub fn exclusive(self) -> Self {
        Self(self.0 | CREATE | EXCLUSIVE)
    }

    /// Deletes the file when it is closed.
    #[must_use]
    #[doc(alias = "MPI_MODE_DELETE_ON_CLOSE")]
    pub fn delete_on_close(self) -> Self {
        Self(self.0 | DELETE_ON_CLOSE)
    }

    /// Promises that the file is not open elsewhere.
    #[must_use]
    #[doc(alias = "MPI_MODE_UNIQUE_OPEN")]
    pub fn unique_open(self) -> Self {
        Self(self.0 | UNIQUE_OPEN)
    }

    /// Allows only accesses at the shared file pointer.
    #[must_use]
    #[doc(alias = "MPI_MODE_SEQUENTIAL")]
    pub fn sequential(self) -> Self {
        Self(self.0 | SEQUENTIAL)
    }

    /// All file pointers start at the end of the file.
    #[must_use]
    #[doc(alias = "MPI_MODE_APPEND")]
    pub fn append(self) -> Self {
        Self(self.0 | APPEND)
    }

    /// True if the file can be read.
    pub fn is_read(self) -> bool {
        self.has(READ)
    }

    /// True if the file can be written.
    pub fn is_write(self) -> bool {
        self.has(WRITE)
    }

    /// True if the file is created if it does not exist.
    pub fn is_create(self) -> bool {
        self.has(CREATE)
    }

    /// True if an existing file is an error.
    pub fn is_exclusive(self) -> bool {
        self.has(EXCLUSIVE)
    }

    /// True if the file is deleted when it is closed.
    pub fn is_delete_on_close(self) -> bool {
        self.has(DELETE_ON_CLOSE)
    }

    /// True if the file is not open elsewhere.
    pub fn is_unique_open(self) -> bool {
        self.has(UNIQUE_OPEN)
    }

    /// True if only the shared file pointer may be used.
    pub fn is_sequential(self) -> bool {
        self.has(SEQUENTIAL)
    }

    /// True if file pointers start at the end of the file.
    pub fn is_append(self) -> bool {
        self.has(APPEND)
    }

    /// Why the mode contradicts itself, if it does.
    pub(crate) fn contradiction(self) -> Option<&'static str> {
        if !self.is_read() && !self.is_write() {
            return Some("neither reading nor writing was asked for");
        }
        if self.is_create() && !self.is_write() {
            return Some("a file opened for reading only cannot be created");
        }
        if self.is_sequential() && self.is_read() && self.is_write() {
            return Some("a sequential file is either read or written");
        }
        None
    }

    /// The same with a bit set or cleared.
    pub(crate) fn with(self, bit: u32, yes: bool) -> Self {
        Self(if yes { self.0 | bit } else { self.0 & !bit })
    }

    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.is_read(), self.is_write()) {
            (true, true) => "read-write",
            (true, false) => "read-only",
            _ => "write-only",
        })?;
        let rest = [
            (CREATE, " create"),
            (EXCLUSIVE, " exclusive"),
            (DELETE_ON_CLOSE, " delete-on-close"),
            (UNIQUE_OPEN, " unique-open"),
            (SEQUENTIAL, " sequential"),
            (APPEND, " append"),
        ];
        rest.iter().filter(|(bit, _)| self.has(*bit)).try_for_each(|(_, word)| f.write_str(word))
    }
}

impl fmt::Debug for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mode({self})")
    }
}
