//! The mailbox: no message is lost, and no wait outlives those it waits for.

use std::time::Duration;

use loom::thread;

use crate::mailbox::{Mailbox, MatchKey};
use crate::matching::packet::{Packet, PacketBody, PacketHeader};
use crate::sync::Arc;
use crate::wait_context::{MakeProgress, WaitContext};
use crate::{Error, Kind, Result, check};

/// The transport of a rank that may wait as long as it likes.
struct IdleTransport;

impl MakeProgress for IdleTransport {
    fn make_progress(&self) -> Option<Duration> {
        None
    }
}

impl WaitContext for IdleTransport {
    fn rank(&self) -> usize {
        0
    }

    fn shares_addresses(&self) -> bool {
        true
    }

    fn failure(&self, call: &'static str) -> Option<Error> {
        Some(Error::new(Kind::RankFailed, call, "").caused_by(7))
    }

    fn mark_induced_failure(&self, _: Option<usize>) {}

    fn check_wait(&self, _: &'static str) -> Result<()> {
        Ok(())
    }
}

fn packet(source: u32, value: u8) -> Packet {
    Packet { header: PacketHeader { context: 1, source, tag: 5 }, body: PacketBody(vec![value]) }
}

fn match_key(source: Option<u32>) -> MatchKey {
    MatchKey { context: 1, tag: 5, source }
}

fn receive(mailbox: &Mailbox, receive_id: u64, senders: &[usize]) -> Result<u8> {
    let packet = mailbox.wait(&IdleTransport, "receive", senders, |mailbox| mailbox.take(receive_id))?;
    Ok(packet.body.bytes()[0])
}

/// A rank sends two messages and leaves the program: the receiver gets both, in order.
pub fn messages_of_a_rank_that_leaves_are_received() {
    check(4, || {
        let mailbox = Arc::new(Mailbox::default());
        let sending = Arc::clone(&mailbox);
        let sender = thread::spawn(move || {
            sending.deliver(packet(0, 1));
            sending.deliver(packet(0, 2));
            sending.mark_departed(0);
        });
        for expected in [1, 2] {
            let receive_id = mailbox.post(match_key(Some(0)));
            assert_eq!(receive(&mailbox, receive_id, &[0]).expect("it was sent"), expected);
        }
        sender.join().unwrap();
    });
}

/// A rank leaves without sending: the wait ends with an error that names it.
pub fn a_wait_for_a_rank_that_leaves_ends() {
    check(4, || {
        let mailbox = Arc::new(Mailbox::default());
        let leaving = Arc::clone(&mailbox);
        let sender = thread::spawn(move || leaving.mark_departed(3));
        let receive_id = mailbox.post(match_key(Some(0)));
        assert_eq!(receive(&mailbox, receive_id, &[3]).expect_err("nothing was sent").rank(), Some(3));
        sender.join().unwrap();
    });
}

/// A rank fails while a message is under way: the wait ends, with the message or with the failure.
pub fn a_wait_ends_when_a_rank_fails() {
    check(4, || {
        let mailbox = Arc::new(Mailbox::default());
        let (sending, failing) = (Arc::clone(&mailbox), Arc::clone(&mailbox));
        let sender = thread::spawn(move || sending.deliver(packet(0, 1)));
        let failed = thread::spawn(move || failing.fail());
        let receive_id = mailbox.post(match_key(None));
        match receive(&mailbox, receive_id, &[0, 1]) {
            Ok(value) => assert_eq!(value, 1),
            Err(error) => assert_eq!(error.rank(), Some(7)),
        }
        sender.join().unwrap();
        failed.join().unwrap();
    });
}

/// Two ranks send, two receives take from any: each message is received once.
pub fn messages_of_two_ranks_are_received_once_each() {
    check(4, || {
        let mailbox = Arc::new(Mailbox::default());
        let send = |source: u32| {
            let mailbox = Arc::clone(&mailbox);
            move || mailbox.deliver(packet(source, source as u8))
        };
        let senders = [thread::spawn(send(0)), thread::spawn(send(1))];
        let receive_ids = [mailbox.post(match_key(None)), mailbox.post(match_key(None))];
        let mut values =
            receive_ids.map(|receive_id| receive(&mailbox, receive_id, &[0, 1]).expect("both are sent"));
        values.sort_unstable();
        assert_eq!(values, [0, 1]);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

/// A receive is cancelled while its message comes: the next receive gets it.
pub fn a_cancelled_receive_gives_its_message_to_the_next() {
    check(4, || {
        let mailbox = Arc::new(Mailbox::default());
        let sending = Arc::clone(&mailbox);
        let (first, second) = (mailbox.post(match_key(None)), mailbox.post(match_key(Some(0))));
        let sender = thread::spawn(move || sending.deliver(packet(0, 1)));
        mailbox.cancel(match_key(None), first);
        assert_eq!(receive(&mailbox, second, &[0]).expect("it was sent"), 1);
        sender.join().unwrap();
    });
}
