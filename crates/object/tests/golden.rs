//! The bytes of object files in version 1 of the format. A failure means that old files cannot be read, or that new files cannot be read by old
//! programs: then the format needs a new version, and these bytes stay.

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::Mode;
use aqueduct_object::schema::ByteOrder;
use aqueduct_object::{Object, ObjectFile, ObjectOpenOptions};

#[derive(Object, Clone, Debug, PartialEq)]
struct Cell {
    #[object(unit = "Pa", description = "of the gas")]
    pressure: f32,
    flag: bool,
    id: u16,
}

#[derive(Object, Clone, Debug, PartialEq)]
enum Shape {
    Point,
    Line(u16, Option<u8>),
    Path { name: String, corners: Vec<u16> },
}

fn cells() -> Vec<Cell> {
    vec![Cell { pressure: 1.5, flag: true, id: 0x0102 }, Cell { pressure: -2.0, flag: false, id: 3 }]
}

fn shapes() -> Vec<Shape> {
    vec![Shape::Path { name: "hé".into(), corners: vec![1, 0x0203] }, Shape::Point, Shape::Line(5, Some(6))]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().filter(char::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap()).collect()
}

/// The offset of the index in these small files.
const INDEX: usize = 8704;
/// The entry of an object that was not written.
const UNWRITTEN: &str = "ffffffffffffffff0000000000000000";

/// A file as hexadecimal digits; bytes that are not listed are zero.
struct Golden {
    data: &'static str,
    /// Offsets in the `.meta`, and the bytes there.
    slots: &'static [(usize, &'static str)],
    description: &'static str,
    /// The entries of written objects; none without an index.
    index: &'static [&'static str],
    index_sum: &'static str,
}

/// Constant size, little-endian: a plain array.
const CELLS: Golden = Golden {
    data: "0000c03f010201000000c0000300",
    slots: &[
        (0, "415155454d4554410100000002000000"),
        (16, "02000000000000000200000000000000"),
        (32, "0e000000000000007501000000000000"),
        (48, "4604c989a48b76d90000000000000000"),
        (80, "00000000000000000022000000000000"),
        (496, "000000000000000000000000e2d7c55e"),
        (4096, "415155454d4554410100000001000000"),
        (4112, "01000000000000000000000000000000"),
        (4128, "00000000000000007501000000000000"),
        (4144, "4604c989000000000000000000000000"),
        (4176, "00000000000000000022000000000000"),
        (4592, "000000000000000000000000fa4e77f3"),
    ],
    description: concat!(
        r#"{"format":"aqueduct-object","version":1,"type":"Cell","schema":{"struct":{"name":"Cell","fields":[{"name":"pressure",""#,
        r#"type":"f32","unit":"Pa","description":"of the gas"},{"name":"flag","type":"bool"},{"name":"id","type":"u16"}]}},"hash""#,
        r#":"fb40f84d7caaf6ad","byte_order":"little","object_size":7,"dtype":"[('pressure', '<f4'), ('flag', '?'), ('id', '<u2')]"#,
        r#"","checksums":true}"#
    ),
    index: &[],
    index_sum: "",
};

/// Variable size, with an index.
const SHAPES: Golden = Golden {
    data: "02000000030000000000000068c3a9020000000000000001000302000000000100000005000106",
    slots: &[
        (0, "415155454d4554410100000002000000"),
        (16, "02000000000000000300000000000000"),
        (32, "27000000000000009401000000000000"),
        (48, "225d7ae4f654b54a0022000000000000"),
        (64, "08000000000000000000000000000000"),
        (80, "00000000000000000032000000000000"),
        (496, "00000000000000000000000046c0b454"),
        (4096, "415155454d4554410100000001000000"),
        (4112, "01000000000000000000000000000000"),
        (4128, "00000000000000009401000000000000"),
        (4144, "225d7ae4000000000000000000000000"),
        (4176, "00000000000000000022000000000000"),
        (4592, "000000000000000000000000c061c993"),
    ],
    description: concat!(
        r#"{"format":"aqueduct-object","version":1,"type":"Shape","schema":{"enum":{"name":"Shape","variants":[{"name":"Point"},{"#,
        r#""name":"Line","fields":[{"name":"0","type":"u16"},{"name":"1","type":{"option":"u8"}}]},{"name":"Path","fields":[{"nam"#,
        r#"e":"name","type":"text"},{"name":"corners","type":{"list":"u16"}}]}]}},"hash":"56a6557062480a36","byte_order":"little""#,
        r#","object_size":null,"dtype":null,"checksums":true}"#
    ),
    index: &[
        "00000000000000001b00000000000000",
        "1b000000000000000400000000000000",
        "1f000000000000000800000000000000",
    ],
    index_sum: "42c66272",
};

