//! The MPI library of the host program: the functions that this library calls, found at run time under their profiling names, so that
//! profiling tools do not count them as calls of the program.
//!
//! `unsafe` here: addresses become functions, and handles of all implementations are passed as one integer type. An implementation whose
//! handles are C integers reads the lower half of the register, and writes the lower half of a zeroed word.
#![allow(unsafe_code)]

mod error;
mod functions;
pub(crate) mod status;

use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

use aqueduct_comm::Host;

use crate::abi::AbiConstants;
use functions::Functions;

pub(crate) use error::{MpiError, Outcome, to_engine_error};

/// The host's MPI: its ABI, constants and functions.
pub(crate) struct Mpi {
    host: Host,
    pub(crate) constants: AbiConstants,
    pub(crate) functions: Functions,
    pub(crate) errors_abort: Option<usize>,
}

impl Mpi {
    fn find() -> Result<Self, String> {
        let host = Host::find().map_err(|error| error.to_string())?;
        let constants = AbiConstants::of(&host)?;
        let functions = Functions::load(&host)?;
        let errors_abort = crate::abi::errors_abort(&host);
        Ok(Self { host, constants, functions, errors_abort })
    }

    /// The library, and a function of it by name.
    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// The first line of MPI's version string.
    pub(crate) fn version(&self) -> String {
        let mut text = vec![0u8; 8192];
        let mut len = 0;
        // SAFETY: the buffer is longer than any implementation's text.
        unsafe { (self.functions.library_version)(text.as_mut_ptr().cast(), &raw mut len) };
        let text = CStr::from_bytes_until_nul(&text).map(CStr::to_string_lossy).unwrap_or_default();
        text.lines().next().unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// True if MPI is initialized and not finalized.
    pub(crate) fn is_running(&self) -> bool {
        let (mut started, mut ended) = (0, 0);
        // SAFETY: these may be called at any time and fill integers.
        unsafe {
            (self.functions.initialized)(&raw mut started);
            (self.functions.finalized)(&raw mut ended);
        }
        started != 0 && ended == 0
    }

    /// The outcome of one of MPI's functions.
    pub(crate) fn check(&self, function: &str, code: c_int) -> Result<(), MpiError> {
        if code == 0 {
            return Ok(());
        }
        Err(MpiError::new(code, format!("{function} failed: {}", self.describe(code))))
    }

    fn describe(&self, code: c_int) -> String {
        let mut text = vec![0u8; 8192];
        let mut len = 0;
        // SAFETY: the buffer is longer than any implementation's text.
        unsafe { (self.functions.error_string)(code, text.as_mut_ptr().cast(), &raw mut len) };
        CStr::from_bytes_until_nul(&text).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

/// The host's MPI, or the reason why there is none. Cached for the life of the process.
pub(crate) fn mpi() -> Result<&'static Mpi, &'static str> {
    static MPI: OnceLock<Result<Mpi, String>> = OnceLock::new();
    MPI.get_or_init(Mpi::find).as_ref().map_err(String::as_str)
}
