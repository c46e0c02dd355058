//! The errors of steps: those of a part of an array, and their combination in the order of the parts. Pure.

use aqueduct::object::Object;

use super::norms::{StepErrors, StepNorms};

/// The number of steps, and of those whose error is above the relative tolerance, in each norm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Object)]
pub(super) struct StepCounts {
    pub(super) all: u64,
    pub(super) frobenius: u64,
    pub(super) infinity: u64,
}

impl StepCounts {
    pub(super) fn add(&mut self, more: Self) {
        self.all += more.all;
        self.frobenius += more.frobenius;
        self.infinity += more.infinity;
    }
}

impl std::fmt::Display for StepCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { all, frobenius, infinity } = self;
        write!(f, "above the threshold in {frobenius} of {all} steps (Frobenius) and {infinity} (infinity)")
    }
}

/// The steps so far, and the one with the greatest error.
#[derive(Clone, Debug, Default, PartialEq, Object)]
pub(super) struct WorstStep {
    pub(super) counts: StepCounts,
    /// The greatest error, and its step.
    pub(super) frobenius: (f64, u64),
    pub(super) infinity: (f64, u64),
}

impl WorstStep {
    /// Adds the next step.
    pub(super) fn end_step(&mut self, errors: StepErrors, threshold: f64) {
        let step = self.counts.all;
        self.counts.add(StepCounts {
            all: 1,
            frobenius: u64::from(errors.frobenius > threshold),
            infinity: u64::from(errors.infinity > threshold),
        });
        keep_greater(&mut self.frobenius, (errors.frobenius, step));
        keep_greater(&mut self.infinity, (errors.infinity, step));
    }

    /// Adds the steps that follow.
    fn append(&mut self, next: &Self) {
        let moved = |(error, step): (f64, u64)| (error, step + self.counts.all);
        let (frobenius, infinity) = (moved(next.frobenius), moved(next.infinity));
        keep_greater(&mut self.frobenius, frobenius);
        keep_greater(&mut self.infinity, infinity);
        self.counts.add(next.counts);
    }
}

fn keep_greater(worst: &mut (f64, u64), next: (f64, u64)) {
    if next.0 > worst.0 {
        *worst = next;
    }
}

/// The steps of a part of an array: the rest of a step that began before, whole steps, and the beginning of a step.
#[derive(Debug, Default, Object)]
pub(super) struct PartSteps {
    pub(super) head: Option<StepNorms>,
    /// Whether the step of the head ends in the part.
    pub(super) ends_head: bool,
    pub(super) whole: WorstStep,
    /// The errors of the whole steps, if they are listed.
    pub(super) listed: Vec<StepErrors>,
    pub(super) tail: Option<StepNorms>,
}

/// The steps of the parts so far.
#[derive(Default)]
pub(super) struct StepSequence {
    pub(super) worst: WorstStep,
    open: Option<StepNorms>,
}

impl StepSequence {
    /// Adds the steps of the next part; the errors of the steps that have ended go to `listed`, if they are listed.
    pub(super) fn append(
        &mut self,
        part: PartSteps,
        threshold: f64,
        listed: &mut Vec<StepErrors>,
        list: bool,
    ) {
        if let Some(head) = part.head {
            match &mut self.open {
                Some(open) => open.merge(&head),
                None => self.open = Some(head),
            }
            if part.ends_head
                && let Some(step) = self.open.take()
            {
                let errors = step.errors();
                self.worst.end_step(errors, threshold);
                if list {
                    listed.push(errors);
                }
            }
        }
        self.worst.append(&part.whole);
        listed.extend(part.listed);
        self.open = part.tail.or(self.open.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn norms(error: f64) -> StepNorms {
        let mut norms = StepNorms::default();
        norms.add([&[1.0], &[1.0 + error]], &[error], 1);
        norms
    }

    #[test]
    fn a_step_in_three_parts_counts_once() {
        let mut whole = WorstStep::default();
        whole.end_step(StepErrors { frobenius: 0.1, infinity: 0.5 }, 0.2);
        let parts = [
            PartSteps { whole: whole.clone(), tail: Some(norms(0.0)), ..PartSteps::default() },
            PartSteps { head: Some(norms(3.0)), ..PartSteps::default() },
            PartSteps { head: Some(norms(0.0)), ends_head: true, whole, ..PartSteps::default() },
        ];
        let (mut all, mut listed) = (StepSequence::default(), Vec::new());
        parts.into_iter().for_each(|part| all.append(part, 0.2, &mut listed, true));
        assert_eq!(all.worst.counts, StepCounts { all: 3, frobenius: 1, infinity: 3 });
        assert_eq!((all.worst.frobenius.1, all.worst.infinity.1), (1, 1));
        assert!((all.worst.infinity.0 - 3.0).abs() < 1e-15 && listed.len() == 1);
    }
}
