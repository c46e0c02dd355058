//! Words that were replaced by terms of the field do not come back.

use crate::sources::{is_word, library_sources, sources, test_sources};

/// Words that were replaced.
const REPLACED: &[&str] = &[
    "told",
    "tells",
    "meeting",
    "meetings",
    "purse",
    "helm",
    "desk",
    "courtesy",
    "dealt out",
    "the c door",
    "human door",
    "coming back",
    "judge",
    "judges",
    "judged",
    "mend",
    "mended",
    "mends",
    "behind it",
    "behind them",
    "behind every",
    "behind one another",
];

/// How often the words occur in a text, as whole words, in capital or small letters.
fn occurrences(text: &str) -> usize {
    let text = text.to_lowercase();
    let is_whole = |at: usize, word: &str| {
        !text[..at].ends_with(is_word) && !text[at + word.len()..].starts_with(is_word)
    };
    let count = |word: &&str| text.match_indices(*word).filter(|(at, word)| is_whole(*at, word)).count();
    REPLACED.iter().map(count).sum()
}

/// The number of occurrences and the files with most of them.
fn count(texts: impl IntoIterator<Item = (String, String)>) -> (usize, Vec<(usize, String)>) {
    let mut files: Vec<(usize, String)> = texts
        .into_iter()
        .map(|(path, text)| (occurrences(&text), path))
        .filter(|(count, _)| *count > 0)
        .collect();
    files.sort_by(|one, other| other.cmp(one));
    let total = files.iter().map(|(count, _)| count).sum();
    files.truncate(20);
    (total, files)
}

#[test]
fn documents_use_the_words_of_the_field() {
    let documents = sources(&[".md"]).into_iter().filter(|source| !source.path.starts_with("docs/decisions"));
    let (total, files) = count(documents.map(|source| (source.path, source.text)));
    assert_eq!(total, 0, "replaced words; reword: {files:?}");
}

#[test]
fn sources_use_the_words_of_the_field() {
    let (total, files) = count(library_sources().into_iter().map(|source| (source.path, source.text)));
    assert_eq!(total, 0, "replaced words; reword: {files:?}");
}

#[test]
fn tests_use_the_words_of_the_field() {
    let (total, files) = count(test_sources().into_iter().map(|source| (source.path, source.text)));
    assert_eq!(total, 0, "replaced words in tests; reword: {files:?}");
}

#[test]
fn whole_words_are_counted() {
    assert_eq!(occurrences("Told, untold, told_once; JUDGES a judgement. Behind it, behind us"), 3);
}
