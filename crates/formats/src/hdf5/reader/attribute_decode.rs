//! Attributes of an object: in its header, or dense in a fractal heap.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::btree_v2;
use super::byte_cursor::{ByteCursor, Decoded};
use super::dataspace::{self, Dataspace};
use super::datatype_decode::{self, StoredType};
use super::fractal_heap;
use super::global_heap::GlobalHeap;
use super::metadata_source::MetadataSource;
use super::object_header::{HeaderMessage, ObjectHeader, body, message};
use super::shared_message::SharedMessages;
use crate::hdf5::model::attribute::Hdf5Attribute;
use crate::hdf5::model::datatype::{Datatype, OBJECT_REFERENCE, REFERENCE_SEQUENCES};
use crate::hdf5::model::element_conversion::convert_elements;
use crate::hdf5::model::tree::UNDEFINED_ADDRESS;

/// What attributes are decoded with.
pub(crate) struct AttributeReader<'s, 'f> {
    pub(crate) source: &'s MetadataSource<'f>,
    pub(crate) shared: &'s SharedMessages,
    pub(crate) heap: GlobalHeap,
    /// References of attributes of the object that was read last, by their names: they become paths when all objects are known.
    pub(crate) references: Vec<(String, StoredReferences)>,
}

/// References to objects as addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoredReferences {
    Lists(Vec<Vec<u64>>),
    /// With numbers of dimensions.
    ScaleUses(Vec<(u64, u32)>),
}

impl StoredReferences {
    /// The attribute that refers to objects by their paths, which `path` has.
    pub(crate) fn resolve(&self, path: impl Fn(u64) -> String) -> Hdf5Attribute {
        match self {
            Self::Lists(lists) => {
                let list = |list: &Vec<u64>| list.iter().map(|address| path(*address)).collect();
                Hdf5Attribute::References(lists.iter().map(list).collect())
            }
            Self::ScaleUses(uses) => {
                let uses = uses.iter().map(|(address, dimension)| (path(*address), *dimension));
                Hdf5Attribute::ScaleUses(uses.collect())
            }
        }
    }
}

/// The attributes of an object, by their names.
type FoundAttributes = BTreeMap<String, Hdf5Attribute>;

/// The name and value of an attribute, and its references.
type DecodedAttribute = (String, Hdf5Attribute, Option<StoredReferences>);

impl AttributeReader<'_, '_> {
    pub(crate) fn read(&mut self, header: &ObjectHeader) -> Decoded<FoundAttributes> {
        let mut found = BTreeMap::new();
        for stored in header.all(message::ATTRIBUTE) {
            let resolved = self.shared.resolve(self.source, stored)?;
            self.add(&resolved, &mut found)?;
        }
        if let Some(info) = header.find(message::ATTRIBUTE_INFO) {
            let mut cursor = body(self.source, info);
            cursor.version(0..=0)?;
            let flags = cursor.u8()?;
            cursor.skip(if flags & 1 != 0 { 2 } else { 0 })?;
            let (heap, names) = (cursor.address()?, cursor.address()?);
            if heap != UNDEFINED_ADDRESS && names != UNDEFINED_ADDRESS {
                self.dense(heap, names, &mut found)?;
            }
        }
        Ok(found)
    }

    fn dense(&mut self, heap: u64, names: u64, found: &mut FoundAttributes) -> Decoded<()> {
        let source = self.source;
        let heap = fractal_heap::read(source, heap)?;
        let tree = btree_v2::read(source, names)?;
        if tree.kind != 8 || tree.record < 17 {
            return Err(format!("attributes in records of kind {} and {} bytes", tree.kind, tree.record));
        }
        tree.walk(source, &mut |record| {
            let (id, flags) = (&record[..8], record[8]);
            let stored = if flags & 2 != 0 {
                let reference: Vec<u8> = [3, 1].iter().chain(id).copied().collect();
                self.shared.follow(source, message::ATTRIBUTE, &reference)?
            } else {
                let object = heap.object(source, id)?;
                HeaderMessage { kind: message::ATTRIBUTE, shared: false, body: object }
            };
            self.add(&stored, found)
        })
    }

    fn add(&mut self, stored: &HeaderMessage, found: &mut FoundAttributes) -> Decoded<()> {
        let (name, value, references) = self.decode(body(self.source, stored))?;
        self.references.extend(references.map(|references| (name.clone(), references)));
        found.insert(name, value);
        Ok(())
    }

