//! What a file holds, whatever its format: the one seam between commands and formats.

mod element;
#[cfg(feature = "hdf5")]
mod hdf5;
mod netcdf;
mod object;
mod raw;

use std::ffi::{OsStr, OsString};
use std::ops::Range;

use anyhow::{Result, bail, ensure};
use aqueduct::comm::{Comm, Launch};
use aqueduct::file::{Kind, Mode, Open};
use aqueduct::format::Slab;

pub(crate) use element::{Element, Number, Value};
pub(crate) use raw::Shape;

/// What is worked on at once.
const PORTION: u64 = 4 << 20;

/// An array of a file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Array {
    /// Its path: `/group/name` in HDF5, else a name.
    pub(crate) name: String,
    pub(crate) element: Element,
    pub(crate) shape: Vec<u64>,
    /// Whether its first dimension grows with the file: steps.
    pub(crate) grows: bool,
    /// How many rows are complete, where the file says so.
    pub(crate) complete: Option<u64>,
}

impl Array {
    /// How many rows it has: the length of its first dimension, one for a single value.
    pub(crate) fn rows(&self) -> u64 {
        self.shape.first().copied().unwrap_or(1)
    }

    /// Bytes of a row.
    pub(crate) fn row(&self) -> u64 {
        self.shape.iter().skip(1).fold(self.element.size, |all, length| all.saturating_mul(*length))
    }

    /// A part of rows, all of the other dimensions.
    fn slab(&self, rows: &Range<u64>) -> Slab {
        let mut parts: Vec<Range<u64>> = self.shape.iter().map(|length| 0..*length).collect();
        if let Some(first) = parts.first_mut() {
            *first = rows.clone();
        }
        Slab::from(&parts[..])
    }

    /// Its rows in portions that suit memory.
    pub(crate) fn portions(&self) -> impl Iterator<Item = Range<u64>> + use<> {
        // Rows without a byte hold nothing, however many they are said to be; objects of any size are not known by their rows.
        let rows = if self.row() == 0 && self.element.size > 0 { 0 } else { self.rows() };
        let at_once = (PORTION / self.row().max(1)).max(1);
        (0..rows.div_ceil(at_once))
            .map(move |at| at * at_once..(at * at_once).saturating_add(at_once).min(rows))
    }
}

/// An open file. Its bytes are little-endian, whatever they are in the file.
pub(crate) trait Data {
    /// What kind of file it is, for people.
    fn format(&self) -> String;

    fn arrays(&self) -> &[Array];

    /// What is said about it: about what, and what.
    fn notes(&self) -> Vec<(String, String)>;

    /// Rows of an array, by its number.
    fn read(&self, array: usize, rows: Range<u64>) -> Result<Vec<u8>>;

    /// Rows as people read them, one each; none where they are numbers, which [`Data::read`] gives.
    fn lines(&self, _array: usize, _rows: Range<u64>) -> Option<Result<Vec<String>>> {
        None
    }

    /// Whether an array has anything in the file, however long it is said to be.
    fn is_stored(&self, _array: usize) -> bool {
        true
    }

    /// What is wrong beside what reading would tell.
    fn complaints(&self) -> Result<Vec<String>>;
}

/// Opens a file, whatever it is; one that says nothing about itself is raw, of the shape that is given.
pub(crate) fn open(world: &Comm, name: &OsStr, raw: &Shape) -> Result<Box<dyn Data>> {
    let file = Open::new(Mode::read_only()).open(world, name)?;
    let mut first = [0; 8];
    file.at(0).read(&mut first)?;
    drop(file);
    if first.starts_with(b"CDF") {
        return Ok(Box::new(netcdf::File::open(world, name)?));
    }
    if first.starts_with(b"\x89HDF") {
        return open_hdf5(world, name);
    }
    match Open::new(Mode::read_only()).open(world, meta(name)) {
        Ok(_) => return Ok(Box::new(object::File::open(world, name)?)),
        Err(error) if error.kind() == Kind::NoSuchFile => {}
        Err(error) => return Err(error.into()),
    }
    let shown = name.display();
    match end(name).as_str() {
        _ if raw.is_given() => {}
        end @ ("nc" | "h5" | "hdf5" | "h5md") => bail!(
            "{shown}: it is named .{end} and does not begin so: it is empty, cut off or something else; \
             `--raw u8` looks at its bytes"
        ),
        "obj" => bail!("{shown}: its description {shown}.meta is missing; `--raw u8` looks at its bytes"),
        _ => {}
    }
    Ok(Box::new(raw::File::open(world, name, raw)?))
}

