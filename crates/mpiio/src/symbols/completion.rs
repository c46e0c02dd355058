//! The functions that complete requests of any kind. This library interposes those of MPI for two reasons.
//!
//! When a request of a file has failed, a replacement error handler is installed until MPI has raised the error: it is removed when the call
//! returns, so that errors of other calls reach the program's handler. And if MPI has no progress hook, a wait for another request
//! transfers the packets of collective file operations.
//!
//! A tool between this library and MPI is called under the MPI_ name, and calls back under the PMPI_ name.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_void};
use std::sync::OnceLock;
use std::time::Duration;

use super::NO_MPI;
use crate::host::mpi;
use crate::request::progress;
use crate::request::ucx_progress::in_mpi;
use crate::request::{poll_before_status, request_errors};

/// Pauses between two polls grow from the first to the second length.
const SHORTEST_PAUSE: Duration = Duration::from_micros(5);
const LONGEST_PAUSE: Duration = Duration::from_micros(200);

/// The number of polls without progress that only yield.
const YIELDS: u32 = 200;

/// The cached address of a function.
pub(super) type Found = OnceLock<Option<usize>>;

/// The next definition of a name after this library's.
fn next(name: &str) -> Option<usize> {
    let name = CString::new(name).ok()?;
    // SAFETY: a C string; RTLD_NEXT finds the definition after this library's.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    (!found.is_null()).then_some(found as usize)
}

/// MPI's own function of a PMPI_ name. Requests are completed even if no file was opened.
pub(super) fn own(found: &Found, name: &str) -> Option<usize> {
    *found.get_or_init(|| mpi().ok().and_then(|mpi| mpi.host().function(name)).or_else(|| next(name)))
}

/// The next definition of the MPI_ name: a tool's, or MPI's.
pub(super) fn behind(found: &Found, name: &str) -> Option<usize> {
    // RTLD_NEXT does not find an MPI library that was loaded for a module only.
    *found.get_or_init(|| next(name).or_else(|| mpi().ok()?.host().function(&format!("P{name}"))))
}

/// Ends a call of MPI that may have raised an error of a request: restores the program's error handlers.
fn completed(code: c_int) -> c_int {
    if request_errors::is_armed()
        && let Ok(mpi) = mpi()
    {
        request_errors::disarm(mpi);
    }
    code
}

/// True if a wait has to transfer packets itself.
fn must_move() -> bool {
    aqueduct_comm::needs_progress() && !progress::is_driven_by_mpi()
}

