//! Building trees: simplified where that loses nothing, so that one pattern of bytes mostly has one description.

use std::sync::Arc;

use super::overlap::{repeated_apart, spans_apart};
use super::{Basic, Facts, Kind, Problem, Tree, TreePart};

/// Parts of a mixture that are a few runs each are unrolled if that makes at most so many: walks take a row of runs in one go, and climb
/// through everything else.
const UNROLLED: u64 = 64;

/// A tree, and where its first data byte lies.
pub(crate) type Placed = (i64, Arc<Tree>);

impl Tree {
    /// `count` values of one kind; at least one.
    pub(crate) fn block(basic: Basic, count: u64) -> Result<Arc<Self>, Problem> {
        let facts = Facts::block(basic, count).ok_or(Problem::TooLarge)?;
        Self::new(Kind::Block { basic, count }, facts)
    }

    /// The tree `count` times (at least once), each `stride` further.
    pub(crate) fn repeat(child: &Arc<Self>, count: u64, stride: i64) -> Result<Arc<Self>, Problem> {
        if count == 1 {
            return Ok(Arc::clone(child));
        }
        let mut facts = child.facts.repeat(count, stride).ok_or(Problem::TooLarge)?;
        match child.kind {
            Kind::Block { basic, count: inner } if facts.dense() => return Self::block(basic, inner * count),
            Kind::Repeat { child: ref grandchild, count: inner, stride: step }
                if i128::from(stride) == i128::from(step) * i128::from(inner) =>
            {
                let count = inner.checked_mul(count).ok_or(Problem::TooLarge)?;
                return Self::repeat(grandchild, count, step);
            }
            _ => {}
        }
        facts.disjoint = facts.ascending() || repeated_apart(child, count, stride);
        Self::new(Kind::Repeat { child: Arc::clone(child), count, stride }, facts)
    }

    /// Blocks of the tree, given as offset and count of each; inside a block the copies are `step` apart.
    /// Empty blocks are left out; `None` if nothing is left.
    pub(crate) fn blocks(
        child: &Arc<Self>,
        step: i64,
        blocks: impl Iterator<Item = (i64, u64)>,
    ) -> Result<Option<Placed>, Problem> {
        let (mut offsets, mut counts) = (Vec::new(), Vec::<u64>::new());
        // Where a copy would lie that continues the last block.
        let mut next = None;
        for (offset, count) in blocks.filter(|&(_, count)| count > 0) {
            match counts.last_mut() {
                Some(last) if next == Some(i128::from(offset)) => {
                    *last = last.checked_add(count).ok_or(Problem::TooLarge)?;
                }
                _ => {
                    offsets.push(offset);
                    counts.push(count);
                }
            }
            next = Some(i128::from(offset) + i128::from(count) * i128::from(step));
        }
        let (Some(&origin), Some(&first)) = (offsets.first(), counts.first()) else {
            return Ok(None);
        };
        for offset in &mut offsets {
            *offset = offset.checked_sub(origin).ok_or(Problem::TooLarge)?;
        }
        let tree = if counts.iter().all(|&count| count == first) {
            Self::listed(&Self::repeat(child, first, step)?, offsets)?
        } else {
            Self::ragged(child, step, offsets, &counts)?
        };
        Ok(Some((origin, tree)))
    }

    /// The tree at each of these offsets, of which the first is 0.
    fn listed(child: &Arc<Self>, offsets: Vec<i64>) -> Result<Arc<Self>, Problem> {
        let stride = offsets.get(1).copied().unwrap_or_default();
        let regular = (0..).zip(&offsets).all(|(index, &at)| i128::from(at) == index * i128::from(stride));
        if regular {
            return Self::repeat(child, offsets.len() as u64, stride);
        }
        let mut facts = child.facts.clone();
        for &offset in &offsets[1..] {
            facts = facts.then(offset, &child.facts).ok_or(Problem::TooLarge)?;
        }
        let span = |&offset: &i64| (offset + child.facts.low, offset + child.facts.high);
        facts.disjoint =
            facts.ascending() || (child.facts.disjoint && spans_apart(offsets.iter().map(span).collect()));
        facts.depth = child.facts.depth + 1;
        facts.weight = child.facts.weight + 1 + offsets.len() as u64;
        Self::new(Kind::Listed { child: Arc::clone(child), offsets: offsets.into() }, facts)
    }

    /// Blocks of different length, of which the first is at offset 0.
    fn ragged(child: &Arc<Self>, step: i64, offsets: Vec<i64>, counts: &[u64]) -> Result<Arc<Self>, Problem> {
        let mut firsts = Vec::with_capacity(counts.len() + 1);
        firsts.push(0_u64);
        let mut facts: Option<Facts> = None;
        let mut spans = Vec::with_capacity(counts.len());
        let mut apart = true;
        for (&offset, &count) in offsets.iter().zip(counts) {
            let mut block = child.facts.repeat(count, step).ok_or(Problem::TooLarge)?;
            block.disjoint = block.ascending()
                || (child.facts.disjoint && count == 1)
                || repeated_apart(child, count, step);
            apart &= block.disjoint;
            facts = match facts {
                Some(before) => Some(before.then(offset, &block).ok_or(Problem::TooLarge)?),
                None => Some(block.clone()),
            };
            spans.push((offset + block.low, offset + block.high));
            firsts.push(firsts[firsts.len() - 1] + count);
        }
        let mut facts = facts.ok_or(Problem::TooLarge)?;
        facts.disjoint = facts.ascending() || (apart && spans_apart(spans));
        facts.depth = child.facts.depth + 1;
        facts.weight = child.facts.weight + 1 + 2 * offsets.len() as u64;
        let kind =
            Kind::Ragged { child: Arc::clone(child), step, offsets: offsets.into(), firsts: firsts.into() };
        Self::new(kind, facts)
    }

