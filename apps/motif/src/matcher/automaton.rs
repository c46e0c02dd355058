//! Position automata (Glushkov) of terms, simulated with sets of states as bits; up to `k` errors need `k + 1` sets
//! ([Wu and Manber 1992](https://doi.org/10.1145/135239.135244)).

use super::work_meter::WorkMeter;
use crate::query::{ErrorModel, Expression, ResidueClass};

/// The automaton of a term. State 0 is the start; state `i` is: letter `i` of the written-out expression was read.
#[derive(Clone, Debug)]
pub(crate) struct TermAutomaton {
    errors: ErrorModel,
    words: usize,
    /// For each state, the states that may follow.
    follow: Vec<StateSet>,
    /// For each letter of the alphabet, the states that it may lead to.
    accepts: Vec<StateSet>,
    last: StateSet,
}

/// The sets of states of a simulation; kept, so that a search does not allocate.
#[derive(Clone, Debug, Default)]
pub(crate) struct AutomatonState {
    pub(crate) rows: Vec<u64>,
    next: Vec<u64>,
}

impl AutomatonState {
    /// Whether no part can match any more.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.iter().all(|word| *word == 0)
    }
}

/// A set of states.
type StateSet = Vec<u64>;

/// The first and the last states of an expression, and whether it has the empty word.
struct Fragment {
    first: StateSet,
    last: StateSet,
    nullable: bool,
}

/// Builds an automaton. Sets of states are bits, so that memory is bounded by the square of the number of states.
struct AutomatonBuilder {
    words: usize,
    classes: Vec<ResidueClass>,
    follow: Vec<StateSet>,
}

fn add_all(into: &mut [u64], from: &[u64]) {
    into.iter_mut().zip(from).for_each(|(into, from)| *into |= from);
}

fn members(set: &[u64]) -> impl Iterator<Item = usize> + '_ {
    set.iter().enumerate().flat_map(|(word, bits)| {
        let mut bits = *bits;
        std::iter::from_fn(move || {
            let lowest = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
            bits &= bits - 1;
            Some(word * 64 + lowest)
        })
    })
}

impl AutomatonBuilder {
    fn empty(&self) -> Fragment {
        Fragment { first: vec![0; self.words], last: vec![0; self.words], nullable: true }
    }

    fn connect(&mut self, last: &[u64], first: &[u64]) {
        members(last).for_each(|from| add_all(&mut self.follow[from], first));
    }

    fn join(&mut self, mut left: Fragment, mut right: Fragment) -> Fragment {
        self.connect(&left.last, &right.first);
        if left.nullable {
            add_all(&mut left.first, &right.first);
        }
        if right.nullable {
            add_all(&mut right.last, &left.last);
        }
        Fragment { first: left.first, last: right.last, nullable: left.nullable && right.nullable }
    }

    fn build(&mut self, expression: &Expression) -> Fragment {
        match expression {
            Expression::Class(class) => {
                self.classes.push(*class);
                let state = self.classes.len();
                let mut set = vec![0; self.words];
                set[state / 64] |= 1 << (state % 64);
                Fragment { first: set.clone(), last: set, nullable: false }
            }
            Expression::Sequence(parts) => parts.iter().fold(self.empty(), |left, part| {
                let right = self.build(part);
                self.join(left, right)
            }),
            Expression::Alternatives(parts) => {
                let mut all = Fragment { nullable: false, ..self.empty() };
                for part in parts {
                    let part = self.build(part);
                    add_all(&mut all.first, &part.first);
                    add_all(&mut all.last, &part.last);
                    all.nullable |= part.nullable;
                }
                all
            }
            Expression::Repeat { inner, least, most } => {
                let copies = most.unwrap_or((*least).max(1));
                let mut all = self.empty();
                for copy in 1..=copies {
                    let mut part = self.build(inner);
                    if most.is_none() && copy == copies {
                        self.connect(&part.last, &part.first);
                    }
                    part.nullable |= copy > *least;
                    all = self.join(all, part);
                }
                all
            }
        }
    }
}

impl TermAutomaton {
    pub(crate) fn new(expression: &Expression, errors: ErrorModel) -> Self {
        let states = expression.positions() + 1;
        let words = states.div_ceil(64);
        let follow = vec![vec![0; words]; states];
        let mut builder = AutomatonBuilder { words, classes: Vec::new(), follow };
        let whole = builder.build(expression);
        let AutomatonBuilder { classes, mut follow, .. } = builder;
        let leads = |letter: u8| {
            let mut set = vec![0u64; words];
            let matching = classes.iter().enumerate().filter(|(_, class)| class.contains(letter));
            matching.for_each(|(at, _)| set[(at + 1) / 64] |= 1 << ((at + 1) % 64));
            set
        };
        let accepts = (0..=255).map(leads).collect();
        follow[0] = whole.first;
        let mut last = whole.last;
        last[0] |= u64::from(whole.nullable);
        Self { errors, words, follow, accepts, last }
    }

    /// Adds the followers of the states of `from` to `into`.
    fn add_followers(&self, from: &[u64], into: &mut [u64]) {
        members(from).for_each(|state| add_all(into, &self.follow[state]));
    }

    /// The states before the first letter.
    pub(crate) fn start(&self, state: &mut AutomatonState) {
        let (words, limit) = (self.words, self.errors.limit() as usize);
        let size = words * (limit + 1);
        state.rows.clear();
        state.rows.resize(size, 0);
        state.next.clear();
        state.next.resize(size, 0);
        state.rows[0] = 1;
        if !matches!(self.errors, ErrorModel::Edit(_)) {
            return;
        }
        for row in 1..=limit {
            let (before, this) = state.rows.split_at_mut(row * words);
            let before = &before[(row - 1) * words..];
            this[..words].copy_from_slice(before);
            self.add_followers(before, &mut this[..words]);
        }
    }

    /// Whether the letters so far are a part that matches.
    pub(crate) fn accepts_now(&self, state: &AutomatonState) -> bool {
        let accepts = |row: &[u64]| row.iter().zip(&self.last).any(|(row, last)| row & last != 0);
        state.rows.chunks_exact(self.words).any(accepts)
    }

    /// Calls `end` with the end of each part that starts at `start`, shortest first.
    pub(crate) fn ends(
        &self,
        text: &[u8],
        start: usize,
        state: &mut AutomatonState,
        meter: &mut WorkMeter,
        mut end: impl FnMut(usize),
    ) {
        self.start(state);
        // Each row has up to 64 states per word; a part of them are active.
        let work = (state.rows.len() * self.words * 8) as u64;
        for at in start..=text.len() {
            if self.accepts_now(state) {
                end(at);
            }
            if at == text.len() || state.is_empty() || !meter.add(work) {
                break;
            }
            self.step(text[at], state);
        }
    }

    /// Reads a letter.
    pub(crate) fn step(&self, letter: u8, state: &mut AutomatonState) {
        let (words, limit) = (self.words, self.errors.limit() as usize);
        let is_edit = matches!(self.errors, ErrorModel::Edit(_));
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
