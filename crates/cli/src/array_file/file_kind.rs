//! Detects the kind of a file by a companion file, by its first bytes, and by its name. A file with an indication of another kind is
//! never raw.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use aqueduct::comm::Comm;
use aqueduct::file::{Error, File, Kind};
use aqueduct::mardyn::{PhaseSpaceFiles, PhaseSpaceFormat};

use crate::finding::FormatMismatch;

/// The number of first bytes that identify a kind.
const HEAD: usize = 512;
const HDF5: &[u8] = b"\x89HDF\r\n\x1a\n";
/// Offsets at which an HDF5 file may begin after a user block.
const HDF5_PLACES: [u64; 4] = [512, 1024, 2048, 4096];

/// The file that marks a folder as a checkpoint, and extensions of parts without a header.
const MANIFEST: &str = "manifest.json";
const PART_ENDS: [&str; 2] = ["array", "objects"];

/// A kind of file, and the names of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// A folder of checkpoints.
    Store(PathBuf),
    /// A checkpoint in a store, or a part of it.
    Generation {
        store: PathBuf,
        number: u64,
        part: Option<String>,
    },
    /// A stream file, by the name of its data.
    Stream(String),
    /// An object file, by the name of its data.
    Objects(OsString),
    /// A cell file.
    Cells,
    /// A phase space of `MarDyn`.
    Mardyn(PhaseSpaceFormat, PhaseSpaceFiles),
    NetCdf,
    Hdf5,
    /// No indication of a kind.
    Raw,
}

/// The kind of a file. With `assume_raw` a file is raw even if its name indicates another kind.
pub(crate) fn detect(world: &Comm, name: &OsStr, assume_raw: bool) -> Result<FileKind> {
    if let Some(kind) = folder_kind(name)? {
        return Ok(kind);
    }
    let head = match read_head(world, name) {
        Ok(head) => head,
        // One file of a pair: the name of the other one is known.
        Err(error) if crate::finding::is_missing(&error) => {
            let missing = || {
                Error::new(Kind::NoSuchFile, "open", name.to_string_lossy(), "no such file; check the path")
            };
            return companion_kind(world, name, &[], false)?.ok_or_else(|| missing().into());
        }
        Err(error) => return Err(error),
    };
    if let Some(kind) = companion_kind(world, name, &head, assume_raw)? {
        return Ok(kind);
    }
    if let Some(kind) = magic_kind(world, name, &head)? {
        return Ok(kind);
    }
    if let Some(kind) = mardyn_kind(world, name, &head)? {
        return Ok(kind);
    }
    if has_hdf5_inside(world, name)? {
        return Ok(FileKind::Hdf5);
    }
    if assume_raw {
        return Ok(FileKind::Raw);
    }
    name_kind(name)
}

/// The kind of a folder: a store, or a checkpoint in a store.
fn folder_kind(name: &OsStr) -> Result<Option<FileKind>> {
    let path = system_path(name);
    // Opening a FIFO would wait for its writer.
    if std::fs::metadata(&path)
        .is_ok_and(|data| !data.is_file() && !data.is_dir() && !data.file_type().is_block_device())
    {
        bail!("{}: not a regular file but a FIFO, a socket or a character device", name.display());
    }
    if path.is_dir() {
        let generation = generation_kind(&path, None);
        if generation.is_some() && path.join(MANIFEST).is_file() {
            return Ok(generation);
        }
        let entries = std::fs::read_dir(&path)?;
        let is_ours = |name: &str| {
            name == ".lock"
                || [".writing-", ".pruned-", "generation-"].iter().any(|start| name.starts_with(start))
        };
        let ours = entries.flatten().any(|entry| is_ours(&entry.file_name().to_string_lossy()));
        if ours {
            return Ok(Some(FileKind::Store(path)));
        }
        // A folder with the name of a checkpoint, but without a manifest.
        if generation.is_some() {
            return Ok(generation);
        }
        bail!("{}: the folder is not a checkpoint store: it has no generation", name.display());
    }
    let (Some(folder), Some(file)) = (path.parent(), path.file_name()) else { return Ok(None) };
    let part = Path::new(file).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let part = (file != MANIFEST).then_some(part);
    // A cell file has its own header; a file with another extension is not a part.
    let named =
        part.is_none() || path.extension().is_some_and(|end| PART_ENDS.iter().any(|known| end == *known));
    let is_part = named && path.is_file() && folder.join(MANIFEST).is_file();
    Ok(is_part.then(|| generation_kind(folder, part)).flatten())
}

