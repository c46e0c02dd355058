//! Values of changed objects that go into heaps: text, and lists of references to objects.
//!
//! References are addresses, and objects move when they change: then all objects that refer to others are written anew, with the new addresses.

use std::collections::{BTreeSet, HashMap};

use super::block_allocator::{BlockExtent, MetadataWrite};
use super::global_heap::NewHeapCollection;
use super::metadata_store::MetadataStore;
use super::object_header::StoredMessage;

/// Values of one heap, and what refers to them: object, message, offset, number in the heap.
#[derive(Debug, Default)]
struct HeapValues {
    heap: NewHeapCollection,
    places: Vec<(String, usize, usize, u32)>,
}

impl MetadataStore {
    /// Adds all objects that refer to others, if one of them or of these others has changed.
    pub(super) fn add_referring(&self, changed: &mut BTreeSet<String>) {
        let targets = |path: &String| {
            let messages = self.objects.get(path).map_or(&[][..], |object| &object.messages);
            messages.iter().flat_map(StoredMessage::targets)
        };
        let moves =
            |path: &String| changed.contains(path) || targets(path).any(|target| changed.contains(target));
        if self.referring.iter().any(moves) {
            changed.extend(self.referring.iter().cloned());
        }
    }

    /// The addresses of the objects that changed ones refer to.
    fn target_addresses(&self, changed: &BTreeSet<String>) -> Result<HashMap<String, u64>, String> {
        let mut found = HashMap::new();
        for path in self.referring.iter().filter(|path| changed.contains(*path)) {
            let messages = self.objects.get(path).map_or(&[][..], |object| &object.messages);
            for target in messages.iter().flat_map(StoredMessage::targets) {
                let object = self.objects.get(target);
                let object =
                    object.ok_or_else(|| format!("{path:?} refers to {target:?}, which is not there"))?;
                found.insert(target.clone(), object.address);
            }
        }
        Ok(found)
    }

    /// Writes the values of changed objects, whose new addresses are known.
    pub(super) fn write_heaps(
        &mut self,
        changed: &BTreeSet<String>,
        out: &mut Vec<MetadataWrite>,
    ) -> Result<(), String> {
        let addresses = self.target_addresses(changed)?;
        let [mut texts, mut lists] = <[HeapValues; 2]>::default();
        let mut new_lists = Vec::new();
        for path in changed {
            let object = self.objects.get_mut(path).ok_or("an object is missing")?;
            for (number, message) in object.messages.iter_mut().enumerate() {
                for (at, target) in &message.references {
                    message.data[*at..at + 8].copy_from_slice(&addresses[target].to_le_bytes());
                }
                for value in std::mem::take(&mut message.heap) {
                    if value.references.is_empty() {
                        let place = (path.clone(), number, value.at, texts.heap.add(&value.bytes));
                        texts.places.push(place);
                    } else {
                        let bytes =
                            value.references.iter().flat_map(|target| addresses[target].to_le_bytes());
                        let bytes: Vec<u8> = bytes.collect();
                        lists.places.push((path.clone(), number, value.at, lists.heap.add(&bytes)));
                        message.heap.push(value);
                    }
                }
            }
            if texts.heap.is_full() {
                self.write_heap(std::mem::take(&mut texts), out);
            }
            if lists.heap.is_full() {
                new_lists.extend(self.write_heap(std::mem::take(&mut lists), out));
            }
        }
        self.write_heap(texts, out);
        new_lists.extend(self.write_heap(lists, out));
        if !new_lists.is_empty() {
            let old = std::mem::replace(&mut self.reference_heaps, new_lists);
            old.into_iter().for_each(|block| self.space.retire(block));
        }
        Ok(())
    }

    fn write_heap(&mut self, values: HeapValues, out: &mut Vec<MetadataWrite>) -> Option<BlockExtent> {
        if values.heap.is_empty() {
            return None;
        }
        let block = self.space.allocate(values.heap.length() as u64);
        out.push((block.address, values.heap.encode()));
        for (path, message, at, number) in values.places {
            if let Some(object) = self.objects.get_mut(&path) {
                let data = &mut object.messages[message].data;
                data[at + 4..at + 12].copy_from_slice(&block.address.to_le_bytes());
                data[at + 12..at + 16].copy_from_slice(&number.to_le_bytes());
            }
        }
        Some(block)
    }
}
