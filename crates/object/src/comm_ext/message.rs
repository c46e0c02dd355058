//! The form of messages of objects: trivial ones as they are in memory, others encoded.

use std::fmt;
use std::marker::PhantomData;

use aqueduct_comm::{Comm, Message, MessageBody, ReceiveRequest, SendRequest, Status};

use crate::error::{Error, Kind, Result};
use crate::into_objects::{EncodedBatch, IntoObjects};
use crate::object::{Object, cast, decode_all, schema_name_of};

/// The end of a message of encoded objects; it identifies the message.
const MAGIC: [u8; 4] = *b"AQO1";
/// Count, hash, length of the name, magic.
const TRAILER: usize = 8 + 8 + 4 + 4;

/// Trivial objects that a message owns.
struct TrivialObjects<T>(Vec<T>);

impl<T> fmt::Debug for TrivialObjects<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrivialObjects({})", self.0.len())
    }
}

impl<T: Object + Send + Sync> MessageBody for TrivialObjects<T> {
    fn bytes(&self) -> &[u8] {
        cast::bytes(&self.0).unwrap_or_default()
    }
}

/// True if messages of this type are the bytes of the objects in memory, with the type as their code.
const fn is_sent_plain<T: Object>() -> bool {
    cast::is_plain::<T>() && size_of::<T>() > 0
}

/// The code of messages of trivial objects: the hash of the type, not 0.
fn code_of<T: Object>() -> u64 {
    T::schema().hash().max(1)
}

/// Sends objects, trivial ones from where they are.
pub(super) fn send<'a, T: Object>(
    comm: &Comm,
    to: usize,
    tag: u32,
    objects: impl IntoObjects<'a, T>,
) -> aqueduct_comm::Result<()> {
    let packed = objects.encode_batch();
    if is_sent_plain::<T>() {
        return comm.send_coded(to, tag, code_of::<T>(), &packed.bytes);
    }
    comm.start_send(to, tag, encode_message::<T>(packed))?.wait()
}

/// Starts sending objects, which may be changed at once.
pub(super) fn start_send<'a, T: Object>(
    comm: &Comm,
    to: usize,
    tag: u32,
    objects: impl IntoObjects<'a, T>,
) -> aqueduct_comm::Result<SendRequest> {
    let packed = objects.encode_batch();
    if is_sent_plain::<T>() {
        return comm.start_send_coded(to, tag, code_of::<T>(), packed.bytes.into_owned());
    }
    comm.start_send(to, tag, encode_message::<T>(packed))
}

/// Starts sending a vector: trivial objects without a copy.
pub(super) fn start_send_vec<T: Object + Send + Sync>(
    comm: &Comm,
    to: usize,
    tag: u32,
    objects: Vec<T>,
) -> aqueduct_comm::Result<SendRequest> {
    if is_sent_plain::<T>() {
        return comm.start_send_coded(to, tag, code_of::<T>(), TrivialObjects(objects));
    }
    comm.start_send(to, tag, encode_message::<T>(objects.as_slice().encode_batch()))
}

/// A non-blocking receive of objects. Dropping it cancels it.
#[derive(Debug)]
#[must_use = "`wait` returns the objects"]
pub struct ObjectReceiveRequest<T> {
    bytes: ReceiveRequest<u8>,
    tag: u32,
    objects: PhantomData<T>,
}

impl<T: Object> ObjectReceiveRequest<T> {
    pub(super) fn new(bytes: ReceiveRequest<u8>, tag: u32) -> Self {
        Self { bytes, tag, objects: PhantomData }
    }

    /// Waits for the message; trivial objects are copied from it into the first elements of `objects`, once. The objects, if they are not trivial.
    pub(super) fn wait_into(self, objects: &mut [T]) -> Result<(Option<Vec<T>>, usize, Status)> {
        let tag = self.tag;
        let message = self.bytes.wait_message().map_err(|error| failed(&error))?;
        let status = message.status();
        if is_sent_plain::<T>()
            && message.code() == code_of::<T>()
            && let Some(bytes) = cast::bytes_mut(objects)
        {
            let count = message.bytes().len() / size_of::<T>();
            if let Some(place) = bytes.get_mut(..message.bytes().len()) {
                place.copy_from_slice(message.bytes());
            }
            return Ok((None, count, status));
        }
        let (received, status) = decode_message(message, tag)?;
        let count = received.len();
        Ok((Some(received), count, status))
    }

