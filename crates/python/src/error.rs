//! Errors as exceptions of the package.

use aqueduct::{Error, Kind};
use pyo3::prelude::*;

/// The exception for an error: `aqueduct_io._errors` has the classes. An exception that was the cause is raised itself.
pub(crate) fn exception(error: &Error) -> PyErr {
    Python::attach(|py| {
        if let Some(cause) = error.cause().and_then(|cause| cause.downcast_ref::<PyErr>()) {
            return cause.clone_ref(py);
        }
        let kind = format!("{:?}", error.kind());
        let made = py.import("aqueduct_io._errors").and_then(|module| {
            module.call_method1("make", (kind, error.to_string(), error.path(), error.rank(), error.step()))
        });
        made.map_or_else(|failed| failed, PyErr::from_value)
    })
}

/// An error of an argument.
pub(crate) fn bad_argument(operation: &'static str, name: &str, detail: impl Into<String>) -> Error {
    Error::new(Kind::BadArgument, operation, name, detail)
}

/// The error of an argument that the package refused, if it did.
pub(crate) fn refused(operation: &'static str, name: &str, problem: Option<String>) -> Result<(), Error> {
    let Some(problem) = problem else { return Ok(()) };
    let (kind, detail) = parse_problem(&problem);
    Err(Error::new(kind, operation, name, detail))
}

/// The kind of a problem, and its text: the package says with the first word that the type is wrong.
pub(crate) fn parse_problem(problem: &str) -> (Kind, &str) {
    match problem.strip_prefix("type: ") {
        Some(detail) => (Kind::WrongType, detail),
        None => (Kind::BadArgument, problem),
    }
}
