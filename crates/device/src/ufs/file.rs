//! Opening a file of the operating system, and the properties of its file system.

use std::ffi::OsStr;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, StatxFlags};
use rustix::io::Errno;

use crate::{DeviceOpenOptions, Error, Kind, Operation, Result, name};

/// Opens a file; directories, pipes and sockets are errors.
pub(super) fn open(name: &OsStr, options: &DeviceOpenOptions) -> Result<(OwnedFd, Stat)> {
    name::check(name, Operation::Open)?;
    options.check(name)?;
    let fail = |errno: Errno| {
        let error = Error::from_io(errno.into(), Operation::Open, name);
        let folder_is_missing = errno == Errno::NOENT && options.is_create();
        if folder_is_missing { error.advise("create its folder first, or check the path") } else { error }
    };
    let mode = Mode::from_raw_mode(options.get_permissions() & 0o7777);
    // Without NONBLOCK the opening of a pipe would wait for its other end.
    let file = retry(|| rustix::fs::open(name, flags(options) | OFlags::NONBLOCK, mode)).map_err(fail)?;
    let stat = rustix::fs::fstat(&file).map_err(fail)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::BlockDevice | FileType::CharacterDevice => {}
        FileType::Directory => return Err(fail(Errno::ISDIR)),
        _ => {
            let error = Error::new(Kind::NotAFile, Operation::Open, name);
            return Err(
                error.advise("a pipe or socket has no positions to read and write at; name a regular file")
            );
        }
    }
    rustix::fs::fcntl_setfl(&file, OFlags::empty()).map_err(fail)?;
    let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    // A new file was not truncated.
    let cut = stat.st_size == 0 && !(options.is_create() && options.is_exclusive());
    if regular && cut && options.is_write() && options.get_rank() == 0 {
        close_once(file.as_fd());
    }
    Ok((file, stat))
}

/// Opens an empty file once more and closes it: ext4 flushes a file that was truncated to zero at the next close, and the closing process
/// waits (`auto_da_alloc`). The flush is cheap while there is nothing to write.
pub(super) fn close_once(file: BorrowedFd<'_>) {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    // If this fails, the later close takes longer.
    let _ = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK, Mode::empty());
}

/// Opens the same file again with `O_DIRECT`; `None` if the file system does not support it.
pub(super) fn open_direct(file: BorrowedFd<'_>, options: &DeviceOpenOptions) -> Option<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path, access(options) | OFlags::DIRECT, Mode::empty()).ok()
}

/// ext2, ext3, ext4.
pub(super) const EXT: u64 = 0xEF53;

/// Local file systems, whose page cache is coherent with every read and write. On others (NFS, Lustre, FUSE …) a changed
/// page is written back as a whole, over bytes of it that other machines wrote.
const LOCAL: [u64; 7] = [
    EXT,
    0x5846_5342, // xfs
    0x9123_683E, // btrfs
    0x0102_1994, // tmpfs
    0xF2F5_2010, // f2fs
    0x794C_7630, // overlayfs
    0x8584_58F6, // ramfs
];

/// Those of them that rewrite an allocated page in place, so that it never runs out of space.
const IN_PLACE: [u64; 3] = [EXT, 0x0102_1994, 0x8584_58F6];

/// File systems of a cluster that are coherent between nodes. All others of a network (NFS, SMB, FUSE) are not known to be: their clients
/// keep pages that others have changed, and write whole pages back.
const CLUSTER: [u64; 9] = [
    0x0BD0_0BD0, // Lustre
    0x4750_4653, // GPFS
    0x1983_0326, // BeeGFS
    0x00C3_6400, // CephFS
    0x7461_636F, // OCFS2
    0x0116_1970, // GFS2
    0x2003_0528, // OrangeFS
    0x2FC1_2FC1, // ZFS, of one machine
    0xCA45_1A4E, // bcachefs, of one machine
];

/// True if all nodes that have a file system mounted see the same bytes: it is local or coherent.
pub(super) fn is_coherent(system: u64) -> bool {
    is_local(system) || CLUSTER.contains(&system)
}

/// File systems in memory: what they hold is lost when the machine restarts.
const VOLATILE: [u64; 2] = [0x0102_1994, 0x8584_58F6];

/// Whether files of a file system outlive a restart of the machine.
pub(super) fn is_persistent(system: u64) -> bool {
    !VOLATILE.contains(&system)
}

/// Drops the clean cached pages of a range, so that the next read gets the bytes of the file system. Locking does that on NFS;
/// a FUSE file system without locks of its own keeps its pages.
pub(super) fn drop_cached_pages(file: BorrowedFd<'_>, part: &Range<u64>) {
    if part.is_empty() {
        return;
    }
    // Only whole folios are dropped.
    let start = part.start / LARGEST_FOLIO * LARGEST_FOLIO;
    let len = part.end.checked_next_multiple_of(LARGEST_FOLIO).and_then(|end| NonZeroU64::new(end - start));
    // Advisory: if it has no effect, locking must be sufficient.
    let _ = rustix::fs::fadvise(file, start, len, rustix::fs::Advice::DontNeed);
}

/// The largest unit of the page cache where pages have 4 KiB.
const LARGEST_FOLIO: u64 = 2 << 20;

/// Gets the length from the file system, not from cached attributes: a read ends at the cached length.
pub(super) fn refresh_length(file: BorrowedFd<'_>) -> rustix::io::Result<()> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    match retry(|| rustix::fs::statx(file, c"", flags, StatxFlags::SIZE)) {
        // The kernel lacks this call, or a sandbox forbids it: locking must be sufficient.
        Err(Errno::NOSYS | Errno::INVAL | Errno::PERM) | Ok(_) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Which file system a file is on.
pub(super) fn system(file: impl AsFd) -> Option<u64> {
    rustix::fs::fstatfs(file).ok().map(|stat| stat.f_type as u64)
}

/// True if the page cache of this machine is authoritative for the files of a file system.
pub(super) fn is_local(system: u64) -> bool {
    LOCAL.contains(&system)
}

/// True if allocated pages stay allocated.
pub(super) fn is_in_place(system: u64) -> bool {
    IN_PLACE.contains(&system)
}

/// Repeats a call that a signal interrupted.
pub(super) fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            outcome => return outcome,
        }
    }
}

fn access(options: &DeviceOpenOptions) -> OFlags {
    let access = match (options.is_read(), options.is_write()) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        _ => OFlags::RDONLY,
    };
    access | OFlags::CLOEXEC
}

fn flags(options: &DeviceOpenOptions) -> OFlags {
    let mut flags = access(options);
    flags.set(OFlags::CREATE, options.is_create());
    flags.set(OFlags::EXCL, options.is_exclusive());
    flags.set(OFlags::TRUNC, options.is_truncate());
    flags
}
