//! What `verify` concludes: whole, damaged, or that it cannot tell.

use std::fmt;

use aqueduct::{Error, Kind};

/// Something that is wrong with a file, or that could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Whether the bytes are not what was written, or not all of it. Else it could not be found out.
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

    /// What an error says, and whether it says that the file is damaged.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        Self { is_damage: is_damage(error), text: format!("{error:#}") }
    }

    /// Names the array or part that it belongs to.
    pub(crate) fn of_part(name: &str, error: &anyhow::Error) -> Self {
        let Self { is_damage, text } = Self::of(error);
        Self { is_damage, text: format!("{name}: {text}") }
    }
}

/// A file that is not what its name, its first bytes or the file beside it promise.
#[derive(Debug)]
pub(crate) struct FormatMismatch(pub(crate) String);

impl fmt::Display for FormatMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FormatMismatch {}

/// Whether an error says that the bytes of a file are not what was written. What is unsupported, unreadable or missing says nothing about them.
fn is_damage(error: &anyhow::Error) -> bool {
    use aqueduct::Kind::{Damaged, Incomplete, NoMetadata};
    error.chain().any(|cause| {
        let kind = cause.downcast_ref::<Error>().map(Error::kind);
        matches!(kind, Some(Damaged | Incomplete | NoMetadata)) || cause.is::<FormatMismatch>()
    })
}

/// Whether an error says that there is no such file.
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
