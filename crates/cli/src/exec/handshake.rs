//! The records that the preloaded library writes in each process, and what they say about the run.

use std::ffi::OsString;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

/// The number of random names that are tried.
const ATTEMPTS: usize = 100;

/// The file of the records.
pub(super) struct HandshakeFile(PathBuf);

impl HandshakeFile {
    pub(super) fn new() -> Result<Self> {
        Self::new_in(
            &std::env::temp_dir(),
            std::iter::repeat_with(|| RandomState::new().hash_one(0)).take(ATTEMPTS),
        )
    }

    /// Creates the file with the first of these numbers that is free. A file may be left of a command that was killed.
    fn new_in(folder: &Path, numbers: impl IntoIterator<Item = u64>) -> Result<Self> {
        let mut outcome = Err(anyhow!("no free name for a file in {}", folder.display()));
        for number in numbers {
            let path = folder.join(format!("aqueduct-notes-{number:016x}"));
            // New and private: an existing link of that name could lead to another file.
            match File::options().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(_) => return Ok(Self(path)),
                Err(error) => {
                    let taken = error.kind() == ErrorKind::AlreadyExists;
                    outcome = Err(error).with_context(|| format!("creating {}", path.display()));
                    if !taken {
                        break;
                    }
                }
            }
        }
        outcome
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Whether the library was loaded and used; otherwise the reason and the remedy.
    pub(super) fn effect(&self, command: &[OsString]) -> LibraryEffect {
        let notes = std::fs::read_to_string(&self.0).unwrap_or_default();
        let verdict = interpret(&notes);
        let in_front = matches!(verdict, PreloadOutcome::Used | PreloadOutcome::NoFile);
        let line = match verdict {
            PreloadOutcome::Used => "the library took effect: it handled files of the program".to_owned(),
            PreloadOutcome::NoFile => {
                "the library was loaded, but no process on this machine opened a file through MPI".to_owned()
            }
            PreloadOutcome::Static(program) => format!(
                "the library took no effect: {program} is linked statically with MPI; link it with the shared MPI library"
            ),
            PreloadOutcome::Shadowed(library) => format!(
                "the library took no effect: {library} precedes it; remove {library} from LD_PRELOAD, or put the library of aqueduct before it"
            ),
            PreloadOutcome::NoMpi(program) => format!(
                "the library took no effect on this machine: no process had a shared MPI library ({program} has none); if the command is an \
                 MPI program, link it with the shared MPI library"
            ),
            PreloadOutcome::NotLoaded => why_not_loaded(command),
        };
        LibraryEffect { in_front, line }
    }
}

/// The effect of the library in a run.
pub(super) struct LibraryEffect {
    /// Whether it is known to have taken effect.
    pub(super) in_front: bool,
    /// The effect as a sentence.
    pub(super) line: String,
}

impl Drop for HandshakeFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The meaning of the records.
#[derive(Debug, PartialEq, Eq)]
enum PreloadOutcome<'n> {
    Used,
    /// Loaded before MPI, but no process opened a file.
    NoFile,
    /// MPI is linked statically into this program.
    Static(&'n str),
    /// This library precedes it.
    Shadowed(&'n str),
    /// Loaded only into programs without MPI; the last of them.
    NoMpi(&'n str),
    NotLoaded,
}

/// One process without the library is decisive: all processes of a job must use the same MPI-IO.
fn interpret(notes: &str) -> PreloadOutcome<'_> {
    let last = |word: &str| notes.lines().rev().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    let any = |word: &str| notes.lines().any(|line| line.split(' ').next() == Some(word));
    if let Some(program) = last("static") {
        PreloadOutcome::Static(program)
    } else if let Some(library) = last("behind") {
        PreloadOutcome::Shadowed(library)
    } else if any("opened") {
        PreloadOutcome::Used
    } else if any("loaded") {
        PreloadOutcome::NoFile
    } else {
        last("present").map_or(PreloadOutcome::NotLoaded, PreloadOutcome::NoMpi)
    }
}

/// Why the loader did not load the library, as far as the programs in the command show it.
fn why_not_loaded(command: &[OsString]) -> String {
    let programs = command.iter().map(PathBuf::from).filter(|path| path.is_file());
    for program in programs {
        let shown = program.display();
        if has_no_loader(&program) {
            return format!(
                "the library took no effect: {shown} is linked statically, so no library can be preloaded; link it with the shared MPI \
                 library, without -static"
            );
        }
        if program.metadata().is_ok_and(|data| data.permissions().mode() & 0o6000 != 0) {
            return format!(
                "the library took no effect: {shown} runs as another user or group, for which the loader ignores LD_PRELOAD; \
                 remove the set-user-ID and set-group-ID bits (chmod ug-s)"
            );
        }
    }
    "it is not known whether the library took effect: no process of this machine loaded it; the ranks may run on other machines, or the \
     launcher may not pass LD_PRELOAD on: set it with the option of the launcher for variables"
        .to_owned()
}

/// Whether a file is a program that needs no loader (statically linked).
fn has_no_loader(program: &Path) -> bool {
    /// The type of the ELF segment that names the loader.
    const LOADER: u32 = 3;
    let mut head = Vec::new();
    let read = File::open(program).and_then(|file| file.take(4096).read_to_end(&mut head));
    if read.is_err() || !head.starts_with(b"\x7fELF\x02\x01") || head.len() < 64 {
        return false;
    }
    let (size, count) = (usize::from(head[54]), usize::from(u16::from_le_bytes([head[56], head[57]])));
    let mut segments = head[64..].chunks_exact(size.max(4)).take(count);
    !segments.any(|segment| segment.starts_with(&LOADER.to_le_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_without_the_library_is_decisive() {
        assert_eq!(interpret(""), PreloadOutcome::NotLoaded);
        assert_eq!(interpret("present /bin/sh\npresent /bin/true\n"), PreloadOutcome::NoMpi("/bin/true"));
        assert_eq!(interpret("present /bin/sh\nloaded\n"), PreloadOutcome::NoFile);
        assert_eq!(interpret("present /bin/sh\nloaded\nopened Open MPI\n"), PreloadOutcome::Used);
        assert_eq!(interpret("present /usr/bin/python3\nopened MPICH\n"), PreloadOutcome::Used);
        assert_eq!(
            interpret("loaded\nopened x\nbehind /lib/libmpi.so\n"),
            PreloadOutcome::Shadowed("/lib/libmpi.so")
        );
        assert_eq!(interpret("static /a/program\nloaded\n"), PreloadOutcome::Static("/a/program"));
    }

    #[test]
    fn a_leftover_file_is_skipped() {
        let folder = std::env::temp_dir().join(format!("aqueduct-notes-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let left = HandshakeFile::new_in(&folder, [1]).unwrap();
        let next = HandshakeFile::new_in(&folder, [1, 1, 2]).unwrap();
        assert_ne!(left.path(), next.path());
        let error = format!("{:#}", HandshakeFile::new_in(&folder, [1, 2]).err().unwrap());
        assert!(error.contains("creating") && error.contains("aqueduct-notes-0000000000000002"), "{error}");
        drop((left, next));
        std::fs::remove_dir(&folder).unwrap();
        let [one, other] = [(); 2].map(|()| HandshakeFile::new().unwrap());
        assert_ne!(one.path(), other.path());
    }

    #[test]
    fn only_static_programs_have_no_loader() {
        assert!(!has_no_loader(&std::env::current_exe().unwrap()));
        assert!(!has_no_loader(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))));
    }
}
