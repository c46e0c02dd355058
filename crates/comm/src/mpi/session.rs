//! MPI started once for this process, whichever interface it has.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};

use super::ThreadLevel;
use super::abi::{Abi, Flavour, Mpich, OpenMpi, Standard};
use super::functions::Functions;
use super::library::Library;
use super::wire::{MpiWire, Ruler};
use crate::wire::Wire;
use crate::{Error, Kind, Result};

/// A wire and what its owner may do with it that others must not.
pub(crate) trait Session: Send + Sync {
    fn wire(&self) -> Arc<dyn Wire>;

    /// Ends the whole job, with a message.
    fn abort(&self, message: &str);

    /// All ranks are done: waits for what is under way and ends MPI if it was started here.
    fn close(&self) -> Result<()>;
}

struct Open<A: Abi> {
    mpi: Arc<Functions<A>>,
    wire: Arc<MpiWire<A>>,
    started_here: bool,
}

impl<A: Abi> Session for Open<A> {
    fn wire(&self) -> Arc<dyn Wire> {
        Arc::clone(&self.wire) as _
    }

    fn abort(&self, message: &str) {
        self.wire.abort(message);
    }

    fn close(&self) -> Result<()> {
        self.wire.close()?;
        if self.started_here { self.mpi.finalize() } else { Ok(()) }
    }
}

/// Loads the first of `names` that can be, starts MPI and takes the world.
pub(crate) fn start(names: &[OsString], wanted: ThreadLevel) -> Result<Box<dyn Session>> {
    let library = Library::load(names)?;
    match library.flavour {
        Flavour::OpenMpi => start_as::<OpenMpi>(library, wanted),
        Flavour::Mpich => start_as::<Mpich>(library, wanted),
        Flavour::Standard => start_as::<Standard>(library, wanted),
    }
}

fn start_as<A: Abi>(library: Library, wanted: ThreadLevel) -> Result<Box<dyn Session>> {
    let mpi = Arc::new(Functions::<A>::load(library)?);
    let (level, started_here) = mpi.start(wanted)?;
    let wire = Arc::new(MpiWire::new(Arc::clone(&mpi), level, mpi.constants.world, Ruler::Us)?);
    Ok(Box::new(Open { mpi, wire, started_here }))
}

/// A wire over a communicator of the host program. Collective over it in MPI's sense.
pub(crate) fn adopt(raw: usize) -> Result<Arc<dyn Wire>> {
    // A process has one MPI, whose functions are looked up once.
    static LOADED: Mutex<Option<Loaded>> = Mutex::new(None);
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let functions = match &*loaded {
        Some(functions) => functions.clone(),
        None => loaded.insert(Loaded::resident()?).clone(),
    };
    drop(loaded);
    match functions {
        Loaded::OpenMpi(mpi) => adopt_as(mpi, raw),
        Loaded::Mpich(mpi) => adopt_as(mpi, raw),
        Loaded::Standard(mpi) => adopt_as(mpi, raw),
    }
}

/// The functions of the host's MPI, by its interface.
#[derive(Clone)]
enum Loaded {
    OpenMpi(Arc<Functions<OpenMpi>>),
    Mpich(Arc<Functions<Mpich>>),
    Standard(Arc<Functions<Standard>>),
}

impl Loaded {
    fn resident() -> Result<Self> {
        let library = Library::resident()?;
        Ok(match library.flavour {
            Flavour::OpenMpi => Self::OpenMpi(Arc::new(Functions::load(library)?)),
            Flavour::Mpich => Self::Mpich(Arc::new(Functions::load(library)?)),
            Flavour::Standard => Self::Standard(Arc::new(Functions::load(library)?)),
        })
    }
}

fn adopt_as<A: Abi>(mpi: Arc<Functions<A>>, raw: usize) -> Result<Arc<dyn Wire>> {
    let Some(level) = mpi.running()? else {
        return Err(Error::new(
            Kind::Mpi,
            "from_mpi",
            "the host program has not started MPI, or has ended it",
        ));
    };
    Ok(Arc::new(MpiWire::new(mpi, level, A::handle(raw), Ruler::Host)?))
}
