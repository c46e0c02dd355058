//! Parameters of wrappers: `key=value` pairs separated by commas, and their errors.

use std::fmt::Display;
use std::str::FromStr;

use crate::{Error, Kind, Operation};

/// The parameters of one wrapper in a name, with the text for errors.
#[derive(Clone, Copy)]
pub(super) struct LayerParameters<'a> {
    pub(super) prefix: &'static str,
    pub(super) text: &'a str,
    pub(super) grammar: &'static str,
}

impl<'a> LayerParameters<'a> {
    /// The parts between commas; none if the text is empty.
    pub(super) fn parts(self) -> impl Iterator<Item = &'a str> {
        self.text.split(',').filter(move |_| !self.text.is_empty())
    }

    /// The parts as pairs of key and value.
    pub(super) fn pairs(self) -> impl Iterator<Item = Result<(&'a str, &'a str), Error>> {
        self.parts().map(move |part| {
            part.split_once('=').ok_or_else(|| self.refuse(format_args!("{part:?} has no value")))
        })
    }

    /// Reads the value of `key`, or says what is wrong with it.
    pub(super) fn value<T: FromStr>(self, key: &str, value: &str) -> Result<T, Error>
    where
        T::Err: Display,
    {
        value.parse().map_err(|error| self.refuse(format_args!("{key}={value}: {error}")))
    }

    /// The error for invalid parameters: the problem, and the grammar as the remedy.
    pub(super) fn refuse(self, problem: impl Display) -> Error {
        Error::new(Kind::InvalidName, Operation::Resolve, format!("{}={}", self.prefix, self.text))
            .advise(format!("{problem}; write {}", self.grammar))
    }
}
