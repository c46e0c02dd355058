//! Reads and writes of one server: cut into frames, many of which are under way before the first answer.

use std::collections::VecDeque;

use aqueduct_device::Strip;
use aqueduct_device::strip::{EVERYWHERE, StripCursor};

use super::connection::{Connection, TunnelCallError};
use crate::socket::invalid;
use crate::wire::answer::{Answer, WireError};
use crate::wire::request::TunnelRequest;
use crate::wire::strips::StripCollector;

/// The most frames under way.
const WINDOW: usize = 64;

/// The most bytes of descriptors under way: they fit into the buffers of the sockets, so that a server that is sending never waits for
/// a client that is sending, which would wait for the server.
const DESCRIPTOR_WINDOW: usize = 32 << 10;

/// What a transfer has done.
#[derive(Debug)]
pub(super) struct TransferOutcome {
    /// Bytes of the list, from its first one on.
    pub(super) done: u64,
    /// The end of the server's part, the smallest that an answer had.
    pub(super) end: u64,
    /// The generation of the server's part, if all answers had the same.
    pub(super) generation: Option<u64>,
    /// The first error.
    pub(super) error: Option<WireError>,
}

/// The most bytes of the descriptor of a request without its ranges, and of each of those.
const DESCRIPTOR: (usize, usize) = (20, 40);

/// What an answer says.
struct TransferAnswer {
    bytes: u64,
    end: u64,
    generation: u64,
}

/// Ranges of a frame with the memory of each.
struct TransferFrame<B> {
    strips: Vec<Strip>,
    parts: Vec<B>,
    bytes: u64,
}

/// Memory that can be divided.
pub(super) trait Divisible: Sized {
    fn divide(self, at: usize) -> (Self, Self);
}

impl Divisible for &[u8] {
    fn divide(self, at: usize) -> (Self, Self) {
        self.split_at(at)
    }
}

impl Divisible for &mut [u8] {
    fn divide(self, at: usize) -> (Self, Self) {
        self.split_at_mut(at)
    }
}

/// Cuts a list into frames.
fn cut<B: Divisible>(list: impl Iterator<Item = (Strip, B)>) -> Vec<TransferFrame<B>> {
    let mut frames = Vec::new();
    let (mut collector, mut parts) = (StripCollector::default(), Vec::new());
    let mut finish = |collector: &mut StripCollector, parts: &mut Vec<B>| {
        let strips = std::mem::take(collector);
        if strips.bytes() > 0 {
            let (bytes, strips) = (strips.bytes(), strips.strips().to_vec());
            frames.push(TransferFrame { strips, parts: std::mem::take(parts), bytes });
        }
    };
    for (strip, mut rest) in list {
        let mut cursor = StripCursor::new(strip);
        loop {
            if !collector.has_room() {
                finish(&mut collector, &mut parts);
            }
            let Some(now) = cursor.take(&EVERYWHERE, collector.room()) else { break };
            let (part, later) = rest.divide(now.size() as usize);
            collector.add(now);
            parts.push(part);
            rest = later;
        }
    }
    finish(&mut collector, &mut parts);
    frames
}

/// Sends frames within the window, receives answers; after an error nothing more is sent.
fn pipeline<B>(
    connection: &mut Connection,
    frames: Vec<TransferFrame<B>>,
    numbers: &mut dyn FnMut() -> u64,
    send: impl Fn(&mut Connection, u64, &TransferFrame<B>) -> std::io::Result<usize>,
    mut receive: impl FnMut(
        &mut Connection,
        u64,
        &mut TransferFrame<B>,
    ) -> Result<TransferAnswer, TunnelCallError>,
) -> Result<TransferOutcome, TunnelCallError> {
    let mut outcome = TransferOutcome { done: 0, end: u64::MAX, generation: None, error: None };
    let mut is_first = true;
    let (mut waiting, mut under_way) = (frames.into_iter().peekable(), VecDeque::new());
    let mut descriptors = 0;
    loop {
        while under_way.len() < WINDOW && outcome.error.is_none() {
            // With the next one, too, the descriptors fit.
            let fits = |frame: &TransferFrame<B>| {
                under_way.is_empty()
                    || descriptors + DESCRIPTOR.0 + DESCRIPTOR.1 * frame.strips.len() <= DESCRIPTOR_WINDOW
            };
            let Some(frame) = waiting.next_if(fits) else { break };
            let number = numbers();
            let size = send(connection, number, &frame)?;
            descriptors += size;
            under_way.push_back((number, size, frame));
        }
        let Some((number, size, mut frame)) = under_way.pop_front() else { return Ok(outcome) };
        descriptors -= size;
        match receive(connection, number, &mut frame) {
            Ok(TransferAnswer { bytes, end, generation }) => {
                if bytes != frame.bytes {
                    return Err(invalid("an answer with another count than was asked for").into());
                }
                outcome.end = outcome.end.min(end);
                let is_same = is_first || outcome.generation == Some(generation);
                outcome.generation = is_same.then_some(generation);
                is_first = false;
                if outcome.error.is_none() {
                    outcome.done += bytes;
                }
            }
            Err(TunnelCallError::Refused(error)) => {
                if outcome.error.is_none() {
                    outcome.done += error.transferred.min(frame.bytes);
                    outcome.error = Some(error);
                }
            }
            Err(broken) => return Err(broken),
        }
    }
}

