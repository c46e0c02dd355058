//! The MPI functions that this crate calls, typed for one ABI; each returns a Rust error instead of aborting.
//!
//! `unsafe` here: calls into the MPI library with pointers that live through the call.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use super::ThreadLevel;
use super::abi::{Abi, AbiStatus, MpiHandles};
use super::library::Library;
use crate::{Error, Kind, Result};

/// More than any implementation's longest message.
const TEXT: usize = 8192;

macro_rules! functions {
    ($($field:ident = $name:literal ($($argument:ty),*);)*) => {
        struct Table<A: Abi> {
            $($field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl<A: Abi> Table<A> {
            fn load(library: &Library) -> Result<Self> {
                Ok(Self {
                    // SAFETY: the MPI standard gives the function this type, with the handles and status of this interface.
                    $($field: unsafe { library.function($name) }?,)*
                })
            }
        }
    };
}

functions! {
    init_thread = "MPI_Init_thread" (*mut c_int, *mut c_void, c_int, *mut c_int);
    initialized = "MPI_Initialized" (*mut c_int);
    finalized = "MPI_Finalized" (*mut c_int);
    query_thread = "MPI_Query_thread" (*mut c_int);
    finalize = "MPI_Finalize" ();
    abort = "MPI_Abort" (A::Handle, c_int);
    error_string = "MPI_Error_string" (c_int, *mut c_char, *mut c_int);
    library_version = "MPI_Get_library_version" (*mut c_char, *mut c_int);
    comm_rank = "MPI_Comm_rank" (A::Handle, *mut c_int);
    comm_size = "MPI_Comm_size" (A::Handle, *mut c_int);
    comm_dup = "MPI_Comm_dup" (A::Handle, *mut A::Handle);
    comm_free = "MPI_Comm_free" (*mut A::Handle);
    comm_set_errhandler = "MPI_Comm_set_errhandler" (A::Handle, A::Handle);
    isend = "MPI_Isend" (*const c_void, c_int, A::Handle, c_int, c_int, A::Handle, *mut A::Handle);
    irecv = "MPI_Irecv" (*mut c_void, c_int, A::Handle, c_int, c_int, A::Handle, *mut A::Handle);
    improbe = "MPI_Improbe" (c_int, c_int, A::Handle, *mut c_int, *mut A::Handle, *mut A::Status);
    imrecv = "MPI_Imrecv" (*mut c_void, c_int, A::Handle, *mut A::Handle, *mut A::Handle);
    test = "MPI_Test" (*mut A::Handle, *mut c_int, *mut A::Status);
    get_count = "MPI_Get_count" (*const A::Status, A::Handle, *mut c_int);
    win_allocate = "MPI_Win_allocate" (isize, c_int, A::Handle, A::Handle, *mut c_void, *mut A::Handle);
    win_set_errhandler = "MPI_Win_set_errhandler" (A::Handle, A::Handle);
    win_lock_all = "MPI_Win_lock_all" (c_int, A::Handle);
    win_unlock_all = "MPI_Win_unlock_all" (A::Handle);
    win_flush = "MPI_Win_flush" (c_int, A::Handle);
    win_free = "MPI_Win_free" (*mut A::Handle);
    fetch_and_op = "MPI_Fetch_and_op" (*const c_void, *mut c_void, A::Handle, c_int, isize, A::Handle, A::Handle);
}

/// The functions of an MPI library.
pub(crate) struct MpiFunctions<A: Abi> {
    table: Table<A>,
    pub(crate) constants: MpiHandles<A::Handle>,
}

/// A message that has been found and waits to be received.
pub(crate) struct MatchedMessage<A: Abi> {
    pub(crate) source: usize,
    pub(crate) bytes: usize,
    message: A::Handle,
}

impl<A: Abi> MpiFunctions<A> {
    /// The functions of `library`, which stays loaded: MPI libraries cannot be unloaded.
    pub(crate) fn load(library: Library) -> Result<Self> {
        let functions = Self { table: Table::load(&library)?, constants: A::constants(&library)? };
        library.stay_loaded();
        Ok(functions)
    }

    /// The thread level of the MPI that runs in this process; none if it has not been started. One that has ended is an error: MPI
    /// starts once in a process.
    pub(crate) fn running(&self) -> Result<Option<ThreadLevel>> {
        let (mut running, mut ended, mut level) = (0, 0, 0);
        // SAFETY: these fill integers that live here; the first two may be called at any time.
        unsafe {
            self.check("MPI_Initialized", (self.table.initialized)(&raw mut running))?;
            self.check("MPI_Finalized", (self.table.finalized)(&raw mut ended))?;
            if ended != 0 {
                let detail =
                    "MPI was finalized in this process and cannot be initialized again; call `run` once";
                return Err(Error::new(Kind::Mpi, "run", detail));
            }
            if running == 0 {
                return Ok(None);
            }
            self.check("MPI_Query_thread", (self.table.query_thread)(&raw mut level))?;
        }
        Ok(Some(A::thread_level(level)))
    }

    /// Starts MPI unless the process has done so; the thread level it has, and whether it was started here.
    pub(crate) fn start(&self, wanted: ThreadLevel) -> Result<(ThreadLevel, bool)> {
        if let Some(level) = self.running()? {
            return Ok((level, false));
        }
        let mut level = 0;
        let wanted = A::THREAD_LEVELS[wanted as usize];
        // SAFETY: null arguments are allowed; the level is filled.
        let outcome =
            unsafe { (self.table.init_thread)(ptr::null_mut(), ptr::null_mut(), wanted, &raw mut level) };
        self.check("MPI_Init_thread", outcome)?;
        Ok((A::thread_level(level), true))
    }

    /// Ends MPI.
    pub(crate) fn finalize(&self) -> Result<()> {
        // SAFETY: no arguments; the session calls it once, after the last other call.
        self.check("MPI_Finalize", unsafe { (self.table.finalize)() })
    }

    /// Aborts the job.
    pub(crate) fn abort(&self, comm: A::Handle, code: c_int) {
        // SAFETY: a valid communicator; it does not return where the implementation can help it.
        unsafe { (self.table.abort)(comm, code) };
    }

    /// The first line of the library's version string.
    pub(crate) fn version(&self) -> String {
        let mut text = vec![0u8; TEXT];
        let mut len = 0;
        // SAFETY: the buffer is at least MPI_MAX_LIBRARY_VERSION_STRING long.
        let outcome = unsafe { (self.table.library_version)(text.as_mut_ptr().cast(), &raw mut len) };
        let text = if outcome == 0 { text_of(&text, len) } else { String::new() };
        text.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// A private copy of a communicator that returns errors instead of aborting. Collective in MPI's sense.
    pub(crate) fn duplicate(&self, comm: A::Handle) -> Result<A::Handle> {
        let mut copy = comm;
        // SAFETY: `comm` is a valid communicator, `copy` lives here.
        self.check("MPI_Comm_dup", unsafe { (self.table.comm_dup)(comm, &raw mut copy) })?;
        // SAFETY: the copy was created here.
        let outcome = unsafe { (self.table.comm_set_errhandler)(copy, self.constants.errors_return) };
        self.check("MPI_Comm_set_errhandler", outcome)?;
        Ok(copy)
    }

    pub(crate) fn free(&self, mut comm: A::Handle) {
        // SAFETY: a communicator created here, not used again. After an error it lives until the end of the job.
        unsafe { (self.table.comm_free)(&raw mut comm) };
    }

    pub(crate) fn rank_and_size(&self, comm: A::Handle) -> Result<(usize, usize)> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: a valid communicator, integers that live here.
        unsafe {
            self.check("MPI_Comm_rank", (self.table.comm_rank)(comm, &raw mut rank))?;
            self.check("MPI_Comm_size", (self.table.comm_size)(comm, &raw mut size))?;
        }
        Ok((rank as usize, size as usize))
    }

    /// Starts sending.
    ///
    /// # Safety
    /// `bytes` must stay valid and unchanged until [`test`](Self::test) says that the request is complete.
    pub(crate) unsafe fn isend(
        &self,
        comm: A::Handle,
        to: usize,
        tag: c_int,
        bytes: &[u8],
    ) -> Result<A::Handle> {
        let mut request = self.constants.request_null;
        let (count, byte) = (count_of(bytes.len())?, self.constants.byte);
        // SAFETY: the caller keeps the buffer.
        let outcome = unsafe {
            (self.table.isend)(bytes.as_ptr().cast(), count, byte, to as c_int, tag, comm, &raw mut request)
        };
        self.check("MPI_Isend", outcome).map(|()| request)
    }

    /// Starts receiving from one rank with one tag.
    ///
    /// # Safety
    /// `bytes` must stay valid and untouched until [`test`](Self::test) says that the request is complete.
    pub(crate) unsafe fn irecv(
        &self,
        comm: A::Handle,
        from: usize,
        tag: c_int,
        bytes: &mut [u8],
    ) -> Result<A::Handle> {
        let mut request = self.constants.request_null;
        let (count, byte) = (count_of(bytes.len())?, self.constants.byte);
        // SAFETY: the caller keeps the buffer.
        let outcome = unsafe {
            (self.table.irecv)(
                bytes.as_mut_ptr().cast(),
                count,
                byte,
                from as c_int,
                tag,
                comm,
                &raw mut request,
            )
        };
        self.check("MPI_Irecv", outcome).map(|()| request)
    }

    /// Probes for a message with this tag from any rank.
    pub(crate) fn improbe(&self, comm: A::Handle, tag: c_int) -> Result<Option<MatchedMessage<A>>> {
        let (mut flag, mut count) = (0, 0);
        let mut message = self.constants.message_null;
        let mut status = A::Status::default();
        // SAFETY: everything filled lives here; the status has the implementation's layout.
        unsafe {
            let outcome = (self.table.improbe)(
                A::ANY_SOURCE,
                tag,
                comm,
                &raw mut flag,
                &raw mut message,
                &raw mut status,
            );
            self.check("MPI_Improbe", outcome)?;
            if flag == 0 {
                return Ok(None);
            }
            let outcome = (self.table.get_count)(&raw const status, self.constants.byte, &raw mut count);
            self.check("MPI_Get_count", outcome)?;
        }
        Ok(Some(MatchedMessage { source: status.source() as usize, bytes: count.max(0) as usize, message }))
    }

    /// Starts receiving a message that was found.
    ///
    /// # Safety
    /// `bytes` must be as long as the message and stay valid and untouched until [`test`](Self::test) says that the request is complete.
    pub(crate) unsafe fn imrecv(&self, mut found: MatchedMessage<A>, bytes: &mut [u8]) -> Result<A::Handle> {
        let mut request = self.constants.request_null;
        let (count, byte) = (count_of(bytes.len())?, self.constants.byte);
        // SAFETY: the caller keeps the buffer.
        let outcome = unsafe {
            (self.table.imrecv)(
                bytes.as_mut_ptr().cast(),
                count,
                byte,
                &raw mut found.message,
                &raw mut request,
            )
        };
        self.check("MPI_Imrecv", outcome).map(|()| request)
    }

    /// True if a request is complete; the request is then freed.
    pub(crate) fn test(&self, request: &mut A::Handle) -> Result<bool> {
        let mut flag = 0;
        let mut status = A::Status::default();
        // SAFETY: a request created here; integers and status live here.
        let outcome = unsafe { (self.table.test)(request, &raw mut flag, &raw mut status) };
        self.check("MPI_Test", outcome).map(|()| flag != 0)
    }

    /// A window with `len` bytes of this process, not set to anything, open to one-sided calls until it is closed. It returns errors
    /// instead of aborting. Collective in MPI's sense.
    pub(crate) fn open_window(&self, comm: A::Handle, len: usize) -> Result<A::Handle> {
        let (mut window, mut memory) = (self.constants.info_null, ptr::null_mut::<c_void>());
        let (unit, info) = (size_of::<u64>() as c_int, self.constants.info_null);
        let start = (&raw mut memory).cast();
        // SAFETY: a valid communicator; handle and address are filled, and MPI keeps the memory itself.
        unsafe {
            let outcome = (self.table.win_allocate)(len as isize, unit, info, comm, start, &raw mut window);
            self.check("MPI_Win_allocate", outcome)?;
            let outcome = (self.table.win_set_errhandler)(window, self.constants.errors_return);
            self.check("MPI_Win_set_errhandler", outcome)?;
            self.check("MPI_Win_lock_all", (self.table.win_lock_all)(0, window))?;
        }
        Ok(window)
    }

    /// Atomically changes the number at a position of the window of process 0; its previous value.
    pub(crate) fn fetch_and_op(
        &self,
        window: A::Handle,
        place: usize,
        value: u64,
        operation: A::Handle,
    ) -> Result<u64> {
        let cell = Box::leak(Box::new([value, 0]));
        let [value, before] = &mut *cell;
        let (value, before) = ((&raw const *value).cast(), (&raw mut *before).cast());
        // SAFETY: the window is open; MPI reads and writes the cell until the second call says that it is done with it.
        unsafe {
            let kind = self.constants.uint64;
            let outcome =
                (self.table.fetch_and_op)(value, before, kind, 0, place as isize, operation, window);
            self.check("MPI_Fetch_and_op", outcome)?;
            // If this fails MPI may write the cell later: it is never freed then.
            self.check("MPI_Win_flush", (self.table.win_flush)(0, window))?;
        }
        // SAFETY: leaked above, and MPI is done with it.
        Ok(unsafe { Box::from_raw(cell) }[1])
    }

    /// Frees a window. Collective in MPI's sense.
    pub(crate) fn close_window(&self, mut window: A::Handle) {
        // SAFETY: a window created here, not used again. After an error it lives until the end of the job.
        unsafe {
            (self.table.win_unlock_all)(window);
            (self.table.win_free)(&raw mut window);
        }
    }

    fn check(&self, function: &'static str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let mut text = vec![0u8; TEXT];
        let mut len = 0;
        // SAFETY: the buffer is at least MPI_MAX_ERROR_STRING long.
        let outcome = unsafe { (self.table.error_string)(code, text.as_mut_ptr().cast(), &raw mut len) };
        let text = if outcome == 0 { text_of(&text, len) } else { "no description".to_owned() };
        Err(Error::new(Kind::Mpi, function, format!("MPI error {code}: {text}")))
    }
}

fn text_of(bytes: &[u8], len: c_int) -> String {
    let text = &bytes[..(len.max(0) as usize).min(bytes.len())];
    String::from_utf8_lossy(text).trim_end_matches('\0').trim().to_owned()
}

fn count_of(bytes: usize) -> Result<c_int> {
    c_int::try_from(bytes)
        .map_err(|_| Error::new(Kind::InvalidArgument, "MPI", format!("{bytes} bytes in one MPI message")))
}
