//! Files of h5py and netCDF4, of all versions of the format: every dataset and attribute has the values that h5py finds.

#![cfg(feature = "hdf5")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use aqueduct_comm::Launch;
use aqueduct_formats::Selection;
use aqueduct_formats::hdf5::{Datatype, Hdf5Attribute, Hdf5File, Hdf5Link, Hdf5OpenOptions};
use aqueduct_testkit::external_tools::python;

/// Builds the corpus, or a part of it; none without h5py and netCDF4.
fn corpus(folder: &Path, part: &[&str]) -> Option<Vec<PathBuf>> {
    let python = python("h5py, netCDF4")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common/hdf5_corpus.py");
    let made = std::process::Command::new(python)
        .args(["-W", "ignore"])
        .arg(script)
        .arg(folder)
        .args(part)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_none_or(|end| end != "expected")).collect();
    files.sort();
    Some(files)
}

fn shape_text(shape: &[u64]) -> String {
    if shape.is_empty() {
        return "scalar".to_owned();
    }
    shape.iter().map(ToString::to_string).collect::<Vec<_>>().join("x")
}

fn crc(bytes: &[u8]) -> u32 {
    let table = |mut value: u32| {
        for _ in 0..8 {
            value = if value & 1 != 0 { 0xedb8_8320 ^ (value >> 1) } else { value >> 1 };
        }
        value
    };
    let table: [u32; 256] = std::array::from_fn(|at| table(at as u32));
    !bytes.iter().fold(!0u32, |sum, byte| table[usize::from(sum as u8 ^ *byte)] ^ (sum >> 8))
}

