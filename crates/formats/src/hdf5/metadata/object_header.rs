//! Object headers: lists of messages. Version 1 is written; versions 1 and 2 are decoded. Pure.

use super::message_encode::pad;

/// Kinds of messages.
pub(crate) mod message_kind {
    pub(crate) const DATASPACE: u16 = 0x01;
    pub(crate) const LINK_INFO: u16 = 0x02;
    pub(crate) const DATATYPE: u16 = 0x03;
    pub(crate) const FILL_VALUE: u16 = 0x05;
    pub(crate) const LINK: u16 = 0x06;
    pub(crate) const LAYOUT: u16 = 0x08;
    pub(crate) const FILTERS: u16 = 0x0B;
    pub(crate) const ATTRIBUTE: u16 = 0x0C;
    pub(crate) const CONTINUATION: u16 = 0x10;
    pub(crate) const SYMBOL_TABLE: u16 = 0x11;
    pub(crate) const ATTRIBUTE_INFO: u16 = 0x15;
}

/// Bytes before the messages of a header.
const PREFIX: usize = 16;
/// Bytes before the data of a message.
const MESSAGE_HEAD: usize = 8;
/// More continuation blocks than this are damage.
const MOST_BLOCKS: usize = 4096;

/// Bytes that are stored in a heap: the element of 16 bytes at an offset of a message refers to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HeapValue {
    pub(crate) at: usize,
    pub(crate) bytes: Vec<u8>,
    /// The paths of objects whose addresses are the bytes; they are written anew when objects move.
    pub(crate) references: Vec<String>,
}

/// A message of an object header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredMessage {
    pub(crate) kind: u16,
    pub(crate) flags: u8,
    pub(crate) data: Vec<u8>,
    /// Values that are to be put into a heap.
    pub(crate) heap: Vec<HeapValue>,
    /// Where addresses of objects are in the data, and the paths of the objects.
    pub(crate) references: Vec<(usize, String)>,
}

impl StoredMessage {
    pub(crate) fn new(kind: u16, flags: u8, data: Vec<u8>) -> Self {
        Self { kind, flags, data, heap: Vec::new(), references: Vec::new() }
    }

