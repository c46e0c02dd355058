//! Extended XYZ: atoms in a box, as text, all ranks into one file.
//!
//! Each rank writes its own lines at their computed place; the file is the same for any number of ranks. Numbers have all their digits.
//!
//! ```
//! use aqueduct_comm::Launch;
//! use aqueduct_formats::xyz::{Atom, XyzFrame, XyzWriter};
//!
//! Launch::threads(2).run(|world| {
//!     let mut writer = XyzWriter::create(world, "memfs:argon.xyz")?;
//!     let atom = Atom { species: "Ar", position: [world.rank() as f64, 0.5, 0.25], velocity: None };
//!     writer.write(&XyzFrame { time: 0.5, edges: [10.0, 10.0, 20.0] }, &[atom])?;
//!     writer.close()
//! })?;
//! # let file = aqueduct_file::OpenOptions::new().read(true);
//! # let read = |world: &aqueduct_comm::Comm| {
//! #     let mut text = vec![0u8; 400];
//! #     let count = file.open(world, "memfs:argon.xyz")?.at(0).read(&mut text)?.bytes();
//! #     text.truncate(count as usize);
//! #     Ok::<_, aqueduct_file::Error>(String::from_utf8(text).unwrap())
//! # };
//! # let text = Launch::threads(1).run(read)?.remove(0);
//! assert!(text.ends_with("Ar 0 0.5 0.25\nAr 1 0.5 0.25\n"));
//! # Ok::<(), aqueduct_comm::Error>(())
//! ```

use std::ffi::OsStr;
use std::fmt::Write as _;

use aqueduct_comm::{Comm, Op, PooledComm};
use aqueduct_file::{self as file, File};

use crate::error::{Error, Kind, Result, agree};

/// An atom.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Atom<'a> {
    /// Its chemical symbol.
    pub species: &'a str,
    /// Where it is.
    pub position: [f64; 3],
    /// Where it goes: the column `velo`. All atoms of a frame have one, or none has.
    pub velocity: Option<[f64; 3]>,
}

/// What a frame is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct XyzFrame {
    /// The time.
    pub time: f64,
    /// The edges of the periodic box.
    pub edges: [f64; 3],
}

/// A file that is being written by all ranks.
#[derive(Debug)]
pub struct XyzWriter {
    comm: PooledComm,
    file: File,
    end: u64,
}

impl XyzWriter {
    /// Creates a file. One that exists is refused: [`replace`](Self::replace) replaces it. Collective.
    pub fn create(comm: &Comm, name: impl AsRef<OsStr>) -> Result<Self> {
        let shown = name.as_ref().to_string_lossy();
        let made = file::OpenOptions::new().read(true).write(true).exclusive(true).open(comm, name.as_ref());
        let file = made.map_err(|error| match error.kind() {
            file::Kind::FileExists => {
                let detail = "it exists and was to be created; replace it with `xyz::Writer::replace`, or write another file";
                Error::new(error.kind(), "create", shown, detail)
            }
            _ => error,
        });
        Self::new(comm, file?)
    }

    /// Creates a file, instead of one that is there. Collective.
    pub fn replace(comm: &Comm, name: impl AsRef<OsStr>) -> Result<Self> {
        let file = file::OpenOptions::new().read(true).write(true).create(true).open(comm, name)?;
        file.set_size(0)?;
        Self::new(comm, file)
    }

    fn new(comm: &Comm, file: File) -> Result<Self> {
        let comm =
            PooledComm::acquire(comm).map_err(|error| Error::from_comm("create", file.name(), &error))?;
        Ok(Self { comm, file, end: 0 })
    }

    /// Adds a frame: the atoms of all ranks, in the order of the ranks. Collective.
    pub fn write(&mut self, frame: &XyzFrame, atoms: &[Atom<'_>]) -> Result<()> {
        let name = self.file.name();
        let talk = |error| Error::from_comm("write", name, &error);
        let lines = agree(&self.comm, "write", name, lines(name, atoms))?;
        let moving = atoms.iter().filter(|atom| atom.velocity.is_some()).count();
        let mine = [atoms.len(), moving, lines.len()].map(|count| count as u64);
        let counts = self.comm.allgather(&mine).map_err(talk)?;
        let sum = |which: usize, ranks: usize| counts.iter().skip(which).step_by(3).take(ranks).sum::<u64>();
        let (rank, ranks) = (self.comm.rank(), self.comm.size());
        let (count, moving) = (sum(0, ranks), sum(1, ranks));
        if moving != 0 && moving != count {
            let detail = format!("{moving} of {count} atoms have a velocity: give one to all, or to none");
            return Err(Error::new(Kind::BadArgument, "write", name, detail));
        }
        let head = head(frame, count, moving > 0);
        let before = sum(2, rank);
        let text = if rank == 0 { head.clone() + &lines } else { lines };
        let at = if rank == 0 { self.end } else { self.end + head.len() as u64 + before };
        self.file.at(at).all().write(text.as_bytes())?;
        self.end += head.len() as u64 + sum(2, ranks);
        Ok(())
    }

    /// Makes the file durable, and closes it. Collective.
    pub fn close(self) -> Result<()> {
        self.file.sync()?;
        // No rank closes the file before all have written.
        let talk = |error| Error::from_comm("close", self.file.name(), &error);
        self.comm.allreduce(Op::Max, &[self.end]).map_err(talk)?;
        self.file.close()?;
        self.comm.release();
        Ok(())
    }
}

fn head(frame: &XyzFrame, count: u64, moving: bool) -> String {
    let [x, y, z] = frame.edges;
    let time = frame.time;
    let velocity = if moving { ":velo:R:3" } else { "" };
    format!(
        "{count}\nLattice=\"{x} 0 0 0 {y} 0 0 0 {z}\" Properties=species:S:1:pos:R:3{velocity} Time={time} pbc=\"T T T\"\n"
    )
}

fn lines(name: &str, atoms: &[Atom<'_>]) -> Result<String> {
    let mut text = String::with_capacity(atoms.len() * 64);
    for Atom { species, position: [x, y, z], velocity } in atoms {
        if species.is_empty() || species.contains(|letter: char| letter.is_whitespace() || letter == '"') {
            let detail = format!("{species:?} is no chemical symbol: letters without spaces");
            return Err(Error::new(Kind::BadArgument, "write", name, detail));
        }
        // Writing to a string does not fail.
        let _ = write!(text, "{species} {x} {y} {z}");
        if let Some([x, y, z]) = velocity {
            let _ = write!(text, " {x} {y} {z}");
        }
        text.push('\n');
    }
    Ok(text)
}
