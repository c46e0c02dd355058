//! Finding and loading the MPI library of the job this process belongs to.
//!
//! `unsafe` here: loading a library runs its initialisers, and a symbol has the type we say it has.
#![allow(unsafe_code)]

use std::env;
use std::ffi::{OsStr, OsString, c_int};
use std::path::PathBuf;

use libloading::os::unix::{Library as Loaded, RTLD_GLOBAL, RTLD_NOW, Symbol};

use super::{MpiAbi, launcher, loaded_libraries};
use crate::{Error, Kind, Result};

/// The variable that overrides the choice of MPI.
pub(crate) const VARIABLE: &str = "AQUEDUCT_MPI";

const OPEN_MPI: [&str; 1] = ["libmpi.so.40"];
const MPICH: [&str; 2] = ["libmpich.so.12", "libmpi.so.12"];
const STANDARD: [&str; 2] = ["libmpi_abi.so.1", "libmpi_abi.so.0"];

/// Which MPI a process is to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MpiSelection {
    /// None: not started by an MPI launcher.
    None,
    /// The first of these that can be loaded.
    FirstOf(Vec<OsString>),
    /// Unknown: a launcher started several processes and did not tell MPI of them. The reason and the remedy.
    Refused(String),
}

impl MpiSelection {
    /// What the environment says: `AQUEDUCT_MPI` first, else the launcher's variables.
    pub(crate) fn from_env() -> Self {
        Self::from_variables(|name| env::var_os(name))
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let all = |lists: &[&[&str]]| Self::FirstOf(lists.concat().iter().map(Into::into).collect());
        if let Some(choice) = variable(VARIABLE).filter(|choice| !choice.is_empty()) {
            return match choice.to_str() {
                Some("none" | "threads") => Self::None,
                Some("openmpi") => all(&[&OPEN_MPI]),
                Some("mpich") => all(&[&MPICH]),
                Some("abi") => all(&[&STANDARD]),
                _ => Self::FirstOf(vec![choice]),
            };
        }
        let set = |name: &str| variable(name).is_some();
        if set("OMPI_COMM_WORLD_SIZE") {
            all(&[&OPEN_MPI])
        } else if set("PMI_SIZE") || set("PMI_RANK") || set("MPI_LOCALNRANKS") {
            all(&[&MPICH, &STANDARD])
        } else if set("PMIX_RANK") {
            all(&[&OPEN_MPI, &MPICH, &STANDARD])
        } else {
            launcher::missing_pmi_error(variable).map_or(Self::None, Self::Refused)
        }
    }
}

/// A loaded MPI library, never unloaded.
#[derive(Debug)]
pub(crate) struct Library {
    loaded: Loaded,
    /// The file it was loaded from; empty where that is not known.
    pub(crate) path: PathBuf,
    pub(crate) flavour: MpiAbi,
}

impl Library {
    /// Keeps it loaded for good.
    pub(crate) fn stay_loaded(self) {
        // Nothing but the loader's handle.
        std::mem::forget(self.loaded);
    }

    /// The MPI this process already has, as a host program or a linked library, else the first of `names` that loads.
    pub(crate) fn load(names: &[OsString]) -> Result<Self> {
        if let Ok(already) = Self::already_loaded() {
            return Ok(already);
        }
        let mut tried = Vec::new();
        for name in names {
            // SAFETY: an MPI library's initialisers are meant to run in any program; RTLD_GLOBAL because Open MPI's plug-ins look for
            // its symbols.
            match unsafe { Loaded::open(Some(name), RTLD_NOW | RTLD_GLOBAL) } {
                Ok(loaded) => return Self::recognise(loaded, PathBuf::from(name)),
                Err(error) => tried.push(reason(name, &error)),
            }
        }
        let detail = format!(
            "no MPI library could be loaded. Looked for {}. Install one, put it in LD_LIBRARY_PATH, or set {VARIABLE} to \
             openmpi, mpich, abi, the path of a libmpi, or none (ranks are threads)",
            tried.join("; ")
        );
        Err(Error::new(Kind::NoMpi, "run", detail))
    }

    /// The MPI that is already part of this process, wherever its symbols are visible: a program links it, an interpreter loads it
    /// for one of its modules alone.
    pub(crate) fn already_loaded() -> Result<Self> {
        // Tools put themselves in front of the plain names, not of these; the interposition library stands in front of others.
        const KNOWN: &[u8] = b"PMPI_Comm_rank\0";
        let mut seen = Vec::new();
        // The program itself comes first, with everything that is visible in it; then what only a module of it sees.
        for path in std::iter::once(PathBuf::new()).chain(loaded_libraries::mpi_libraries()) {
            let opened = match path.as_os_str() {
                name if name.is_empty() => Ok(Loaded::this()),
                // SAFETY: with this flag nothing is loaded: the library is here already.
                name => unsafe { Loaded::open(Some(name), RTLD_NOW | loaded_libraries::NO_LOAD) },
            };
            let Ok(opened) = opened else { continue };
            // SAFETY: only the address is asked for.
            let Ok(symbol) = (unsafe { opened.get::<*const ()>(KNOWN) }) else { continue };
            let Some(home) = loaded_libraries::file_of_address(symbol.as_raw_ptr()) else { continue };
            seen.push(home.display().to_string());
            // SAFETY: as above. Its own handle, not the program's: what others put in front of its functions is not meant.
            if let Ok(loaded) = unsafe { Loaded::open(Some(&home), RTLD_NOW | loaded_libraries::NO_LOAD) } {
                return Self::recognise(loaded, home);
            }
        }
        let detail = match seen.first() {
            Some(home) => format!(
                "MPI is part of {home} itself, linked statically; link the program with the shared MPI library"
            ),
            None => "this process has no MPI library loaded; link the program with a shared MPI library"
                .to_owned(),
        };
        Err(Error::new(Kind::NoMpi, "from_mpi", detail))
    }

