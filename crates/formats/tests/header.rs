//! The header codec: round trips, exact bytes, invalid headers. The fuzz target `netcdf` mutates headers.

use aqueduct_formats::netcdf::{
    Attribute, CdfVersion, DimensionId, NcType, NetcdfDimension, NetcdfHeader, NetcdfHeaderError, Values,
    Variable,
};
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

/// A header with variables at valid consecutive offsets.
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
        // Only the first dimension can be unlimited.
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
    fn headers_are_decoded_as_encoded(header in headers()) {
        let bytes = header.encode().unwrap();
        prop_assert_eq!(bytes.len() % 4, 0);
        let back = NetcdfHeader::decode(&bytes, 1 << 30).unwrap();
        prop_assert_eq!(&back, &header);
        // A prefix of a longer file: a lower bound of the missing length. A file that ends there: the offset of the error.
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

/// A header with all kinds of parts.
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
fn encoded_bytes_follow_the_specification() {
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
        // Six bytes per record, padded to eight.
        words(&[3, 8, 512]),
    ];
    assert_eq!(header.encode().unwrap(), expected.concat());
}

#[test]
fn a_size_of_more_than_32_bits_has_all_bits_set() {
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
fn a_streaming_header_has_its_record_count_from_the_file_length() {
    for version in CdfVersion::ALL {
        let header = sample(version);
        let mut bytes = header.encode().unwrap();
        let width = if version == CdfVersion::Cdf5 { 8 } else { 4 };
        bytes[4..4 + width].fill(0xff);
        // A record has 8 + 12 bytes; the last one is incomplete.
        let read = NetcdfHeader::decode(&bytes, (1 << 25) + 5 * 20 + 19).unwrap();
        assert_eq!(read.records, 5);
    }
}

#[test]
fn counts_beyond_the_file_length_are_errors_at_their_offset() {
    for version in CdfVersion::ALL {
        let bytes = sample(version).encode().unwrap();
        let width = if version == CdfVersion::Cdf5 { 8 } else { 4 };
        let length = bytes.len() as u64;
        // Each count of the header in turn exceeds the file length.
        for (at, _) in bytes.windows(width).enumerate().skip(4).step_by(4) {
            let mut invalid = bytes.clone();
            invalid[at..at + width].fill(0x7f);
            if let Err(error) = NetcdfHeader::decode(&invalid, length) {
                let NetcdfHeaderError::Invalid { offset, what } = &error else { panic!("{error}") };
                assert!(*offset <= length && !what.is_empty(), "{error}");
            }
        }
        let mut invalid = bytes.clone();
        invalid[4 + width + 4..4 + width + 4 + width].fill(0x7f);
        let error = NetcdfHeader::decode(&invalid, length).unwrap_err().to_string();
        assert!(error.contains("more than the file has room for"), "{error}");
        assert!(error.contains(&format!("at byte {}", 4 + width)), "{error}");
    }
}

#[test]
fn a_negative_dimension_length_is_an_error() {
    let mut header = NetcdfHeader::new(CdfVersion::Cdf5);
    header.dimensions.push(NetcdfDimension { name: "x".to_owned(), length: Some(1) });
    let mut bytes = header.encode().unwrap();
    let at = bytes.len() - 8 - 2 * 12;
    assert_eq!(bytes[at..at + 8], 1u64.to_be_bytes());
    bytes[at..at + 8].fill(0xff);
    let error = NetcdfHeader::decode(&bytes, bytes.len() as u64).unwrap_err();
    assert_eq!(error.to_string(), format!("at byte {at}: dimension \"x\" has a negative length"));
}

#[test]
fn other_file_formats_are_named() {
    let message = |bytes: &[u8]| NetcdfHeader::decode(bytes, bytes.len() as u64).unwrap_err().to_string();
    assert!(message(b"\x89HDF\r\n\x1a\n").contains("HDF5"));
    assert!(message(b"CDF\x03....").contains("no netCDF classic file"));
    assert!(message(b"CDF!....").contains("being moved"));
    assert!(message(b"CDF?....").contains("being replaced"));
    assert!(message(b"").contains("cut off"));
}
