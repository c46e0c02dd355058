//! What an output does with its file: create, replace or continue it. Pure.

use crate::wire::wire_struct;

/// What an output does with its file; the same on all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct OutputPlan {
    /// A file of the same name is replaced.
    pub(crate) replace: bool,
    /// The number of steps that the program will commit, if it is known.
    pub(crate) steps: Option<u64>,
    /// The file exists, and is continued with this step.
    pub(crate) resume_at: Option<u64>,
}

wire_struct!(OutputPlan { replace, steps, resume_at });
