//! Errors of MPI calls: an error class, and a text for diagnostics.

use std::ffi::c_int;
use std::fmt;

use aqueduct_file::{Class, Error, Kind};

use crate::abi::Integers;
use crate::host::Mpi;

/// The outcome of a call.
pub(crate) type Outcome<T> = Result<T, MpiError>;

/// An error of a call.
#[derive(Clone, Debug)]
pub(crate) struct MpiError {
    /// An error class: some implementations cannot print other error codes.
    pub(crate) code: c_int,
    pub(crate) text: String,
    /// Bytes that were transferred before the error.
    pub(crate) transferred: u64,
}

impl MpiError {
    pub(crate) fn new(code: impl Into<i64>, text: impl Into<String>) -> Self {
        Self { code: code.into() as c_int, text: text.into(), transferred: 0 }
    }

    /// An error of the engine.
    pub(crate) fn of(mpi: &Mpi, error: &Error) -> Self {
        let code = class_of(error.class(), mpi.constants.integers);
        Self { transferred: error.transferred(), ..Self::new(code, error.to_string()) }
    }
}

/// An error of a call's arguments as an error of the engine, for collective operations.
pub(crate) fn to_engine_error(mpi: &Mpi, call: &'static str, file: &str, fault: &MpiError) -> Error {
    let known = mpi.constants.integers;
    let kind = match i64::from(fault.code) {
        code if code == known.type_ => Kind::BadLayout,
        code if code == known.count => Kind::BadCount,
        code if code == known.conversion => Kind::Conversion,
        code if code == known.unsupported_datarep => Kind::UnknownRepresentation,
        code if code == known.io => Kind::Io,
        _ => Kind::BadArgument,
    };
    Error::new(kind, call, file, fault.text.as_str())
}

impl fmt::Display for MpiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The number of an error class.
fn class_of(class: Class, integers: &Integers) -> i64 {
    match class {
        Class::Access => integers.access,
        Class::Amode => integers.amode,
        Class::Arg => integers.arg,
        Class::BadFile => integers.bad_file,
        Class::Conversion => integers.conversion,
        Class::Count => integers.count,
        Class::DupDatarep => integers.dup_datarep,
        Class::File => integers.file,
        Class::FileExists => integers.file_exists,
        Class::FileInUse => integers.file_in_use,
        Class::Io => integers.io,
        Class::NoSpace => integers.no_space,
        Class::NoSuchFile => integers.no_such_file,
        Class::NotSame => integers.not_same,
        Class::Other => integers.other,
        Class::Quota => integers.quota,
        Class::ReadOnly => integers.read_only,
        Class::Request => integers.request,
        Class::Type => integers.type_,
        Class::UnsupportedDatarep => integers.unsupported_datarep,
        Class::UnsupportedOperation => integers.unsupported_operation,
    }
}
