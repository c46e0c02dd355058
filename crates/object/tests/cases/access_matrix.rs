//! The access methods of MPI-IO for objects: each position, independent and collective, blocking, non-blocking and split, read and write.

use aqueduct_comm::{Comm, Op};
use aqueduct_file::Whence;
use aqueduct_object::{Error, ObjectAccess, ObjectFile};

use super::files::{Numbered, some};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    Explicit,
    Individual,
    Shared,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completion {
    Blocking,
    NonBlocking,
    Split,
}

/// An access method.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Method {
    position: Position,
    collective: bool,
    completion: Completion,
}

/// All methods of MPI-IO. At the shared pointer the collective ones are the ordered ones; the split form is collective only.
pub(crate) fn methods() -> Vec<Method> {
    let mut methods = Vec::new();
    for position in [Position::Explicit, Position::Individual, Position::Shared] {
        for collective in [false, true] {
            for completion in [Completion::Blocking, Completion::NonBlocking, Completion::Split] {
                if collective || completion != Completion::Split {
                    methods.push(Method { position, collective, completion });
                }
            }
        }
    }
    methods
}

impl Method {
    /// True if the order of the ranks is not defined.
    fn is_unordered(self) -> bool {
        self.position == Position::Shared && !self.collective
    }

    fn access<T: Numbered>(self, file: &ObjectFile<T>, first: u64) -> Result<ObjectAccess<'_, T>, Error> {
        let access = match self.position {
            Position::Explicit => file.at(first),
            Position::Individual => {
                file.seek(first as i64, Whence::Start)?;
                file.at_pointer()
            }
            Position::Shared => file.shared(),
        };
        Ok(access)
    }

    fn write<T: Numbered>(self, file: &ObjectFile<T>, first: u64, objects: &[T]) -> Result<(), Error> {
        let (access, owned) = (self.access(file, first)?, objects.to_vec());
        match (self.collective, self.completion) {
            (false, Completion::Blocking) => assert_eq!(access.write(objects)?, objects.len() as u64),
            (true, Completion::Blocking) => assert_eq!(access.all().write(objects)?, objects.len() as u64),
            (false, _) => assert_eq!(access.start_write(owned)?.wait()?, objects),
            (true, Completion::NonBlocking) => assert_eq!(access.all().start_write(owned)?.wait()?, objects),
            (true, Completion::Split) => assert_eq!(access.all().begin_write(owned)?.end()?, objects),
        }
        Ok(())
    }

    fn read<T: Numbered>(self, file: &ObjectFile<T>, first: u64, count: u64) -> Result<Vec<T>, Error> {
        let access = self.access(file, first)?;
        match (self.collective, self.completion) {
            (false, Completion::Blocking) => access.read_vec(count),
            (true, Completion::Blocking) => access.all().read_vec(count),
            (false, _) => access.start_read(count)?.wait(),
            (true, Completion::NonBlocking) => access.all().start_read(count)?.wait(),
            (true, Completion::Split) => access.all().begin_read(count)?.end(),
        }
    }
}

/// Writes by one method, reads what it wrote, then reads by the same method. Rank `r` has `r + 2` objects in each of two calls.
pub(crate) fn write_and_read<T: Numbered>(world: &Comm, name: &str, method: Method) -> Result<(), Error> {
    let mine = world.rank() as u64 + 2;
    let before = world.exclusive_scan(Op::Sum, &[mine])?.map_or(0, |before| before[0]);
    let total = world.allreduce_one(Op::Sum, mine)?;
    let file = ObjectFile::<T>::replace(world, name)?;
    for round in 0..2 {
        let first = round * total + before;
        method.write(&file, first, &some(first..first + mine))?;
        // The next round begins after the objects that all ranks have written in this one.
        world.barrier()?;
    }
    assert_eq!(file.position_shared()?, if method.position == Position::Shared { 2 * total } else { 0 });
    file.close()?;

    let file = ObjectFile::<T>::open(world, name)?;
    let (all, stored) = (some::<T>(0..2 * total), file.at(0).read_vec(2 * total + 1)?);
    for round in 0..2 {
        let range = (round * total) as usize..((round + 1) * total) as usize;
        let (expected, stored) = (&all[range.clone()], &stored[range]);
        let present = |object: &T| stored.iter().filter(|other| *other == object).count() == 1;
        assert!(expected.iter().all(present), "{method:?}: an object is missing or there twice");
        assert!(method.is_unordered() || expected == stored, "{method:?}: {stored:?}");
    }
    for round in 0..2 {
        let first = round * total + before;
        let read = method.read(&file, first, mine)?;
        let expected = &stored[first as usize..(first + mine) as usize];
        let consecutive = || stored.windows(mine as usize).any(|window| *window == read[..]);
        assert!(
            if method.is_unordered() { consecutive() } else { *expected == read[..] },
            "{method:?}: {read:?}"
        );
        world.barrier()?;
    }
    file.close()
}
