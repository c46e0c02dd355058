//! A type name is declared once in the workspace, so that a search finds one thing.

use std::collections::BTreeMap;

use crate::sources::{is_word, library_sources};

/// How many declarations share their name with another one.
const DUPLICATE_TYPE_NAMES: usize = 0;

/// How many types have one of the names below.
const REPLACED_TYPE_NAMES_LEFT: usize = 0;

/// Names that every crate may use for its own.
const USUAL: [&str; 5] = ["Error", "Kind", "Result", "Options", "Config"];

/// Names that were replaced by terms of the field, and must not come back.
const REPLACED: &[&str] = &[
    "About",
    "Apart",
    "Attendance",
    "Buffering",
    "Company",
    "Courtesy",
    "Crew",
    "Described",
    "Desk",
    "Drainer",
    "Duty",
    "Experience",
    "Feed",
    "Given",
    "Helm",
    "Herald",
    "Hub",
    "Hull",
    "Inflow",
    "Kept",
    "Laid",
    "Lane",
    "Lent",
    "Line",
    "Manner",
    "Market",
    "Nap",
    "NeverMet",
    "Notice",
    "Outflow",
    "PassedOver",
    "Patience",
    "Piece",
    "PieceMut",
    "Purse",
    "Reach",
    "Rendezvous",
    "Repeats",
    "Reservoir",
    "Safety",
    "Scribe",
    "Seen",
    "Spread",
    "Standing",
    "Streak",
    "Supply",
    "Talk",
    "Tidings",
    "Together",
    "Told",
    "Verdict",
    "Way",
    "Wire",
];

/// The name that a line declares: of a structure, an enumeration, a trait or a union.
fn declared(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if let Some(after) = rest.strip_prefix("pub") {
        let after =
            after.strip_prefix('(').map_or(after, |inside| inside.split_once(')').map_or("", |x| x.1));
        rest = after.strip_prefix(char::is_whitespace)?.trim_start();
    }
    rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let rest = ["struct ", "enum ", "trait ", "union "].iter().find_map(|word| rest.strip_prefix(word))?;
    let end = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
    (end > 0).then(|| &rest[..end])
}

/// All declared names, each with the files that declare it.
fn declarations() -> BTreeMap<String, Vec<String>> {
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in library_sources() {
        for name in source.text.lines().filter_map(declared) {
            names.entry(name.to_owned()).or_default().push(source.path.clone());
        }
    }
    names
}

#[test]
fn type_names_are_declared_once() {
    let mut shared = declarations();
    shared.retain(|name, files| files.len() > 1 && !USUAL.contains(&name.as_str()));
    let count: usize = shared.values().map(Vec::len).sum();
    let list: Vec<String> =
        shared.iter().map(|(name, files)| format!("{name}: {}", files.join(", "))).collect();
    assert_eq!(
        count,
        DUPLICATE_TYPE_NAMES,
        "declarations that share a name; rename a new one, or lower DUPLICATE_TYPE_NAMES\n{}",
        list.join("\n")
    );
}

#[test]
fn replaced_type_names_do_not_come_back() {
    let mut found = declarations();
    found.retain(|name, _| REPLACED.contains(&name.as_str()));
    let count: usize = found.values().map(Vec::len).sum();
    assert_eq!(
        count, REPLACED_TYPE_NAMES_LEFT,
        "types with a name that was replaced; rename a new one, or lower REPLACED_TYPE_NAMES_LEFT: {found:?}"
    );
}

#[test]
fn declarations_are_recognised() {
    let lines = [
        "pub(crate) struct A<T>(T);",
        "    unsafe trait B {",
        "pub enum C {",
        "let struct_ = 1;",
        "pubstruct D;",
    ];
    assert_eq!(lines.map(declared), [Some("A"), Some("B"), Some("C"), None, None]);
}
