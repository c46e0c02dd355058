//! Frames of remote memory: heads, requests, answers, greetings.

use aqueduct_device::Strip;
use aqueduct_tunnel::wire::answer::{Answer, WireError};
use aqueduct_tunnel::wire::frame::{FrameHead, HEAD};
use aqueduct_tunnel::wire::greeting::{ClientHello, ClientProof, GreetingResult, ServerHello};
use aqueduct_tunnel::wire::request::{OpenFlags, OpenRole, TunnelRequest};

use crate::FuzzTarget;

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    name: "tunnel_frames",
    run,
    seeds,
    words: &["AQT1", "AQTC", "AQTS", "\u{1}\u{80}\u{80}\u{4}"],
};

/// A head with its descriptor; the operation and the descriptor are also decoded if the checksum is wrong.
fn run(input: &[u8]) -> bool {
    let Some((head, descriptor)) = input.split_first_chunk::<HEAD>() else { return false };
    let checked = FrameHead::decode(head).and_then(|head| head.check(descriptor));
    let request = TunnelRequest::decode(head[4], descriptor);
    if let Ok(Some(request)) = &request {
        let mut again = Vec::new();
        request.encode(&mut again);
        let second = TunnelRequest::decode(request.operation(), &again);
        assert_eq!(
            second.as_ref().map(Option::as_ref),
            Ok(Some(request)),
            "a request is decoded as it was encoded"
        );
    }
    let answer = Answer::decode(descriptor);
    if let Ok(answer) = &answer {
        let mut again = Vec::new();
        answer.encode(&mut again);
        assert_eq!(Answer::decode(&again).as_ref(), Ok(answer), "an answer is decoded as it was encoded");
    }
    let error = WireError::decode(descriptor);
    if let Ok(error) = &error {
        assert!(
            !error.clone().into_error(aqueduct_device::Operation::Read, "x", "server").to_string().is_empty()
        );
    }
    greet(input);
    for problem in [request.as_ref().err(), answer.as_ref().err(), error.as_ref().err()].into_iter().flatten()
    {
        assert!(problem.at <= descriptor.len() && !problem.to_string().is_empty());
    }
    checked.is_ok() || request.is_ok_and(|request| request.is_some()) || answer.is_ok()
}

fn greet(input: &[u8]) {
    let _ = input.first_chunk().map(ClientHello::decode);
    let _ = input.first_chunk().map(ServerHello::decode);
    let _ = input.first_chunk().map(ClientProof::decode);
    let _ = input.first_chunk().map(GreetingResult::decode);
}

fn seeds() -> Vec<Vec<u8>> {
    let flags = OpenFlags { read: true, write: true, create: true, ..OpenFlags::default() };
    let strips = vec![
        Strip { offset: 4096, len: 4, stride: 8, count: 1000 },
        Strip { offset: 5, len: 70, stride: -100, count: 1 },
    ];
    let requests = [
        TunnelRequest::Open {
            name: b"run/7".to_vec(),
            flags,
            permissions: 0o644,
            stripe: 1 << 20,
            role: OpenRole::Part { id: [3; 16], owner: [4; 16] },
        },
        TunnelRequest::Read { handle: 3, strips: strips.clone() },
        TunnelRequest::Write { handle: 300, strips },
        TunnelRequest::Lock {
            handle: 1,
            ticket: 2,
            start: 0,
            end: u64::MAX,
            exclusive: true,
            wait: true,
            known: 3,
        },
        TunnelRequest::List { prefix: b"r".to_vec(), after: b"ra".to_vec() },
        TunnelRequest::Delete { name: b"a".to_vec(), part: None },
        TunnelRequest::Evict { id: [3; 16], owners: vec![[5; 16]; 2] },
    ];
    let frame = |operation: u8, descriptor: Vec<u8>| {
        let head = FrameHead::new(operation, 0, 1, &descriptor, 0).encode();
        [head.to_vec(), descriptor].concat()
    };
    let mut seeds: Vec<Vec<u8>> = requests
        .iter()
        .map(|request| {
            let mut descriptor = Vec::new();
            request.encode(&mut descriptor);
            frame(request.operation(), descriptor)
        })
        .collect();
    let mut descriptor = Vec::new();
    Answer::Transferred { bytes: 1 << 18, end: 1 << 40, generation: 2 }.encode(&mut descriptor);
    seeds.push(frame(4, descriptor));
    let mut descriptor = Vec::new();
    Answer::Lock { granted: true, evicted: vec![[5; 16]] }.encode(&mut descriptor);
    seeds.push(frame(10, descriptor));
    seeds
}
