//! Regular expressions over residues as trees.

use super::alphabet::ResidueClass;

/// A regular expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// One letter of a class.
    Class(ResidueClass),
    /// One after the other. Without elements: the empty word.
    Sequence(Vec<Expression>),
    /// One of them.
    Alternatives(Vec<Expression>),
    /// The inner expression, repeated.
    Repeat {
        /// What is repeated.
        inner: Box<Expression>,
        /// At least so often.
        least: u32,
        /// At most so often; without: any number of times.
        most: Option<u32>,
    },
}

impl Expression {
    /// The expressions one after the other; nested sequences are made flat.
    pub fn sequence(parts: Vec<Self>) -> Self {
        let mut flat = Vec::with_capacity(parts.len());
        for part in parts {
            match part {
                Self::Sequence(inner) => flat.extend(inner),
                Self::Repeat { inner, least, most: Some(most) }
                    if least == most && least <= 64 && matches!(*inner, Self::Class(_)) =>
                {
                    flat.extend(std::iter::repeat_n(*inner, least as usize));
                }
                part => flat.push(part),
            }
        }
        if flat.len() == 1 { flat.remove(0) } else { Self::Sequence(flat) }
    }

    /// One of the expressions; alternatives of single letters become a class.
    pub fn alternatives(mut parts: Vec<Self>) -> Self {
        if parts.len() == 1 {
            return parts.remove(0);
        }
        let mut class = ResidueClass::default();
        for part in &parts {
            let Self::Class(letters) = part else { return Self::Alternatives(parts) };
            class = class.union(letters);
        }
        Self::Class(class)
    }

    /// The length of the shortest word.
    pub fn least_length(&self) -> usize {
        match self {
            Self::Class(_) => 1,
            Self::Sequence(parts) => parts.iter().map(Self::least_length).sum(),
            Self::Alternatives(parts) => parts.iter().map(Self::least_length).min().unwrap_or(0),
            Self::Repeat { inner, least, .. } => inner.least_length() * *least as usize,
        }
    }

    /// The length of the longest word; none if there is no limit.
    pub fn most_length(&self) -> Option<usize> {
        match self {
            Self::Class(_) => Some(1),
            Self::Sequence(parts) => parts.iter().map(Self::most_length).sum(),
            Self::Alternatives(parts) => {
                parts.iter().map(Self::most_length).try_fold(0, |most, part| Some(most.max(part?)))
            }
            Self::Repeat { inner, most, .. } => match (inner.most_length(), most) {
                (Some(0), _) => Some(0),
                (Some(length), Some(most)) => Some(length * *most as usize),
                _ => None,
            },
        }
    }

    /// The number of letters after repetitions are written out: the states of an automaton.
    pub fn positions(&self) -> usize {
        match self {
            Self::Class(_) => 1,
            Self::Sequence(parts) | Self::Alternatives(parts) => {
                parts.iter().fold(0, |sum, part| sum.saturating_add(part.positions()))
            }
            Self::Repeat { inner, least, most } => {
                inner.positions().saturating_mul(most.unwrap_or((*least).max(1)).max(1) as usize)
            }
        }
    }

    /// The expression of the reverse complements of all words.
    #[must_use]
    pub fn reverse_complement(&self) -> Self {
        let all = |parts: &[Self]| parts.iter().map(Self::reverse_complement).collect::<Vec<_>>();
        match self {
            Self::Class(class) => Self::Class(class.complement()),
            Self::Sequence(parts) => Self::Sequence(all(parts).into_iter().rev().collect()),
            Self::Alternatives(parts) => Self::Alternatives(all(parts)),
            Self::Repeat { inner, least, most } => {
                Self::Repeat { inner: Box::new(inner.reverse_complement()), least: *least, most: *most }
            }
        }
    }

    /// The classes, if every word has the same length and its letters are independent of one another.
    pub fn as_classes(&self) -> Option<Vec<ResidueClass>> {
        match self {
            Self::Class(class) => Some(vec![*class]),
            Self::Sequence(parts) => {
                parts.iter().try_fold(Vec::new(), |all, part| Some([all, part.as_classes()?].concat()))
            }
            Self::Alternatives(_) => None,
            Self::Repeat { inner, least, most } => {
                let fixed = *most == Some(*least) && *least as usize <= 1 << 12;
                fixed.then(|| Some(inner.as_classes()?.repeat(*least as usize)))?
            }
        }
    }
}