/// Bytes in the form of the expected values.
fn bytes_text(form: &str, bytes: &[u8]) -> String {
    if form == "crc" {
        return format!("{} {}", bytes.len(), crc(bytes));
    }
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A list of texts as JSON writes it.
fn texts(values: impl IntoIterator<Item = String>) -> String {
    let quoted = values.into_iter().map(|text| {
        let mut out = String::from("\"");
        for unit in text.encode_utf16() {
            match unit {
                0x22 => out.push_str("\\\""),
                0x5c => out.push_str("\\\\"),
                0x20..0x7f => out.push(char::from(unit as u8)),
                _ => {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
        out + "\""
    });
    format!("[{}]", quoted.collect::<Vec<_>>().join(", "))
}

fn fixed_texts(size: u64, bytes: &[u8]) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
    texts(bytes.chunks_exact(size as usize).map(text))
}

fn dataset_text(file: &Hdf5File, path: &str, form: &str) -> Result<String, String> {
    let id = file.dataset(path).map_err(|error| error.to_string())?;
    let dataset = file.describe(id).map_err(|error| error.to_string())?;
    let shape = shape_text(&dataset.shape);
    if form == "size" {
        return Ok(shape);
    }
    if dataset.datatype == Datatype::VlenText {
        let found = file.read_vlen_strings(id).map_err(|error| error.to_string())?;
        return Ok(format!("{shape}\t{}", texts(found)));
    }
    let bytes = file.at(id, Selection::whole()).all().read_bytes().map_err(|error| error.to_string())?;
    Ok(match dataset.datatype {
        Datatype::Text(size) if form == "text" => format!("{shape}\t{}", fixed_texts(size, &bytes)),
        _ => format!("{shape}\t{}", bytes_text(form, &bytes)),
    })
}

fn attribute_text(value: &Hdf5Attribute, form: &str) -> Option<String> {
    Some(match value {
        Hdf5Attribute::Text(text) | Hdf5Attribute::FixedText(text) => texts([text.clone()]),
        Hdf5Attribute::Texts(all) => texts(all.clone()),
        Hdf5Attribute::Values(Datatype::Text(size), _, bytes) => fixed_texts(*size, bytes),
        Hdf5Attribute::Values(_, _, bytes) => bytes_text(form, bytes),
        Hdf5Attribute::References(_) | Hdf5Attribute::ScaleUses(_) | Hdf5Attribute::Other(_) => return None,
    })
}

/// Everything that differs from what h5py found.
fn differences(file: &Hdf5File, expected: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for line in expected.lines() {
        let words: Vec<&str> = line.split('\t').collect();
        match words[..] {
            ["dataset", path, "null", ..] if file.dataset(path).is_ok() => {}
            ["dataset", path, shape, form, values] => {
                let wanted = if form == "size" { shape.to_owned() } else { format!("{shape}\t{values}") };
                let found = dataset_text(file, path, form);
                if found.as_ref() != Ok(&wanted) {
                    wrong.push(format!("{path}: {found:.200?} instead of {wanted:.200?}"));
                }
            }
            ["attribute", path, name, _, form, values] => {
                let found = file.object(path).ok().and_then(|object| object.attribute(name));
                let Some(found) = found else {
                    wrong.push(format!("{path}: no attribute {name:?}"));
                    continue;
                };
                if form != "size" && attribute_text(found, form).as_deref() != Some(values) {
                    wrong.push(format!("{path}: attribute {name:?}: {found:.200?} instead of {values:.200}"));
                }
            }
            ["refused", path, filter] => {
                let id = file.dataset(path).expect("it is listed");
                let error = file.at(id, Selection::whole()).read_bytes().unwrap_err().to_string();
                if !error.contains(filter) {
                    wrong.push(format!("{path}: {error}"));
                }
            }
            _ => panic!("{line}"),
        }
    }
    wrong
}

#[test]
fn files_of_h5py_and_netcdf4_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let Some(files) = corpus(folder.path(), &[]) else { return };
    let mut compared = 0;
    for path in files {
        let mut expected_path = path.clone().into_os_string();
        expected_path.push(".expected");
        let Ok(expected) = std::fs::read_to_string(expected_path) else { continue };
        for ranks in [1, 2] {
            let (path, expected) = (path.clone(), expected.clone());
            let wrong = Launch::threads(ranks).run(move |world| {
                let file = Hdf5OpenOptions::new().open(world, &path)?;
                let wrong = differences(&file, &expected);
                file.close().map(|()| wrong)
            });
            let wrong = wrong.unwrap_or_else(|error| panic!("{}: {error}", folder.path().display()));
            assert!(wrong.iter().all(Vec::is_empty), "{}", wrong[0].join("\n"));
        }
        compared += expected.lines().count();
    }
    assert!(compared > 4000, "{compared}");
}

#[test]
fn links_are_followed_or_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_) = corpus(folder.path(), &[]) else { return };
    for name in ["zoo-earliest.h5", "zoo-latest.h5"] {
        let path = folder.path().join(name);
        let done = Launch::threads(1).run(move |world| {
            let file = Hdf5OpenOptions::new().open(world, &path)?;
            for name in ["/links/soft", "/links/relative", "/links/hard"] {
                let values: Vec<i64> = file.at(file.dataset(name)?, 0..4).read_vec()?;
                assert_eq!(values, [0, 1, 2, 3]);
            }
            let refused = |path: &str| file.dataset(path).unwrap_err().to_string();
            assert!(refused("/links/external").contains("external link to \"/x\" in the file \"other.h5\""));
            assert!(refused("/links/dangling").contains("/nowhere"), "{}", refused("/links/dangling"));
            assert!(refused("/links/soft_circle").contains("soft link"));
            file.close()
        });
        done.unwrap();
    }
}

/// Each link is followed by what is known of its group already: the time and the bytes that are decoded do not grow with the square of their number.
#[test]
fn thousands_of_soft_links_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(_) = corpus(folder.path(), &["soft-links"]) else { return };
    for name in ["soft-links-earliest.h5", "soft-links-latest.h5"] {
        let path = folder.path().join(name);
        let done = Launch::threads(2).run(move |world| {
            let file = Hdf5OpenOptions::new().open(world, &path)?;
            let resolved = |link: &&Hdf5Link| matches!(link, Hdf5Link::Soft { resolved: true, .. });
            assert_eq!(file.links().values().filter(resolved).count(), 5001, "{name}");
            for number in [0u64, 1, 2, 3, 2500, 4997, 4998, 4999] {
                let count = if number % 4 == 1 { 3 } else { 4 };
                let dataset = file.dataset(&format!("/many/l{number}"))?;
                let values: Vec<i64> = file.at(dataset, 0..count).all().read_vec()?;
                assert_eq!(values, (0..count as i64).collect::<Vec<_>>(), "{name} {number}");
            }
            file.close()
        });
        done.unwrap();
    }
}
