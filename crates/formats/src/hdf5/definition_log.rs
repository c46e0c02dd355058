//! Definitions that can be undone: they are made in the one tree of the file, and taken out of it if they fail on any rank.

use super::model::attribute::Hdf5Attribute;
use super::model::tree::{Dataset, Hdf5Object, ObjectTree, Storage};

/// How a definition is undone.
#[derive(Debug)]
enum UndoStep {
    /// Removes a new object.
    Object(String),
    /// Gives a dataset its former number of rows, and of chunks.
    Rows(String, u64, usize),
    /// Gives an attribute its former value, or removes it.
    Attribute(String, String, Option<Hdf5Attribute>),
}

/// The definitions since the last change of the file.
#[derive(Debug, Default)]
pub(super) struct DefinitionLog(Vec<UndoStep>);

impl DefinitionLog {
    /// Adds an object to the tree.
    pub(super) fn insert(&mut self, tree: &mut ObjectTree, path: &str, object: Hdf5Object) {
        self.0.push(UndoStep::Object(path.to_owned()));
        tree.insert(path.to_owned(), object);
    }

    /// Gives a dataset so many rows.
    pub(super) fn extend(&mut self, path: &str, dataset: &mut Dataset, rows: u64) {
        let chunks = match &dataset.storage {
            Storage::Chunked(_, addresses) => addresses.len(),
            _ => 0,
        };
        self.0.push(UndoStep::Rows(path.to_owned(), dataset.rows(), chunks));
        if let Some(first) = dataset.shape.first_mut() {
            *first = rows;
        }
    }

    /// Sets an attribute of an object.
    pub(super) fn set_attribute(
        &mut self,
        path: &str,
        object: &mut Hdf5Object,
        name: &str,
        value: Hdf5Attribute,
    ) {
        let before = object.attributes.insert(name.to_owned(), value);
        self.0.push(UndoStep::Attribute(path.to_owned(), name.to_owned(), before));
    }

    /// Undoes all of it.
    pub(super) fn undo(self, tree: &mut ObjectTree) {
        for step in self.0.into_iter().rev() {
            match step {
                UndoStep::Object(path) => drop(tree.remove(&path)),
                UndoStep::Rows(path, rows, chunks) => {
                    let dataset = tree.get_mut(&path).and_then(|object| object.dataset.as_mut());
                    let Some(dataset) = dataset else { continue };
                    if let Some(first) = dataset.shape.first_mut() {
                        *first = rows;
                    }
                    if let Storage::Chunked(_, addresses) = &mut dataset.storage {
                        addresses.truncate(chunks);
                    }
                }
                UndoStep::Attribute(path, name, before) => {
                    let Some(object) = tree.get_mut(&path) else { continue };
                    match before {
                        Some(value) => drop(object.attributes.insert(name, value)),
                        None => drop(object.attributes.remove(&name)),
                    }
                }
            }
        }
    }
}