    fn recognise(loaded: Loaded, path: PathBuf) -> Result<Self> {
        let mut library = Self { loaded, path, flavour: MpiAbi::Mpich };
        // An MPI that lacks this is no MPI; say so before anything is called.
        library.address("MPI_Init_thread")?;
        library.flavour = if library.address("ompi_mpi_comm_world").is_ok() {
            MpiAbi::OpenMpi
        } else if library.speaks_standard() {
            MpiAbi::Standard
        } else {
            MpiAbi::Mpich
        };
        Ok(library)
    }

    fn speaks_standard(&self) -> bool {
        type GetVersion = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
        // SAFETY: the standard gives this function this type.
        let Ok(version) = (unsafe { self.function::<GetVersion>("MPI_Abi_get_version") }) else {
            return false;
        };
        let (mut major, mut minor) = (-1, -1);
        // SAFETY: it may be called at any time, also before MPI is started, and fills two integers.
        let outcome = unsafe { version(&raw mut major, &raw mut minor) };
        outcome == 0 && major >= 1
    }

    /// The address of an exported object or function. A program may have its own copy of an object, which is then the one that
    /// counts, also for the library.
    pub(crate) fn address(&self, name: &str) -> Result<usize> {
        // SAFETY: only the address is taken.
        if let Ok(visible) = unsafe { Loaded::this().get::<*const ()>(format!("{name}\0").as_bytes()) } {
            return Ok(visible.as_raw_ptr() as usize);
        }
        // SAFETY: as above.
        unsafe { self.symbol::<*const ()>(name) }.map(|symbol| symbol.as_raw_ptr() as usize)
    }

    /// The address of a function of this library, not of what was put in front of it.
    pub(crate) fn own_symbol(&self, name: &str) -> Option<usize> {
        // SAFETY: only the address is taken.
        unsafe { self.symbol::<*const ()>(name) }.ok().map(|symbol| symbol.as_raw_ptr() as usize)
    }

    /// A function, as a pointer of type `F`.
    ///
    /// # Safety
    /// `F` must be a function pointer type that fits the function.
    pub(crate) unsafe fn function<F: Copy>(&self, name: &str) -> Result<F> {
        // SAFETY: the caller's promise.
        unsafe { self.symbol::<F>(name) }.map(|symbol| *symbol)
    }

    unsafe fn symbol<T>(&self, name: &str) -> Result<Symbol<T>> {
        // SAFETY: passed on to the caller.
        unsafe { self.loaded.get(format!("{name}\0").as_bytes()) }.map_err(|source| {
            Error::new(Kind::NoMpi, "run", format!("the MPI library lacks {name}; is it a complete MPI 3?"))
                .with_source(source)
        })
    }
}

/// Why a library was not loaded, in the loader's own words, which name it: the error itself says only that it was not.
fn reason(name: &OsStr, error: &libloading::Error) -> String {
    let words = std::error::Error::source(error).map(ToString::to_string);
    words.unwrap_or_else(|| format!("{}: {error}", name.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(variables: &[(&str, &str)]) -> MpiSelection {
        MpiSelection::from_variables(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        })
    }

    fn first(choice: &MpiSelection) -> Option<&str> {
        match choice {
            MpiSelection::None | MpiSelection::Refused(_) => None,
            MpiSelection::FirstOf(names) => names[0].to_str(),
        }
    }

    #[test]
    fn the_launcher_tells_which_mpi() {
        assert_eq!(first(&choice(&[])), None);
        assert_eq!(
            first(&choice(&[("OMPI_COMM_WORLD_SIZE", "2"), ("PMIX_RANK", "0")])),
            Some("libmpi.so.40")
        );
        assert_eq!(first(&choice(&[("PMI_RANK", "0")])), Some("libmpich.so.12"));
    }

    #[test]
    fn a_launcher_without_pmi_is_refused_unless_the_variable_decides() {
        let slurm = [("SLURM_PROCID", "1"), ("SLURM_NTASKS", "4")];
        assert!(matches!(choice(&slurm), MpiSelection::Refused(_)));
        for told in ["PMI_RANK", "PMIX_RANK", VARIABLE] {
            let told = choice(&[slurm[0], slurm[1], (told, "none")]);
            assert!(!matches!(told, MpiSelection::Refused(_)), "{told:?}");
        }
    }

    #[test]
    fn the_variable_overrides_the_launcher() {
        assert_eq!(first(&choice(&[(VARIABLE, "none"), ("PMI_RANK", "0")])), None);
        assert_eq!(first(&choice(&[(VARIABLE, "abi")])), Some("libmpi_abi.so.1"));
        assert_eq!(first(&choice(&[(VARIABLE, "/opt/mpi/lib/libmpi.so")])), Some("/opt/mpi/lib/libmpi.so"));
    }

    #[test]
    fn a_missing_library_says_what_was_looked_for() {
        let error = Library::load(&["libnothing.so.9".into()]).unwrap_err();
        assert_eq!(error.kind(), Kind::NoMpi);
        assert!(error.to_string().contains("libnothing.so.9"), "{error}");
        assert!(error.to_string().contains(VARIABLE), "{error}");
        assert!(error.to_string().contains("cannot open shared object file"), "{error}");
    }
}
