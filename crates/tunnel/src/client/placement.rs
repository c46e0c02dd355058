//! Which bytes of a file are on which server: pure arithmetic.
//!
//! Stripe `k` of a file is on server `(first + k) mod servers`; `first` is the hash of the name modulo the number of servers, so that the
//! first stripes of many small files are spread. Consecutive stripes use all servers evenly.

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
    /// The server of a byte, and how many bytes from it on are on the same one.
    pub(super) fn of(&self, offset: u64) -> (usize, u64) {
        if self.servers == 1 {
            return (0, u64::MAX - offset);
        }
        let stripe = offset / self.stripe;
        let server = (self.first as u64 + stripe) % self.servers as u64;
        (server as usize, self.stripe - offset % self.stripe)
    }

    /// The parts of a range: server and length, in order.
    pub(super) fn split(&self, offset: u64, len: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (placement, end) = (*self, offset + len);
        let mut at = offset;
        std::iter::from_fn(move || {
            let (server, there) = placement.of(at);
            let part = there.min(end - at);
            at += part;
            (part > 0).then_some((server, part))
        })
    }
}

/// How many bytes of a list, from its first one on, were transferred, if each server has transferred so many bytes of its parts.
pub(super) fn complete_prefix(
    placement: &Placement,
    ranges: impl Iterator<Item = (u64, u64)>,
    done: &[u64],
) -> u64 {
    let mut left = done.to_vec();
    let mut prefix = 0;
    for (offset, len) in ranges {
        for (server, part) in placement.split(offset, len) {
            let now = part.min(left[server]);
            left[server] -= now;
            prefix += now;
            if now < part {
                return prefix;
            }
        }
    }
    prefix
}

/// How many bytes of a list, from its first one on, are inside a file of this length.
pub(super) fn prefix_inside(ranges: impl Iterator<Item = (u64, u64)>, len: u64) -> u64 {
    let mut prefix = 0;
    for (offset, size) in ranges.filter(|(_, size)| *size > 0) {
        let there = len.saturating_sub(offset).min(size);
        prefix += there;
        if there < size {
            break;
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
        let parts: Vec<_> = placement.split(UNIT - 10, 2 * UNIT).collect();
        assert_eq!(parts, [(2, 10), (0, UNIT), (1, UNIT - 10)]);
        assert!((0..100).all(|at| first_server(format!("f{at}").as_bytes(), 4) < 4));
        let one = Placement { servers: 1, first: 0, stripe: UNIT };
        assert_eq!(one.split(i64::MAX as u64 - 5, 5).collect::<Vec<_>>(), [(0, 5)]);
        assert_eq!(one.split(7, 0).count(), 0);
    }

    #[test]
    fn a_prefix_ends_at_the_first_incomplete_part() {
        let placement = Placement { servers: 2, first: 0, stripe: UNIT };
        let list = [(0, 3 * UNIT), (UNIT, 10)];
        assert_eq!(complete_prefix(&placement, list.into_iter(), &[2 * UNIT, UNIT + 10]), 3 * UNIT + 10);
        assert_eq!(complete_prefix(&placement, list.into_iter(), &[2 * UNIT, UNIT + 4]), 3 * UNIT + 4);
        assert_eq!(complete_prefix(&placement, list.into_iter(), &[2 * UNIT, 5]), UNIT + 5);
        assert_eq!(complete_prefix(&placement, list.into_iter(), &[0, UNIT]), 0);
        assert_eq!(prefix_inside([(0, 10), (50, 10), (0, 1)].into_iter(), 55), 15);
        assert_eq!(prefix_inside([(60, 0), (0, 10)].into_iter(), 55), 10);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn parts_cover_a_range_once(servers in 1_usize..6, first in 0_usize..6, offset in 0_u64..1 << 40, len in 0_u64..1 << 20) {
            let placement = Placement { servers, first: first % servers, stripe: UNIT };
            let mut at = offset;
            for (server, part) in placement.split(offset, len) {
                prop_assert!(servers == 1 || at / UNIT == (at + part - 1) / UNIT);
                prop_assert_eq!(server, placement.of(at).0);
                at += part;
            }
            prop_assert_eq!(at, offset + len);
        }
    }
}
