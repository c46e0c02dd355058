//! The MPI session of this process, for any ABI.

use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};

use super::ThreadLevel;
use super::abi::{Abi, MpiAbi, Mpich, OpenMpi, StandardAbi};
use super::functions::MpiFunctions;
use super::library::Library;
use super::mpi_transport::{MpiOwner, MpiTransport};
use crate::transport::Transport;
use crate::{Error, Kind, Result};

/// A transport and the operations of its owner.
pub(crate) trait MpiSession: Send + Sync {
    fn transport(&self) -> Arc<dyn Transport>;

    /// Aborts the job with a message.
    fn abort(&self, message: &str);

    /// Waits for messages in flight and finalizes MPI if it was started here. All ranks have finished.
    fn close(&self) -> Result<()>;
}

struct OpenSession<A: Abi> {
    mpi: Arc<MpiFunctions<A>>,
    transport: Arc<MpiTransport<A>>,
    started_here: bool,
}

impl<A: Abi> MpiSession for OpenSession<A> {
    fn transport(&self) -> Arc<dyn Transport> {
        Arc::clone(&self.transport) as _
    }

    fn abort(&self, message: &str) {
        self.transport.abort(message);
    }

    fn close(&self) -> Result<()> {
        self.transport.close()?;
        if self.started_here { self.mpi.finalize() } else { Ok(()) }
    }
}

/// Loads the first of `names` that can be loaded, starts MPI and duplicates the world communicator.
pub(crate) fn start(names: &[OsString], wanted: ThreadLevel) -> Result<Box<dyn MpiSession>> {
    let library = Library::load(names)?;
    match library.abi {
        MpiAbi::OpenMpi => start_as::<OpenMpi>(library, wanted),
        MpiAbi::Mpich => start_as::<Mpich>(library, wanted),
        MpiAbi::Standard => start_as::<StandardAbi>(library, wanted),
    }
}

fn start_as<A: Abi>(library: Library, wanted: ThreadLevel) -> Result<Box<dyn MpiSession>> {
    let mpi = Arc::new(MpiFunctions::<A>::load(library)?);
    let (level, started_here) = mpi.start(wanted)?;
    let transport =
        Arc::new(MpiTransport::new(Arc::clone(&mpi), level, mpi.constants.world, MpiOwner::Aqueduct)?);
    Ok(Box::new(OpenSession { mpi, transport, started_here }))
}

/// A transport over a communicator of the host program. Collective over it in MPI's sense.
pub(crate) fn adopt(raw: usize) -> Result<Arc<dyn Transport>> {
    // A process has one MPI library, whose functions are looked up once.
    static LOADED: Mutex<Option<LoadedFunctions>> = Mutex::new(None);
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    let functions = match &*loaded {
        Some(functions) => functions.clone(),
        None => loaded.insert(LoadedFunctions::already_loaded()?).clone(),
    };
    drop(loaded);
    match functions {
        LoadedFunctions::OpenMpi(mpi) => adopt_as(mpi, raw),
        LoadedFunctions::Mpich(mpi) => adopt_as(mpi, raw),
        LoadedFunctions::Standard(mpi) => adopt_as(mpi, raw),
    }
}

/// The functions of the host's MPI library, by its ABI.
#[derive(Clone)]
enum LoadedFunctions {
    OpenMpi(Arc<MpiFunctions<OpenMpi>>),
    Mpich(Arc<MpiFunctions<Mpich>>),
    Standard(Arc<MpiFunctions<StandardAbi>>),
}

impl LoadedFunctions {
    fn already_loaded() -> Result<Self> {
        let library = Library::already_loaded()?;
        Ok(match library.abi {
            MpiAbi::OpenMpi => Self::OpenMpi(Arc::new(MpiFunctions::load(library)?)),
            MpiAbi::Mpich => Self::Mpich(Arc::new(MpiFunctions::load(library)?)),
            MpiAbi::Standard => Self::Standard(Arc::new(MpiFunctions::load(library)?)),
        })
    }
}

fn adopt_as<A: Abi>(mpi: Arc<MpiFunctions<A>>, raw: usize) -> Result<Arc<dyn Transport>> {
    let Some(level) = mpi.running()? else {
        return Err(Error::new(
            Kind::Mpi,
            "from_mpi",
            "the host program has not initialized MPI, or has finalized it",
        ));
    };
    Ok(Arc::new(MpiTransport::new(mpi, level, A::handle(raw), MpiOwner::Host)?))
}
