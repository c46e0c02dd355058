//! Which kind a file is of: by the file beside it, by its first bytes, by its name. What says that it is something else is never raw.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use aqueduct::comm::Comm;
use aqueduct::file::{File, Kind};
use aqueduct::mardyn::{PhaseSpaceFiles, PhaseSpaceFormat};

use super::finding::FormatMismatch;

/// The first bytes that kinds are told by.
const HEAD: usize = 512;
const HDF5: &[u8] = b"\x89HDF\r\n\x1a\n";
/// Where the first bytes of HDF5 may be instead, behind those of another program.
const HDF5_PLACES: [u64; 4] = [512, 1024, 2048, 4096];

/// What says that a folder is a checkpoint, and how files of parts end that have no header.
const MANIFEST: &str = "manifest.json";
const PART_ENDS: [&str; 2] = ["array", "objects"];

/// A kind of file, and the names of the files that it consists of.
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
    /// Nothing says what it is.
    Raw,
}

/// The kind of a file. `assume_raw` is for what only its name speaks against.
pub(crate) fn detect(world: &Comm, name: &OsStr, assume_raw: bool) -> Result<FileKind> {
    if let Some(kind) = folder_kind(name)? {
        return Ok(kind);
    }
    let head = match read_head(world, name) {
        Ok(head) => head,
        // Half of a pair: the other half says what is missing.
        Err(error) if super::finding::is_missing(&error) => {
            return companion_kind(world, name, &[], false)?.ok_or(error);
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

/// A folder is a store, or a checkpoint in one.
fn folder_kind(name: &OsStr) -> Result<Option<FileKind>> {
    let path = system_path(name);
    // Opening a FIFO would wait for its writer.
    if std::fs::metadata(&path)
        .is_ok_and(|data| !data.is_file() && !data.is_dir() && !data.file_type().is_block_device())
    {
        bail!("{}: it is a FIFO, a socket or a character device, no file", name.display());
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
        // Named as a checkpoint, and nothing else: its manifest is missing.
        if generation.is_some() {
            return Ok(generation);
        }
        bail!("{}: it is a folder, and no checkpoint store: no generation is in it", name.display());
    }
    let (Some(folder), Some(file)) = (path.parent(), path.file_name()) else { return Ok(None) };
    let part = Path::new(file).file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let part = (file != MANIFEST).then_some(part);
    // A cell file has a header of its own; what has another end was put there by someone else.
    let named =
        part.is_none() || path.extension().is_some_and(|end| PART_ENDS.iter().any(|known| end == *known));
    let is_part = named && path.is_file() && folder.join(MANIFEST).is_file();
    Ok(is_part.then(|| generation_kind(folder, part)).flatten())
}

/// The checkpoint that the name of a folder stands for: `generation-` and ten digits.
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

/// The first bytes of a file; none if there is none.
fn head_of(world: &Comm, name: &OsStr) -> Result<Option<Vec<u8>>> {
    match read_head(world, name) {
        Ok(head) => Ok(Some(head)),
        Err(error) if super::finding::is_missing(&error) => Ok(None),
        // A folder of that name is no file beside this one.
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

/// The kind that the file beside it says. One that does not begin as ours decides only where nobody has said that the file is raw.
fn companion_kind(world: &Comm, name: &OsStr, head: &[u8], assume_raw: bool) -> Result<Option<FileKind>> {
    let is_foreign = head.starts_with(b"CDF") || head.starts_with(HDF5) || head.starts_with(b"AQUE");
    for (end, magic) in [(".steps", b"AQUESTEP"), (".meta", b"AQUEMETA")] {
        let Some(beside) = head_of(world, &with_suffix(name, end))? else { continue };
        // A file that says itself what it is may have a stranger beside it.
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

/// The kind that its first bytes say.
fn magic_kind(world: &Comm, name: &OsStr, head: &[u8]) -> Result<Option<FileKind>> {
    Ok(Some(match head {
        [b'C', b'D', b'F', version, ..] => match version {
            1 | 2 | 5 | b'?' => FileKind::NetCdf,
            other => bail!("{}: version {other} of netCDF is not known here", name.display()),
        },
        _ if head.starts_with(HDF5) => match head.get(8) {
            Some(version @ 4..) => bail!("{}: version {version} of HDF5 is not known here", name.display()),
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

/// The kind of what `MarDyn` reads and writes: a text, or a header and its data.
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
            bail!("{text}: this is a header of MarDyn; name it NAME.header.xml and its data NAME.dat");
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

/// Whether a file of HDF5 begins behind the bytes of another program.
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

/// What a name promises, and its first bytes did not keep.
fn name_kind(name: &OsStr) -> Result<FileKind> {
    let (shown, text) = (name.display(), name.to_string_lossy());
    let end = extension_of(name);
    let broken = |what: String| Err(FormatMismatch(what).into());
    match end.as_str() {
        "cells" => Ok(FileKind::Cells),
        "nc" | "h5" | "hdf5" | "h5md" | "inp" if end != "inp" || text.ends_with(".restart.inp") => {
            broken(format!(
                "{shown}: it is named .{end} and does not begin so: it is empty, cut off or something else; \
             `--raw u8` looks at its bytes"
            ))
        }
        "obj" => {
            broken(format!("{shown}: its description {shown}.meta is missing; `--raw u8` looks at its bytes"))
        }
        "steps" | "meta" => broken(format!(
            "{shown}: it is named .{end} and does not begin so: it is empty, cut off or something else; \
             `--raw u8` looks at its bytes"
        )),
        "mpi" | "dat" | "xml" | "restart"
            if [".restart.mpi", ".restart.dat", ".restart.header.xml", ".restart"]
                .iter()
                .any(|end| text.ends_with(end)) =>
        {
            broken(format!(
                "{shown}: it is named as a file of MarDyn, and its header is missing or does not begin so; `--raw u8` looks at its bytes"
            ))
        }
        _ => Ok(FileKind::Raw),
    }
}

/// The end of a name, which says what a file should be.
pub(crate) fn extension_of(name: &OsStr) -> String {
    name.to_string_lossy().rsplit_once('.').map_or_else(String::new, |(_, end)| end.to_owned())
}

/// A name with something behind it.
pub(crate) fn with_suffix(name: &OsStr, end: &str) -> OsString {
    let mut all = name.to_owned();
    all.push(end);
    all
}

/// The name of the data whose description this is.
fn without_suffix(world: &Comm, name: &OsStr, end: &str) -> Result<OsString> {
    let data = name.to_str().and_then(|name| name.strip_suffix(end));
    let Some(data) = data.filter(|data| !data.is_empty()) else {
        bail!(
            "{}: it describes data that lies beside it; name it as the data, with {end} behind",
            name.display()
        );
    };
    if head_of(world, OsStr::new(data))?.is_none() {
        return Err(FormatMismatch(format!(
            "{}: the data {data} that it describes is missing",
            name.display()
        ))
        .into());
    }
    Ok(data.into())
}

fn as_text(name: &OsStr) -> Result<String> {
    match name.to_str() {
        Some(name) => Ok(name.to_owned()),
        None => bail!("{}: stream files have names in UTF-8", name.display()),
    }
}
