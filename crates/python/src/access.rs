//! Accesses to parts of arrays, as the package passes them.

use std::borrow::Cow;

use aqueduct::formats::Selection;
use pyo3::prelude::*;

use crate::error::refused;
use crate::memory::{ItemRuns, Memory};

/// One access: the name of the array, start, count and stride in each dimension, the memory, the stored bytes of its elements, and why it cannot
/// be, if it cannot.
type AccessTuple<'py> =
    (String, Vec<u64>, Vec<u64>, Option<Vec<u64>>, Bound<'py, PyAny>, ItemRuns, Option<String>);

/// An access to a part of an array.
pub(crate) struct PartAccess {
    pub(crate) array: String,
    pub(crate) part: Selection,
    pub(crate) memory: Result<Memory, String>,
}

impl PartAccess {
    /// Parses accesses. A fault is kept in the access, since the other ranks may be waiting for this one.
    pub(crate) fn parse(list: &Bound<'_, PyAny>) -> PyResult<Vec<Self>> {
        list.try_iter()?.map(|access| Self::parse_one(&access?)).collect()
    }

    fn parse_one(access: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (array, start, count, stride, memory, item, problem): AccessTuple<'_> = access.extract()?;
        let part = Selection::block(start, count);
        let part = match stride {
            Some(stride) => part.stride(stride),
            None => part,
        };
        let memory = match problem {
            Some(problem) => Err(problem),
            None => Memory::of(&memory, item).map_err(|error| error.to_string()),
        };
        Ok(Self { array, part, memory })
    }

    /// The values side by side.
    pub(crate) fn values(&self, name: &str) -> aqueduct::Result<Cow<'_, [u8]>> {
        let memory = match &self.memory {
            Ok(memory) => memory,
            Err(problem) => return Err(refusal("write", name, problem)),
        };
        memory.gathered().map_err(|error| refusal("write", name, &error.to_string()))
    }

    /// The memory to be filled.
    pub(crate) fn filled(&mut self, name: &str) -> aqueduct::Result<&mut [u8]> {
        match &mut self.memory {
            Ok(memory) => memory.filled().map_err(|error| refusal("read", name, &error.to_string())),
            Err(problem) => Err(refusal("read", name, problem)),
        }
    }
}

fn refusal(operation: &'static str, name: &str, problem: &str) -> aqueduct::Error {
    let refused = refused(operation, name, Some(problem.to_owned()));
    refused.err().unwrap_or_else(|| crate::error::bad_argument(operation, name, problem))
}

/// Writes parts of arrays of a file; `find` is the method that finds an array. Each fault fails the run: the other ranks learn of it.
macro_rules! write_parts {
    ($file:ident, $find:ident, $accesses:ident, $collective:ident) => {{
        let values: Vec<_> = $accesses.iter().map(|access| access.values($file.name())).collect();
        let mut queue = $file.queue();
        for (access, values) in $accesses.iter().zip(&values) {
            match (values, $file.$find(&access.array)) {
                (Ok(values), Ok(id)) => queue.put_bytes(id, access.part.clone(), values),
                (Err(error), _) => queue.fail(error.clone()),
                (_, Err(error)) => queue.fail(error),
            };
        }
        if $collective { queue.run_all() } else { queue.run() }
    }};
}

/// Reads parts of arrays of a file, as [`write_parts`] writes them.
macro_rules! read_parts {
    ($file:ident, $find:ident, $accesses:ident, $collective:ident) => {{
        let mut queue = $file.queue();
        for access in &mut $accesses {
            let (id, part) = ($file.$find(&access.array), access.part.clone());
            match (access.filled($file.name()), id) {
                (Ok(bytes), Ok(id)) => queue.get_bytes(id, part, bytes),
                (Err(error), _) | (_, Err(error)) => queue.fail(error),
            };
        }
        if $collective { queue.run_all() } else { queue.run() }
    }};
}

pub(crate) use {read_parts, write_parts};