fn transferred(answer: &Answer) -> Result<TransferAnswer, TunnelCallError> {
    match answer {
        Answer::Transferred { bytes, end, generation } => {
            Ok(TransferAnswer { bytes: *bytes, end: *end, generation: *generation })
        }
        _ => Err(invalid("an unexpected answer").into()),
    }
}

/// Writes a list.
pub(super) fn write(
    connection: &mut Connection,
    handle: u64,
    list: &[(Strip, &[u8])],
    numbers: &mut dyn FnMut() -> u64,
) -> Result<TransferOutcome, TunnelCallError> {
    let operation = TunnelRequest::Write { handle, strips: Vec::new() }.operation();
    let send = |connection: &mut Connection, number, frame: &TransferFrame<&[u8]>| {
        connection.send(number, &TunnelRequest::Write { handle, strips: frame.strips.clone() }, &frame.parts)
    };
    pipeline(connection, cut(list.iter().copied()), numbers, send, |connection, number, _| {
        transferred(&connection.receive(number, operation)?.answer)
    })
}

/// Reads a list; memory for what is after the end of the file stays as it is.
pub(super) fn read(
    connection: &mut Connection,
    handle: u64,
    list: &mut [(Strip, &mut [u8])],
    numbers: &mut dyn FnMut() -> u64,
) -> Result<TransferOutcome, TunnelCallError> {
    read_frames(connection, handle, list, numbers, false)
}

/// Reads a list that is inside the file, with zeros after the end of the server's part.
pub(super) fn read_inside(
    connection: &mut Connection,
    handle: u64,
    list: &mut [(Strip, &mut [u8])],
    numbers: &mut dyn FnMut() -> u64,
) -> Result<TransferOutcome, TunnelCallError> {
    read_frames(connection, handle, list, numbers, true)
}

fn read_frames(
    connection: &mut Connection,
    handle: u64,
    list: &mut [(Strip, &mut [u8])],
    numbers: &mut dyn FnMut() -> u64,
    zeros: bool,
) -> Result<TransferOutcome, TunnelCallError> {
    let operation = TunnelRequest::Read { handle, strips: Vec::new() }.operation();
    let send = |connection: &mut Connection, number, frame: &TransferFrame<&mut [u8]>| {
        connection.send(number, &TunnelRequest::Read { handle, strips: frame.strips.clone() }, &[])
    };
    let frames = cut(list.iter_mut().map(|(strip, bytes)| (*strip, &mut **bytes)));
    pipeline(connection, frames, numbers, send, |connection, number, frame| {
        let reply = connection.receive(number, operation)?;
        connection.receive_payload(&reply, &mut frame.parts, zeros)?;
        transferred(&reply.answer)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::frame::LONGEST_PAYLOAD;
    use crate::wire::strips::MOST_STRIPS;

    #[test]
    fn frames_stay_within_their_limits() {
        let bytes = vec![0; 3 * LONGEST_PAYLOAD + 5];
        let long = Strip::run(7, bytes.len() as u64);
        let frames = cut([(long, bytes.as_slice()), (Strip::run(0, 0), &[])].into_iter());
        let sizes: Vec<u64> = frames.iter().map(|frame| frame.bytes).collect();
        assert_eq!(sizes, [LONGEST_PAYLOAD as u64, LONGEST_PAYLOAD as u64, LONGEST_PAYLOAD as u64, 5]);
        assert_eq!(frames[3].strips, [Strip::run(7 + 3 * LONGEST_PAYLOAD as u64, 5)]);
        // Irregular pieces cannot be merged.
        let pieces = (0..MOST_STRIPS as u64 + 10)
            .map(|at| (Strip::run(at * at * 3, at % 2 + 1), &bytes[..=(at % 2) as usize]));
        let frames = cut(pieces);
        assert_eq!(frames.iter().map(|frame| frame.strips.len()).collect::<Vec<_>>(), [MOST_STRIPS, 10]);
        // A frame of a regular access has one strip and one slice.
        let strip = Strip { offset: 3, len: 4, stride: 8, count: LONGEST_PAYLOAD as u64 / 4 + 1 };
        let frames = cut(std::iter::once((strip, &bytes[..strip.size() as usize])));
        let shape: Vec<_> =
            frames.iter().map(|frame| (frame.strips.len(), frame.parts.len(), frame.bytes)).collect();
        assert_eq!(shape, [(1, 1, LONGEST_PAYLOAD as u64), (1, 1, 4)]);
        assert!(cut(std::iter::empty::<(Strip, &[u8])>()).is_empty());
    }

    /// A frame whose descriptor does not fit beside those under way waits: otherwise both sides might wait for the other one to receive.
    #[test]
    fn descriptors_under_way_fit_into_the_window() {
        let most = DESCRIPTOR.0 + DESCRIPTOR.1;
        let worst = Strip { offset: i64::MAX - 1, len: 1, stride: i64::MIN + 2, count: 1 };
        let mut descriptor = Vec::new();
        TunnelRequest::Read { handle: u64::MAX, strips: vec![worst] }.encode(&mut descriptor);
        assert!(descriptor.len() <= most, "{}", descriptor.len());
    }
}
