//! Functions defined by an executable, read from its ELF symbol table.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of the header of a file and of a section, in the format of 64 bits.
const FILE: usize = 64;
const SECTION: usize = 64;
/// Bytes of a symbol.
const SYMBOL: usize = 24;
/// The kind of section that holds all symbols, not only those for the loader.
const SYMBOLS: u32 = 2;
/// The largest table; a longer one means a damaged header.
const LONGEST: u64 = 1 << 32;

/// True if a program defines a function of this name. False for unreadable and stripped files.
pub(crate) fn defines_function(program: &Path, name: &str) -> bool {
    find_symbol(program, name).unwrap_or(false)
}

fn find_symbol(program: &Path, name: &str) -> Option<bool> {
    let file = File::open(program).ok()?;
    let header = bytes(&file, 0, FILE as u64)?;
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let (first, count) = (number(&header, 40, 8)?, number(&header, 60, 2)?);
    let section = |at: u64| bytes(&file, first.checked_add(at * SECTION as u64)?, SECTION as u64);
    let symbols = (0..count).filter_map(section).find(|one| number(one, 4, 4) == Some(SYMBOLS.into()))?;
    let names = section(number(&symbols, 40, 4)?)?;
    let (symbols, names) = (body(&file, &symbols)?, body(&file, &names)?);
    let is_it = |symbol: &[u8]| {
        let (named, home) = (number(symbol, 0, 4), number(symbol, 6, 2));
        // Section 0 means that the symbol is undefined.
        home != Some(0)
            && named.and_then(|at| names.get(at as usize..)).is_some_and(|text| {
                text.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0))
            })
    };
    Some(symbols.chunks_exact(SYMBOL).any(is_it))
}

/// What a section holds.
fn body(file: &File, section: &[u8]) -> Option<Vec<u8>> {
    bytes(file, number(section, 24, 8)?, number(section, 32, 8)?)
}

fn bytes(file: &File, at: u64, len: u64) -> Option<Vec<u8>> {
    if len > LONGEST.min(file.metadata().ok()?.len()) {
        return None;
    }
    let mut bytes = vec![0; len as usize];
    file.read_exact_at(&mut bytes, at).ok().map(|()| bytes)
}

/// A number of up to 8 bytes.
fn number(bytes: &[u8], at: usize, len: usize) -> Option<u64> {
    let mut word = [0; 8];
    word[..len].copy_from_slice(bytes.get(at..at + len)?);
    Some(u64::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_defines_its_own_functions_and_not_those_it_calls() {
        let program = std::env::current_exe().unwrap();
        assert!(defines_function(&program, "main"));
        assert!(!defines_function(&program, "mai"));
        assert!(!defines_function(&program, "pthread_create"));
    }

    #[test]
    fn files_that_are_not_executables_define_no_functions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("broken");
        for bytes in [&b""[..], b"\x7fELF\x02\x01", &[b"\x7fELF\x02\x01".as_slice(), &[0xff; 80]].concat()] {
            std::fs::write(&path, bytes).unwrap();
            assert!(!defines_function(&path, "MPI_File_open"));
        }
        assert!(!defines_function(Path::new("/nonexistent"), "MPI_File_open"));
    }
}