#[cfg(feature = "hdf5")]
fn open_hdf5(world: &Comm, name: &OsStr) -> Result<Box<dyn Data>> {
    Ok(Box::new(hdf5::File::open(world, name)?))
}

#[cfg(not(feature = "hdf5"))]
fn open_hdf5(_: &Comm, name: &OsStr) -> Result<Box<dyn Data>> {
    bail!(
        "{} is an HDF5 file, and this command was built without it: cargo build --features hdf5",
        name.display()
    )
}

/// What arrays are written into.
pub(crate) trait Sink {
    /// Makes room for arrays.
    fn define(&mut self, arrays: &[Array], notes: &[(String, String)]) -> Result<()>;

    /// Rows of an array, by its number.
    fn write(&mut self, array: usize, rows: Range<u64>, bytes: &[u8]) -> Result<()>;

    /// The files that it has made of this name so far.
    fn made(&self, name: &OsStr) -> Vec<OsString> {
        vec![name.to_owned()]
    }

    fn close(self: Box<Self>) -> Result<()>;
}

/// What an object file says about itself lies beside it.
fn meta(name: &OsStr) -> OsString {
    let mut meta = name.to_owned();
    meta.push(".meta");
    meta
}

/// Creates a file of the format that the end of its name stands for.
pub(crate) fn create(world: &Comm, name: &OsStr) -> Result<Box<dyn Sink>> {
    match end(name).as_str() {
        "nc" => Ok(Box::new(netcdf::Writer::create(world, name)?)),
        "h5" | "hdf5" => create_hdf5(world, name),
        "obj" => Ok(Box::new(object::Writer::new(world, name))),
        "raw" | "bin" => Ok(Box::new(raw::Writer::create(world, name)?)),
        other => {
            bail!("{}: the end {other:?} stands for no format; .nc, .h5, .obj and .raw do", name.display())
        }
    }
}

/// The end of a name, which says what a file should be.
fn end(name: &OsStr) -> String {
    name.to_string_lossy().rsplit_once('.').map_or_else(String::new, |(_, end)| end.to_owned())
}

#[cfg(feature = "hdf5")]
fn create_hdf5(world: &Comm, name: &OsStr) -> Result<Box<dyn Sink>> {
    Ok(Box::new(hdf5::Writer::create(world, name)?))
}

#[cfg(not(feature = "hdf5"))]
fn create_hdf5(_: &Comm, name: &OsStr) -> Result<Box<dyn Sink>> {
    bail!("{}: this command was built without HDF5: cargo build --features hdf5", name.display())
}

/// Does the work of a command on one rank.
pub(crate) fn alone<R: Send>(work: impl Fn(&Comm) -> Result<R> + Sync) -> Result<R> {
    // Nobody else has to learn of a failure, which is told as it is.
    let mut results = Launch::threads(1).run(|world| Ok::<_, aqueduct::comm::Error>(work(world)))?;
    ensure!(results.len() == 1, "one rank has one result");
    results.remove(0)
}

/// The arrays that a name stands for: one of them, all in a group, or all without a name.
pub(crate) fn chosen(arrays: &[Array], name: Option<&str>) -> Result<Vec<usize>> {
    let Some(name) = name else { return Ok((0..arrays.len()).collect()) };
    let wanted = name.trim_matches('/');
    let fits = |array: &Array| {
        let own = array.name.trim_start_matches('/');
        own == wanted || own.strip_prefix(wanted).is_some_and(|rest| rest.starts_with('/'))
    };
    let found: Vec<usize> = (0..arrays.len()).filter(|at| fits(&arrays[*at])).collect();
    ensure!(!found.is_empty(), "there is no array or group {name:?} among {}", arrays.len());
    Ok(found)
}
