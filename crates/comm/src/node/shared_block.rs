//! A block of zeroed memory shared by the ranks of a node: an anonymous mapping for threads, a memfd for processes.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use memmap2::{MmapMut, MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

/// Memory shared by the ranks of a node; it is freed when the last rank drops it.
#[derive(Debug)]
pub(crate) struct SharedBlock {
    map: MmapRaw,
}

/// How a process finds the block of another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemfdHandle {
    pub(crate) pid: u32,
    pub(crate) fd: i32,
}

impl SharedBlock {
    /// Memory shared by the threads of this process.
    pub(crate) fn for_threads(len: usize) -> io::Result<Self> {
        Ok(Self { map: MmapMut::map_anon(whole_words(len))?.into() })
    }

    /// Memory that other processes of this machine can attach to while the descriptor is open.
    pub(crate) fn for_processes(len: usize) -> io::Result<(Self, OwnedFd)> {
        let fd = memfd_create("aqueduct", MemfdFlags::CLOEXEC)?;
        ftruncate(&fd, whole_words(len) as u64)?;
        let map = MmapOptions::new().len(whole_words(len)).map_raw(&fd)?;
        Ok((Self { map }, fd))
    }

    /// The handle by which other processes attach.
    pub(crate) fn memfd_handle(fd: &OwnedFd) -> MemfdHandle {
        MemfdHandle { pid: std::process::id(), fd: fd.as_raw_fd() }
    }

    /// Attaches to the block of another process of this machine.
    pub(crate) fn attach(handle: MemfdHandle, len: usize) -> io::Result<Self> {
        let path = format!("/proc/{}/fd/{}", handle.pid, handle.fd);
        let file = File::options().read(true).write(true).open(path)?;
        if file.metadata()?.len() < whole_words(len) as u64 {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the shared block is too short"));
        }
        Ok(Self { map: MmapOptions::new().len(whole_words(len)).map_raw(&file)? })
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.map.as_mut_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.map.len()
    }
}

/// The length of a block of `len` bytes, rounded up to whole words, at least one: it is accessed by words. A length that cannot be rounded
/// is kept, and the system rejects it.
fn whole_words(len: usize) -> usize {
    len.max(1).checked_next_multiple_of(8).unwrap_or(len)
}
