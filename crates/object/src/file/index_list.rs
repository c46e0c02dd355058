//! The list of the sorted indices of a file, `<name>.indices`: one path of a field per line. With it the indices are deleted with the file.

use std::ffi::{OsStr, OsString};

use aqueduct_comm::Comm;
use aqueduct_file::{self as byte_file, OpenOptions};

use super::open_options::meta_name;
use crate::error::{Kind, Result};

/// The name of the index on the field of this path.
pub(super) fn index_name(file: &OsStr, path: &str) -> OsString {
    with_ending(file, &format!(".{path}.index"))
}

/// Adds a path to the list. One rank does it.
pub(super) fn record_index(own: &Comm, file: &OsStr, path: &str) -> Result<()> {
    let listed = paths(file)?;
    if listed.iter().any(|other| other == path) {
        return Ok(());
    }
    let text: String =
        listed.iter().map(String::as_str).chain([path]).map(|path| path.to_owned() + "\n").collect();
    let options = OpenOptions::new().write(true).create(true);
    let list = options.open(own, list_name(file))?;
    list.at(0).write(text.as_bytes())?;
    list.close()
}

/// Deletes the indices and their list. One rank does it.
pub(super) fn delete_indices(file: &OsStr) -> Result<()> {
    // Of a name that cannot be read, the deletion of the file itself reports the error.
    let paths = paths(file).unwrap_or_default();
    // No other files are deleted, whatever the list contains.
    for path in paths.iter().filter(|path| !path.contains('/')) {
        let index = index_name(file, path);
        delete_if_any(&meta_name(&index))?;
        delete_if_any(&index)?;
    }
    if paths.is_empty() { Ok(()) } else { delete_if_any(&list_name(file)) }
}

/// The listed paths.
fn paths(file: &OsStr) -> Result<Vec<String>> {
    match byte_file::read(list_name(file)) {
        Ok(text) => Ok(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()),
        Err(error) if error.kind() == Kind::NoSuchFile => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn delete_if_any(name: &OsStr) -> Result<()> {
    match byte_file::delete(name) {
        Err(error) if error.kind() != Kind::NoSuchFile => Err(error),
        _ => Ok(()),
    }
}

fn list_name(file: &OsStr) -> OsString {
    with_ending(file, ".indices")
}

fn with_ending(file: &OsStr, ending: &str) -> OsString {
    let mut name = file.to_owned();
    name.push(ending);
    name
}
