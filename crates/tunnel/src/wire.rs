//! The bytes of the protocol: pure functions between values and slices, without sockets.
//!
//! A connection begins with a [`greeting`], in which both sides prove that they have the key. After it the client sends
//! requests and the server answers them in order. Both are frames ([`frame`]): a head of 32 bytes, a descriptor and, for reads and writes,
//! a payload. All fixed numbers are little-endian; numbers of variable length are LEB128, signed ones in zigzag order.
//!
//! Lengths are checked before anything is allocated, checksums before anything is used.

pub mod answer;
pub mod bytes;
pub mod frame;
pub mod greeting;
pub mod request;
pub mod strips;
