//! Search and load of the MPI library of the job of this process.
//!
//! `unsafe` here: loading a library runs its initialisers, and the type of a symbol cannot be checked.
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

/// The MPI library that a process uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MpiSelection {
    /// None: the process was not started by an MPI launcher.
    None,
    /// The first of these that can be loaded.
    FirstOf(Vec<OsString>),
    /// Unknown: a launcher started several processes without PMI. The reason and the remedy.
    Refused(String),
}

impl MpiSelection {
    /// From the environment: `AQUEDUCT_MPI` if set, otherwise the launcher's variables.
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
    /// The file it was loaded from; empty if unknown.
    pub(crate) path: PathBuf,
    pub(crate) abi: MpiAbi,
}

impl Library {
    /// Keeps it loaded until the process exits.
    pub(crate) fn stay_loaded(self) {
        // It contains only the loader's handle.
        std::mem::forget(self.loaded);
    }

    /// The MPI library already loaded in this process, or the first of `names` that can be loaded.
    pub(crate) fn load(names: &[OsString]) -> Result<Self> {
        if let Ok(already) = Self::already_loaded() {
            return Ok(already);
        }
        let mut tried = Vec::new();
        for name in names {
            // SAFETY: an MPI library's initialisers may run in any program; RTLD_GLOBAL because Open MPI's plug-ins need
            // its symbols.
            match unsafe { Loaded::open(Some(name), RTLD_NOW | RTLD_GLOBAL) } {
                Ok(loaded) => return Self::recognise(loaded, PathBuf::from(name)),
                Err(error) => tried.push(reason(name, &error)),
            }
        }
        let detail = format!(
            "no MPI library could be loaded (tried {}). Install one, put it in LD_LIBRARY_PATH, or set {VARIABLE} to \
             openmpi, mpich, abi, the path of a libmpi, or none (ranks are threads)",
            tried.join("; ")
        );
        Err(Error::new(Kind::NoMpi, "run", detail))
    }

    /// The MPI library already loaded in this process, even if its symbols are not globally visible: an interpreter loads it for one of its
    /// modules only.
    pub(crate) fn already_loaded() -> Result<Self> {
        // Tools interpose MPI_ functions, not PMPI_ functions; the interposition library does not define this one.
        const KNOWN: &[u8] = b"PMPI_Comm_rank\0";
        let mut seen = Vec::new();
        // First the global symbols of the program, then libraries that are visible to one module only.
        for path in std::iter::once(PathBuf::new()).chain(loaded_libraries::mpi_libraries()) {
            let opened = match path.as_os_str() {
                name if name.is_empty() => Ok(Loaded::this()),
                // SAFETY: with this flag nothing is loaded.
                name => unsafe { Loaded::open(Some(name), RTLD_NOW | loaded_libraries::NO_LOAD) },
            };
            let Ok(opened) = opened else { continue };
            // SAFETY: only the address is used.
            let Ok(symbol) = (unsafe { opened.get::<*const ()>(KNOWN) }) else { continue };
            let Some(home) = loaded_libraries::file_of_address(symbol.as_raw_ptr()) else { continue };
            seen.push(home.display().to_string());
            // SAFETY: as above. The handle of the library, not of the program, to ignore interposed functions.
            if let Ok(loaded) = unsafe { Loaded::open(Some(&home), RTLD_NOW | loaded_libraries::NO_LOAD) } {
                return Self::recognise(loaded, home);
            }
        }
        let detail = match seen.first() {
            Some(home) => {
                format!("MPI is linked statically into {home}; link the program with the shared MPI library")
            }
            None => "this process has no MPI library loaded; link the program with a shared MPI library"
                .to_owned(),
        };
        Err(Error::new(Kind::NoMpi, "from_mpi", detail))
    }

    fn recognise(loaded: Loaded, path: PathBuf) -> Result<Self> {
        let mut library = Self { loaded, path, abi: MpiAbi::Mpich };
        // Fails here, before any call, if the library is not an MPI library.
        library.address("MPI_Init_thread")?;
        library.abi = if library.address("ompi_mpi_comm_world").is_ok() {
            MpiAbi::OpenMpi
        } else if library.has_standard_abi() {
            MpiAbi::Standard
        } else {
            MpiAbi::Mpich
        };
        Ok(library)
    }

    fn has_standard_abi(&self) -> bool {
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

    /// The address of an exported object or function. If a program has its own copy of an object (copy relocation), the library uses
    /// that copy too.
    pub(crate) fn address(&self, name: &str) -> Result<usize> {
        // SAFETY: only the address is used.
        if let Ok(visible) = unsafe { Loaded::this().get::<*const ()>(format!("{name}\0").as_bytes()) } {
            return Ok(visible.as_raw_ptr() as usize);
        }
        // SAFETY: as above.
        unsafe { self.symbol::<*const ()>(name) }.map(|symbol| symbol.as_raw_ptr() as usize)
    }

    /// The address of a function of this library, ignoring interposed functions.
    pub(crate) fn own_symbol(&self, name: &str) -> Option<usize> {
        // SAFETY: only the address is used.
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
            Error::new(
                Kind::NoMpi,
                "run",
                format!("the MPI library lacks {name}; use one that implements MPI 3"),
            )
            .with_source(source)
        })
    }
}

/// The loader's message, which names the library; the error itself does not.
fn reason(name: &OsStr, error: &libloading::Error) -> String {
    let message = std::error::Error::source(error).map(ToString::to_string);
    message.unwrap_or_else(|| format!("{}: {error}", name.display()))
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
    fn the_launcher_selects_the_mpi_library() {
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
        for name in ["PMI_RANK", "PMIX_RANK", VARIABLE] {
            let selection = choice(&[slurm[0], slurm[1], (name, "none")]);
            assert!(!matches!(selection, MpiSelection::Refused(_)), "{selection:?}");
        }
    }

    #[test]
    fn the_variable_overrides_the_launcher() {
        assert_eq!(first(&choice(&[(VARIABLE, "none"), ("PMI_RANK", "0")])), None);
        assert_eq!(first(&choice(&[(VARIABLE, "abi")])), Some("libmpi_abi.so.1"));
        assert_eq!(first(&choice(&[(VARIABLE, "/opt/mpi/lib/libmpi.so")])), Some("/opt/mpi/lib/libmpi.so"));
    }

    #[test]
    fn the_error_of_a_missing_library_names_the_libraries_tried() {
        let error = Library::load(&["libnothing.so.9".into()]).unwrap_err();
        assert_eq!(error.kind(), Kind::NoMpi);
        assert!(error.to_string().contains("libnothing.so.9"), "{error}");
        assert!(error.to_string().contains(VARIABLE), "{error}");
        assert!(error.to_string().contains("cannot open shared object file"), "{error}");
    }
}
