//! Findings of `verify`.

use std::fmt;

use aqueduct::{Error, Kind};

/// A defect of a file, or something that could not be checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Whether bytes are wrong or missing; otherwise they could not be checked.
    pub(crate) is_damage: bool,
    pub(crate) text: String,
}

impl Finding {
    pub(crate) fn damage(text: impl Into<String>) -> Self {
        Self { is_damage: true, text: text.into() }
    }

    pub(crate) fn unknown(text: impl Into<String>) -> Self {
        Self { is_damage: false, text: text.into() }
    }

    /// The finding of an error; whether it is damage depends on the kind of the error.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        Self { is_damage: is_damage(error), text: format!("{error:#}") }
    }

    /// Adds the name of the array or part.
    pub(crate) fn of_part(name: &str, error: &anyhow::Error) -> Self {
        let Self { is_damage, text } = Self::of(error);
        Self { is_damage, text: format!("{name}: {text}") }
    }
}

/// A file that its name, its first bytes or a companion file identify, but that is not valid.
#[derive(Debug)]
pub(crate) struct FormatMismatch(pub(crate) String);

impl fmt::Display for FormatMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FormatMismatch {}

/// Whether an error means that bytes of a file are wrong. Unsupported, unreadable and missing files are not damaged.
pub(crate) fn is_damage(error: &anyhow::Error) -> bool {
    use aqueduct::Kind::{Damaged, Incomplete, NoMetadata};
    error.chain().any(|cause| {
        let kind = cause.downcast_ref::<Error>().map(Error::kind);
        matches!(kind, Some(Damaged | Incomplete | NoMetadata)) || cause.is::<FormatMismatch>()
    })
}

/// Whether an error means that the file does not exist.
pub(crate) fn is_missing(error: &anyhow::Error) -> bool {
    let is_missing = |error: &Error| error.kind() == Kind::NoSuchFile;
    error.chain().any(|cause| cause.downcast_ref::<Error>().is_some_and(is_missing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn unsupported_and_unreadable_files_are_not_damaged() {
        let cases: [(anyhow::Error, bool); 8] = [
            (Error::new(Kind::Damaged, "open", "f", "x").into(), true),
            (Error::new(Kind::UnknownVersion, "open", "f", "x").into(), false),
            (Error::new(Kind::Incomplete, "open", "f", "x").into(), true),
            (Error::new(Kind::Unsupported, "open", "f", "x").into(), false),
            (Error::new(Kind::Io, "read", "f", "x").into(), false),
            (Error::new(Kind::AccessDenied, "open", "f", "x").into(), false),
            (FormatMismatch("x".into()).into(), true),
            (anyhow::anyhow!("x"), false),
        ];
        for (error, expected) in cases {
            let shown = format!("{error:?}");
            assert_eq!(Finding::of(&error).is_damage, expected, "{shown}");
            assert_eq!(Finding::of(&Err::<(), _>(error).context("more").unwrap_err()).is_damage, expected);
        }
    }
}
