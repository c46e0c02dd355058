//! The header codec: round trips, pinned bytes, damage of every kind.

use aqueduct_formats::netcdf::{
    Attribute, CdfVersion, DimensionId, NcType, NetcdfDimension, NetcdfHeader, NetcdfHeaderError, Values,
    Variable,
};
use aqueduct_testkit::rng::SeededRng;
use proptest::prelude::*;

fn values(version: CdfVersion) -> impl Strategy<Value = Values> {
    let kinds = if version == CdfVersion::Cdf5 { 11 } else { 6 };
    (0..kinds, proptest::collection::vec(any::<u64>(), 0..9)).prop_map(|(kind, raw)| match kind {
        0 => Values::Byte(raw.iter().map(|raw| *raw as i8).collect()),
        1 => Values::Char(raw.iter().map(|raw| *raw as u8).collect()),
        2 => Values::Short(raw.iter().map(|raw| *raw as i16).collect()),
        3 => Values::Int(raw.iter().map(|raw| *raw as i32).collect()),
        4 => Values::Float(raw.iter().map(|raw| *raw as f32).collect()),
        5 => Values::Double(raw.iter().map(|raw| *raw as f64).collect()),
        6 => Values::UByte(raw.iter().map(|raw| *raw as u8).collect()),
        7 => Values::UShort(raw.iter().map(|raw| *raw as u16).collect()),
        8 => Values::UInt(raw.iter().map(|raw| *raw as u32).collect()),
        9 => Values::Int64(raw.iter().map(|raw| *raw as i64).collect()),
        _ => Values::UInt64(raw),
    })
}

fn attributes(version: CdfVersion) -> impl Strategy<Value = Vec<Attribute>> {
    proptest::collection::vec(values(version), 0..4).prop_map(|all| {
        let named = all.into_iter().enumerate();
        named.map(|(at, values)| Attribute { name: format!("größe {at}"), values }).collect()
    })
}

type Shape = (usize, Vec<usize>, Vec<Attribute>);

fn variable(version: CdfVersion, dimensions: usize) -> impl Strategy<Value = Shape> {
    let kinds: usize = if version == CdfVersion::Cdf5 { 11 } else { 6 };
    (0..kinds, proptest::collection::vec(0..dimensions, 0..4), attributes(version))
}

/// A header whose variables lie where they may, one behind the other.
fn assembled(
    version: CdfVersion,
    lengths: &[u64],
    records: u64,
    said: Vec<Attribute>,
    shapes: Vec<Shape>,
) -> NetcdfHeader {
    let dimension = |(at, length): (usize, &u64)| NetcdfDimension {
        name: format!("d{at}"),
        length: (at > 0).then_some(*length),
    };
    let mut header = NetcdfHeader { records, attributes: said, ..NetcdfHeader::new(version) };
    header.dimensions = lengths.iter().enumerate().map(dimension).collect();
    let (mut fixed, mut inside) = (1 << 20, 0);
    for (at, (kind, mut dimensions, attributes)) in shapes.into_iter().enumerate() {
        // The unlimited dimension comes first or not at all.
        let has_records = dimensions.first() == Some(&0);
        dimensions.retain(|id| *id > 0);
        let kind = NcType::ALL[kind];
        let size = dimensions.iter().fold(kind.size(), |size, id| size * lengths[*id]).next_multiple_of(4);
        let next = if has_records { &mut inside } else { &mut fixed };
        let begin = if has_records { (1 << 25) + *next } else { *next };
        *next += size;
        let ids = has_records.then_some(0).into_iter().chain(dimensions).map(DimensionId).collect();
        header.variables.push(Variable { name: format!("v{at}"), kind, dimensions: ids, attributes, begin });
    }
    header
}

fn headers() -> impl Strategy<Value = NetcdfHeader> {
    let version = (0..3usize).prop_map(|at| CdfVersion::ALL[at]);
    let lengths = proptest::collection::vec(1u64..20, 1..5);
    (version, lengths, 0u64..1000).prop_flat_map(|(version, lengths, records)| {
        let variables = proptest::collection::vec(variable(version, lengths.len()), 0..8);
        (attributes(version), variables)
            .prop_map(move |(said, shapes)| assembled(version, &lengths, records, said, shapes))
    })
}

