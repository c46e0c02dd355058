//! Packets between ranks: a small header, and a body that is passed by pointer between threads.

use std::any::Any;

use bytemuck::Pod;

use crate::collective_id::CollectiveId;
use crate::{Error, Kind, Result};

/// The communicator, sender and tag of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketHeader {
    pub(crate) context: u64,
    /// The sender's rank in that communicator.
    pub(crate) source: u32,
    pub(crate) tag: u32,
    /// The collective call of the packet; all zeros for point-to-point messages.
    pub(crate) call: [u8; CollectiveId::LEN],
}

impl PacketHeader {
    pub(crate) const LEN: usize = 16 + CollectiveId::LEN;

    /// The last packet of a rank, sent when it leaves the program: no communicator has this context.
    pub(crate) const DEPARTURE: Self = Self { context: 0, source: 0, tag: 0, call: [0; CollectiveId::LEN] };

    pub(crate) fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[0..8].copy_from_slice(&self.context.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.source.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.tag.to_le_bytes());
        bytes[16..].copy_from_slice(&self.call);
        bytes
    }

    pub(crate) fn decode(bytes: &[u8; Self::LEN]) -> Self {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let mut call = [0; CollectiveId::LEN];
        call.copy_from_slice(&bytes[16..]);
        Self { context: u64::from(word(0)) | u64::from(word(4)) << 32, source: word(8), tag: word(12), call }
    }
}

/// A message.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) header: PacketHeader,
    pub(crate) body: PacketBody,
}

impl Packet {
    /// Context and tag.
    pub(crate) fn key(&self) -> (u64, u32) {
        (self.header.context, self.header.tag)
    }
}

/// The contents of a message: a vector of a plain type.
#[derive(Debug)]
pub(crate) struct PacketBody(Box<dyn MessageBody>);

/// A value that ranks can send: any type without padding or pointers for which every bit pattern is valid.
pub trait Plain: Pod + Send + Sync + std::fmt::Debug {}

impl<T: Pod + Send + Sync + std::fmt::Debug> Plain for T {}

/// The contents of a message: passed by pointer to a rank that is a thread of this process, as bytes to others.
pub trait MessageBody: Any + Send + Sync + std::fmt::Debug {
    /// The bytes to send; the same at every call.
    fn bytes(&self) -> &[u8];
}

impl<T: Plain> MessageBody for Vec<T> {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }
}

impl PacketBody {
    pub(crate) fn new(body: impl MessageBody) -> Self {
        Self(Box::new(body))
    }

    /// The sent value itself, if it is a `B` from this process.
    pub(crate) fn downcast<B: Any>(self) -> std::result::Result<B, Self> {
        if !(&*self.0 as &dyn Any).is::<B>() {
            return Err(self);
        }
        let body: Box<dyn Any> = self.0;
        Ok(*body.downcast().expect("its type was just compared"))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// The sent vector itself if it was sent as `T` from this process, otherwise a copy of the bytes.
    pub(crate) fn into_values<T: Plain>(self, call: &'static str) -> Result<Vec<T>> {
        if size_of::<T>() == 0 {
            return Ok(Vec::new());
        }
        if !self.bytes().len().is_multiple_of(size_of::<T>()) {
            let detail = format!(
                "the message length of {} bytes is not a multiple of the element size of {} bytes ({}); \
                 receive it as the type it was sent as",
                self.bytes().len(),
                size_of::<T>(),
                std::any::type_name::<T>()
            );
            return Err(Error::new(Kind::Truncated, call, detail));
        }
        self.downcast::<Vec<T>>().or_else(|body| Ok(bytemuck::pod_collect_to_vec(body.bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_encoded_and_decoded() {
        let header = PacketHeader { context: u64::MAX - 5, source: 7, tag: 9, call: [3; CollectiveId::LEN] };
        assert_eq!(PacketHeader::decode(&header.encode()), header);
    }

    #[test]
    fn values_of_the_same_type_are_not_copied() {
        let values = vec![1.5f64, 2.5];
        let address = values.as_ptr();
        let back = PacketBody::new(values).into_values::<f64>("receive").unwrap();
        assert_eq!((back.as_ptr(), back.len()), (address, 2));
    }

    #[test]
    fn other_types_get_a_copy_and_partial_elements_are_an_error() {
        let back = PacketBody::new(vec![1u16, 0]).into_values::<u32>("receive").unwrap();
        assert_eq!(back, [1]);
        let error = PacketBody::new(vec![0u8; 6]).into_values::<u32>("receive").unwrap_err();
        assert_eq!(error.kind(), Kind::Truncated);
    }
}
