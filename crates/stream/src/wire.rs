//! The binary encoding of messages between ranks: little-endian numbers, and lists and texts with their length before them.
//!
//! Decoding checks every length against the bytes that are left, and never panics.

use crate::error::{Error, Kind, Result};

/// The first byte of each message.
const VERSION: u8 = 1;

/// A value in a message. No value has an empty encoding, so that a list is never longer than its message.
pub(crate) trait WireEncoding: Sized {
    fn put(&self, out: &mut Vec<u8>);
    /// Removes the value from the front of `input`; none if it is not one.
    fn take(input: &mut &[u8]) -> Option<Self>;
}

/// A message that holds this value.
pub(crate) fn encode_message(value: &impl WireEncoding) -> Vec<u8> {
    let mut out = vec![VERSION];
    value.put(&mut out);
    out
}

/// The value that a message holds.
pub(crate) fn decode_message<T: WireEncoding>(message: &[u8]) -> Result<T> {
    let body = message.strip_prefix(&[VERSION]);
    let decoded = body.and_then(|mut body| T::take(&mut body).filter(|_| body.is_empty()));
    decoded.ok_or_else(|| {
        let detail =
            "a message of another rank is malformed; all ranks must run the same version of the library";
        Error::new(Kind::Communication, "receive", "a message", detail)
    })
}

macro_rules! wire_numbers {
    ($($number:ty),*) => {$(
        impl WireEncoding for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }

            fn take(input: &mut &[u8]) -> Option<Self> {
                let (bytes, rest) = input.split_first_chunk()?;
                *input = rest;
                Some(Self::from_le_bytes(*bytes))
            }
        }
    )*};
}

wire_numbers!(u8, u32, u64, i64);

/// Encodes the fields of a type one after the other.
macro_rules! wire_struct {
    ($name:ident { $($field:ident),* }) => {
        impl $crate::wire::WireEncoding for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::wire::WireEncoding::put(&self.$field, out);)*
            }

            fn take(input: &mut &[u8]) -> Option<Self> {
                Some(Self { $($field: $crate::wire::WireEncoding::take(input)?),* })
            }
        }
    };
}
pub(crate) use wire_struct;

impl WireEncoding for usize {
    fn put(&self, out: &mut Vec<u8>) {
        (*self as u64).put(out);
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        Self::try_from(u64::take(input)?).ok()
    }
}

impl WireEncoding for bool {
    fn put(&self, out: &mut Vec<u8>) {
        u8::from(*self).put(out);
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        match u8::take(input)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl<T: WireEncoding> WireEncoding for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        self.iter().for_each(|item| item.put(out));
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        let count = usize::take(input)?;
        (count <= input.len()).then_some(())?;
        (0..count).map(|_| T::take(input)).collect()
    }
}

impl WireEncoding for String {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        out.extend(self.as_bytes());
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        let length = usize::take(input)?;
        let (text, rest) = input.split_at_checked(length)?;
        *input = rest;
        std::str::from_utf8(text).ok().map(str::to_owned)
    }
}

impl<T: WireEncoding> WireEncoding for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|value| value.put(out));
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        Some(if bool::take(input)? { Some(T::take(input)?) } else { None })
    }
}

impl<T: WireEncoding> WireEncoding for Result<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_ok().put(out);
        match self {
            Ok(value) => value.put(out),
            Err(error) => error.put(out),
        }
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        Some(if bool::take(input)? { Ok(T::take(input)?) } else { Err(Error::take(input)?) })
    }
}

/// Without its cause.
impl WireEncoding for Error {
    fn put(&self, out: &mut Vec<u8>) {
        (self.kind() as u8).put(out);
        [self.operation(), self.path(), self.detail()].iter().for_each(|text| (*text).to_owned().put(out));
        self.step().put(out);
        self.rank().put(out);
    }

    fn take(input: &mut &[u8]) -> Option<Self> {
        let kind = Kind::from_code(u8::take(input)?);
        let [operation, path, detail] = [String::take(input)?, String::take(input)?, String::take(input)?];
        let error = Self::new(kind, operation, path, detail);
        let step = <Option<u64> as WireEncoding>::take(input)?;
        let error = step.map_or(error.clone(), |step| error.in_step(step));
        let rank = <Option<usize> as WireEncoding>::take(input)?;
        Some(rank.map_or(error.clone(), |rank| error.on_rank(rank)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_in_a_message_keeps_all_but_its_cause() {
        let error = Error::new(Kind::NoSpace, "any operation", "run.out", "full").in_step(7).on_rank(3);
        let decoded: Error = decode_message(&encode_message(&error)).unwrap();
        assert_eq!((decoded.to_string(), decoded.kind()), (error.to_string(), error.kind()));
        assert_eq!((decoded.step(), decoded.rank()), (Some(7), Some(3)));
    }

    #[test]
    fn lengths_are_checked_before_memory_is_allocated() {
        let mut message = encode_message(&vec![1_u64, 2]);
        assert_eq!(decode_message::<Vec<u64>>(&message).unwrap(), [1, 2]);
        message[1..9].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(decode_message::<Vec<u64>>(&message).unwrap_err().kind(), Kind::Communication);
        assert!(decode_message::<String>(&message).is_err());
        assert!(decode_message::<u8>(&[VERSION, 1, 2]).is_err(), "bytes are left");
        assert!(decode_message::<u8>(&[VERSION + 1, 1]).is_err(), "another version");
        assert!(decode_message::<bool>(&[VERSION, 2]).is_err() && decode_message::<u8>(&[]).is_err());
    }
}
