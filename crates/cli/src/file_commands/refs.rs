//! `aqueduct refs`: references to the chunks of a file, with which readers of Zarr read it in place (kerchunk, version 1).
//!
//! See <https://fsspec.github.io/kerchunk/spec.html> and <https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html>.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::json as as_json;
use crate::array_file::{
    self, Array, ArrayFile, ChunkCodec, ChunkReferences, ElementType, NamedAttribute, NumberType, RawShape,
};
use crate::parallel::RankCount;
use crate::standard_output;

/// Arrays without references are stored in the output up to this size.
const LARGEST_INLINE: u64 = 1 << 20;

#[derive(clap::Args)]
pub(crate) struct RefsArguments {
    /// A file of any known kind, or a checkpoint store
    file: OsString,
    /// Only this array, or all arrays of this group
    #[arg(long)]
    array: Option<String>,
    /// The file to write [default: the standard output stream]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Where readers find the file, instead of its path here, such as `s3://bucket/run.h5`
    #[arg(long)]
    url: Option<String>,
    #[command(flatten)]
    raw: RawShape,
}

pub(crate) fn run(arguments: &RefsArguments) -> Result<ExitCode> {
    // Only metadata is read.
    let text = RankCount::one().run(&[], |world| {
        let file = array_file::open(world, &arguments.file, &arguments.raw)?;
        file.prepare()?;
        let chosen = array_file::select_arrays(file.arrays(), arguments.array.as_deref())?;
        let mut refs = ReferenceMap { refs: Map::new(), url: arguments.url.as_deref(), omitted: Vec::new() };
        refs.add_groups(&*file);
        for at in chosen {
            refs.add_array(&*file, at)?;
        }
        let text = json!({"version": 1, "refs": refs.refs}).to_string() + "\n";
        Ok((world.rank() == 0).then_some((text, refs.omitted)))
    })?;
    // The processes of an MPI job have the same result.
    let Some((text, omitted)) = text else { return Ok(ExitCode::SUCCESS) };
    for line in omitted {
        eprintln!("aqueduct: warning: {line}");
    }
    match &arguments.output {
        Some(path) => {
            let file = std::fs::File::create_new(path);
            let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
            written.with_context(|| format!("writing {}", path.display()))?;
        }
        None => standard_output::print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The keys of a Zarr store and their values.
struct ReferenceMap<'r> {
    refs: Map<String, Value>,
    /// The name of the file for readers.
    url: Option<&'r str>,
    /// Arrays that have no references, a line each.
    omitted: Vec<String>,
}

impl ReferenceMap<'_> {
    /// A key whose value is JSON.
    fn add_json(&mut self, key: String, value: &Value) {
        self.refs.insert(key, Value::String(value.to_string()));
    }

    /// The groups that contain an array or a group, and their attributes.
    fn add_groups(&mut self, file: &dyn ArrayFile) {
        self.add_json(".zgroup".to_owned(), &json!({"zarr_format": 2}));
        for array in file.arrays() {
            let path = array.name.trim_matches('/');
            for (at, _) in path.match_indices('/') {
                self.add_json(format!("{}/.zgroup", &path[..at]), &json!({"zarr_format": 2}));
            }
        }
        for (group, attributes) in file.attributes() {
            let path = group.trim_matches('/');
            let prefix = if path.is_empty() { String::new() } else { format!("{path}/") };
            self.add_json(format!("{prefix}.zgroup"), &json!({"zarr_format": 2}));
            let shown = shown_attributes(&attributes);
            if !shown.is_empty() {
                self.add_json(format!("{prefix}.zattrs"), &as_json::attributes(&shown));
            }
        }
    }

    fn add_array(&mut self, file: &dyn ArrayFile, at: usize) -> Result<()> {
        let array = &file.arrays()[at];
        let name = array.name.trim_matches('/');
        ensure!(!name.is_empty(), "an array without a name has no references");
        let found = match file.references(at) {
            Ok(found) => found,
            Err(error) => {
                let bytes = array.rows().saturating_mul(array.row());
                if bytes == 0 || bytes > LARGEST_INLINE || array.element.size == 0 {
                    self.omitted.push(format!("the array {} is omitted: {error:#}", array.name));
                    return Ok(());
                }
                self.add_inline(file, at)?;
                ChunkReferences::plain(array.shape.clone(), Vec::new())
            }
        };
        self.add_metadata(name, array, &found);
        for chunk in &found.chunks {
            let url = match self.url {
                Some(url) => url.to_owned(),
                None => local_url(&chunk.file),
            };
            self.refs
                .insert(format!("{name}/{}", key(&chunk.index)), json!([url, chunk.offset, chunk.bytes]));
        }
        Ok(())
    }

    /// The values of a small array as its only chunk.
    fn add_inline(&mut self, file: &dyn ArrayFile, at: usize) -> Result<()> {
        let array = &file.arrays()[at];
        let mut bytes = Vec::new();
        array.parts().try_for_each(|part| file.read(at, &part).map(|some| bytes.extend(some)))?;
        let index = vec![0; array.shape.len()];
        let text = format!("base64:{}", STANDARD.encode(&bytes));
        self.refs.insert(format!("{}/{}", array.name.trim_matches('/'), key(&index)), Value::String(text));
        Ok(())
    }

    fn add_metadata(&mut self, name: &str, array: &Array, found: &ChunkReferences) {
        let codec = |codec: &ChunkCodec| match codec {
            ChunkCodec::Deflate(level) => json!({"id": "zlib", "level": level}),
            ChunkCodec::Zstd(level) => json!({"id": "zstd", "level": level}),
            ChunkCodec::Shuffle(size) => json!({"id": "shuffle", "elementsize": size}),
            ChunkCodec::Fletcher32 => json!({"id": "fletcher32"}),
        };
        // The last one is the compressor, if it compresses; the others are filters, applied in their order.
        let is_compressor =
            |codec: &&ChunkCodec| matches!(codec, ChunkCodec::Deflate(_) | ChunkCodec::Zstd(_));
        let compressor = found.codecs.last().filter(is_compressor);
        let filters = &found.codecs[..found.codecs.len() - usize::from(compressor.is_some())];
        let filters: Vec<Value> = filters.iter().map(codec).collect();
        let fill = found.fill.as_deref().or_else(|| array.fill_value());
        let fill = match (fill, array.element.as_number()) {
            (Some(bytes), Some(number)) if number != NumberType::Char => as_json::element(number, bytes),
            _ => Value::Null,
        };
        let chunk: Vec<u64> = found.chunk.iter().map(|length| (*length).max(1)).collect();
        self.add_json(
            format!("{name}/.zarray"),
            &json!({
                "zarr_format": 2, "shape": array.shape, "chunks": chunk, "dtype": dtype(&array.element, found.is_big_endian),
                "compressor": compressor.map(codec), "filters": if filters.is_empty() { Value::Null } else { json!(filters) },
                "fill_value": fill, "order": "C",
            }),
        );
        let dimension = |at: usize| match array.dimensions.get(at).filter(|name| !name.is_empty()) {
            Some(name) => name.clone(),
            None => format!("{}_{at}", name.replace('/', ".")),
        };
        let mut attributes = as_json::attributes(&shown_attributes(&array.attributes));
        attributes["_ARRAY_DIMENSIONS"] = (0..array.shape.len()).map(dimension).collect();
        self.add_json(format!("{name}/.zattrs"), &attributes);
    }
}