/// The number of a checkpoint from the name of its folder: `generation-` and ten digits.
fn generation_kind(folder: &Path, part: Option<String>) -> Option<FileKind> {
    let name = folder
        .file_name()
        .map(OsStr::to_owned)
        .or_else(|| folder.canonicalize().ok()?.file_name().map(OsStr::to_owned));
    let name = name?;
    let digits = name.to_str()?.strip_prefix("generation-")?;
    let number = digits
        .parse()
        .ok()
        .filter(|_| digits.len() == 10 && digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let store = folder.canonicalize().ok()?.parent()?.to_owned();
    Some(FileKind::Generation { store, number, part })
}

/// The path of a file of the operating system.
fn system_path(name: &OsStr) -> PathBuf {
    let name = name.to_str().and_then(|name| name.strip_prefix("ufs:")).map_or(name, OsStr::new);
    PathBuf::from(name)
}

fn read_head(world: &Comm, name: &OsStr) -> Result<Vec<u8>> {
    let file = File::open(world, name)?;
    let mut head = vec![0; HEAD];
    let count = file.at(0).read(&mut head)?.bytes();
    head.truncate(count as usize);
    Ok(head)
}

/// The first bytes of a file; `None` if it does not exist.
fn head_of(world: &Comm, name: &OsStr) -> Result<Option<Vec<u8>>> {
    match read_head(world, name) {
        Ok(head) => Ok(Some(head)),
        Err(error) if crate::finding::is_missing(&error) => Ok(None),
        // A folder of that name is not a companion file.
        Err(error)
            if error
                .downcast_ref::<aqueduct::file::Error>()
                .is_some_and(|error| error.kind() == Kind::BadName) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The kind by a companion file. A companion without the expected first bytes is ignored with `assume_raw`.
fn companion_kind(world: &Comm, name: &OsStr, head: &[u8], assume_raw: bool) -> Result<Option<FileKind>> {
    let is_foreign = head.starts_with(b"CDF") || head.starts_with(HDF5) || head.starts_with(b"AQUE");
    for (end, magic) in [(".steps", b"AQUESTEP"), (".meta", b"AQUEMETA")] {
        let Some(beside) = head_of(world, &with_suffix(name, end))? else { continue };
        // A file with its own magic number may have an unrelated file beside it.
        if (is_foreign || assume_raw) && !beside.starts_with(magic) {
            continue;
        }
        return Ok(Some(match end {
            ".steps" => FileKind::Stream(as_text(name)?),
            _ => FileKind::Objects(name.to_owned()),
        }));
    }
    Ok(None)
}

/// The kind by the first bytes.
fn magic_kind(world: &Comm, name: &OsStr, head: &[u8]) -> Result<Option<FileKind>> {
    Ok(Some(match head {
        [b'C', b'D', b'F', version, ..] => match version {
            1 | 2 | 5 | b'?' => FileKind::NetCdf,
            other => bail!("{}: version {other} of netCDF is not supported", name.display()),
        },
        _ if head.starts_with(HDF5) => match head.get(8) {
            Some(version @ 4..) => {
                bail!("{}: version {version} of the HDF5 superblock is not supported", name.display())
            }
            _ => FileKind::Hdf5,
        },
        _ if head.starts_with(b"AQUECELL") => FileKind::Cells,
        _ if head.starts_with(b"AQUESTEP") => {
            FileKind::Stream(as_text(&without_suffix(world, name, ".steps")?)?)
        }
        _ if head.starts_with(b"AQUEMETA") => FileKind::Objects(without_suffix(world, name, ".meta")?),
        _ => return Ok(None),
    }))
}

/// The kind of a file of `MarDyn`: a text, or a header with data.
fn mardyn_kind(world: &Comm, name: &OsStr, head: &[u8]) -> Result<Option<FileKind>> {
    let Some(text) = name.to_str() else { return Ok(None) };
    let exists = |name: &str| Ok::<_, anyhow::Error>(head_of(world, OsStr::new(name))?.is_some());
    let two = |format, header: String, data: String| {
        Ok(Some(FileKind::Mardyn(format, PhaseSpaceFiles::two(header, data))))
    };
    let is_header = |head: &[u8]| head.trim_ascii_start().starts_with(b"mardyn");
    let start = head.trim_ascii_start();
    if is_header(head) {
        for (format, end) in [(PhaseSpaceFormat::MpiIo, ".mpi"), (PhaseSpaceFormat::PnetCdf, ".nc")] {
            if exists(&format!("{text}{end}"))? {
                return two(format, text.to_owned(), format!("{text}{end}"));
            }
        }
        let binary = text.strip_suffix(".header").map(|prefix| format!("{prefix}.dat"));
        if let Some(data) = binary {
            return two(PhaseSpaceFormat::Binary, text.to_owned(), data);
        }
        return Ok(Some(FileKind::Mardyn(PhaseSpaceFormat::OldStyle, PhaseSpaceFiles::one(text))));
    }
    if start.starts_with(b"<") && head.windows(7).any(|word| word == b"<mardyn") {
        let Some(prefix) = text.strip_suffix(".header.xml") else {
            bail!(
                "{text}: this is a header of MarDyn; rename it to NAME.header.xml and its data to NAME.dat"
            );
        };
        return two(PhaseSpaceFormat::Binary, text.to_owned(), format!("{prefix}.dat"));
    }
    if let Some(prefix) = text.strip_suffix(".dat") {
        for header in [format!("{prefix}.header.xml"), format!("{prefix}.header")] {
            if exists(&header)? {
                return two(PhaseSpaceFormat::Binary, header, text.to_owned());
            }
        }
    }
    let header = text.strip_suffix(".mpi");
    match header.map(|header| head_of(world, OsStr::new(header))).transpose()?.flatten() {
        Some(beside) if is_header(&beside) || text.ends_with(".restart.mpi") => {
            two(PhaseSpaceFormat::MpiIo, header.unwrap_or_default().to_owned(), text.to_owned())
        }
        _ => Ok(None),
    }
}

/// Whether an HDF5 file begins after a user block.
fn has_hdf5_inside(world: &Comm, name: &OsStr) -> Result<bool> {
    let file = File::open(world, name)?;
    for place in HDF5_PLACES {
        let mut bytes = [0; HDF5.len()];
        if file.at(place).read(&mut bytes)?.bytes() == HDF5.len() as u64 && bytes == HDF5 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// An error if the name indicates a kind that the first bytes do not confirm.
fn name_kind(name: &OsStr) -> Result<FileKind> {
    let (shown, text) = (name.display(), name.to_string_lossy());
    let end = extension_of(name);
    let broken = |what: String| Err(FormatMismatch(what).into());
    match end.as_str() {
        "cells" => Ok(FileKind::Cells),
        "nc" | "h5" | "hdf5" | "h5md" | "inp" if end != "inp" || text.ends_with(".restart.inp") => {
            broken(format!(
                "{shown}: the extension is .{end}, but the first bytes are not those of this format: the file is empty, truncated or of another kind; \
             use `--raw u8` to read its bytes"
            ))
        }
        "obj" => {
            broken(format!("{shown}: its metadata {shown}.meta is missing; use `--raw u8` to read its bytes"))
        }
        "steps" | "meta" => broken(format!(
            "{shown}: the extension is .{end}, but the first bytes are not those of this format: the file is empty, truncated or of another kind; \
             use `--raw u8` to read its bytes"
        )),
        "mpi" | "dat" | "xml" | "restart"
            if [".restart.mpi", ".restart.dat", ".restart.header.xml", ".restart"]
                .iter()
                .any(|end| text.ends_with(end)) =>
        {
            broken(format!(
                "{shown}: its name is that of a file of MarDyn, but its header is missing or invalid; use `--raw u8` to read its bytes"
            ))
        }
        _ => Ok(FileKind::Raw),
    }
}

/// The extension of a name.
pub(crate) fn extension_of(name: &OsStr) -> String {
    name.to_string_lossy().rsplit_once('.').map_or_else(String::new, |(_, end)| end.to_owned())
}

/// A name with a suffix appended.
pub(crate) fn with_suffix(name: &OsStr, end: &str) -> OsString {
    let mut all = name.to_owned();
    all.push(end);
    all
}

/// The name of the data that belong to this metadata file.
fn without_suffix(world: &Comm, name: &OsStr, end: &str) -> Result<OsString> {
    let data = name.to_str().and_then(|name| name.strip_suffix(end));
    let Some(data) = data.filter(|data| !data.is_empty()) else {
        bail!("{}: a metadata file must have the name of its data followed by {end}", name.display());
    };
    if head_of(world, OsStr::new(data))?.is_none() {
        return Err(FormatMismatch(format!("{}: its data file {data} is missing", name.display())).into());
    }
    Ok(data.into())
}

fn as_text(name: &OsStr) -> Result<String> {
    match name.to_str() {
        Some(name) => Ok(name.to_owned()),
        None => bail!("{}: the name of a stream file must be UTF-8", name.display()),
    }
}
