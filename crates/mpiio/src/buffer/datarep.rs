//! Data representations registered by programs (`MPI_Register_datarep`), whose functions convert between memory and file.
//!
//! `unsafe` here: functions of the program are called with the arguments that MPI prescribes.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, PoisonError, RwLock};

use crate::host::Mpi;
use crate::host::{MpiError, Outcome};

/// Converts: memory, datatype, count, file data, position, extra state.
pub(crate) type ConversionFn =
    unsafe extern "C" fn(*mut c_void, usize, c_int, *mut c_void, i64, *mut c_void) -> c_int;
/// The same with a large count.
pub(crate) type LargeConversionFn =
    unsafe extern "C" fn(*mut c_void, usize, i64, *mut c_void, i64, *mut c_void) -> c_int;
/// Returns the extent of a datatype in a file.
pub(crate) type ExtentFn = unsafe extern "C" fn(usize, *mut i64, *mut c_void) -> c_int;

/// One direction of conversion.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DatarepConversion {
    /// None: data is not converted.
    None,
    Small(ConversionFn),
    Large(LargeConversionFn),
}

/// A representation of the program's.
#[derive(Debug)]
pub(crate) struct Datarep {
    pub(crate) read: DatarepConversion,
    pub(crate) write: DatarepConversion,
    pub(crate) extent: Option<ExtentFn>,
    /// An address, as the program gave it.
    pub(crate) extra: usize,
}

static REGISTERED: RwLock<BTreeMap<String, Arc<Datarep>>> = RwLock::new(BTreeMap::new());

/// The names that are the standard's.
const STANDARD: [&str; 3] = ["native", "internal", "external32"];

/// Registers a representation for the life of the process.
pub(crate) fn register(mpi: &Mpi, name: &str, datarep: Datarep) -> Outcome<()> {
    let known = mpi.constants.integers;
    if name.is_empty() || name.len() >= known.longest_datarep as usize {
        return Err(MpiError::new(known.arg, "a data representation has a name of 1 to 127 bytes"));
    }
    if datarep.extent.is_none() {
        let text = "a data representation needs a function for extents in the file";
        return Err(MpiError::new(known.arg, text));
    }
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    if STANDARD.contains(&name) || registered.contains_key(name) {
        let text = format!("a data representation {name:?} is registered already; take another name");
        return Err(MpiError::new(known.dup_datarep, text));
    }
    registered.insert(name.to_owned(), Arc::new(datarep));
    Ok(())
}

/// The representation of the program's with this name.
pub(crate) fn find(name: &str) -> Option<Arc<Datarep>> {
    REGISTERED.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
}

impl Datarep {
    /// The bytes a predefined datatype takes in a file.
    pub(crate) fn extent(&self, mpi: &Mpi, datatype: usize) -> Outcome<u64> {
        let Some(extent) = self.extent else { return Ok(0) };
        let mut bytes = 0;
        // SAFETY: the program's function, with the arguments that MPI prescribes.
        let code = unsafe { extent(datatype, &raw mut bytes, self.extra as *mut c_void) };
        failed(mpi, code)?;
        u64::try_from(bytes).map_err(|_| {
            let text = format!("the extent function of the representation returned {bytes} bytes");
            MpiError::new(mpi.constants.integers.conversion, text)
        })
    }

    /// Converts `count` items between memory and packed data of the file.
    pub(crate) fn convert(
        &self,
        mpi: &Mpi,
        conversion: DatarepConversion,
        memory: *mut c_void,
        datatype: usize,
        count: u64,
        stored: &mut [u8],
    ) -> Outcome<()> {
        let (stored, extra) = (stored.as_mut_ptr().cast(), self.extra as *mut c_void);
        let (small, large) = (c_int::try_from(count), i64::try_from(count));
        let many = || {
            let text = format!(
                "{count} elements are more than a function of the data representation can count; access fewer at a time"
            );
            MpiError::new(mpi.constants.integers.count, text)
        };
        let code = match conversion {
            DatarepConversion::None => return Ok(()),
            DatarepConversion::Small(convert) => {
                let count = small.map_err(|_| many())?;
                // SAFETY: the program's functions and memory, with the arguments that MPI prescribes.
                unsafe { convert(memory, datatype, count, stored, 0, extra) }
            }
            DatarepConversion::Large(convert) => {
                let count = large.map_err(|_| many())?;
                // SAFETY: as above.
                unsafe { convert(memory, datatype, count, stored, 0, extra) }
            }
        };
        failed(mpi, code)
    }
}

fn failed(mpi: &Mpi, code: c_int) -> Outcome<()> {
    if code == 0 {
        return Ok(());
    }
    let text = format!("a function of the program's data representation returned {code}");
    Err(MpiError::new(mpi.constants.integers.conversion, text))
}
