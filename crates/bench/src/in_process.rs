//! Benchmarks whose ranks are threads of this process. Each compares two operations that take turns and prints ratios.

pub(crate) mod buffering;
pub(crate) mod checkpoint;
mod discard_device;
pub(crate) mod foundations;
pub(crate) mod objects;
pub(crate) mod streams;
pub(crate) mod tunnel;

/// Whether a part is wanted: one of the words, options aside, is a prefix of its name, or there are no words.
fn is_wanted(words: &[&str], part: &str) -> bool {
    let mut names = words.iter().filter(|word| word.starts_with(char::is_alphabetic)).peekable();
    names.peek().is_none() || names.any(|name| part.starts_with(name))
}

#[test]
fn words_select_parts_by_prefix() {
    assert!(is_wanted(&["--quick", "330000"], "cells") && is_wanted(&["over"], "overflow-disk"));
    assert!(!is_wanted(&["visible"], "overflow"));
}
