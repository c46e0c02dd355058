//! Object headers: the messages that describe a group, a dataset or a committed datatype.

use super::byte_cursor::{ByteCursor, Decoded};
use super::checksum::checked;
use super::metadata_source::{MetadataSource, within};

/// Numbers of message types.
pub(crate) mod message {
    pub(crate) const DATASPACE: u16 = 0x01;
    pub(crate) const LINK_INFO: u16 = 0x02;
    pub(crate) const DATATYPE: u16 = 0x03;
    pub(crate) const OLD_FILL_VALUE: u16 = 0x04;
    pub(crate) const FILL_VALUE: u16 = 0x05;
    pub(crate) const LINK: u16 = 0x06;
    pub(crate) const EXTERNAL_FILES: u16 = 0x07;
    pub(crate) const DATA_LAYOUT: u16 = 0x08;
    pub(crate) const FILTER_PIPELINE: u16 = 0x0b;
    pub(crate) const ATTRIBUTE: u16 = 0x0c;
    pub(crate) const SHARED_TABLE: u16 = 0x0f;
    pub(crate) const CONTINUATION: u16 = 0x10;
    pub(crate) const SYMBOL_TABLE: u16 = 0x11;
    pub(crate) const ATTRIBUTE_INFO: u16 = 0x15;
}

/// The largest number of continuation blocks of one header.
const MOST_BLOCKS: usize = 1 << 16;
/// The flag of a message that is stored elsewhere.
const SHARED: u8 = 0x02;

/// One message.
#[derive(Clone, Debug)]
pub(crate) struct HeaderMessage {
    pub(crate) kind: u16,
    /// Whether the body says only where the message is.
    pub(crate) shared: bool,
    pub(crate) body: Vec<u8>,
}

/// All messages of an object.
#[derive(Clone, Debug)]
pub(crate) struct ObjectHeader {
    pub(crate) messages: Vec<HeaderMessage>,
}

impl ObjectHeader {
    /// The first message of a type.
    pub(crate) fn find(&self, kind: u16) -> Option<&HeaderMessage> {
        self.messages.iter().find(|message| message.kind == kind)
    }

    /// All messages of a type.
    pub(crate) fn all(&self, kind: u16) -> impl Iterator<Item = &HeaderMessage> {
        self.messages.iter().filter(move |message| message.kind == kind)
    }
}

/// Reads the header at an address.
pub(crate) fn read(source: &MetadataSource<'_>, address: u64) -> Decoded<ObjectHeader> {
    within("object header", address, read_all(source, address))
}

fn read_all(source: &MetadataSource<'_>, address: u64) -> Decoded<ObjectHeader> {
    let prefix = source.up_to(address, 64)?;
    let (mut blocks, version) = if prefix.starts_with(b"OHDR") {
        second_version(source, address, &prefix)?
    } else {
        (vec![first_version(source, address, &prefix)?], HeaderVersion { number: 1, ordered: false })
    };
    let mut header = ObjectHeader { messages: Vec::new() };
    let mut next = 0;
    while next < blocks.len() {
        let block = std::mem::take(&mut blocks[next]);
        next += 1;
        for (at, length) in messages(source, &block, version, &mut header)? {
            if blocks.len() >= MOST_BLOCKS {
                return Err(format!("more than {MOST_BLOCKS} continuation blocks"));
            }
            blocks.push(within("continuation block", at, continuation(source, at, length, version))?);
        }
    }
    Ok(header)
}

#[derive(Clone, Copy)]
struct HeaderVersion {
    number: u8,
    /// Whether messages have a creation order.
    ordered: bool,
}

fn first_version(source: &MetadataSource<'_>, address: u64, prefix: &[u8]) -> Decoded<Vec<u8>> {
    let mut cursor = source.cursor(prefix);
    cursor.version(1..=1)?;
    cursor.skip(7)?;
    let size = cursor.u32()?;
    let address = address.checked_add(16).ok_or("it is beyond every file")?;
    source.block(address, size.into())
}

fn second_version(
    source: &MetadataSource<'_>,
    address: u64,
    prefix: &[u8],
) -> Decoded<(Vec<Vec<u8>>, HeaderVersion)> {
    let mut cursor = source.cursor(prefix);
    cursor.skip(4)?;
    cursor.version(2..=2)?;
    let flags = cursor.u8()?;
    cursor.skip(if flags & 0x20 != 0 { 16 } else { 0 })?;
    cursor.skip(if flags & 0x10 != 0 { 4 } else { 0 })?;
    let size = cursor.uint(1 << (flags & 3))?;
    let start = cursor.position() as u64;
    let length = size.checked_add(start + 4).ok_or("it is beyond every file")?;
    let mut bytes = source.checked_block(address, length)?;
    bytes.drain(..start as usize);
    Ok((vec![bytes], HeaderVersion { number: 2, ordered: flags & 4 != 0 }))
}

fn continuation(
    source: &MetadataSource<'_>,
    address: u64,
    length: u64,
    version: HeaderVersion,
) -> Decoded<Vec<u8>> {
    let mut bytes = source.block(address, length)?;
    if version.number == 1 {
        return Ok(bytes);
    }
    let body = checked(&bytes)?.len();
    if !bytes.starts_with(b"OCHK") || body < 4 {
        return Err("the signature is not \"OCHK\"".to_owned());
    }
    bytes.truncate(body);
    bytes.drain(..4);
    Ok(bytes)
}

/// Adds the messages of a block to a header; the continuation blocks that they name.
fn messages(
    source: &MetadataSource<'_>,
    block: &[u8],
    version: HeaderVersion,
    header: &mut ObjectHeader,
) -> Decoded<Vec<(u64, u64)>> {
    let mut cursor = source.cursor(block);
    let mut further = Vec::new();
    let prefix = if version.number == 1 { 8 } else { 4 + 2 * usize::from(version.ordered) };
    while cursor.rest().len() >= prefix {
        let kind = if version.number == 1 { cursor.u16()? } else { cursor.u8()?.into() };
        let size = cursor.u16()?;
        let flags = cursor.u8()?;
        cursor.skip(prefix - if version.number == 1 { 5 } else { 4 })?;
        let body = cursor.take(size.into())?;
        if kind == message::CONTINUATION {
            let mut cursor = source.cursor(body);
            further.push((cursor.address()?, cursor.length()?));
        } else if kind != 0 {
            let shared = flags & SHARED != 0;
            header.messages.push(HeaderMessage { kind, shared, body: body.to_vec() });
        }
    }
    Ok(further)
}

/// A cursor over the body of a message.
pub(crate) fn body<'m>(source: &MetadataSource<'_>, message: &'m HeaderMessage) -> ByteCursor<'m> {
    source.cursor(&message.body)
}
