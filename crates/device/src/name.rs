//! Parsing of names: `prefix=parameters:prefix:path`.
//!
//! A *prefix* is `[a-z][a-z0-9_-]*`, may be followed by `=` and parameters without a colon, and ends at a colon. Text
//! before a colon without that form (it has a `/`, a `.`, a capital letter …) is a part of the path:
//! `/a:b` and `./a:b` are plain file names. Paths are bytes; only parameters have to be UTF-8.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::{Error, Kind, Operation, Result};

/// The device that a name without a prefix means.
pub const DEFAULT_DEVICE: &str = "ufs";

/// The most layers in one name: parsing recurses, and each level copies the text of the inner ones.
const MAX_LAYERS: usize = 64;

/// One prefix of a name with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePrefix {
    /// The name of a device or a wrapper.
    pub prefix: String,
    /// The text between `=` and the colon; may be empty.
    pub parameters: String,
}

/// A parsed name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceName {
    /// The wrappers, outermost first.
    pub wrappers: Vec<NamePrefix>,
    /// The innermost device.
    pub device: NamePrefix,
    /// The name that the device gets.
    pub path: OsString,
}

impl NamePrefix {
    fn new(prefix: &str, parameters: &str) -> Self {
        Self { prefix: prefix.into(), parameters: parameters.into() }
    }

    /// The segment as written in a name, without the colon.
    pub fn text(&self) -> String {
        if self.parameters.is_empty() {
            self.prefix.clone()
        } else {
            format!("{}={}", self.prefix, self.parameters)
        }
    }
}

impl DeviceName {
    /// Parses `name`. Prefixes accepted by `is_wrapper` are wrappers; the first other one is the device, and the rest, including colons, is the path.
    ///
    /// ```
    /// use aqueduct_device::name::DeviceName;
    ///
    /// let name = DeviceName::parse("throttle=200MB/s,1ms:ufs:a:b".as_ref(), |prefix| prefix == "throttle").unwrap();
    /// assert_eq!(name.wrappers[0].parameters, "200MB/s,1ms");
    /// assert_eq!((name.device.prefix.as_str(), name.path.to_str()), ("ufs", Some("a:b")));
    /// ```
    pub fn parse(name: &OsStr, is_wrapper: impl Fn(&str) -> bool) -> Result<Self> {
        let mut wrappers = Vec::new();
        let mut path = name;
        let device = loop {
            let Some((segment, rest)) = split(path, name)? else { break NamePrefix::new(DEFAULT_DEVICE, "") };
            path = rest;
            if !is_wrapper(&segment.prefix) {
                break segment;
            }
            if wrappers.len() == MAX_LAYERS {
                let error = Error::new(Kind::InvalidName, Operation::Resolve, name);
                return Err(error.advise(format!("a name has at most {MAX_LAYERS} layers")));
            }
            wrappers.push(segment);
        };
        Ok(Self { wrappers, device, path: path.into() })
    }
}

/// True if `text` is a valid prefix.
pub fn is_prefix(text: &[u8]) -> bool {
    let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
    text.first().is_some_and(u8::is_ascii_lowercase) && text.iter().all(inner)
}

/// Rejects empty names and names with a NUL byte.
pub fn check(name: &OsStr, operation: Operation) -> Result<()> {
    let refuse = |why| Err(Error::new(Kind::InvalidName, operation, name).advise(why));
    if name.is_empty() {
        refuse("the name of the file is empty")
    } else if name.as_bytes().contains(&0) {
        refuse("the name holds a NUL byte")
    } else {
        Ok(())
    }
}

/// Splits the first prefix off, if there is one.
fn split<'a>(text: &'a OsStr, whole: &OsStr) -> Result<Option<(NamePrefix, &'a OsStr)>> {
    let bytes = text.as_bytes();
    let Some(colon) = bytes.iter().position(|&byte| byte == b':') else { return Ok(None) };
    let (head, rest) = (&bytes[..colon], OsStr::from_bytes(&bytes[colon + 1..]));
    let equals = head.iter().position(|&byte| byte == b'=');
    let (prefix, parameters) = equals.map_or((head, &[][..]), |at| (&head[..at], &head[at + 1..]));
    if !is_prefix(prefix) {
        return Ok(None);
    }
    let (Ok(prefix), Ok(parameters)) = (str::from_utf8(prefix), str::from_utf8(parameters)) else {
        let error = Error::new(Kind::InvalidName, Operation::Resolve, whole);
        return Err(error.advise("parameters have to be UTF-8; a path with a colon is written ./like:this"));
    };
    Ok(Some((NamePrefix::new(prefix, parameters), rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &[u8]) -> DeviceName {
        DeviceName::parse(OsStr::from_bytes(text), |prefix| matches!(prefix, "throttle" | "trace")).unwrap()
    }

    #[test]
    fn names_without_a_prefix_are_plain_files() {
        for plain in ["out.bin", "/a:b", "./a:b", "a.b:c", "C:x", "1a:x", ":x", "=1:x", "a b:c", ""] {
            let name = parse(plain.as_bytes());
            assert_eq!((name.wrappers.len(), name.device.prefix.as_str()), (0, "ufs"), "{plain}");
            assert_eq!(name.path, plain);
        }
    }

    #[test]
    fn wrappers_are_listed_outermost_first() {
        let name = parse(b"trace:throttle=1MB/s,1ms:memfs:run7");
        assert_eq!(name.wrappers, [NamePrefix::new("trace", ""), NamePrefix::new("throttle", "1MB/s,1ms")]);
        assert_eq!((name.device.text(), name.path), ("memfs".into(), "run7".into()));
        assert_eq!(name.wrappers[1].text(), "throttle=1MB/s,1ms");
    }

    #[test]
    fn a_wrapper_alone_wraps_the_default_device() {
        let name = parse(b"throttle=1ms:out.bin");
        assert_eq!((name.device.prefix.as_str(), name.path.to_str()), ("ufs", Some("out.bin")));
    }

    #[test]
    fn colons_after_the_device_belong_to_the_path() {
        let name = parse(b"ufs:trace:x");
        assert_eq!((name.wrappers.len(), name.path.to_str()), (0, Some("trace:x")));
    }

    #[test]
    fn paths_are_bytes_and_parameters_are_text() {
        assert_eq!(parse(b"memfs:\xff").path.as_bytes(), b"\xff");
        let error = DeviceName::parse(OsStr::from_bytes(b"trace=\xff:x"), |_| true).unwrap_err();
        assert_eq!(error.kind(), Kind::InvalidName);
    }

    #[test]
    fn a_name_with_too_many_layers_is_refused() {
        let layers = |count: usize| "trace:".repeat(count) + "memfs:x";
        assert_eq!(parse(layers(MAX_LAYERS).as_bytes()).wrappers.len(), MAX_LAYERS);
        let error =
            DeviceName::parse(layers(MAX_LAYERS + 1).as_ref(), |prefix| prefix == "trace").unwrap_err();
        assert!(
            error.kind() == Kind::InvalidName && error.to_string().contains("at most 64 layers"),
            "{error}"
        );
    }

    #[test]
    fn empty_names_and_nul_are_refused() {
        for bad in ["", "a\0b"] {
            assert_eq!(check(bad.as_ref(), Operation::Open).unwrap_err().kind(), Kind::InvalidName);
        }
        assert!(check("a".as_ref(), Operation::Open).is_ok());
    }
}
