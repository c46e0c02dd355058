//! Data representations: how values lie in a file.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::external32;
use crate::error::{Error, Kind, Result};
use crate::layout::{Basic, Layout, Pattern};

/// A result with an error message.
type Outcome<T> = std::result::Result<T, String>;

/// Converts values between memory and a file with a user-defined representation. Sizes stay the same.
pub trait Conversion: Send + Sync {
    /// From memory to the file: `values` are consecutive values of kind `basic`, changed in place.
    fn to_file(&self, basic: Basic, values: &mut [u8]) -> std::result::Result<(), String>;

    /// From the file to memory.
    fn to_memory(&self, basic: Basic, values: &mut [u8]) -> std::result::Result<(), String>;
}

/// How values lie in a file.
#[derive(Clone, Default)]
pub enum Representation {
    /// As in memory: fastest, read by machines of the same kind.
    #[default]
    Native,
    /// As this library finds best; on all machines it runs on, that is native.
    Internal,
    /// Big-endian IEEE values, as the MPI standard defines them: read everywhere.
    External32,
    /// User-defined, registered by [`Representation::register`].
    Own(Arc<str>, Arc<dyn Conversion>),
}

fn registered() -> &'static RwLock<BTreeMap<String, Arc<dyn Conversion>>> {
    static REGISTERED: OnceLock<RwLock<BTreeMap<String, Arc<dyn Conversion>>>> = OnceLock::new();
    REGISTERED.get_or_init(RwLock::default)
}

impl Representation {
    /// The representation of this name: `native`, `internal`, `external32`, or one that was registered.
    pub fn named(name: &str) -> Result<Self> {
        let known = registered().read().unwrap_or_else(PoisonError::into_inner);
        match name {
            "native" => Ok(Self::Native),
            "internal" => Ok(Self::Internal),
            "external32" => Ok(Self::External32),
            _ => match known.get(name) {
                Some(own) => Ok(Self::Own(name.into(), Arc::clone(own))),
                None => {
                    let names: Vec<&str> = known.keys().map(String::as_str).collect();
                    let detail = format!(
                        "this data representation is not registered; registered are native, internal, external32 {}",
                        names.join(" ")
                    );
                    Err(Error::new(Kind::UnknownRepresentation, "representation", name, detail))
                }
            },
        }
    }

    /// Registers a user-defined representation under a name, for the life of the process.
    #[doc(alias = "MPI_Register_datarep")]
    pub fn register(name: &str, conversion: Arc<dyn Conversion>) -> Result<()> {
        if matches!(name, "native" | "internal" | "external32") {
            let detail = "this data representation is defined by the standard; use another name";
            return Err(Error::new(Kind::RepresentationExists, "register", name, detail));
        }
        let mut known = registered().write().unwrap_or_else(PoisonError::into_inner);
        if known.contains_key(name) {
            let detail = "a data representation of this name is registered already; use another name";
            return Err(Error::new(Kind::RepresentationExists, "register", name, detail));
        }
        known.insert(name.to_owned(), conversion);
        Ok(())
    }

    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Native => "native",
            Self::Internal => "internal",
            Self::External32 => "external32",
            Self::Own(name, _) => name,
        }
    }

    /// Whether values lie in the file as in memory.
    pub fn is_native(&self) -> bool {
        matches!(self, Self::Native | Self::Internal)
    }

    /// The bytes that the data of `layout` takes in a file.
    pub(crate) fn stored_size(&self, layout: &Layout) -> u64 {
        match self {
            Self::External32 => layout.pattern().external32_size(),
            _ => layout.size(),
        }
    }

    /// The bytes from one `layout` to the next in a file of this representation.
    #[doc(alias = "MPI_File_get_type_extent")]
    pub fn extent(&self, layout: &Layout) -> i64 {
        let stored = self.stored_size(layout);
        if stored == layout.size() { layout.extent() } else { stored as i64 }
    }

    /// Packed data as it lies in the file. `pattern` says of what kind the values from data byte `first` on are.
    pub fn store(&self, pattern: &Pattern, first: u64, mut data: Vec<u8>) -> Outcome<Vec<u8>> {
        match self {
            Self::Native | Self::Internal => Ok(data),
            Self::Own(_, own) => {
                each(pattern, first, &mut data, |basic, values| own.to_file(basic, values))?;
                Ok(data)
            }
            Self::External32 => {
                let mut stored = Vec::with_capacity(data.len());
                each(pattern, first, &mut data, |basic, values| {
                    external32::store(basic, values, &mut stored)
                })?;
                Ok(stored)
            }
        }
    }

    /// Packed data of the file as it lies in memory; values of which the file holds only a part are left out.
    pub fn load(&self, pattern: &Pattern, first: u64, mut stored: Vec<u8>) -> Outcome<Vec<u8>> {
        match self {
            Self::Native | Self::Internal => Ok(stored),
            Self::Own(_, own) => {
                each(pattern, first, &mut stored, |basic, values| own.to_memory(basic, values))?;
                Ok(stored)
            }
            Self::External32 => {
                let (mut data, mut rest) = (Vec::with_capacity(stored.len()), stored.as_slice());
                for elements in pattern.signature(first..) {
                    let size = elements.basic.external32_size();
                    let there = elements.count.min(rest.len() as u64 / size);
                    let (values, later) = rest.split_at((there * size) as usize);
                    external32::load(elements.basic, values, &mut data);
                    rest = later;
                    if there < elements.count {
                        break;
                    }
                }
                Ok(data)
            }
        }
    }
}

/// Calls `convert` for the values of each kind.
fn each(
    pattern: &Pattern,
    first: u64,
    data: &mut [u8],
    mut convert: impl FnMut(Basic, &mut [u8]) -> Outcome<()>,
) -> Outcome<()> {
    let mut rest = data;
    for elements in pattern.signature(first..first + rest.len() as u64) {
        let (values, later) = rest.split_at_mut((elements.size() as usize).min(rest.len()));
        convert(elements.basic, values)?;
        rest = later;
    }
    Ok(())
}

impl fmt::Debug for Representation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for Representation {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}
