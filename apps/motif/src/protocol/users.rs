//! Users and Basic authentication ([RFC 7617](https://www.rfc-editor.org/rfc/rfc7617)).

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The users of a service; without a file, everybody on this machine.
#[derive(Clone, Debug, Default)]
pub struct UserTable(Option<BTreeMap<String, String>>);

impl UserTable {
    /// Parses lines `name:password`; lines that begin with `#` are comments.
    pub fn parse(text: &str) -> Result<Self> {
        let mut users = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_end_matches('\r');
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let pair =
                line.split_once(':').filter(|(name, password)| !name.is_empty() && !password.is_empty());
            let (name, password) =
                pair.with_context(|| format!("line {}: expected name:password", number + 1))?;
            if users.insert(name.to_owned(), password.to_owned()).is_some() {
                bail!("line {}: {name} occurs twice", number + 1);
            }
        }
        Ok(Self(Some(users)))
    }

    /// Whether nobody is asked for a password.
    pub fn is_open(&self) -> bool {
        self.0.is_none()
    }

    /// The user of an `Authorization` header; none if it is missing or wrong.
    pub fn authenticate(&self, header: Option<&str>) -> Option<String> {
        let Some(users) = &self.0 else { return Some("anonymous".to_owned()) };
        let encoded = header?.strip_prefix("Basic ")?;
        let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
        let (name, password) = decoded.split_once(':')?;
        let expected = users.get(name)?;
        // Takes the same time for every password of this length.
        let differences = expected.bytes().zip(password.bytes()).fold(0, |all, (a, b)| all | (a ^ b));
        (differences == 0 && expected.len() == password.len()).then(|| name.to_owned())
    }
}

/// The header for a user `name:password`.
pub fn basic_header(user: &str) -> String {
    format!("Basic {}", STANDARD.encode(user))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_checked() {
        let users = UserTable::parse("# users\nfirst:secret\nsecond:x:y\n").unwrap();
        assert_eq!(users.authenticate(Some(&basic_header("first:secret"))).as_deref(), Some("first"));
        assert_eq!(users.authenticate(Some(&basic_header("second:x:y"))).as_deref(), Some("second"));
        for wrong in [None, Some("Basic"), Some("Basic !"), Some(basic_header("first:secre").as_str())] {
            assert_eq!(users.authenticate(wrong), None);
        }
        assert!(UserTable::parse("first").is_err() && UserTable::parse("a:b\na:c").is_err());
    }
}