/// Polls and transfers packets until the poll reports completion.
fn look_until(mut look: impl FnMut() -> Option<c_int>) -> c_int {
    let (mut pause, mut yields) = (SHORTEST_PAUSE, 0);
    loop {
        if let Some(code) = look() {
            return code;
        }
        if aqueduct_comm::progress() {
            (pause, yields) = (SHORTEST_PAUSE, 0);
        } else if yields < YIELDS {
            // The wait may be for a message that is unrelated to files and arrives soon.
            yields += 1;
            aqueduct_comm::pause_between_polls();
        } else {
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Calls a function that was found.
macro_rules! call {
    ($found:expr, $($argument:ident: $kind:ty),*) => {
        match $found {
            // SAFETY: the standard gives the function this type; the arguments are the program's.
            Some(address) => unsafe {
                std::mem::transmute::<usize, unsafe extern "C" fn($($kind),*) -> c_int>(address)($($argument),*)
            },
            None => NO_MPI,
        }
    };
}
pub(super) use call;

/// Defines functions under two names. A wait also defines its poll.
macro_rules! stand_in {
    ($(fn $name:ident $profiled:ident($($argument:ident: $kind:ty),*) $($look:expr)?;)*) => {
        stand_in! { @ behind $(fn $name($($argument: $kind),*) $($look)?;)* }
        stand_in! { @ own $(fn $profiled($($argument: $kind),*) $($look)?;)* }
    };
    (@ $find:ident $(fn $name:ident($($argument:ident: $kind:ty),*) $($look:expr)?;)*) => {$(
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the standard's names")]
        unsafe extern "C" fn $name($($argument: $kind),*) -> c_int {
            static FOUND: Found = OnceLock::new();
            $(if must_move() {
                // A tool sees calls of the test function instead of the wait.
                let look = $look;
                return completed(look_until(|| in_mpi(|| look(Definition::$find))));
            })?
            aqueduct_comm::progress();
            completed(in_mpi(|| call!($find(&FOUND, stringify!($name)), $($argument: $kind),*)))
        }
    )*};
}

type Place = *mut c_void;
type Number = *mut c_int;

/// The definition to call: the next one of the MPI_ name, or MPI's own of the PMPI_ name.
#[derive(Clone, Copy)]
#[allow(non_camel_case_types, reason = "the names of the functions that find them")]
enum Definition {
    behind,
    own,
}

/// The addresses of both definitions of a function.
struct Definitions(Found, Found);

impl Definitions {
    const fn new() -> Self {
        Self(OnceLock::new(), OnceLock::new())
    }

    fn find(&self, definition: Definition, name: &str) -> Option<usize> {
        match definition {
            Definition::behind => behind(&self.0, name),
            Definition::own => own(&self.1, &format!("P{name}")),
        }
    }
}

/// A poll by one of MPI's test functions.
fn flagged(look: impl FnOnce(Number) -> c_int) -> Option<c_int> {
    let mut flag = 0;
    let code = look(&raw mut flag);
    (code != 0 || flag != 0).then_some(code)
}

fn test(definition: Definition, request: Place, flag: Number, status: Place) -> c_int {
    static FOUND: Definitions = Definitions::new();
    let found = FOUND.find(definition, "MPI_Test");
    call!(found, request: Place, flag: Number, status: Place)
}

fn test_all(definition: Definition, count: c_int, requests: Place, flag: Number, statuses: Place) -> c_int {
    static FOUND: Definitions = Definitions::new();
    let found = FOUND.find(definition, "MPI_Testall");
    call!(found, count: c_int, requests: Place, flag: Number, statuses: Place)
}

fn test_any(
    definition: Definition,
    (count, requests): (c_int, Place),
    index: Number,
    flag: Number,
    status: Place,
) -> c_int {
    static FOUND: Definitions = Definitions::new();
    let found = FOUND.find(definition, "MPI_Testany");
    call!(found, count: c_int, requests: Place, index: Number, flag: Number, status: Place)
}

/// Whether some are complete, or none is left.
fn test_some(
    definition: Definition,
    (count, requests): (c_int, Place),
    done: Number,
    indices: Number,
    statuses: Place,
) -> Option<c_int> {
    static FOUND: Definitions = Definitions::new();
    let found = FOUND.find(definition, "MPI_Testsome");
    let code = call!(found, count: c_int, requests: Place, done: Number, indices: Number, statuses: Place);
    // SAFETY: the program's place for the number, which MPI has filled.
    (code != 0 || unsafe { *done } != 0).then_some(code)
}

stand_in! {
    fn MPI_Wait PMPI_Wait(request: Place, status: Place)
        |which: Definition| flagged(|flag| test(which, request, flag, status));
    fn MPI_Waitall PMPI_Waitall(count: c_int, requests: Place, statuses: Place)
        |which: Definition| flagged(|flag| test_all(which, count, requests, flag, statuses));
    fn MPI_Waitany PMPI_Waitany(count: c_int, requests: Place, index: Number, status: Place)
        |which: Definition| flagged(|flag| test_any(which, (count, requests), index, flag, status));
    fn MPI_Waitsome PMPI_Waitsome(count: c_int, requests: Place, done: Number, indices: Number, statuses: Place)
        |which: Definition| test_some(which, (count, requests), done, indices, statuses);
    fn MPI_Test PMPI_Test(request: Place, flag: Number, status: Place);
    fn MPI_Testall PMPI_Testall(count: c_int, requests: Place, flag: Number, statuses: Place);
    fn MPI_Testany PMPI_Testany(count: c_int, requests: Place, index: Number, flag: Number, status: Place);
    fn MPI_Testsome PMPI_Testsome(count: c_int, requests: Place, done: Number, indices: Number, statuses: Place);
    fn MPI_Request_free PMPI_Request_free(request: Place);
}

/// MPICH does not poll in this function: without a poll here it would never report completion.
fn look(request: usize, flag: Number, status: Place, found: Option<usize>) -> c_int {
    aqueduct_comm::progress();
    if let Ok(mpi) = mpi() {
        poll_before_status(mpi, mpi.constants.handle(request));
    }
    completed(call!(found, request: usize, flag: Number, status: Place))
}

#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the standard's names")]
unsafe extern "C" fn MPI_Request_get_status(request: usize, flag: Number, status: Place) -> c_int {
    static FOUND: Found = OnceLock::new();
    look(request, flag, status, behind(&FOUND, "MPI_Request_get_status"))
}

#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "the standard's names")]
unsafe extern "C" fn PMPI_Request_get_status(request: usize, flag: Number, status: Place) -> c_int {
    static FOUND: Found = OnceLock::new();
    look(request, flag, status, own(&FOUND, "PMPI_Request_get_status"))
}