proptest! {
    #[test]
    fn a_header_comes_back(header in headers()) {
        let bytes = header.encode().unwrap();
        prop_assert_eq!(bytes.len() % 4, 0);
        let back = NetcdfHeader::decode(&bytes, 1 << 30).unwrap();
        prop_assert_eq!(&back, &header);
        // Of the part that is there it is known how much more is needed, at least; of a file that ends there, where.
        for cut in 0..bytes.len() {
            match NetcdfHeader::decode(&bytes[..cut], 1 << 30) {
                Err(NetcdfHeaderError::Truncated { needed }) => prop_assert!(needed > cut as u64 && needed <= bytes.len() as u64),
                other => prop_assert!(false, "{other:?}"),
            }
            let ended = NetcdfHeader::decode(&bytes[..cut], cut as u64);
            let inside = matches!(ended, Err(NetcdfHeaderError::Invalid { offset, .. }) if offset <= cut as u64);
            prop_assert!(inside, "cut at {}", cut);
        }
    }
}

/// A header with something of everything.
fn sample(version: CdfVersion) -> NetcdfHeader {
    let said = vec![
        Attribute { name: "title".to_owned(), values: "a title".into() },
        Attribute { name: "range".to_owned(), values: [1.5f64, 2.5].into() },
    ];
    let shapes = vec![
        (3, vec![1, 2], said.clone()),
        (0, vec![0, 1], vec![]),
        (5, vec![], said.clone()),
        (4, vec![0, 2], said.clone()),
    ];
    assembled(version, &[0, 7, 3], 12, said, shapes)
}

#[test]
fn the_bytes_are_those_of_the_format() {
    let mut header = NetcdfHeader::new(CdfVersion::Cdf1);
    header.records = 2;
    header.dimensions.push(NetcdfDimension { name: "t".to_owned(), length: None });
    header.dimensions.push(NetcdfDimension { name: "x".to_owned(), length: Some(3) });
    let units = Attribute { name: "units".to_owned(), values: "km".into() };
    let dimensions = vec![DimensionId(0), DimensionId(1)];
    let name = "v".to_owned();
    header.variables.push(Variable {
        name,
        kind: NcType::Short,
        dimensions,
        attributes: vec![units],
        begin: 512,
    });
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let expected = [
        b"CDF\x01".to_vec(),
        words(&[2, 10, 2, 1]),
        b"t\0\0\0".to_vec(),
        words(&[0, 1]),
        b"x\0\0\0".to_vec(),
        words(&[3, 0, 0, 11, 1, 1]),
        b"v\0\0\0".to_vec(),
        words(&[2, 0, 1, 12, 1, 5]),
        b"units\0\0\0".to_vec(),
        words(&[2, 2]),
        b"km\0\0".to_vec(),
        // Six bytes a record, stored as eight.
        words(&[3, 8, 512]),
    ];
    assert_eq!(header.encode().unwrap(), expected.concat());
}

#[test]
fn a_size_that_does_not_fit_has_all_bits_set() {
    let mut header = NetcdfHeader::new(CdfVersion::Cdf2);
    header.dimensions.push(NetcdfDimension { name: "x".to_owned(), length: Some(1 << 30) });
    let (name, dimensions) = ("v".to_owned(), vec![DimensionId(0)]);
    header.variables.push(Variable {
        name,
        kind: NcType::Double,
        dimensions,
        attributes: vec![],
        begin: 512,
    });
    let bytes = header.encode().unwrap();
    assert_eq!(bytes[bytes.len() - 12..bytes.len() - 8], [0xff; 4]);
    assert_eq!(NetcdfHeader::decode(&bytes, 1 << 40).unwrap(), header);
}

#[test]
fn a_stream_says_by_its_length_how_many_records_it_has() {
    for version in CdfVersion::ALL {
        let header = sample(version);
        let mut bytes = header.encode().unwrap();
        let width = if version == CdfVersion::Cdf5 { 8 } else { 4 };
        bytes[4..4 + width].fill(0xff);
        // A record has 8 + 12 bytes; the last one is not whole.
        let read = NetcdfHeader::decode(&bytes, (1 << 25) + 5 * 20 + 19).unwrap();
        assert_eq!(read.records, 5);
    }
}

