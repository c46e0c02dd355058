//! How files of arrays are created or opened: the modes of Python, durability and hints.

use aqueduct::{Kind, Result};
use pyo3::prelude::*;

use crate::error::bad_argument;

/// What the package passes: `FileOptions` of `_array_file.py`.
#[derive(FromPyObject)]
pub(crate) struct FileOptions {
    /// `r`, `r+`, `w` (replaces), `x` or `w-` (new files only), `a` (opens, or creates).
    mode: String,
    pub(crate) durable: bool,
    pub(crate) hints: Vec<(String, String)>,
}

impl FileOptions {
    /// Creates or opens the file, whichever the mode says: the argument of `create` is whether a file is replaced, that of `open` whether it is written.
    pub(crate) fn open<T>(
        &self,
        name: &str,
        create: impl Fn(bool) -> Result<T>,
        open: impl Fn(bool) -> Result<T>,
    ) -> Result<T> {
        match &*self.mode {
            "r" => open(false),
            "r+" => open(true),
            "w" => create(true),
            "w-" | "x" => create(false),
            "a" => match open(true) {
                Err(error) if error.kind() == Kind::NoSuchFile => create(false),
                opened => opened,
            },
            mode => Err(bad_argument(
                "open",
                name,
                format!("there is no mode {mode:?}; there are r, r+, w, w-, x, a"),
            )),
        }
    }
}

/// Options of the formats, which have the same methods, as `FileOptions` say; `flag` is a method that is called if `set` is.
macro_rules! with_file_options {
    ($given:expr, $options:expr, $flag:ident if $set:expr) => {{
        let mut options = $options;
        if $set {
            options = options.$flag();
        }
        if !$given.durable {
            options = options.without_sync();
        }
        for (key, value) in &$given.hints {
            options = options.hint(key, value);
        }
        options
    }};
}

pub(crate) use with_file_options;
