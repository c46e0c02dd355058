//! Open files, streams and stores as objects of Python: closed once, never used afterwards, dropped without blocking other threads.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct::{Error, Kind};
use pyo3::prelude::*;

use crate::error::exception;

/// Something that is open until it is taken.
pub(crate) struct PythonHandle<T: Send + 'static> {
    name: Arc<str>,
    value: Arc<Mutex<Option<T>>>,
}

impl<T: Send + 'static> PythonHandle<T> {
    /// Opens it, detached from the interpreter.
    pub(crate) fn open(
        py: Python<'_>,
        name: &str,
        open: impl FnOnce() -> aqueduct::Result<T> + Send,
    ) -> PyResult<Self> {
        let value = py.detach(open).map_err(|error| exception(&error))?;
        Ok(Self { name: name.into(), value: Arc::new(Mutex::new(Some(value))) })
    }

    /// The name it was opened by.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Works with it, detached from the interpreter: another thread may be using it.
    pub(crate) fn with<R: Send>(
        &self,
        py: Python<'_>,
        operation: &'static str,
        work: impl FnOnce(&mut T) -> aqueduct::Result<R> + Send,
    ) -> PyResult<R> {
        let work = || match lock(&self.value).as_mut() {
            Some(value) => work(value),
            None => Err(self.closed(operation)),
        };
        py.detach(work).map_err(|error| exception(&error))
    }

    /// Takes it out and ends it; nothing if that was done before.
    pub(crate) fn end<R: Send>(
        &self,
        py: Python<'_>,
        end: impl FnOnce(T) -> aqueduct::Result<R> + Send,
    ) -> PyResult<Option<R>> {
        let work = || {
            let value = lock(&self.value).take();
            value.map(end).transpose()
        };
        py.detach(work).map_err(|error| exception(&error))
    }

    /// Whether it was ended.
    pub(crate) fn is_closed(&self, py: Python<'_>) -> bool {
        py.detach(|| lock(&self.value).is_none())
    }

    fn closed(&self, operation: &'static str) -> Error {
        Error::new(Kind::Closed, operation, &*self.name, "it is closed; open it again")
    }
}

impl<T: Send + 'static> Drop for PythonHandle<T> {
    /// Ending it may wait for an I/O thread.
    fn drop(&mut self) {
        let value = Arc::clone(&self.value);
        let end = move || drop(lock(&value).take());
        if Python::try_attach(|py| py.detach(&end)).is_none() {
            end();
        }
    }
}

fn lock<T>(value: &Mutex<Option<T>>) -> MutexGuard<'_, Option<T>> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}
