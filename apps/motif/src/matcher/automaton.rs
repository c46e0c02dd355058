//! Position automata (Glushkov) of terms, simulated with sets of states as bits; up to `k` errors need `k + 1` sets
//! ([Wu and Manber 1992](https://doi.org/10.1145/135239.135244)).

use crate::query::{ErrorModel, Expression, ResidueClass};

/// The automaton of a term. State 0 is the start; state `i` is: letter `i` of the written-out expression was read.
#[derive(Clone, Debug)]
pub(crate) struct TermAutomaton {
    errors: ErrorModel,
    words: usize,
    /// For each state, the states that may follow.
    follow: Vec<Vec<u64>>,
    /// For each letter of the alphabet, the states that it may lead to.
    accepts: Vec<Vec<u64>>,
    last: Vec<u64>,
}

/// The sets of states of a simulation; kept, so that a search does not allocate.
#[derive(Clone, Debug, Default)]
pub(crate) struct AutomatonState {
    rows: Vec<u64>,
    next: Vec<u64>,
}

/// First and last letters of an expression, and whether it has the empty word.
struct Fragment {
    first: Vec<usize>,
    last: Vec<usize>,
    nullable: bool,
}

struct AutomatonBuilder {
    classes: Vec<ResidueClass>,
    edges: Vec<(usize, usize)>,
}

impl AutomatonBuilder {
    fn join(&mut self, left: Fragment, right: &Fragment) -> Fragment {
        for from in &left.last {
            self.edges.extend(right.first.iter().map(|to| (*from, *to)));
        }
        let mut first = left.first;
        if left.nullable {
            first.extend(&right.first);
        }
        let mut last = right.last.clone();
        if right.nullable {
            last.extend(&left.last);
        }
        Fragment { first, last, nullable: left.nullable && right.nullable }
    }

    fn build(&mut self, expression: &Expression) -> Fragment {
        let empty = || Fragment { first: Vec::new(), last: Vec::new(), nullable: true };
        match expression {
            Expression::Class(class) => {
                self.classes.push(*class);
                let state = self.classes.len();
                Fragment { first: vec![state], last: vec![state], nullable: false }
            }
            Expression::Sequence(parts) => parts.iter().fold(empty(), |left, part| {
                let right = self.build(part);
                self.join(left, &right)
            }),
            Expression::Alternatives(parts) => {
                let mut all = Fragment { nullable: false, ..empty() };
                for part in parts {
                    let part = self.build(part);
                    all.first.extend(part.first);
                    all.last.extend(part.last);
                    all.nullable |= part.nullable;
                }
                all
            }
            Expression::Repeat { inner, least, most } => {
                let copies = most.unwrap_or((*least).max(1));
                let mut all = empty();
                for copy in 1..=copies {
                    let mut part = self.build(inner);
                    if most.is_none() && copy == copies {
                        let Fragment { first, last, .. } = &part;
                        self.edges
                            .extend(last.iter().flat_map(|from| first.iter().map(move |to| (*from, *to))));
                    }
                    part.nullable |= copy > *least;
                    all = self.join(all, &part);
                }
                all
            }
        }
    }
}

impl TermAutomaton {
    pub(crate) fn new(expression: &Expression, errors: ErrorModel) -> Self {
        let mut builder = AutomatonBuilder { classes: Vec::new(), edges: Vec::new() };
        let whole = builder.build(expression);
        let states = builder.classes.len() + 1;
        let words = states.div_ceil(64);
        let set = |members: &mut dyn Iterator<Item = usize>| {
            let mut bits = vec![0u64; words];
            members.for_each(|state| bits[state / 64] |= 1 << (state % 64));
            bits
        };
        let mut follow = vec![vec![0u64; words]; states];
        follow[0] = set(&mut whole.first.iter().copied());
        for (from, to) in builder.edges {
            follow[from][to / 64] |= 1 << (to % 64);
        }
        let leads = |letter: u8| {
            let matching = builder.classes.iter().enumerate().filter(|(_, class)| class.contains(letter));
            set(&mut matching.map(|(at, _)| at + 1))
        };
        let accepts = (0..=255).map(leads).collect();
        let last = set(&mut whole.last.iter().copied().chain(whole.nullable.then_some(0)));
        Self { errors, words, follow, accepts, last }
    }

    /// Adds the followers of the states of `from` to `into`.
    fn add_followers(&self, from: &[u64], into: &mut [u64]) {
        for (word, bits) in from.iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                let state = word * 64 + bits.trailing_zeros() as usize;
                bits &= bits - 1;
                into.iter_mut().zip(&self.follow[state]).for_each(|(into, follow)| *into |= follow);
            }
        }
    }

    /// Calls `end` with the end of each part that starts at `start`, shortest first.
    pub(crate) fn ends(
        &self,
        text: &[u8],
        start: usize,
        state: &mut AutomatonState,
        mut end: impl FnMut(usize),
    ) {
        let (words, limit) = (self.words, self.errors.limit() as usize);
        let size = words * (limit + 1);
        state.rows.clear();
        state.rows.resize(size, 0);
        state.next.clear();
        state.next.resize(size, 0);
        state.rows[0] = 1;
        let is_edit = matches!(self.errors, ErrorModel::Edit(_));
        for row in 1..=limit {
            let (before, this) = state.rows.split_at_mut(row * words);
            let before = &before[(row - 1) * words..];
            if is_edit {
                this[..words].copy_from_slice(before);
                self.add_followers(before, &mut this[..words]);
            }
        }
        let accepting = |rows: &[u64]| {
            rows.chunks_exact(words).any(|row| row.iter().zip(&self.last).any(|(row, last)| row & last != 0))
        };
        for at in start..=text.len() {
            if accepting(&state.rows) {
                end(at);
            }
            if at == text.len() || state.rows.iter().all(|word| *word == 0) {
                break;
            }
            self.step(text[at], is_edit, limit, state);
        }
    }

    fn step(&self, letter: u8, is_edit: bool, limit: usize, state: &mut AutomatonState) {
        let words = self.words;
        let accepts = &self.accepts[usize::from(letter)];
        state.next.fill(0);
        for row in 0..=limit {
            let (done, next) = state.next.split_at_mut(row * words);
            let next = &mut next[..words];
            self.add_followers(&state.rows[row * words..(row + 1) * words], next);
            next.iter_mut().zip(accepts).for_each(|(next, accepts)| *next &= accepts);
            if row > 0 {
                let before = &state.rows[(row - 1) * words..row * words];
                // A replaced residue.
                self.add_followers(before, next);
                if is_edit {
                    // An inserted residue, and a deleted one.
                    next.iter_mut().zip(before).for_each(|(next, before)| *next |= before);
                    self.add_followers(&done[(row - 1) * words..], next);
                }
            }
        }
        std::mem::swap(&mut state.rows, &mut state.next);
    }
}
