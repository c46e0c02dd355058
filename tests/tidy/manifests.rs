//! What a release needs of the manifests: versions that agree, metadata, a README for each published crate.

use std::fs;

use crate::sources::{Source, assert_none, root, sources};

/// The value of `key = "value"` at the beginning of a line.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let rest = text.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='))?;
    rest.trim().strip_prefix('"')?.strip_suffix('"')
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn versions_agree() {
    let manifest = read("Cargo.toml");
    let version = value(&manifest, "version").expect("the version of the workspace");
    let ours = manifest.lines().filter(|line| line.starts_with("aqueduct") && line.contains("version ="));
    let expected = format!("version = \"{version}\"");
    assert_none(
        ours.filter(|line| !line.contains(&expected))
            .map(|line| format!("Cargo.toml: {line}: not {version}")),
    );
    let citation = read("CITATION.cff");
    assert!(
        citation.lines().any(|line| line == format!("version: {version}")),
        "CITATION.cff: not {version}"
    );
}

#[test]
fn the_readme_names_the_minimum_rust_version() {
    let manifest = read("Cargo.toml");
    let version = value(&manifest, "rust-version").expect("the minimum Rust version of the workspace");
    assert!(read("README.md").contains(&format!("Rust {version}")), "README.md does not name Rust {version}");
}

#[test]
fn published_crates_have_metadata() {
    let is_published = |source: &Source| {
        source.text.contains("version.workspace = true") && !source.text.contains("publish = false")
    };
    let keys = ["description", "license", "repository", "documentation", "readme", "keywords", "categories"];
    assert_none(sources(&["Cargo.toml"]).iter().filter(|source| is_published(source)).flat_map(|source| {
        let has = |key: &str| source.text.lines().any(|line| line.starts_with(key));
        let mut missing: Vec<String> = keys
            .iter()
            .filter(|key| !has(key))
            .map(|key| format!("{}: no {key}; or set publish = false", source.path))
            .collect();
        let readme = source.path.replace("Cargo.toml", "README.md");
        if !root().join(&readme).exists() {
            missing.push(format!("{readme} does not exist"));
        }
        missing
    }));
}
