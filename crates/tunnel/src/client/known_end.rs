//! What is known of the length of a file on several servers, so that a read need not ask all of them.
//!
//! Every answer has the end of the server's part and its generation, which is another one after each truncation. The file is at least as
//! long as the largest end that was heard, as long as no server has another generation. A truncation gives a new generation to all
//! servers after it has reached all of them, so that the answer of any server shows it.

use std::sync::{Mutex, PoisonError};

/// The end and generation of each server that has answered.
pub(super) type PartEnds = Vec<Option<(u64, Option<u64>)>>;

#[derive(Debug)]
pub(super) struct KnownEnd(Mutex<HeardEnd>);

/// What was heard since the last truncation.
#[derive(Clone, Debug)]
pub(super) struct HeardEnd {
    end: u64,
    generations: Vec<Option<u64>>,
}

impl KnownEnd {
    pub(super) fn new(servers: usize) -> Self {
        Self(Mutex::new(HeardEnd { end: 0, generations: vec![None; servers] }))
    }

    /// Notes the end that a server has answered; without a generation, it was truncated meanwhile.
    pub(super) fn note(&self, server: usize, end: u64, generation: Option<u64>) {
        let mut heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = heard.generations[server];
        if generation.is_none() || known.is_some_and(|known| Some(known) != generation) {
            heard.end = 0;
            heard.generations.fill(None);
        }
        if let Some(generation) = generation {
            heard.generations[server] = Some(generation);
            heard.end = heard.end.max(end);
        }
    }

    /// What was heard, if the file reaches to `end` by it.
    pub(super) fn covering(&self, end: u64) -> Option<HeardEnd> {
        let heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (end <= heard.end).then(|| heard.clone())
    }
}

impl HeardEnd {
    /// True if all servers that have answered a later access had the same generation before.
    pub(super) fn is_confirmed(&self, ends: &PartEnds) -> bool {
        let same = |(known, now): (&Option<u64>, &Option<(u64, Option<u64>)>)| {
            now.is_none_or(|(_, generation)| known.is_some() && generation == *known)
        };
        self.generations.iter().zip(ends).all(same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_truncation_empties_what_is_known() {
        let known = KnownEnd::new(2);
        known.note(0, 100, Some(1));
        let heard = known.covering(100).unwrap();
        assert!(known.covering(101).is_none());
        assert!(heard.is_confirmed(&vec![Some((7, Some(1))), None]));
        assert!(!heard.is_confirmed(&vec![Some((7, Some(2))), None]), "truncated since");
        assert!(!heard.is_confirmed(&vec![None, Some((7, Some(1)))]), "not heard of before");
        known.note(1, 50, Some(4));
        assert!(known.covering(100).unwrap().is_confirmed(&vec![None, Some((7, Some(4)))]));
        known.note(1, 50, Some(5));
        assert!(known.covering(51).is_none() && known.covering(50).is_some());
        known.note(1, 50, None);
        assert!(known.covering(1).is_none());
    }
}