/// The attributes that a reader of Zarr needs: not those that describe the fill value or dimension scales.
fn shown_attributes(all: &[NamedAttribute]) -> Vec<NamedAttribute> {
    let is_shown =
        |one: &&NamedAttribute| one.name != "_FillValue" && !array_file::is_internal(&one.name, all);
    all.iter().filter(is_shown).cloned().collect()
}

/// The key of a chunk: its indices with dots between; `0` for a single value.
fn key(index: &[u64]) -> String {
    if index.is_empty() {
        return "0".to_owned();
    }
    index.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
}

/// A file of this machine by its absolute path; other names are kept.
fn local_url(name: &OsStr) -> String {
    let path = name.to_str().and_then(|name| name.strip_prefix("ufs:")).map_or(name, OsStr::new);
    let path = PathBuf::from(path);
    path.canonicalize().unwrap_or(path).to_string_lossy().into_owned()
}

/// The dtype of Zarr: as in numpy; records are lists of fields.
fn dtype(element: &ElementType, is_big_endian: bool) -> Value {
    let order = if is_big_endian { '>' } else { '<' };
    let kind = |kind: NumberType| match kind {
        NumberType::I8 => "|i1".to_owned(),
        NumberType::U8 => "|u1".to_owned(),
        NumberType::Char => "|S1".to_owned(),
        NumberType::I16 | NumberType::I32 | NumberType::I64 => format!("{order}i{}", kind.size()),
        NumberType::U16 | NumberType::U32 | NumberType::U64 => format!("{order}u{}", kind.size()),
        NumberType::F32 | NumberType::F64 => format!("{order}f{}", kind.size()),
    };
    if let Some(number) = element.as_number().filter(|number| number.size() == element.size) {
        return kind(number).into();
    }
    let Some(parts) = &element.parts else { return format!("|V{}", element.size).into() };
    let mut parts: Vec<&(u64, String, NumberType)> = parts.iter().collect();
    parts.sort_by_key(|(at, ..)| *at);
    let (mut fields, mut end) = (Vec::new(), 0);
    let padding = |fields: &mut Vec<Value>, bytes: u64| {
        if bytes > 0 {
            fields.push(json!([format!("padding_{}", fields.len()), format!("|V{bytes}")]));
        }
    };
    for (at, name, number) in parts {
        padding(&mut fields, at.saturating_sub(end));
        fields.push(json!([if name.is_empty() { "value" } else { name }, kind(*number)]));
        end = at + number.size();
    }
    padding(&mut fields, element.size.saturating_sub(end));
    fields.into()
}
