//! The four formats, their names and their files.

/// One of the four formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PhaseSpaceFormat {
    /// One ASCII file.
    OldStyle,
    /// A header and rows of bytes.
    Binary,
    /// A header and a netCDF file with a variable per cell.
    PnetCdf,
    /// A header and a cell file.
    MpiIo,
}

/// The names of the files of a phase space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseSpaceFiles {
    /// The file with the header; the only file of `OldStyle`.
    pub header: String,
    /// The file with the molecules; not used by `OldStyle`.
    pub data: String,
}

impl PhaseSpaceFiles {
    /// A single file.
    pub fn one(name: impl Into<String>) -> Self {
        Self { header: name.into(), data: String::new() }
    }

    /// A header and its data.
    pub fn two(header: impl Into<String>, data: impl Into<String>) -> Self {
        Self { header: header.into(), data: data.into() }
    }
}

impl PhaseSpaceFormat {
    /// All formats.
    pub const ALL: [Self; 4] = [Self::OldStyle, Self::Binary, Self::PnetCdf, Self::MpiIo];

    /// The name after `phaseSpaceFile` in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::OldStyle => "OldStyle",
            Self::Binary => "Binary",
            Self::PnetCdf => "PnetCDF",
            Self::MpiIo => "MPI-IO",
        }
    }

    /// The name after `output` in a configuration.
    pub fn writer(self) -> &'static str {
        match self {
            Self::OldStyle => "CheckpointWriter",
            Self::Binary => "BinaryCheckpointWriter",
            Self::PnetCdf => "PnetCDFCheckpointWriter",
            Self::MpiIo => "MPI-IOCheckpointWriter",
        }
    }

    /// The format with this name in a configuration, after `phaseSpaceFile` or `output`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name || format.writer() == name)
    }

    /// The files that a writer creates for a prefix.
    pub fn files(self, prefix: &str) -> PhaseSpaceFiles {
        match self {
            Self::OldStyle => PhaseSpaceFiles::one(format!("{prefix}.restart.inp")),
            Self::Binary => {
                PhaseSpaceFiles::two(format!("{prefix}.restart.header.xml"), format!("{prefix}.restart.dat"))
            }
            Self::PnetCdf => {
                PhaseSpaceFiles::two(format!("{prefix}.restart"), format!("{prefix}.restart.nc"))
            }
            Self::MpiIo => PhaseSpaceFiles::two(format!("{prefix}.restart"), format!("{prefix}.restart.mpi")),
        }
    }
}
