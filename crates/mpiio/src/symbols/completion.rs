//! The functions that complete requests, of any kind. They are MPI's own; we stand in front of them for two reasons.
//!
//! When a request of ours has failed, an error handler of ours stands in until MPI has raised the error ([`raised`]): it goes when the call
//! returns, so that errors of other calls reach the program's handler. And where MPI has no hook for progress, a wait for another request
//! moves the packets of collective operations of ours meanwhile.
//!
//! A tool between us and MPI is called under the plain name, and calls us back under the profiling one.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_void};
use std::sync::OnceLock;
use std::time::Duration;

use super::NO_MPI;
use crate::host::mpi;
use crate::request::progress;
use crate::request::ucx_progress::in_mpi;
use crate::request::{poll_before_status, request_errors};

/// Pauses between two looks grow from the first to the second length.
const SHORTEST_PAUSE: Duration = Duration::from_micros(5);
const LONGEST_PAUSE: Duration = Duration::from_micros(200);

/// So many looks in which nothing moved only yield.
const YIELDS: u32 = 200;

/// Where a function lies that is called again and again.
pub(super) type Found = OnceLock<Option<usize>>;

/// The next definition of a name behind ours.
fn next(name: &str) -> Option<usize> {
    let name = CString::new(name).ok()?;
    // SAFETY: a C string; the next one after ours is meant.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    (!found.is_null()).then_some(found as usize)
}

/// MPI's own function of a profiling name. An MPI that serves no files through us still completes its requests.
pub(super) fn own(found: &Found, name: &str) -> Option<usize> {
    *found.get_or_init(|| mpi().ok().and_then(|mpi| mpi.host().function(name)).or_else(|| next(name)))
}

/// What stands behind us under the plain name: a tool, or MPI.
pub(super) fn behind(found: &Found, name: &str) -> Option<usize> {
    // An MPI that was loaded for a module alone is not found so.
    *found.get_or_init(|| next(name).or_else(|| mpi().ok()?.host().function(&format!("P{name}"))))
}

/// A call of MPI that may have raised an error of a request of ours is over: the program's error handlers are back.
fn completed(code: c_int) -> c_int {
    if request_errors::is_armed()
        && let Ok(mpi) = mpi()
    {
        request_errors::disarm(mpi);
    }
    code
}

/// Whether a wait has to move packets itself.
fn must_move() -> bool {
    aqueduct_comm::needs_progress() && !progress::is_driven_by_mpi()
}

/// Looks again and again, moving packets, until a look says that it is over.
fn look_until(mut look: impl FnMut() -> Option<c_int>) -> c_int {
    let (mut pause, mut yields) = (SHORTEST_PAUSE, 0);
    loop {
        if let Some(code) = look() {
            return code;
        }
        if aqueduct_comm::progress() {
            (pause, yields) = (SHORTEST_PAUSE, 0);
        } else if yields < YIELDS {
            // What is waited for may be a message that has nothing to do with files, and comes soon.
            yields += 1;
            std::thread::yield_now();
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

/// Defines functions under two names. A wait says how to look whether it is over.
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
                // A tool that counts calls of this name sees those that look instead.
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

/// Which definition of a function is called: what stands behind us under the plain name, or MPI's own under the profiling one.
#[derive(Clone, Copy)]
#[allow(non_camel_case_types, reason = "the names of the functions that find them")]
enum Definition {
    behind,
    own,
}

/// Where both definitions of a function lie.
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

/// A look by one of MPI's functions whose flag tells whether it is over.
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

/// MPICH does not poll when a program only looks at a request: without a look of ours it would look forever.
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
