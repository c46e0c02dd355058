//! Which bytes of a file are on which server: pure arithmetic.
//!
//! Stripe `k` of a file is on server `(first + k) mod servers`; `first` is the hash of the name modulo the number of servers, so that the
//! first stripes of many small files are spread. Consecutive stripes use all servers evenly.

use std::ops::Range;

use aqueduct_device::Strip;
use aqueduct_device::strip::{EVERYWHERE, StripCursor};

/// The smallest stripe and the unit of stripes.
pub(super) const STRIPE_UNIT: u64 = 64 << 10;

/// How a file is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placement {
    pub(super) servers: usize,
    pub(super) first: usize,
    pub(super) stripe: u64,
}

/// The server of the first stripe, which keeps the file's name, its opens and its locks.
pub(super) fn first_server(name: &[u8], servers: usize) -> usize {
    let hash = blake3::hash(name);
    let mut word = [0; 8];
    word.copy_from_slice(&hash.as_bytes()[..8]);
    (u64::from_le_bytes(word) % servers as u64) as usize
}

impl Placement {
    /// The server of a byte.
    fn server_of(&self, offset: u64) -> usize {
        if self.servers == 1 {
            return 0;
        }
        ((self.first as u64 + offset / self.stripe) % self.servers as u64) as usize
    }

    /// The stripe with a byte; all bytes if there is one server.
    fn stripe_of(&self, offset: u64) -> Range<u64> {
        if self.servers == 1 {
            return EVERYWHERE;
        }
        let start = offset / self.stripe * self.stripe;
        start..start.saturating_add(self.stripe)
    }

    /// The parts of a strip that lie in one stripe each: server and strip, in order.
    pub(super) fn parts(&self, strip: Strip) -> impl Iterator<Item = (usize, Strip)> + use<> {
        let (placement, mut cursor) = (*self, StripCursor::new(strip));
        std::iter::from_fn(move || {
            let place = cursor.position()?;
            let part = cursor.take(&placement.stripe_of(place), u64::MAX)?;
            Some((placement.server_of(place), part))
        })
    }
}

/// How many bytes of a list, from its first one on, were transferred, if each server has transferred so many bytes of its parts.
pub(super) fn complete_prefix(placement: &Placement, strips: &[Strip], done: &[u64]) -> u64 {
    let mut left = done.to_vec();
    let mut prefix = 0;
    for (server, part) in strips.iter().flat_map(|strip| placement.parts(*strip)) {
        let now = part.size().min(left[server]);
        left[server] -= now;
        prefix += now;
        if now < part.size() {
            break;
        }
    }
    prefix
}

/// How many bytes of a list, from its first one on, are inside a file of this length.
pub(super) fn prefix_inside(strips: &[Strip], len: u64) -> u64 {
    let mut prefix = 0;
    for strip in strips.iter().filter(|strip| strip.size() > 0) {
        if strip.span().end as u64 <= len {
            prefix += strip.size();
            continue;
        }
        for (offset, size) in strip.runs() {
            let there = len.saturating_sub(offset).min(size);
            prefix += there;
            if there < size {
                return prefix;
            }
        }
    }
    prefix
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const UNIT: u64 = STRIPE_UNIT;

    #[test]
    fn consecutive_stripes_are_on_consecutive_servers() {
        let placement = Placement { servers: 3, first: 2, stripe: UNIT };
        let parts: Vec<_> = placement.parts(Strip::run(UNIT - 10, 2 * UNIT)).collect();
        let run = Strip::run;
        assert_eq!(parts, [(2, run(UNIT - 10, 10)), (0, run(UNIT, UNIT)), (1, run(2 * UNIT, UNIT - 10))]);
        // Of a strip, runs in one stripe stay together.
        let strip = |offset, count| Strip { offset, len: 4, stride: 1 << 14, count };
        let parts: Vec<_> = placement.parts(strip(-2 + (1 << 14), 7)).collect();
        let cut = (1 << 16) - 2;
        assert_eq!(
            parts,
            [
                (2, strip((1 << 14) - 2, 3)),
                (2, run(cut, 2)),
                (0, run(cut + 2, 2)),
                (0, strip((5 << 14) - 2, 3))
            ]
        );
        assert!((0..100).all(|at| first_server(format!("f{at}").as_bytes(), 4) < 4));
        let one = Placement { servers: 1, first: 0, stripe: UNIT };
        let top = run(i64::MAX as u64 - 5, 5);
        assert_eq!(one.parts(top).collect::<Vec<_>>(), [(0, top)]);
        assert_eq!(one.parts(run(7, 0)).count(), 0);
    }

    #[test]
    fn a_prefix_ends_at_the_first_incomplete_part() {
        let placement = Placement { servers: 2, first: 0, stripe: UNIT };
        let list = [Strip::run(0, 3 * UNIT), Strip::run(UNIT, 10)];
        assert_eq!(complete_prefix(&placement, &list, &[2 * UNIT, UNIT + 10]), 3 * UNIT + 10);
        assert_eq!(complete_prefix(&placement, &list, &[2 * UNIT, UNIT + 4]), 3 * UNIT + 4);
        assert_eq!(complete_prefix(&placement, &list, &[2 * UNIT, 5]), UNIT + 5);
        assert_eq!(complete_prefix(&placement, &list, &[0, UNIT]), 0);
        assert_eq!(prefix_inside(&[Strip::run(0, 10), Strip::run(50, 10), Strip::run(0, 1)], 55), 15);
        assert_eq!(prefix_inside(&[Strip::run(60, 0), Strip::run(0, 10)], 55), 10);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn parts_cover_a_strip_once(
            servers in 1_usize..6,
            first in 0_usize..6,
            offset in 1_i64 << 30..1 << 31,
            len in 0_u64..1 << 18,
            stride in -(1_i64 << 18)..1 << 18,
            count in 0_u64..20,
        ) {
            let placement = Placement { servers, first: first % servers, stripe: UNIT };
            let strip = Strip { offset, len, stride, count };
            let mut parts = Vec::new();
            for (server, part) in placement.parts(strip) {
                let (start, last) = (part.span().start as u64, part.span().end as u64 - 1);
                prop_assert!(servers == 1 || start / UNIT == last / UNIT);
                prop_assert_eq!(server, placement.server_of(start));
                parts.extend(part.runs());
            }
            let mut joined: Vec<(u64, u64)> = Vec::new();
            for (offset, len) in parts {
                match joined.last_mut().filter(|last| last.0 + last.1 == offset && last.1 + len <= strip.joined().len) {
                    Some(last) => last.1 += len,
                    None => joined.push((offset, len)),
                }
            }
            prop_assert_eq!(joined, strip.runs().collect::<Vec<_>>());
        }
    }
}