#[test]
fn hostile_sizes_are_refused_where_they_stand() {
    for version in CdfVersion::ALL {
        let bytes = sample(version).encode().unwrap();
        let width = if version == CdfVersion::Cdf5 { 8 } else { 4 };
        let length = bytes.len() as u64;
        // Each count of the header in turn says that there is far more than the file has.
        for (at, _) in bytes.windows(width).enumerate().skip(4).step_by(4) {
            let mut hostile = bytes.clone();
            hostile[at..at + width].fill(0x7f);
            if let Err(flaw) = NetcdfHeader::decode(&hostile, length) {
                let NetcdfHeaderError::Invalid { offset, what } = &flaw else { panic!("{flaw}") };
                assert!(*offset <= length && !what.is_empty(), "{flaw}");
            }
        }
        let mut hostile = bytes.clone();
        hostile[4 + width + 4..4 + width + 4 + width].fill(0x7f);
        let flaw = NetcdfHeader::decode(&hostile, length).unwrap_err().to_string();
        assert!(flaw.contains("more than the file has room for"), "{flaw}");
        assert!(flaw.contains(&format!("at byte {}", 4 + width)), "{flaw}");
    }
}

#[test]
fn a_dimension_of_negative_length_is_refused() {
    let mut header = NetcdfHeader::new(CdfVersion::Cdf5);
    header.dimensions.push(NetcdfDimension { name: "x".to_owned(), length: Some(1) });
    let mut bytes = header.encode().unwrap();
    let at = bytes.len() - 8 - 2 * 12;
    assert_eq!(bytes[at..at + 8], 1u64.to_be_bytes());
    bytes[at..at + 8].fill(0xff);
    let flaw = NetcdfHeader::decode(&bytes, bytes.len() as u64).unwrap_err();
    assert_eq!(flaw.to_string(), format!("at byte {at}: dimension \"x\" has a negative length"));
}

#[test]
fn other_files_are_told_by_what_they_are() {
    let told = |bytes: &[u8]| NetcdfHeader::decode(bytes, bytes.len() as u64).unwrap_err().to_string();
    assert!(told(b"\x89HDF\r\n\x1a\n").contains("HDF5"));
    assert!(told(b"CDF\x03....").contains("no netCDF classic file"));
    assert!(told(b"CDF!....").contains("being moved"));
    assert!(told(b"CDF?....").contains("being replaced"));
    assert!(told(b"").contains("cut off"));
}

fn mutate(bytes: &mut Vec<u8>, seeded: &mut SeededRng) {
    for _ in 0..=seeded.below(3) {
        let at = seeded.below(bytes.len().max(1));
        match seeded.below(6) {
            0 if !bytes.is_empty() => bytes[at] ^= 1 << seeded.below(8),
            1 if seeded.below(4) == 0 => bytes.truncate(at),
            2 => bytes.extend_from_within(at..),
            3 if at + 8 <= bytes.len() => {
                let number = [0, 1, u64::MAX, 1 << 40, 1 << 63, 0xffff_ffff_0000_000c][seeded.below(6)];
                bytes[at..at + 8].copy_from_slice(&number.to_be_bytes());
            }
            4 if at + 4 <= bytes.len() => {
                let at = at / 4 * 4;
                let number = [0, 1, 10, 11, 12, u32::MAX, 1 << 31, 7][seeded.below(8)];
                bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
            }
            _ if !bytes.is_empty() => {
                let from = seeded.below(bytes.len());
                let len = seeded.below(64).min(bytes.len() - at.max(from));
                bytes.copy_within(from..from + len, at);
            }
            _ => {}
        }
    }
}

/// Whatever 100 000 changed headers are: an error with a place inside them, or a header that can be written again.
#[test]
fn changed_bytes_never_panic() {
    let originals = CdfVersion::ALL.map(|version| sample(version).encode().unwrap());
    let (mut read, mut refused) = (0, 0);
    for seed in 0..100_000 {
        let seeded = &mut SeededRng::new(seed);
        let mut bytes = originals[seeded.below(3)].clone();
        mutate(&mut bytes, seeded);
        let length = [bytes.len() as u64, 1 << 30, 1 << 62][seeded.below(3)];
        match NetcdfHeader::decode(&bytes, length) {
            Ok(header) => {
                read += 1;
                if let Ok(again) = header.encode() {
                    // Bytes, not values: NaN is not equal to itself.
                    let back = NetcdfHeader::decode(&again, length).unwrap();
                    assert_eq!(back.encode().as_ref(), Ok(&again), "seed {seed}");
                }
            }
            Err(NetcdfHeaderError::Invalid { offset, .. }) => {
                refused += 1;
                assert!(offset <= bytes.len() as u64, "seed {seed}");
            }
            Err(NetcdfHeaderError::Truncated { needed }) => {
                assert!(needed > bytes.len() as u64 && needed <= length, "seed {seed}");
            }
        }
    }
    assert!(read > 1000 && refused > 10_000, "{read} read, {refused} refused: the changes are of no use");
}
