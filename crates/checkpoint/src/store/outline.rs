//! The properties of a checkpoint that must be the same on all ranks, and differences between two ranks. No I/O.

use serde::{Deserialize, Serialize};

use super::part::Checkpoint;

/// The properties of a rank's checkpoint that must be the same on all ranks.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CheckpointOutline {
    step: u64,
    parts: Vec<PartOutline>,
}

/// A part: its name, and named properties, the first of which is its kind.
#[derive(Debug, Serialize, Deserialize)]
struct PartOutline {
    name: String,
    properties: Vec<(String, String)>,
}

/// The number of characters of a property that a message shows.
const SHOWN: usize = 60;

impl CheckpointOutline {
    pub(super) fn of(checkpoint: &Checkpoint<'_>) -> Self {
        let parts = checkpoint.parts.iter().map(|(name, part)| {
            let properties = part.properties().into_iter().map(|(key, text)| (key.to_owned(), text));
            PartOutline { name: name.clone(), properties: properties.collect() }
        });
        Self { step: checkpoint.step, parts: parts.collect() }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The first difference between this rank's checkpoint and that of rank 0.
    pub(super) fn difference(&self, first: &[u8]) -> Option<String> {
        let first: Self = serde_json::from_slice(first).ok()?;
        if self.step != first.step {
            return Some(format!("the step is {} on this rank and {} on rank 0", self.step, first.step));
        }
        for (number, (mine, other)) in (1..).zip(self.parts.iter().zip(&first.parts)) {
            if mine.name != other.name {
                let (mine, other) = (&mine.name, &other.name);
                return Some(format!("part {number} is {mine:?} on this rank and {other:?} on rank 0"));
            }
            let pairs = mine.properties.iter().zip(&other.properties);
            if let Some(((key, mine_is), (_, other_is))) =
                pairs.into_iter().find(|(mine, other)| mine != other)
            {
                let (mine_is, other_is) = excerpts(mine_is, other_is);
                let name = &mine.name;
                return Some(format!(
                    "part {name:?}: its {key} is {mine_is} on this rank and {other_is} on rank 0"
                ));
            }
        }
        let count = self.parts.len().min(first.parts.len());
        let more = |parts: &[PartOutline]| parts.get(count).map(|part| part.name.clone());
        match (more(&self.parts), more(&first.parts)) {
            (Some(name), _) => Some(format!("part {name:?} is missing on rank 0")),
            (_, Some(name)) => Some(format!("part {name:?} of rank 0 is missing on this rank")),
            _ => None,
        }
    }
}

/// Excerpts of both texts from their first difference on.
fn excerpts(one: &str, other: &str) -> (String, String) {
    let same = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    let from =
        if one.chars().count().max(other.chars().count()) > SHOWN { same.saturating_sub(10) } else { 0 };
    let excerpt = |text: &str| {
        let shown: String = text.chars().skip(from).take(SHOWN).collect();
        let before = if from > 0 { "…" } else { "" };
        let after = if text.chars().count() > from + SHOWN { "…" } else { "" };
        format!("{before}{shown}{after}")
    };
    (excerpt(one), excerpt(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ArrayBlock;

    #[test]
    fn the_first_difference_of_two_checkpoints_is_named() {
        let make = |fill: &dyn Fn(&mut Checkpoint<'static>)| {
            let mut checkpoint = Checkpoint::new(7);
            fill(&mut checkpoint);
            CheckpointOutline::of(&checkpoint)
        };
        let first =
            make(&|c| _ = c.value("t", &1.5_f64).array("a", &ArrayBlock::new([4], [0], [4]), &[0_u8; 4]));
        let difference = |fill: &dyn Fn(&mut Checkpoint<'static>)| make(fill).difference(&first.encode());
        assert_eq!(
            difference(
                &|c| _ = c.value("t", &1.5_f64).array("a", &ArrayBlock::new([4], [0], [4]), &[0_u8; 4])
            ),
            None
        );
        let shape = difference(&|c| {
            _ = c.value("t", &1.5_f64).array("a", &ArrayBlock::new([5], [0], [4]), &[0_u8; 4]);
        });
        assert_eq!(shape.unwrap(), "part \"a\": its shape is [5] on this rank and [4] on rank 0");
        assert_eq!(
            difference(&|c| _ = c.value("t", &2_f64)).unwrap(),
            "part \"t\": its value is 2.0 on this rank and 1.5 on rank 0"
        );
        let other = difference(&|c| _ = c.value("t", &1_u8)).unwrap();
        assert_eq!(other, "part \"t\": its type is u8 on this rank and f64 on rank 0");
        let other = difference(&|c| _ = c.objects("t", &[1_f64])).unwrap();
        assert_eq!(other, "part \"t\": its kind is objects on this rank and value on rank 0");
        assert_eq!(
            difference(&|c| _ = c.value("u", &1_u8)).unwrap(),
            "part 1 is \"u\" on this rank and \"t\" on rank 0"
        );
        assert_eq!(
            difference(&|c| _ = c.value("t", &1.5_f64)).unwrap(),
            "part \"a\" of rank 0 is missing on this rank"
        );
        let empty = CheckpointOutline { step: 8, parts: Vec::new() };
        assert_eq!(empty.difference(&first.encode()).unwrap(), "the step is 8 on this rank and 7 on rank 0");
    }

    #[test]
    fn long_values_are_shown_from_their_first_difference_on() {
        let (one, other) = excerpts(&format!("{}x", "a".repeat(100)), &format!("{}y", "a".repeat(100)));
        assert_eq!((one.as_str(), other.as_str()), ("…aaaaaaaaaax", "…aaaaaaaaaay"));
    }
}
