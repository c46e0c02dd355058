//! Folders stay small enough to be read at a glance.

use std::collections::BTreeMap;

use crate::sources::sources;

/// The most Rust files in a folder.
const MOST_FILES: usize = 20;

/// Folders that have more, and how many.
const CROWDED: &[(&str, usize)] = &[];

#[test]
fn folders_have_few_files() {
    let mut folders: BTreeMap<String, usize> = BTreeMap::new();
    for source in sources(&[".rs"]) {
        let folder = source.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        *folders.entry(folder.to_owned()).or_default() += 1;
    }
    folders.retain(|_, files| *files > MOST_FILES);
    let crowded: Vec<(&str, usize)> =
        folders.iter().map(|(folder, files)| (folder.as_str(), *files)).collect();
    assert_eq!(
        crowded, CROWDED,
        "folders with more than {MOST_FILES} source files; group them in folders, or lower CROWDED"
    );
}
