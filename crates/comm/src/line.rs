//! Lines: talk of its own for something short-lived, such as an open file. Making a communicator takes meetings and new memory, so that one
//! that is done with is left beside the communicator it was made from, for the next.

use std::ops::Deref;

use crate::{Comm, Result};

/// So many are kept beside a communicator.
const SPARE: usize = 4;

/// A communicator of the same ranks as another, whose messages and collective calls never meet those of that one: as [`Comm::dup`] makes it, but
/// used again and again.
///
/// ```
/// use aqueduct_comm::{Launch, Line};
///
/// Launch::threads(3).run(|world| {
///     let line = Line::take(world)?;
///     let number = line.number();
///     line.barrier()?;
///     line.leave();
///     assert_eq!(Line::take(world)?.number(), number, "the same one again");
///     Ok::<(), aqueduct_comm::Error>(())
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
#[derive(Debug)]
pub struct Line {
    comm: Comm,
    beside: Comm,
}

/// One that waits for its next use.
struct Left(Comm);

impl Line {
    /// One that was left, if all ranks have it, or a new one. Collective; one meeting for one that was left.
    pub fn take(beside: &Comm) -> Result<Self> {
        let left = beside.unstow::<Left>().map(|left| left.0);
        let number = left.as_ref().map_or(0, Comm::number);
        let all =
            beside.allreduce_with(&[[number, number]], |[least, most], [other_least, other_most]| {
                *least = (*least).min(*other_least);
                *most = (*most).max(*other_most);
            })?;
        let same = all[0][0] == all[0][1];
        let comm = match left {
            Some(line) if same => line,
            // What one rank has, and another has not, is for a later time.
            Some(line) => {
                beside.stow(Left(line), SPARE);
                beside.dup()?
            }
            None => beside.dup()?,
        };
        Ok(Self { comm, beside: beside.clone() })
    }

    /// What it was made from.
    pub fn beside(&self) -> &Comm {
        &self.beside
    }

    /// Leaves it to the next one who takes one. Only after collective calls that have succeeded on all ranks: the next one goes on where they ended.
    pub fn leave(self) {
        self.beside.stow(Left(self.comm), SPARE);
    }
}

impl Deref for Line {
    type Target = Comm;

    fn deref(&self) -> &Comm {
        &self.comm
    }
}
