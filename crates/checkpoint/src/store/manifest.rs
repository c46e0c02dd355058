//! The manifest of a generation as text; no I/O.

use std::collections::HashSet;

use aqueduct_object::FileProvenance;
use serde::{Deserialize, Serialize};

use crate::error::Kind;

const FORMAT: &str = "aqueduct-checkpoint";
const VERSION: u32 = 1;

/// The manifest of a generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    format: String,
    version: u32,
    pub(super) generation: u64,
    pub(super) step: u64,
    /// Seconds since 1970.
    pub(super) time: u64,
    pub(super) ranks: u64,
    /// The program that wrote it, and the version of this library.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) program: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) library: String,
    pub(super) parts: Vec<ManifestEntry>,
}

/// The fields that every version of a manifest has.
#[derive(Deserialize)]
struct ManifestVersion {
    format: String,
    version: u32,
}

/// A defect of a manifest.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ManifestFlaw {
    pub(super) kind: Kind,
    pub(super) detail: String,
}

impl From<String> for ManifestFlaw {
    fn from(detail: String) -> Self {
        Self { kind: Kind::Damaged, detail }
    }
}

/// A part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ManifestEntry {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) bytes: u64,
    #[serde(rename = "type", default, skip_serializing_if = "String::is_empty")]
    pub(super) signature: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) shape: Vec<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) count: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) index: Option<u64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) sums: Vec<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) value: Option<String>,
}

impl Manifest {
    pub(super) fn new(generation: u64, step: u64, writer: FileProvenance, parts: Vec<ManifestEntry>) -> Self {
        let FileProvenance { program, version: library, ranks, time } = writer;
        Self {
            format: FORMAT.into(),
            version: VERSION,
            generation,
            step,
            time,
            ranks,
            program,
            library,
            parts,
        }
    }

    pub(super) fn encode(&self) -> Result<String, String> {
        let json = serde_json::to_string(self).map_err(|error| error.to_string())?;
        let sum = crc32c::crc32c(json.as_bytes());
        Ok(format!("{json}\ncrc32c {sum:08x}\n"))
    }

    pub(super) fn decode(text: &[u8]) -> Result<Self, ManifestFlaw> {
        let text = std::str::from_utf8(text)
            .map_err(|error| format!("byte {}: invalid UTF-8", error.valid_up_to()))?;
        let (json, rest) = text.split_once('\n').ok_or("byte 0: a manifest has two lines".to_owned())?;
        let sum = rest
            .strip_prefix("crc32c ")
            .and_then(|rest| u32::from_str_radix(rest.strip_suffix('\n')?, 16).ok());
        let sum = sum.ok_or_else(|| format!("byte {}: the second line is not a checksum", json.len() + 1))?;
        if sum != crc32c::crc32c(json.as_bytes()) {
            return Err(format!("byte {}: the checksum is wrong", json.len() + 1).into());
        }
        let malformed = |error: serde_json::Error| format!("byte {}: {error}", error.column());
        // The version is checked first, since a later version may have other keys.
        let ManifestVersion { format, version } = serde_json::from_str(json).map_err(malformed)?;
        if format != FORMAT {
            return Err(format!("byte 0: the format is {format:?}, not {FORMAT:?}").into());
        }
        if version != VERSION {
            let detail = format!(
                "byte 0: version {version} of the manifest is not supported; this program reads version {VERSION}"
            );
            return Err(ManifestFlaw { kind: Kind::UnknownVersion, detail });
        }
        let manifest: Self = serde_json::from_str(json).map_err(malformed)?;
        let mut names = HashSet::new();
        if let Some(twice) = manifest.parts.iter().find(|part| !names.insert(part.name.as_str())) {
            return Err(format!("byte 0: part {:?} is listed twice", twice.name).into());
        }
        Ok(manifest)
    }
}

/// Bytes as hexadecimal digits.
pub(super) fn to_hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from(b"0123456789abcdef"[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes of hexadecimal digits.
pub(super) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pair = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?);
    text.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer() -> FileProvenance {
        FileProvenance { program: "md".into(), version: "0.1.0".into(), ranks: 4, time: 7 }
    }

    #[test]
    fn a_manifest_survives_encoding_and_every_changed_byte_is_detected() {
        let cells = ManifestEntry {
            name: "m".into(),
            kind: "cells".into(),
            bytes: 700,
            sums: vec![1, 2],
            ..ManifestEntry::default()
        };
        let value = ManifestEntry {
            name: "t".into(),
            kind: "value".into(),
            bytes: 1,
            value: Some("0f".into()),
            ..ManifestEntry::default()
        };
        let manifest = Manifest::new(3, 1000, writer(), vec![cells, value]);
        let text = manifest.encode().unwrap();
        assert_eq!(Manifest::decode(text.as_bytes()), Ok(manifest));
        for at in 0..text.len() {
            let mut broken = text.clone().into_bytes();
            broken[at] ^= 1;
            assert!(Manifest::decode(&broken).is_err(), "{at}");
            assert!(Manifest::decode(&text.as_bytes()[..at]).is_err(), "{at}");
        }
    }

    #[test]
    fn unknown_keys_are_ignored_and_newer_versions_are_rejected() {
        let with_checksum = |json: &str| format!("{json}\ncrc32c {:08x}\n", crc32c::crc32c(json.as_bytes()));
        let json = r#"{"format":"aqueduct-checkpoint","version":1,"new":[1],"generation":1,"step":2,"time":3,"ranks":4,"parts":[]}"#;
        assert_eq!(Manifest::decode(with_checksum(json).as_bytes()).unwrap().step, 2);
        // Whatever other keys it has.
        for newer in [
            json.replace("\"version\":1", "\"version\":2"),
            r#"{"format":"aqueduct-checkpoint","version":2}"#.to_owned(),
        ] {
            let error = Manifest::decode(with_checksum(&newer).as_bytes()).unwrap_err();
            assert!(error.kind == Kind::UnknownVersion && error.detail.contains("version 2"), "{error:?}");
        }
        let other = json.replace("aqueduct-checkpoint", "another");
        assert_eq!(Manifest::decode(with_checksum(&other).as_bytes()).unwrap_err().kind, Kind::Damaged);
    }

    #[test]
    fn a_part_that_is_listed_twice_is_an_error() {
        let part = ManifestEntry { name: "m".into(), kind: "cells".into(), ..ManifestEntry::default() };
        let text = Manifest::new(1, 2, writer(), vec![part.clone(), part]).encode().unwrap();
        assert!(Manifest::decode(text.as_bytes()).unwrap_err().detail.contains("\"m\" is listed twice"));
    }

    #[test]
    fn digits_come_back() {
        assert_eq!(from_hex(&to_hex(&[0, 1, 0xab, 0xff])), Some(vec![0, 1, 0xab, 0xff]));
        assert_eq!((from_hex("abc"), from_hex("gg")), (None, None));
    }
}