    /// Waits for the message.
    pub fn wait(self) -> Result<(Vec<T>, Status)> {
        let received = self.bytes.wait_message();
        decode_message(received.map_err(|error| failed(&error))?, self.tag)
    }

    /// The objects, if the message has arrived; an error if they were returned before.
    pub fn test(&mut self) -> Result<Option<(Vec<T>, Status)>> {
        let received = self.bytes.test_message().map_err(|error| failed(&error))?;
        received.map(|message| decode_message(message, self.tag)).transpose()
    }
}

fn failed(error: &aqueduct_comm::Error) -> Error {
    Error::from_comm("receive_objects", "message", error)
}

pub(super) fn message(rank: usize, tag: u32) -> String {
    format!("message of rank {rank} with tag {tag}")
}

/// A message: the encoded objects, then their number and type.
fn encode_message<T: Object>(packed: EncodedBatch<'_>) -> Vec<u8> {
    let (schema, count) = (T::schema(), packed.count as u64);
    let name = schema.name();
    let mut bytes = packed.bytes.into_owned();
    bytes.reserve_exact(name.len() + TRAILER);
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(&count.to_le_bytes());
    bytes.extend_from_slice(&schema.hash().to_le_bytes());
    bytes.extend_from_slice(&(name.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&MAGIC);
    bytes
}

fn decode_message<T: Object>(received: Message, tag: u32) -> Result<(Vec<T>, Status)> {
    let status = received.status();
    let place = message(status.source, tag);
    let wanted = T::schema();
    let wrong = |sent: &str| {
        let detail = format!("it was sent as {sent} and received as {}", wanted.name());
        Error::new(Kind::WrongType, "receive_objects", &place, detail)
    };
    let damaged = |why: String| Error::new(Kind::Damaged, "receive_objects", &place, why);
    if received.code() != 0 {
        if !is_sent_plain::<T>() || received.code() != code_of::<T>() {
            let name = schema_name_of(received.code());
            let name = name.unwrap_or_else(|| format!("a type with the hash {:016x}", received.code()));
            return Err(wrong(&differing(&name, &wanted.name())));
        }
        let objects = match received.into_body::<TrivialObjects<T>>() {
            Ok(TrivialObjects(objects)) => objects,
            Err(received) => {
                let count = received.bytes().len() / size_of::<T>();
                decode_all(received.bytes(), count).map_err(|error| damaged(error.to_string()))?
            }
        };
        return Ok((objects, status));
    }
    let plain = || wrong("data that is not an object");
    let bytes = received.bytes();
    let (rest, magic) = bytes.split_last_chunk::<4>().ok_or_else(plain)?;
    let (rest, name_len) = rest.split_last_chunk::<4>().ok_or_else(plain)?;
    let (rest, hash) = rest.split_last_chunk::<8>().ok_or_else(plain)?;
    let (rest, count) = rest.split_last_chunk::<8>().ok_or_else(plain)?;
    let data = rest.len().checked_sub(u32::from_le_bytes(*name_len) as usize);
    let (data, name) = rest.split_at_checked(data.ok_or_else(plain)?).ok_or_else(plain)?;
    if *magic != MAGIC {
        return Err(plain());
    }
    if u64::from_le_bytes(*hash) != wanted.hash() {
        return Err(wrong(&differing(&String::from_utf8_lossy(name), &wanted.name())));
    }
    let objects = decode_all(data, u64::from_le_bytes(*count) as usize);
    let objects = objects.map_err(|error| damaged(error.to_string()))?;
    Ok((objects, Status { source: status.source, bytes: data.len() }))
}

/// The name of the other type; types of the same name differ in their fields.
pub(super) fn differing(other: &str, wanted: &str) -> String {
    if other == wanted { format!("another {other}, with other fields,") } else { other.to_owned() }
}
