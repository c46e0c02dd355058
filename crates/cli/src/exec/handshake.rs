//! What the library leaves word of in the processes it is loaded into, and what that says about the run.

use std::ffi::OsString;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

/// Random names that are tried.
const ATTEMPTS: usize = 100;

/// A file in which the library leaves word.
pub(super) struct HandshakeFile(PathBuf);

impl HandshakeFile {
    pub(super) fn new() -> Result<Self> {
        Self::new_in(
            &std::env::temp_dir(),
            std::iter::repeat_with(|| RandomState::new().hash_one(0)).take(ATTEMPTS),
        )
    }

    /// With the first of these numbers that no file has: one may be left of a command that was killed, or belong to somebody else.
    fn new_in(folder: &Path, numbers: impl IntoIterator<Item = u64>) -> Result<Self> {
        let mut outcome = Err(anyhow!("there is no name for a file in {}", folder.display()));
        for number in numbers {
            let path = folder.join(format!("aqueduct-notes-{number:016x}"));
            // New and private: a link of that name would lead to another file.
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

    /// Whether the library was loaded and used; else why not, and what to do.
    pub(super) fn effect(&self, command: &[OsString]) -> LibraryEffect {
        let notes = std::fs::read_to_string(&self.0).unwrap_or_default();
        let verdict = interpret(&notes);
        let in_front = matches!(verdict, PreloadOutcome::Used | PreloadOutcome::NoFile);
        let line = match verdict {
            PreloadOutcome::Used => "the library served files of the program".to_owned(),
            PreloadOutcome::NoFile => {
                "the library was loaded, but no file was opened through MPI on this machine".to_owned()
            }
            PreloadOutcome::Static(program) => format!(
                "the library took no effect: {program} has MPI linked into it statically; link it with the shared MPI library"
            ),
            PreloadOutcome::Shadowed(library) => format!(
                "the library took no effect: {library} came before it; take {library} out of LD_PRELOAD, or name aqueduct's library before it"
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

/// What is known of the library after a run.
pub(super) struct LibraryEffect {
    /// Whether it is known to have been in front of MPI.
    pub(super) in_front: bool,
    /// The same for people.
    pub(super) line: String,
}

impl Drop for HandshakeFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// What the notes say.
#[derive(Debug, PartialEq, Eq)]
enum PreloadOutcome<'n> {
    Used,
    /// Loaded in front of MPI; nobody opened a file.
    NoFile,
    /// MPI is part of this program.
    Static(&'n str),
    /// This library is found first.
    Shadowed(&'n str),
    /// Loaded into programs without MPI; the last of them.
    NoMpi(&'n str),
    NotLoaded,
}

/// One process that ran without us is reason enough: a job is served whole or not at all.
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

/// Why the loader did not load us, as far as the files named in the command tell.
fn why_not_loaded(command: &[OsString]) -> String {
    let programs = command.iter().map(PathBuf::from).filter(|path| path.is_file());
    for program in programs {
        let shown = program.display();
        if has_no_loader(&program) {
            return format!(
                "the library took no effect: {shown} is linked statically, and no library can be put in front of it; link it with the shared MPI \
                 library, without -static"
            );
        }
        if program.metadata().is_ok_and(|data| data.permissions().mode() & 0o6000 != 0) {
            return format!(
                "the library took no effect: {shown} runs as another user or group, for which the loader ignores LD_PRELOAD; take the bit off (chmod ug-s)"
            );
        }
    }
    "it is not known whether the library took effect: no process of this machine loaded it, the ranks may run on other machines; the \
     launcher may not pass LD_PRELOAD on: set it by the launcher's own option for variables"
        .to_owned()
}

/// Whether a file is a program that starts without the loader.
fn has_no_loader(program: &Path) -> bool {
    /// The kind of segment that names the loader.
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
    fn one_process_without_us_is_reason_enough() {
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
    fn a_file_that_is_left_over_is_no_obstacle() {
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
    fn a_test_needs_the_loader_and_a_text_is_no_program() {
        assert!(!has_no_loader(&std::env::current_exe().unwrap()));
        assert!(!has_no_loader(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))));
    }
}
