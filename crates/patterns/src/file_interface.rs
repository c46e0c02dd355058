//! The choice between the engine and MPI-IO.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, bail};
use aqueduct::comm::Comm;

use crate::mpi_file::MpiIo;
use crate::pattern_file::{EngineFile, PatternFile, PatternOpenOptions};

/// Through which functions files are accessed.
#[derive(Clone, Debug)]
pub enum FileInterface {
    /// The engine of Aqueduct.
    Engine,
    /// Functions `MPI_File_*`.
    MpiIo(Arc<MpiIo>),
}

impl FileInterface {
    /// Its name in tables.
    pub fn name(&self) -> &str {
        match self {
            Self::Engine => "aqueduct",
            Self::MpiIo(functions) => functions.name(),
        }
    }

    /// True if it has object files.
    pub fn has_objects(&self) -> bool {
        matches!(self, Self::Engine)
    }

    /// Opens a file on all ranks of `comm`, which is the world, or has one rank. Collective.
    pub fn open(
        &self,
        comm: &Comm,
        path: &Path,
        options: &PatternOpenOptions,
    ) -> Result<Box<dyn PatternFile>> {
        Ok(match self {
            Self::Engine => Box::new(EngineFile::open(comm, path, options)?),
            Self::MpiIo(functions) => {
                if options.direct {
                    bail!("MPI-IO has no option to pass by the page cache");
                }
                functions.open(comm, path, options)?
            }
        })
    }
}