/// Constant size, big-endian.
const BIG_CELLS: Golden = Golden {
    data: "3fc00000010102c0000000000003",
    slots: &[
        (0, "415155454d4554410100000002000000"),
        (16, "02000000000000000200000000000000"),
        (32, "0e000000000000007201000000000000"),
        (48, "44bf2aec329575a70000000000000000"),
        (80, "00000000000000000022000000000000"),
        (496, "000000000000000000000000c7e98a85"),
        (4096, "415155454d4554410100000001000000"),
        (4112, "01000000000000000000000000000000"),
        (4128, "00000000000000007201000000000000"),
        (4144, "44bf2aec000000000000000000000000"),
        (4176, "00000000000000000022000000000000"),
        (4592, "000000000000000000000000b49cfaab"),
    ],
    description: concat!(
        r#"{"format":"aqueduct-object","version":1,"type":"Cell","schema":{"struct":{"name":"Cell","fields":[{"name":"pressure",""#,
        r#"type":"f32","unit":"Pa","description":"of the gas"},{"name":"flag","type":"bool"},{"name":"id","type":"u16"}]}},"hash""#,
        r#":"fb40f84d7caaf6ad","byte_order":"big","object_size":7,"dtype":"[('pressure', '>f4'), ('flag', '?'), ('id', '>u2')]",""#,
        r#"checksums":true}"#
    ),
    index: &[],
    index_sum: "",
};

/// Variable size, big-endian; the `.meta` stays little-endian.
const BIG_SHAPES: Golden = Golden {
    data: "00000002000000000000000368c3a9000000000000000200010203000000000000000100050106",
    slots: &[
        (0, "415155454d4554410100000002000000"),
        (16, "02000000000000000300000000000000"),
        (32, "27000000000000009101000000000000"),
        (48, "6e42250c9119713e0022000000000000"),
        (64, "08000000000000000000000000000000"),
        (80, "00000000000000000032000000000000"),
        (496, "00000000000000000000000000951aa8"),
        (4096, "415155454d4554410100000001000000"),
        (4112, "01000000000000000000000000000000"),
        (4128, "00000000000000009101000000000000"),
        (4144, "6e42250c000000000000000000000000"),
        (4176, "00000000000000000022000000000000"),
        (4592, "0000000000000000000000009e3c7d9c"),
    ],
    description: concat!(
        r#"{"format":"aqueduct-object","version":1,"type":"Shape","schema":{"enum":{"name":"Shape","variants":[{"name":"Point"},{"#,
        r#""name":"Line","fields":[{"name":"0","type":"u16"},{"name":"1","type":{"option":"u8"}}]},{"name":"Path","fields":[{"nam"#,
        r#"e":"name","type":"text"},{"name":"corners","type":{"list":"u16"}}]}]}},"hash":"56a6557062480a36","byte_order":"big","o"#,
        r#"bject_size":null,"dtype":null,"checksums":true}"#
    ),
    index: &[
        "00000000000000001b00000000000000",
        "1b000000000000000400000000000000",
        "1f000000000000000800000000000000",
    ],
    index_sum: "42c66272",
};

impl Golden {
    fn meta(&self) -> Vec<u8> {
        let mut parts: Vec<(usize, Vec<u8>)> = self.slots.iter().map(|(at, hex)| (*at, bytes(hex))).collect();
        parts.push((8192, self.description.as_bytes().to_vec()));
        if !self.index.is_empty() {
            let unwritten = UNWRITTEN.repeat(31 - self.index.len());
            let unit = [&self.index.concat(), &unwritten, &"00".repeat(12), self.index_sum].concat();
            parts.push((INDEX, bytes(&unit)));
        }
        let mut meta = vec![0; parts.iter().map(|(at, part)| at + part.len()).max().unwrap_or(0)];
        parts.iter().for_each(|(at, part)| meta[*at..at + part.len()].copy_from_slice(part));
        meta
    }
}