    /// Different trees at different places, in this order; `None` for an empty list.
    pub(crate) fn mixed(parts: &[Placed]) -> Result<Option<Placed>, Problem> {
        let parts = join_blocks(parts)?;
        let Some((origin, first)) = parts.first().cloned() else {
            return Ok(None);
        };
        if parts.iter().all(|(_, tree)| *tree == first) {
            let places = parts.iter().map(|&(offset, _)| (offset, 1));
            // The step never matters: a copy follows its predecessor only where it continues it.
            return Self::blocks(&first, first.facts.tail, places);
        }
        let parts = unrolled(parts)?;
        let mut grouped = Vec::new();
        for group in parts.chunk_by(|(at, tree), (next_at, next)| continues(*at, tree, *next_at, next)) {
            match group {
                [single] => grouped.push(single.clone()),
                all if all.len() == parts.len() => return Ok(Some((origin, Self::mixture(all)?))),
                several => grouped.push((several[0].0, Self::mixture(several)?)),
            }
        }
        Ok(Some((origin, Self::mixture(&grouped)?)))
    }

    /// The node of these parts, two or more.
    fn mixture(placed: &[Placed]) -> Result<Arc<Self>, Problem> {
        let origin = placed[0].0;
        let mut facts: Option<Facts> = None;
        let mut parts = Vec::with_capacity(placed.len());
        let (mut spans, mut apart) = (Vec::with_capacity(placed.len()), true);
        for (offset, tree) in placed {
            let offset = offset.checked_sub(origin).ok_or(Problem::TooLarge)?;
            let (start, first) = facts.as_ref().map_or((0, 0), |facts| (facts.size, facts.elements));
            facts = match facts {
                Some(before) => Some(before.then(offset, &tree.facts).ok_or(Problem::TooLarge)?),
                None => Some(tree.facts.clone()),
            };
            apart &= tree.facts.disjoint;
            spans.push((offset + tree.facts.low, offset + tree.facts.high));
            parts.push(TreePart { offset, start, first, tree: Arc::clone(tree) });
        }
        let mut facts = facts.ok_or(Problem::TooLarge)?;
        facts.disjoint = facts.ascending() || (apart && spans_apart(spans));
        facts.depth += 1;
        facts.weight = facts.weight.saturating_add(1 + parts.len() as u64);
        let flat = parts.iter().all(|part| part.tree.facts.dense());
        Self::new(Kind::Mixed { parts: parts.into(), flat }, facts)
    }
}

/// The same parts as single runs, if they are few.
fn unrolled(parts: Vec<Placed>) -> Result<Vec<Placed>, Problem> {
    let runs = parts.iter().map(|(_, tree)| tree.facts.runs).fold(0, u64::saturating_add);
    if runs > UNROLLED || parts.iter().all(|(_, tree)| tree.facts.dense()) {
        return Ok(parts);
    }
    let mut singles = Vec::with_capacity(runs as usize);
    for (at, tree) in &parts {
        for (offset, child) in children(tree) {
            if !child.facts.dense() {
                return Ok(parts);
            }
            singles.push((at.checked_add(offset).ok_or(Problem::TooLarge)?, Arc::clone(child)));
        }
    }
    Ok(singles)
}

/// What a tree is made of, and where; itself if it is one run, or ragged.
fn children(tree: &Arc<Tree>) -> Vec<(i64, &Arc<Tree>)> {
    match &tree.kind {
        _ if tree.facts.dense() => vec![(0, tree)],
        Kind::Block { .. } | Kind::Ragged { .. } => vec![(0, tree)],
        Kind::Repeat { child, count, stride } => {
            (0..*count as i64).map(|copy| (copy * stride, child)).collect()
        }
        Kind::Listed { child, offsets } => offsets.iter().map(|offset| (*offset, child)).collect(),
        Kind::Mixed { parts, .. } => parts.iter().map(|part| (part.offset, &part.tree)).collect(),
    }
}

/// Whether the second tree starts where the first one ends, and both are single runs.
fn continues(at: i64, tree: &Tree, next_at: i64, next: &Tree) -> bool {
    tree.facts.dense() && next.facts.dense() && at.checked_add(tree.facts.tail) == Some(next_at)
}

/// Joins neighbours that are values of one kind, one after the other.
fn join_blocks(parts: &[Placed]) -> Result<Vec<Placed>, Problem> {
    let mut joined: Vec<Placed> = Vec::with_capacity(parts.len());
    // Groups first, trees after: joining one by one would build a tree per member.
    let same = |(at, tree): &Placed, (next_at, next): &Placed| {
        continues(*at, tree, *next_at, next)
            && matches!((&tree.kind, &next.kind),
                (Kind::Block { basic, .. }, Kind::Block { basic: other, .. }) if basic == other)
    };
    for group in parts.chunk_by(same) {
        let (at, tree) = &group[0];
        let elements = group.iter().map(|(_, tree)| u128::from(tree.facts.elements)).sum::<u128>();
        match (&tree.kind, group.len()) {
            (Kind::Block { basic, .. }, 2..) => {
                let count = u64::try_from(elements).map_err(|_| Problem::TooLarge)?;
                joined.push((*at, Tree::block(*basic, count)?));
            }
            _ => joined.push((*at, Arc::clone(tree))),
        }
    }
    Ok(joined)
}
