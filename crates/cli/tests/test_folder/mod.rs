//! A folder in which the command runs.
#![allow(dead_code, reason = "each test uses some of it")]

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output};

pub(crate) struct TestFolder(tempfile::TempDir);

impl TestFolder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap())
    }

    pub(crate) fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.0.path().join(name.as_ref())
    }

    /// The command with these arguments, in this folder.
    pub(crate) fn command(&self, words: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aqueduct"));
        command.args(words).current_dir(self.0.path());
        command
    }

    fn run(&self, words: &[impl AsRef<OsStr>]) -> (Output, String) {
        let output = self.command(words).output().unwrap();
        let message = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        let (shown, message) = (words.iter().map(AsRef::as_ref).collect::<Vec<_>>(), message.into_owned());
        assert!(!message.contains("panicked"), "{shown:?}: {message}");
        (output, format!("{shown:?}: {message}"))
    }

    /// Runs the command, which must succeed; returns its standard output.
    pub(crate) fn succeed(&self, words: &[impl AsRef<OsStr>]) -> String {
        let (output, message) = self.run(words);
        assert!(output.status.success(), "{message}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs the command, which must end with exit status 1 (a damaged file, or a difference); returns its output.
    pub(crate) fn exit_1(&self, words: &[impl AsRef<OsStr>]) -> String {
        self.exit(words, 1)
    }

    /// Runs the command, which must end with exit status 2 (an error); returns its output.
    pub(crate) fn exit_2(&self, words: &[impl AsRef<OsStr>]) -> String {
        self.exit(words, 2)
    }

    /// Runs the command, which must fail; returns its output.
    pub(crate) fn fail(&self, words: &[impl AsRef<OsStr>]) -> String {
        let (output, message) = self.run(words);
        assert!(output.status.code().is_some_and(|code| code != 0), "{message}");
        message
    }

    fn exit(&self, words: &[impl AsRef<OsStr>], status: i32) -> String {
        let (output, message) = self.run(words);
        assert_eq!(output.status.code(), Some(status), "{message}");
        message
    }
}
