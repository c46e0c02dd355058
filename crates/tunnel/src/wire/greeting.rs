//! The greeting: versions, identities, and the proof of the key by both sides.
//!
//! | message | bytes |
//! |---|---|
//! | client hello | "AQTC", version u16, features u32, nonce 32 |
//! | server hello | "AQTS", version u16, features u32, nonce 32, set 16, index u16, count u16, epoch 16, silence u32, proof 32 |
//! | client proof | session 16, slot u32, name 64, proof 32 |
//! | result | 0 and whether the session is known, or 1 (never) or 2 (not now) and a text of 254 bytes |
//!
//! A proof is the keyed BLAKE3 hash of a role and of all bytes that were sent before it. Nonces are new for each connection, so
//! that a recorded greeting proves nothing.

use super::bytes::{ByteReader, WireDecodeError};

/// The version of the protocol.
pub const VERSION: u16 = 2;
/// Bytes of the client's hello.
pub const CLIENT_HELLO: usize = 42;
/// Bytes of the server's hello.
pub const SERVER_HELLO: usize = 114;
/// Bytes of the client's proof.
pub const CLIENT_PROOF: usize = 116;
/// Bytes of the result.
pub const RESULT: usize = 256;

const CLIENT_MAGIC: &[u8; 4] = b"AQTC";
const SERVER_MAGIC: &[u8; 4] = b"AQTS";
const NAME: usize = 64;

/// A random number that is used once.
pub type Nonce = [u8; 32];
/// A proof of the key.
pub type Proof = [u8; 32];
/// The identity of a session of a client.
pub type SessionId = [u8; 16];

/// The first message of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientHello {
    /// The version of the protocol.
    pub version: u16,
    /// Bits of optional features.
    pub features: u32,
    /// A random number.
    pub nonce: Nonce,
}

/// Which server of which set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerIdentity {
    /// The set of servers that belong together.
    pub set: [u8; 16],
    /// The place of the server in the set.
    pub index: u16,
    /// How many servers the set has.
    pub count: u16,
    /// Another one after each start of the server.
    pub epoch: [u8; 16],
}

/// The first message of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerHello {
    /// The version of the protocol.
    pub version: u16,
    /// Bits of optional features.
    pub features: u32,
    /// A random number.
    pub nonce: Nonce,
    /// Which server this is.
    pub identity: ServerIdentity,
    /// Sessions without a sign of life for so many milliseconds end.
    pub silence: u32,
    /// That the server has the key.
    pub proof: Proof,
}

/// The second message of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientProof {
    /// The session, a new or a known one.
    pub session: SessionId,
    /// Which connection of the session: a new one with the same number replaces the old one.
    pub slot: u32,
    /// Host, process: for messages.
    pub name: String,
    /// That the client has the key.
    pub proof: Proof,
}

/// The second message of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GreetingResult {
    /// The connection is accepted.
    Accepted {
        /// The server knows the session.
        resumed: bool,
    },
    /// The connection is refused.
    Refused(String),
    /// The server has no room for it now.
    Busy(String),
}

impl ClientHello {
    /// As bytes.
    pub fn encode(&self) -> [u8; CLIENT_HELLO] {
        let mut bytes = [0; CLIENT_HELLO];
        bytes[..4].copy_from_slice(CLIENT_MAGIC);
        bytes[4..6].copy_from_slice(&self.version.to_le_bytes());
        bytes[6..10].copy_from_slice(&self.features.to_le_bytes());
        bytes[10..].copy_from_slice(&self.nonce);
        bytes
    }

    /// From bytes.
    pub fn decode(bytes: &[u8; CLIENT_HELLO]) -> Result<Self, WireDecodeError> {
        let mut reader = ByteReader::new(bytes);
        if reader.take(4)? != CLIENT_MAGIC {
            return Err(WireDecodeError { problem: "this is no client of aqueduct", at: 0 });
        }
        let version = u16::from_le_bytes(reader.array()?);
        Ok(Self { version, features: u32::from_le_bytes(reader.array()?), nonce: reader.array()? })
    }
}

