//! The encoded form: written by an [`Encoder`], read by a [`Decoder`] that checks every length and value.

use std::fmt;

/// The limit of nesting (trees, lists of boxes): malformed bytes must not exhaust the stack.
pub(crate) const DEEPEST: usize = 500;

/// The limit of the number of elements without bytes, which the length of the input does not bound.
const MOST_EMPTY: u64 = 1 << 24;

/// Appends encoded values to a buffer.
#[derive(Debug)]
pub struct Encoder<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Encoder<'a> {
    /// Appends to `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Appends bytes.
    #[inline]
    pub fn put(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends a length.
    #[inline]
    pub fn put_len(&mut self, len: usize) {
        self.put(&(len as u64).to_le_bytes());
    }
}

/// The bytes are not a value of the requested type.
#[derive(Clone, PartialEq, Eq)]
pub struct DecodeError {
    what: String,
    at: usize,
    /// Names of fields, innermost first.
    path: Vec<&'static str>,
}

impl DecodeError {
    /// An error at byte `at` of the encoded form.
    pub fn new(what: impl Into<String>, at: usize) -> Self {
        Self { what: what.into(), at, path: Vec::new() }
    }

    /// Adds the name of the enclosing field.
    #[must_use]
    pub fn inside(mut self, field: &'static str) -> Self {
        self.path.push(field);
        self
    }

    /// The position of the error in the encoded form, in bytes.
    pub fn at(&self) -> usize {
        self.at
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.what, self.at)?;
        if !self.path.is_empty() {
            let path: Vec<&str> = self.path.iter().rev().copied().collect();
            write!(f, ", in field {}", path.join("."))?;
        }
        Ok(())
    }
}

impl fmt::Debug for DecodeError {
    /// The text of `Display`: the form in which `main` prints an error that it returns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for DecodeError {}

/// Reads encoded bytes from the first to the last.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: usize,
}

impl<'a> Decoder<'a> {
    /// Starts at the first of these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, depth: 0 }
    }

    /// The number of bytes that have been read.
    pub fn position(&self) -> usize {
        self.at
    }

    /// The number of bytes that are left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// An error at the current position.
    pub fn error(&self, what: impl Into<String>) -> DecodeError {
        DecodeError::new(what, self.at)
    }

    /// The error for a variant that an enum does not have; its number has just been read.
    #[doc(hidden)]
    #[cold]
    pub fn no_variant(&self, name: &str, number: u32) -> DecodeError {
        DecodeError::new(format!("{name} has no variant {number}"), self.at - 4)
    }

    /// The next `len` bytes.
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        match self.bytes.get(self.at..).and_then(|rest| rest.get(..len)) {
            Some(bytes) => {
                self.at += len;
                Ok(bytes)
            }
            None => Err(self.error(format!("{len} more bytes are needed and {} are left", self.remaining()))),
        }
    }

    /// The next `N` bytes.
    #[inline]
    pub fn take_array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// A length, if that number of elements of this size can follow. An element of variable size (`None`) has at
    /// least one byte.
    #[inline]
    pub(crate) fn take_len_of(&mut self, element: Option<usize>) -> Result<usize, DecodeError> {
        let start = self.at;
        let len = u64::from_le_bytes(self.take_array()?);
        let most = match element {
            Some(0) => MOST_EMPTY,
            size => (self.remaining() / size.unwrap_or(1)) as u64,
        };
        if len > most {
            let what = format!("a length of {len} where at most {most} elements can follow");
            return Err(DecodeError::new(what, start));
        }
        Ok(len as usize)
    }

    /// Decodes a nested value; every type that can contain itself calls this.
    #[inline]
    pub fn nested<R>(
        &mut self,
        body: impl FnOnce(&mut Self) -> Result<R, DecodeError>,
    ) -> Result<R, DecodeError> {
        if self.depth == DEEPEST {
            return Err(self.error(format!("values nested more than {DEEPEST} deep")));
        }
        self.depth += 1;
        let outcome = body(self);
        self.depth -= 1;
        outcome
    }

    /// Fails if bytes are left.
    pub fn end(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(self.error(format!("{left} bytes after the end of the value"))),
        }
    }
}