    /// The paths of the objects that it refers to.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &String> {
        let listed = self.heap.iter().flat_map(|value| &value.references);
        listed.chain(self.references.iter().map(|(_, path)| path))
    }

    /// Bytes in a header.
    fn length(&self) -> usize {
        MESSAGE_HEAD + self.data.len().next_multiple_of(8)
    }

    /// The name of an attribute.
    pub(crate) fn attribute_name(&self) -> Option<&[u8]> {
        if self.kind != message_kind::ATTRIBUTE || self.flags & 2 != 0 {
            return None;
        }
        let from = if *self.data.first()? >= 3 { 9 } else { 8 };
        let length = usize::from(u16::from_le_bytes(*self.data.get(2..)?.first_chunk()?));
        self.data.get(from..from + length.checked_sub(1)?)
    }

    /// Writes a word.
    pub(crate) fn set_word(&mut self, at: usize, word: u64) {
        self.data[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
}

/// Bytes of a header with these messages.
pub(crate) fn header_length(messages: &[StoredMessage]) -> u64 {
    (PREFIX + messages.iter().map(StoredMessage::length).sum::<usize>()) as u64
}

/// Where the data of a message ends in a header, before padding.
pub(crate) fn message_end(messages: &[StoredMessage], number: usize) -> u64 {
    header_length(&messages[..number]) + (MESSAGE_HEAD + messages[number].data.len()) as u64
}

/// A header, of version 1: it has no checksum, so that a completion attribute can be changed in place.
pub(crate) fn encode_header(messages: &[StoredMessage], links: u32) -> Result<Vec<u8>, String> {
    let too_many = || "an object with more than 65535 messages; make attributes a dataset".to_owned();
    let count = u16::try_from(messages.len()).map_err(|_| too_many())?;
    let length = header_length(messages);
    let rest = u32::try_from(length - PREFIX as u64).map_err(|_| too_many())?;
    let mut out = Vec::with_capacity(length as usize);
    out.extend_from_slice(&[1, 0]);
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&links.to_le_bytes());
    out.extend_from_slice(&rest.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    for message in messages {
        let length = u16::try_from(message.data.len().next_multiple_of(8));
        let length = length.map_err(|_| "an attribute of more than 64 KiB; make it a dataset".to_owned())?;
        out.extend_from_slice(&message.kind.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&[message.flags, 0, 0, 0]);
        out.extend_from_slice(&message.data);
        pad(&mut out, 8);
    }
    Ok(out)
}

/// Bytes of a file, read as they are asked for.
pub(crate) trait MetadataBytes {
    fn bytes(&mut self, offset: u64, length: u64) -> Result<Vec<u8>, String>;
}

/// A header that was decoded.
#[derive(Debug)]
pub(crate) struct DecodedHeader {
    pub(crate) version: u8,
    /// How many links refer to the object.
    pub(crate) links: u32,
    pub(crate) messages: Vec<StoredMessage>,
    /// Where the data of each message is in the file.
    pub(crate) offsets: Vec<u64>,
}

/// Numbers of bytes.
pub(crate) fn word_at(bytes: &[u8], at: usize) -> Result<u64, String> {
    let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
    word.map(|word| u64::from_le_bytes(*word)).ok_or_else(|| "metadata ends early".to_owned())
}

pub(crate) fn number_at(bytes: &[u8], at: usize, length: usize) -> Result<u64, String> {
    let part = bytes.get(at..at + length).ok_or("metadata ends early")?;
    Ok(part.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Decodes the header at an address.
pub(crate) fn decode_header(file: &mut dyn MetadataBytes, address: u64) -> Result<DecodedHeader, String> {
    let first = file.bytes(address, PREFIX as u64)?;
    let mut header = DecodedHeader { version: first[0], links: 1, messages: Vec::new(), offsets: Vec::new() };
    if first[0] == 1 {
        header.links = number_at(&first, 4, 4)? as u32;
        let length = number_at(&first, 8, 4)?;
        header.decode_blocks(file, (address + PREFIX as u64, length), 8)?;
    } else if first.starts_with(b"OHDR\x02") {
        header.version = 2;
        let flags = first[5];
        let size_at = 6 + if flags & 0x20 != 0 { 16 } else { 0 } + if flags & 0x10 != 0 { 4 } else { 0 };
        let width = 1 << (flags & 3);
        let head = file.bytes(address, size_at + width)?;
        let length = number_at(&head, size_at as usize, width as usize)?;
        let message_head = if flags & 4 != 0 { 6 } else { 4 };
        header.decode_blocks(file, (address + size_at + width, length), message_head)?;
    } else {
        return Err(format!("at byte {address} there is no object header"));
    }
    Ok(header)
}

impl DecodedHeader {
    /// The messages of a block and of its continuations, with `head` bytes before the data of each.
    fn decode_blocks(
        &mut self,
        file: &mut dyn MetadataBytes,
        first: (u64, u64),
        head: usize,
    ) -> Result<(), String> {
        let mut blocks = vec![first];
        let mut done = 0;
        while let Some((address, length)) = blocks.get(done).copied() {
            done += 1;
            let bytes = file.bytes(address, length)?;
            // Continuations of version 2 have a signature and a checksum.
            let inner =
                if self.version == 2 && done > 1 { 4..bytes.len().saturating_sub(4) } else { 0..bytes.len() };
            let mut at = inner.start;
            while at + head <= inner.end {
                let (kind, length, flags) = if self.version == 1 {
                    (number_at(&bytes, at, 2)? as u16, number_at(&bytes, at + 2, 2)? as usize, bytes[at + 4])
                } else {
                    (bytes[at].into(), number_at(&bytes, at + 1, 2)? as usize, bytes[at + 3])
                };
                let data =
                    bytes.get(at + head..at + head + length).ok_or("a message ends beyond its header")?;
                if kind == message_kind::CONTINUATION {
                    blocks.push((word_at(data, 0)?, word_at(data, 8)?));
                } else if kind != 0 {
                    self.messages.push(StoredMessage::new(kind, flags, data.to_vec()));
                    self.offsets.push(address + (at + head) as u64);
                }
                at += head + length;
            }
            if blocks.len() > MOST_BLOCKS {
                return Err("an object header with too many blocks".to_owned());
            }
        }
        Ok(())
    }

    pub(crate) fn message(&self, kind: u16) -> Option<&StoredMessage> {
        self.messages.iter().find(|message| message.kind == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl MetadataBytes for Vec<u8> {
        fn bytes(&mut self, offset: u64, length: u64) -> Result<Vec<u8>, String> {
            let end = offset.checked_add(length).ok_or("too far")? as usize;
            self.get(offset as usize..end).map(<[u8]>::to_vec).ok_or_else(|| "beyond the end".to_owned())
        }
    }

    #[test]
    fn encoded_headers_are_decoded() {
        let messages = vec![
            StoredMessage::new(message_kind::DATASPACE, 0, vec![1; 8]),
            StoredMessage::new(message_kind::ATTRIBUTE, 1, vec![2; 16]),
        ];
        let mut file = encode_header(&messages, 3).unwrap();
        assert_eq!(file.len() as u64, header_length(&messages));
        let decoded = decode_header(&mut file, 0).unwrap();
        assert_eq!((decoded.links, decoded.version, &decoded.messages), (3, 1, &messages));
        assert_eq!(decoded.offsets, [24, 40]);
        assert_eq!(message_end(&messages, 1), 56);
        file.truncate(40);
        assert!(decode_header(&mut file, 0).is_err());
    }
}
