//! A folder of files that the command is run on.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output};

pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    pub(crate) fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.0.path().join(name.as_ref())
    }

    /// The command with these words, in this folder.
    pub(crate) fn command(&self, words: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aqueduct"));
        command.args(words).current_dir(self.0.path());
        command
    }

    fn run(&self, words: &[impl AsRef<OsStr>]) -> (Output, String) {
        let output = self.command(words).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        let (shown, told) = (words.iter().map(AsRef::as_ref).collect::<Vec<_>>(), told.into_owned());
        assert!(!told.contains("panicked"), "{shown:?}: {told}");
        (output, format!("{shown:?}: {told}"))
    }

    /// What the command prints; it succeeds.
    pub(crate) fn said(&self, words: &[impl AsRef<OsStr>]) -> String {
        let (output, told) = self.run(words);
        assert!(output.status.success(), "{told}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What the command says of a file that is damaged, or of two that differ.
    pub(crate) fn denied(&self, words: &[impl AsRef<OsStr>]) -> String {
        self.ended(words, 1)
    }

    /// What the command says when it cannot do its work.
    pub(crate) fn refused(&self, words: &[impl AsRef<OsStr>]) -> String {
        self.ended(words, 2)
    }

    /// What the command says when it does not succeed.
    pub(crate) fn ended_badly(&self, words: &[impl AsRef<OsStr>]) -> String {
        let (output, told) = self.run(words);
        assert!(output.status.code().is_some_and(|code| code != 0), "{told}");
        told
    }

    fn ended(&self, words: &[impl AsRef<OsStr>], status: i32) -> String {
        let (output, told) = self.run(words);
        assert_eq!(output.status.code(), Some(status), "{told}");
        told
    }
}
