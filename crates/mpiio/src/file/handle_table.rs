//! Handles of open files: an address that programs keep, a small number in Fortran.
//!
//! A handle is the address of an element of one array, so that any value a program passes can be checked without dereferencing it.

use std::sync::{Arc, PoisonError, RwLock};

use crate::file::MpiFile;

/// The most open files: more than the usual limit of descriptors.
const CELLS: usize = 1 << 16;

/// Nothing is stored here; only the addresses are used.
static ADDRESSES: [u64; CELLS] = [0; CELLS];

static OPEN: RwLock<Vec<Option<Arc<MpiFile>>>> = RwLock::new(Vec::new());

/// The handle of element `place`.
fn address(place: usize) -> usize {
    (&raw const ADDRESSES[place]) as usize
}

/// The element of a handle.
fn place(handle: usize) -> Option<usize> {
    let from_start = handle.checked_sub(address(0))?;
    let place = from_start / size_of::<u64>();
    (from_start.is_multiple_of(size_of::<u64>()) && place < CELLS).then_some(place)
}

/// Stores a file and returns its handle; none if all handles are in use.
pub(crate) fn insert(file: impl FnOnce(usize) -> MpiFile) -> Option<usize> {
    let mut open = OPEN.write().unwrap_or_else(PoisonError::into_inner);
    let free = open.iter().position(Option::is_none).unwrap_or(open.len());
    if free >= CELLS {
        return None;
    }
    if free == open.len() {
        open.push(None);
    }
    let handle = address(free);
    open[free] = Some(Arc::new(file(handle)));
    Some(handle)
}

/// The file of a handle; none if it is closed or invalid.
pub(crate) fn find(handle: usize) -> Option<Arc<MpiFile>> {
    let place = place(handle)?;
    OPEN.read().unwrap_or_else(PoisonError::into_inner).get(place)?.clone()
}

/// Removes all files.
pub(crate) fn take_all() -> Vec<Arc<MpiFile>> {
    OPEN.write().unwrap_or_else(PoisonError::into_inner).iter_mut().filter_map(Option::take).collect()
}

/// Removes the file of a handle.
pub(crate) fn remove(handle: usize) -> Option<Arc<MpiFile>> {
    let place = place(handle)?;
    OPEN.write().unwrap_or_else(PoisonError::into_inner).get_mut(place)?.take()
}

/// The number of a handle in Fortran, from 1 up; 0 is no file there.
pub(crate) fn number(handle: usize) -> Option<i32> {
    place(handle).map(|place| place as i32 + 1)
}

/// The handle of a number of Fortran.
pub(crate) fn of_number(number: i32) -> Option<usize> {
    let place = usize::try_from(number.checked_sub(1)?).ok()?;
    (place < CELLS).then(|| address(place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fortran_numbers_and_handles_are_converted_both_ways() {
        for number in [1, 2, CELLS as i32] {
            assert_eq!(super::number(of_number(number).unwrap()), Some(number));
        }
        assert_eq!(of_number(0), None);
        assert_eq!(of_number(i32::MIN), None);
        assert_eq!(of_number(CELLS as i32 + 1), None);
    }

    #[test]
    fn invalid_handles_have_no_file() {
        for garbage in [0, 1, usize::MAX, address(0) + 1, address(0).wrapping_sub(8)] {
            assert!(find(garbage).is_none(), "{garbage:#x}");
        }
    }
}
