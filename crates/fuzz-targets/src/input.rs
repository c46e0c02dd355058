//! Common functions of the targets: one rank that runs a decoder, files in memory, inputs of two files.

use std::fmt::Display;

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::{File, Kind, OpenOptions, Result};

/// Runs `job` on one rank. A panic of the job is a panic here.
pub(crate) fn run_rank<R: Send, E: Display>(job: impl Fn(&Comm) -> std::result::Result<R, E> + Sync) -> R {
    let run = |world: &Comm| job(world).map_err(|error| error.to_string());
    Launch::threads(1).run(run).unwrap_or_else(|error| panic!("{error}")).remove(0)
}

/// The bytes of a file.
pub(crate) fn load(world: &Comm, name: &str) -> Result<Vec<u8>> {
    let file = File::open(world, name)?;
    let mut bytes = vec![0; file.size()? as usize];
    file.at(0).read(&mut bytes)?;
    file.close()?;
    Ok(bytes)
}

/// Replaces the contents of a file.
pub(crate) fn store(world: &Comm, name: &str, bytes: &[u8]) -> Result<()> {
    let file = OpenOptions::new().read(true).write(true).create(true).open(world, name)?;
    file.set_size(0)?;
    file.at(0).write(bytes)?;
    file.close()
}

/// Removes files of an earlier run, if there are any.
pub(crate) fn remove_all(names: &[&str]) {
    for name in names {
        let _ = aqueduct_file::delete(name);
    }
}

/// Panics if the outcome is an error that does not name the file; returns whether it is a success.
pub(crate) fn check_named<R>(outcome: Result<R>, name: &str) -> bool {
    match outcome {
        Ok(_) => true,
        Err(error) => {
            let message = error.to_string();
            assert!(message.contains(name), "the message does not name {name}: {message}");
            false
        }
    }
}

/// As [`check_named`]; panics also if the error is not of one of these kinds.
pub(crate) fn check_kind<R>(outcome: Result<R>, name: &str, kinds: &[Kind]) -> bool {
    if let Err(error) = &outcome {
        assert!(kinds.contains(&error.kind()), "{:?}: {error}", error.kind());
    }
    check_named(outcome, name)
}

/// An input of two files: a byte of flags, the length of the first file in four bytes, the first file, the second file.
pub(crate) fn join(flags: u8, first: &[u8], second: &[u8]) -> Vec<u8> {
    let length = (first.len() as u32).to_le_bytes();
    [&[flags][..], &length, first, second].concat()
}

/// Flags and files of an input, whatever its bytes are.
pub(crate) fn split(input: &[u8]) -> (u8, &[u8], &[u8]) {
    let Some((&flags, rest)) = input.split_first() else { return (0, &[], &[]) };
    let Some((length, rest)) = rest.split_first_chunk() else { return (flags, rest, &[]) };
    let length = (u32::from_le_bytes(*length) as usize).min(rest.len());
    let (first, second) = rest.split_at(length);
    (flags, first, second)
}

/// The flag of an input whose checksums are corrected before it is decoded, so that the fields that they cover are decoded.
pub(crate) const CORRECT_SUMS: u8 = 1;

/// The eight bytes at `at` as a little-endian number; none beyond the end.
pub(crate) fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// Writes the CRC-32C of everything before the last four bytes into these.
pub(crate) fn seal(bytes: &mut [u8]) {
    if let Some(at) = bytes.len().checked_sub(4) {
        let sum = crc32c::crc32c(&bytes[..at]);
        bytes[at..].copy_from_slice(&sum.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_of_two_files_is_split_where_it_was_joined() {
        assert_eq!(split(&join(3, b"head", b"data")), (3, &b"head"[..], &b"data"[..]));
        assert_eq!(split(&[1, 200, 0, 0, 0, 7]), (1, &[7][..], &[][..]));
        assert_eq!(split(&[]), (0, &[][..], &[][..]));
    }
}