    /// The name and value of an attribute message.
    fn decode(&mut self, mut cursor: ByteCursor<'_>) -> Decoded<DecodedAttribute> {
        let version = cursor.version(1..=3)?;
        let flags = cursor.u8()?;
        let (name, datatype, space) = (cursor.u16()?, cursor.u16()?, cursor.u16()?);
        cursor.skip(usize::from(version == 3))?;
        let mut part = |length: u16| {
            let bytes = cursor.take(length.into());
            if version == 1 {
                cursor.align();
            }
            bytes
        };
        let (name, datatype, space) = (part(name)?, part(datatype)?, part(space)?);
        let name = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
        let shared = |bit: u8| version > 1 && flags & bit != 0;
        let datatype = self.part(datatype, message::DATATYPE, shared(1))?;
        let space = self.part(space, message::DATASPACE, shared(2))?;
        let datatype = datatype_decode::decode(&mut self.source.cursor(&datatype))
            .map_err(|error| format!("attribute {name:?}: {error}"))?;
        let space = dataspace::decode(self.source.cursor(&space))
            .map_err(|error| format!("attribute {name:?}: {error}"))?;
        let references =
            self.object_references(&datatype.datatype, &space, cursor.rest()).unwrap_or_default();
        let value = self.value(datatype, space, cursor.rest());
        let value = value.unwrap_or_else(|what| Hdf5Attribute::Other(format!("damaged: {what}")));
        Ok((name, value, references))
    }

    /// A part of an attribute: these bytes, or the message that they refer to.
    fn part<'b>(&self, bytes: &'b [u8], kind: u16, shared: bool) -> Decoded<Cow<'b, [u8]>> {
        if shared {
            return self.shared.follow(self.source, kind, bytes).map(|found| Cow::Owned(found.body));
        }
        Ok(Cow::Borrowed(bytes))
    }

    /// The references to objects that dimension scales consist of; none in attributes of other types.
    fn object_references(
        &mut self,
        datatype: &Datatype,
        space: &Dataspace,
        data: &[u8],
    ) -> Decoded<Option<StoredReferences>> {
        let size = datatype.size() as usize;
        let count = space.elements().unwrap_or(0).min((data.len() / size.max(1)) as u64) as usize;
        let elements = data.chunks_exact(size.max(1)).take(count);
        let width = self.source.sizes().offset;
        match datatype {
            Datatype::Other(what, _) if what == REFERENCE_SEQUENCES && size == 8 + width => {
                let mut lists = Vec::new();
                for element in elements {
                    let bytes = self.heap.sequence(self.source, element, width)?;
                    let mut cursor = self.source.cursor(&bytes);
                    let addresses = (0..bytes.len() / width).map(|_| cursor.address());
                    lists.push(addresses.collect::<Decoded<Vec<_>>>()?);
                }
                Ok(Some(StoredReferences::Lists(lists)))
            }
            Datatype::Compound(_, fields) => {
                let [(_, at, Datatype::Opaque(name, bytes)), (_, number_at, number)] = &fields[..] else {
                    return Ok(None);
                };
                let is_number = matches!(number, Datatype::Int(4) | Datatype::UInt(4));
                if name != OBJECT_REFERENCE || *bytes != width as u64 || !is_number {
                    return Ok(None);
                }
                let uses = elements.map(|element| {
                    let mut address = self.source.cursor(&element[*at as usize..]);
                    let mut dimension = self.source.cursor(&element[*number_at as usize..]);
                    Ok((address.address()?, dimension.u32()?))
                });
                Ok(Some(StoredReferences::ScaleUses(uses.collect::<Decoded<_>>()?)))
            }
            _ => Ok(None),
        }
    }

    fn value(&mut self, stored: StoredType, space: Dataspace, data: &[u8]) -> Decoded<Hdf5Attribute> {
        let size = stored.datatype.size();
        let count = space.elements().ok_or("more values than every file can hold")?;
        let length = count.checked_mul(size).and_then(|length| usize::try_from(length).ok());
        let bytes = length.and_then(|length| data.get(..length));
        let bytes = bytes.ok_or_else(|| format!("{count} values of {size} bytes in {} bytes", data.len()))?;
        let scalar = space.shape.is_empty() && !space.null;
        match &stored.datatype {
            Datatype::VlenText => {
                let elements = bytes.chunks_exact(size as usize);
                let texts = elements.map(|element| self.heap.text(self.source, element));
                let mut texts = texts.collect::<Decoded<Vec<_>>>()?;
                // netCDF stores empty text without an element.
                let one = scalar || space.null;
                Ok(if one {
                    Hdf5Attribute::Text(texts.pop().unwrap_or_default())
                } else {
                    Hdf5Attribute::Texts(texts)
                })
            }
            Datatype::Text(_) if scalar || space.null => {
                let mut text = bytes.to_vec();
                convert_elements(&stored.conversions, size as usize, &mut text);
                let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
                Ok(Hdf5Attribute::FixedText(String::from_utf8_lossy(&text[..end]).into_owned()))
            }
            datatype => match datatype.foreign() {
                Some(what) => Ok(Hdf5Attribute::Other(what.to_owned())),
                None => {
                    let mut values = bytes.to_vec();
                    convert_elements(&stored.conversions, size as usize, &mut values);
                    let shape = if space.null { vec![0] } else { space.shape };
                    Ok(Hdf5Attribute::Values(stored.datatype, shape, values))
                }
            },
        }
    }
}
