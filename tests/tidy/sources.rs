//! The files that the rules look at.

use std::fs;
use std::path::Path;
use std::process::Command;

/// A file of the repository.
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files that git tracks or would track, with one of these endings, except the rules themselves: they name what they forbid.
pub(crate) fn sources(endings: &[&str]) -> Vec<Source> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let listed =
        Command::new("git").args(arguments).current_dir(root()).output().expect("git lists the files");
    let listed = String::from_utf8(listed.stdout).expect("file names are UTF-8");
    let wanted =
        |path: &&str| endings.iter().any(|ending| path.ends_with(ending)) && *path != "tests/tidy/main.rs";
    let read = |path: &str| {
        Some(Source { path: path.to_owned(), text: fs::read_to_string(root().join(path)).ok()? })
    };
    let sources: Vec<Source> = listed.lines().filter(wanted).filter_map(read).collect();
    assert!(!sources.is_empty(), "no files end in {endings:?}");
    sources
}

pub(crate) fn is_rust(source: &Source) -> bool {
    Path::new(&source.path).extension().is_some_and(|extension| extension == "rs")
}

/// Rust files of libraries and programs, without their unit tests. Test suites and fuzz targets are left out.
pub(crate) fn library_sources() -> Vec<Source> {
    let mut sources = sources(&[".rs"]);
    sources.retain(|source| is_library(&source.path));
    for source in &mut sources {
        source.text.truncate(before_unit_tests(&source.text).len());
    }
    sources
}

/// The Rust text that [`library_sources`] leaves out: unit tests, test suites, examples and fuzz targets, without the rules themselves.
pub(crate) fn test_sources() -> Vec<Source> {
    let mut sources = sources(&[".rs"]);
    sources.retain(|source| !source.path.starts_with("tests/tidy/"));
    for source in sources.iter_mut().filter(|source| is_library(&source.path)) {
        source.text = source.text[before_unit_tests(&source.text).len()..].to_owned();
    }
    sources
}

fn is_library(path: &str) -> bool {
    let is_test = path
        .split('/')
        .map(|part| part.trim_end_matches(".rs"))
        .any(|part| ["test", "tests", "fuzz"].contains(&part));
    format!("/{path}").contains("/src/") && !is_test
}

/// The text up to its first unit-test module: `#[cfg(test)] mod name {`.
fn before_unit_tests(text: &str) -> &str {
    const MARK: &str = "#[cfg(test)]";
    let is_module = |at: usize| {
        let rest = text[at + MARK.len()..].trim_start().strip_prefix("mod ");
        rest.is_some_and(|rest| rest.trim_start_matches(is_word).starts_with(" {"))
    };
    let found = text.match_indices(MARK).map(|(at, _)| at).find(|at| is_module(*at));
    &text[..found.unwrap_or(text.len())]
}

/// Whether a letter can be a part of a word.
pub(crate) fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Fails with all complaints at once.
pub(crate) fn assert_none(complaints: impl IntoIterator<Item = String>) {
    let complaints: Vec<String> = complaints.into_iter().collect();
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn unit_tests_are_left_out() {
    let code = "struct A;\n#[cfg(test)]\nuse b;\n";
    assert_eq!(before_unit_tests(&format!("{code}#[cfg(test)]\nmod tests {{\n    struct B;\n}}\n")), code);
    assert_eq!(before_unit_tests(code), code);
}