/// The bytes that are not zero, in lines of offset and digits, for comparison.
fn shown(meta: &[u8]) -> String {
    let lines = meta.chunks(16).enumerate().filter(|(_, line)| line.iter().any(|byte| *byte != 0));
    lines.map(|(at, line)| format!("{:6} {}\n", 16 * at, hex(line))).collect::<Vec<_>>().concat()
}

/// Writes and reads exactly these bytes.
fn pinned<T>(golden: &Golden, order: ByteOrder, objects: &[T])
where
    T: Object + Clone + PartialEq + std::fmt::Debug + Sync,
{
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let write = |world: &Comm| {
        let open = ObjectOpenOptions::new(Mode::read_write().create()).replace().byte_order(order);
        let file = open.open::<T>(world, path("new"))?;
        file.shared().all().write(objects)?;
        file.close()
    };
    Launch::threads(1).run(write).unwrap();
    assert_eq!(hex(&std::fs::read(path("new")).unwrap()), golden.data);
    let mut meta = std::fs::read(path("new.meta")).unwrap();
    // Who created the file: the length of the text, and the text.
    let text = String::from_utf8(meta[516..516 + usize::from(meta[512])].to_vec()).unwrap();
    assert!(text.starts_with(r#"{"program":"golden"#) && text.contains(r#","ranks":1,"time":"#), "{text}");
    meta[512..1024].fill(0);
    assert_eq!(shown(&meta), shown(&golden.meta()));
    assert_eq!(meta.len(), golden.meta().len());
    std::fs::write(path("old"), bytes(golden.data)).unwrap();
    std::fs::write(path("old.meta"), golden.meta()).unwrap();
    let read = |world: &Comm| {
        let file = ObjectFile::<T>::open(world, path("old"))?;
        assert_eq!((file.byte_order(), file.at(0).all().read_vec(9)?), (order, objects.to_vec()));
        file.verify()?;
        file.close()
    };
    Launch::threads(2).run(read).unwrap();
}

/// A reader in Python that follows the format document finds the objects in these bytes. Skipped with a message if there is no Python.
fn read_by_the_document(golden: &Golden, expected: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("golden");
    std::fs::write(&path, bytes(golden.data)).unwrap();
    std::fs::write(folder.path().join("golden.meta"), golden.meta()).unwrap();
    let reader = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/format.py");
    let Ok(outcome) = std::process::Command::new("python3").arg(reader).arg(&path).output() else {
        assert!(std::env::var_os("AQUEDUCT_REQUIRE_NUMPY").is_none(), "python3 is missing");
        eprintln!("skipped: there is no python3");
        return;
    };
    let (found, error) =
        (String::from_utf8(outcome.stdout).unwrap(), String::from_utf8_lossy(&outcome.stderr));
    assert_eq!(found.lines().collect::<Vec<_>>(), expected, "{error}");
    assert!(outcome.status.success(), "{error}");
}

#[test]
fn a_reader_after_the_document_finds_the_objects() {
    let cells =
        [r#"{"pressure": 1.5, "flag": true, "id": 258}"#, r#"{"pressure": -2.0, "flag": false, "id": 3}"#];
    let shapes = [
        r#"{"Path": {"name": "hé", "corners": [1, 515]}}"#,
        r#"{"Point": {}}"#,
        r#"{"Line": {"0": 5, "1": 6}}"#,
    ];
    for (golden, expected) in
        [(&CELLS, &cells[..]), (&BIG_CELLS, &cells), (&SHAPES, &shapes), (&BIG_SHAPES, &shapes)]
    {
        read_by_the_document(golden, expected);
    }
}

#[test]
fn objects_of_constant_size() {
    pinned(&CELLS, ByteOrder::Little, &cells());
    pinned(&BIG_CELLS, ByteOrder::Big, &cells());
}

#[test]
fn objects_of_variable_size() {
    pinned(&SHAPES, ByteOrder::Little, &shapes());
    pinned(&BIG_SHAPES, ByteOrder::Big, &shapes());
}
