//! Version 2 B-trees: of dense links and attributes, of chunks, and of huge heap objects.

use super::byte_cursor::{Decoded, bytes_for};
use super::metadata_source::{MetadataSource, within};

/// The deepest tree.
const DEEPEST: u16 = 32;

/// What the header of a tree says.
#[derive(Clone, Debug)]
pub(crate) struct BtreeV2 {
    /// The number of the type of its records.
    pub(crate) kind: u8,
    node_size: u64,
    pub(crate) record: usize,
    root: u64,
    root_records: u64,
    /// By depth, the leaves first.
    levels: Vec<BtreeLevel>,
}

/// The largest numbers of a level.
#[derive(Clone, Copy, Debug)]
struct BtreeLevel {
    most_records: u64,
    /// With all levels below.
    most_total: u64,
    /// Bytes of the total in a pointer to a node of this level.
    total_bytes: usize,
}

/// Reads the header at an address.
pub(crate) fn read(source: &MetadataSource<'_>, address: u64) -> Decoded<BtreeV2> {
    within("B-tree", address, header(source, address))
}

fn header(source: &MetadataSource<'_>, address: u64) -> Decoded<BtreeV2> {
    let sizes = source.sizes();
    let length = 22 + sizes.offset + sizes.length;
    let bytes = source.checked_block(address, length as u64)?;
    let mut cursor = source.cursor(&bytes);
    cursor.signature(*b"BTHD")?;
    cursor.version(0..=0)?;
    let (kind, node_size, record, depth) = (cursor.u8()?, cursor.u32()?, cursor.u16()?, cursor.u16()?);
    cursor.skip(2)?;
    let (root, root_records) = (cursor.address()?, cursor.u16()?);
    if record == 0 || depth > DEEPEST || u64::from(node_size) < 10 + u64::from(record) {
        return Err(format!("nodes of {node_size} bytes with records of {record}, {depth} deep"));
    }
    let mut tree = BtreeV2 {
        kind,
        node_size: node_size.into(),
        record: record.into(),
        root,
        root_records: root_records.into(),
        levels: Vec::new(),
    };
    let most = (tree.node_size - 10) / u64::from(record);
    tree.levels.push(BtreeLevel { most_records: most, most_total: most, total_bytes: 0 });
    for level in 1..=depth as usize {
        let below = tree.levels[level - 1];
        let pointer = tree.pointer(sizes.offset, level) as u64;
        let most_records = tree.node_size.saturating_sub(10 + pointer) / (u64::from(record) + pointer);
        let most_total = (most_records + 1).saturating_mul(below.most_total).saturating_add(most_records);
        tree.levels.push(BtreeLevel { most_records, most_total, total_bytes: bytes_for(most_total) });
    }
    Ok(tree)
}

impl BtreeV2 {
    /// Bytes of a pointer in a node of a level.
    fn pointer(&self, offset: usize, level: usize) -> usize {
        offset + bytes_for(self.levels[0].most_records) + self.levels[level - 1].total_bytes
    }

    /// Passes all records to `record`, in order.
    pub(crate) fn walk(
        &self,
        source: &MetadataSource<'_>,
        record: &mut dyn FnMut(&[u8]) -> Decoded<()>,
    ) -> Decoded<()> {
        if self.root_records == 0 {
            return Ok(());
        }
        self.node(source, self.root, self.root_records, self.levels.len() - 1, record)
    }

    fn node(
        &self,
        source: &MetadataSource<'_>,
        address: u64,
        records: u64,
        level: usize,
        record: &mut dyn FnMut(&[u8]) -> Decoded<()>,
    ) -> Decoded<()> {
        let body = within("B-tree node", address, self.read_node(source, address, records, level))?;
        let mut cursor = source.cursor(&body);
        cursor.skip(6)?;
        let stored = cursor.take(records as usize * self.record)?;
        let mut stored = stored.chunks_exact(self.record);
        if level == 0 {
            return stored.try_for_each(record);
        }
        for _ in 0..=records {
            let child = cursor.address()?;
            let count = cursor.uint(bytes_for(self.levels[0].most_records))?;
            cursor.skip(self.levels[level - 1].total_bytes)?;
            self.node(source, child, count, level - 1, record)?;
            if let Some(between) = stored.next() {
                record(between)?;
            }
        }
        Ok(())
    }

    fn read_node(
        &self,
        source: &MetadataSource<'_>,
        address: u64,
        records: u64,
        level: usize,
    ) -> Decoded<Vec<u8>> {
        if records > self.levels[level].most_records {
            return Err(format!("{records} records in a node of {} bytes", self.node_size));
        }
        let mut length = 10 + records * self.record as u64;
        if level > 0 {
            length += (records + 1) * self.pointer(source.sizes().offset, level) as u64;
        }
        let body = source.checked_block(address, length)?;
        let mut cursor = source.cursor(&body);
        cursor.signature(*if level == 0 { b"BTLF" } else { b"BTIN" })?;
        cursor.version(0..=0)?;
        let kind = cursor.u8()?;
        if kind == self.kind { Ok(body) } else { Err(format!("records of kind {kind} among {}", self.kind)) }
    }
}
