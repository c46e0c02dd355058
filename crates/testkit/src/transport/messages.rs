//! Tagged messages.

use aqueduct_comm::{Comm, Kind, MessageSource, ReceiveRequest, wait_all, wait_any};

use super::{Entry, LENGTHS, values};

pub(super) const CASES: &[Entry] = &[
    ("messages are sent around a ring", ring),
    ("a rank can send to itself", to_itself),
    ("tags keep messages apart", tags),
    ("messages of one sender and tag do not overtake", order),
    ("any source takes each message once", any_source),
    ("a probe returns sender and length without receiving", probe),
    ("large sends in both directions do not block each other", head_to_head),
    ("receives are served in the order they were started", posted_order),
    ("a dropped receive loses no message", dropped_receive),
    ("wait_any returns the first receive that completes", any_of_several),
    ("a message that does not fit is an error", truncated),
    ("started sends can be tested and waited for", started_sends),
];

fn next(world: &Comm) -> usize {
    (world.rank() + 1) % world.size()
}

fn previous(world: &Comm) -> usize {
    (world.rank() + world.size() - 1) % world.size()
}

fn ring(world: &Comm) {
    for count in LENGTHS {
        let sending = world.start_send(next(world), 1, values(world.rank(), count)).unwrap();
        let (got, status) = world.receive::<u32>(previous(world), 1).unwrap();
        assert_eq!(got, values(previous(world), count));
        assert_eq!((status.source, status.bytes), (previous(world), 4 * count));
        sending.wait().unwrap();
    }
}

fn to_itself(world: &Comm) {
    world.send(world.rank(), 3, &[7u8, 8]).unwrap();
    assert_eq!(world.receive::<u8>(world.rank(), 3).unwrap().0, [7, 8]);
}

fn tags(world: &Comm) {
    for tag in [5, u32::MAX, 0] {
        world.send(next(world), tag, &[tag]).unwrap();
    }
    for tag in [0, 5, u32::MAX] {
        assert_eq!(world.receive::<u32>(previous(world), tag).unwrap().0, [tag]);
    }
}

fn order(world: &Comm) {
    // Small behind large: a transport that carries them on different ways must not let them overtake.
    let lengths = [200_000, 0, 1, 5_000, 3, 200_000, 2];
    let mut sends = Vec::new();
    for (number, length) in lengths.iter().enumerate() {
        let mut message = vec![number as u64];
        message.resize(1 + length, 0);
        sends.push(world.start_send(next(world), 9, message).unwrap());
    }
    for (number, length) in lengths.iter().enumerate() {
        let (got, _) = world.receive::<u64>(previous(world), 9).unwrap();
        assert_eq!((got[0], got.len()), (number as u64, 1 + length));
    }
    for send in sends {
        send.wait().unwrap();
    }
}

fn any_source(world: &Comm) {
    const ROUNDS: usize = 5;
    for _ in 0..ROUNDS {
        world.send(0, 11, &[world.rank() as u64]).unwrap();
    }
    if world.rank() == 0 {
        let mut seen = vec![0; world.size()];
        for _ in 0..ROUNDS * world.size() {
            let (got, status) = world.receive::<u64>(MessageSource::Any, 11).unwrap();
            assert_eq!(got, [status.source as u64]);
            seen[status.source] += 1;
        }
        assert_eq!(seen, vec![ROUNDS; world.size()]);
    }
}

fn probe(world: &Comm) {
    assert_eq!(world.try_probe(MessageSource::Any, 13).unwrap(), None);
    world.barrier().unwrap();
    world.send(next(world), 13, &values(world.rank(), 10)).unwrap();
    let status = world.probe(MessageSource::Any, 13).unwrap();
    assert_eq!((status.source, status.bytes), (previous(world), 40));
    assert_eq!(world.try_probe(previous(world), 13).unwrap(), Some(status));
    let mut buffer = [0u32; 12];
    assert_eq!(world.receive_into(previous(world), 13, &mut buffer).unwrap(), status);
    assert_eq!(buffer[..10], values(previous(world), 10));
    assert_eq!(buffer[10..], [0, 0]);
    assert_eq!(world.try_probe(MessageSource::Any, 13).unwrap(), None);
}

fn head_to_head(world: &Comm) {
    let partner = world.rank() ^ 1;
    if partner < world.size() {
        let mine = vec![world.rank() as u8; 3_000_000];
        world.send(partner, 15, &mine).unwrap();
        assert_eq!(world.receive::<u8>(partner, 15).unwrap().0, vec![partner as u8; 3_000_000]);
    }
}

fn posted_order(world: &Comm) {
    let start = || world.start_receive::<u32>(previous(world), 17).unwrap();
    let (first, second, third) = (start(), start(), start());
    for number in [1u32, 2, 3] {
        world.send(next(world), 17, &[number]).unwrap();
    }
    assert_eq!(third.wait().unwrap().0, [3]);
    let all = wait_all([first, second]).unwrap();
    assert_eq!((all[0].0[0], all[1].0[0]), (1, 2));
}

fn dropped_receive(world: &Comm) {
    let dropped = world.start_receive::<u32>(previous(world), 19).unwrap();
    world.send(next(world), 19, &[77u32]).unwrap();
    world.barrier().unwrap();
    drop(dropped);
    assert_eq!(world.receive::<u32>(previous(world), 19).unwrap().0, [77]);
}

fn any_of_several(world: &Comm) {
    let mut receives: Vec<ReceiveRequest<u64>> =
        (0..world.size()).map(|from| world.start_receive(from, 21).unwrap()).collect();
    for to in 0..world.size() {
        world.send(to, 21, &[world.rank() as u64]).unwrap();
    }
    let mut seen = Vec::new();
    while !receives.is_empty() {
        let (_, got, status) = wait_any(&mut receives).unwrap();
        assert_eq!(got, [status.source as u64]);
        seen.push(status.source);
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..world.size()).collect::<Vec<_>>());
    assert_eq!(wait_any(&mut receives).unwrap_err().kind(), Kind::InvalidArgument);
}

fn truncated(world: &Comm) {
    world.send(next(world), 23, &[1u8; 9]).unwrap();
    world.send(next(world), 23, &[1u8; 9]).unwrap();
    let error = world.receive_into(previous(world), 23, &mut [0u8; 8]).unwrap_err();
    assert_eq!((error.kind(), error.rank()), (Kind::Truncated, Some(previous(world))));
    let error = world.receive::<u32>(previous(world), 23).unwrap_err();
    assert_eq!((error.kind(), error.rank()), (Kind::Truncated, Some(previous(world))));
}

fn started_sends(world: &Comm) {
    let mut sending = world.start_send(next(world), 25, vec![1u8; 100_000]).unwrap();
    let mut receiving = world.start_receive::<u8>(previous(world), 25).unwrap();
    let got = loop {
        if let Some((got, _)) = receiving.test().unwrap() {
            break got;
        }
        std::thread::yield_now();
    };
    assert_eq!(got, vec![1; 100_000]);
    assert_eq!(receiving.test().unwrap_err().kind(), Kind::InvalidArgument);
    while !sending.test().unwrap() {
        std::thread::yield_now();
    }
    assert!(sending.test().unwrap());
    sending.wait().unwrap();
}