impl ServerHello {
    /// As bytes.
    pub fn encode(&self) -> [u8; SERVER_HELLO] {
        let mut bytes = [0; SERVER_HELLO];
        bytes[..4].copy_from_slice(SERVER_MAGIC);
        bytes[4..6].copy_from_slice(&self.version.to_le_bytes());
        bytes[6..10].copy_from_slice(&self.features.to_le_bytes());
        bytes[10..42].copy_from_slice(&self.nonce);
        bytes[42..58].copy_from_slice(&self.identity.set);
        bytes[58..60].copy_from_slice(&self.identity.index.to_le_bytes());
        bytes[60..62].copy_from_slice(&self.identity.count.to_le_bytes());
        bytes[62..78].copy_from_slice(&self.identity.epoch);
        bytes[78..82].copy_from_slice(&self.silence.to_le_bytes());
        bytes[82..].copy_from_slice(&self.proof);
        bytes
    }

    /// From bytes.
    pub fn decode(bytes: &[u8; SERVER_HELLO]) -> Result<Self, WireDecodeError> {
        let mut reader = ByteReader::new(bytes);
        if reader.take(4)? != SERVER_MAGIC {
            return Err(WireDecodeError { problem: "this is no server of aqueduct", at: 0 });
        }
        let version = u16::from_le_bytes(reader.array()?);
        let (features, nonce) = (u32::from_le_bytes(reader.array()?), reader.array()?);
        let set = reader.array()?;
        let (index, count) = (u16::from_le_bytes(reader.array()?), u16::from_le_bytes(reader.array()?));
        let identity = ServerIdentity { set, index, count, epoch: reader.array()? };
        let silence = u32::from_le_bytes(reader.array()?);
        Ok(Self { version, features, nonce, identity, silence, proof: reader.array()? })
    }
}

impl ClientProof {
    /// As bytes; a long name is cut.
    pub fn encode(&self) -> [u8; CLIENT_PROOF] {
        let mut bytes = [0; CLIENT_PROOF];
        bytes[..16].copy_from_slice(&self.session);
        bytes[16..20].copy_from_slice(&self.slot.to_le_bytes());
        let name = &self.name.as_bytes()[..self.name.len().min(NAME)];
        bytes[20..20 + name.len()].copy_from_slice(name);
        bytes[84..].copy_from_slice(&self.proof);
        bytes
    }

    /// From bytes.
    pub fn decode(bytes: &[u8; CLIENT_PROOF]) -> Result<Self, WireDecodeError> {
        let mut reader = ByteReader::new(bytes);
        let (session, slot) = (reader.array()?, u32::from_le_bytes(reader.array()?));
        let name = String::from_utf8_lossy(reader.take(NAME)?).trim_end_matches('\0').to_owned();
        Ok(Self { session, slot, name, proof: reader.array()? })
    }
}

impl GreetingResult {
    /// As bytes; a long text is cut.
    pub fn encode(&self) -> [u8; RESULT] {
        let mut bytes = [0; RESULT];
        match self {
            Self::Accepted { resumed } => bytes[1] = u8::from(*resumed),
            Self::Refused(text) | Self::Busy(text) => {
                let text = &text.as_bytes()[..text.len().min(RESULT - 2)];
                bytes[0] = if matches!(self, Self::Busy(_)) { 2 } else { 1 };
                bytes[2..2 + text.len()].copy_from_slice(text);
            }
        }
        bytes
    }

    /// From bytes.
    pub fn decode(bytes: &[u8; RESULT]) -> Self {
        let text = || String::from_utf8_lossy(&bytes[2..]).trim_end_matches('\0').to_owned();
        match bytes[0] {
            0 => Self::Accepted { resumed: bytes[1] != 0 },
            2 => Self::Busy(text()),
            _ => Self::Refused(text()),
        }
    }
}
