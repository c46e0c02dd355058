//! Data representations: how values lie in a file.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::error::{Error, Kind, Result};
use crate::layout::{Basic, Layout, Pattern};

/// Converts values between memory and a file of one's own representation. Sizes stay the same.
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
    /// Somebody's own, registered by [`Representation::register`].
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
                        "nobody has registered this data representation; there are native, internal, external32 {}",
                        names.join(" ")
                    );
                    Err(Error::new(Kind::UnknownRepresentation, "representation", &name.into(), detail))
                }
            },
        }
    }

    /// Registers one's own representation under a name, for the life of the process.
    #[doc(alias = "MPI_Register_datarep")]
    pub fn register(name: &str, conversion: Arc<dyn Conversion>) -> Result<()> {
        if matches!(name, "native" | "internal" | "external32") {
            let detail = "this data representation is the standard's; take another name";
            return Err(Error::new(Kind::RepresentationExists, "register", &name.into(), detail));
        }
        let mut known = registered().write().unwrap_or_else(PoisonError::into_inner);
        if known.contains_key(name) {
            let detail = "a data representation of this name is registered already; take another name";
            return Err(Error::new(Kind::RepresentationExists, "register", &name.into(), detail));
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

    /// Why values of this layout cannot be stored in this representation, if they cannot.
    pub(crate) fn objection(&self, layout: &Layout) -> Option<String> {
        if !matches!(self, Self::External32) {
            return None;
        }
        let refused = |basic: Basic| {
            let component = basic.components().0;
            component == Basic::LongDouble || basic.size() != basic.external32_size()
        };
        let basic =
            layout.pattern().signature(..).map(|elements| elements.basic).find(|basic| refused(*basic))?;
        Some(format!(
            "{basic:?} has another size or form in external32; use a kind of fixed width, such as I64 or F64"
        ))
    }

    /// The bytes from one `layout` to the next in a file of this representation.
    #[doc(alias = "MPI_File_get_type_extent")]
    pub fn extent(&self, layout: &Layout) -> i64 {
        // No conversion of ours changes the size of a value.
        layout.extent()
    }

    /// Converts packed data in place, from memory to the file. `pattern` says of what kind the values from data byte `first` on are.
    pub(crate) fn to_file(
        &self,
        pattern: &Pattern,
        first: u64,
        data: &mut [u8],
    ) -> std::result::Result<(), String> {
        self.convert(pattern, first, data, |own, basic, values| own.to_file(basic, values))
    }

    /// Converts packed data in place, from the file to memory.
    pub(crate) fn to_memory(
        &self,
        pattern: &Pattern,
        first: u64,
        data: &mut [u8],
    ) -> std::result::Result<(), String> {
        self.convert(pattern, first, data, |own, basic, values| own.to_memory(basic, values))
    }

    fn convert(
        &self,
        pattern: &Pattern,
        first: u64,
        data: &mut [u8],
        own: impl Fn(&dyn Conversion, Basic, &mut [u8]) -> std::result::Result<(), String>,
    ) -> std::result::Result<(), String> {
        if self.is_native() {
            return Ok(());
        }
        let mut rest = data;
        for elements in pattern.signature(first..first + rest.len() as u64) {
            let (values, later) = rest.split_at_mut((elements.size() as usize).min(rest.len()));
            match self {
                Self::Own(_, conversion) => own(&**conversion, elements.basic, values)?,
                _ => swap(elements.basic, values),
            }
            rest = later;
        }
        Ok(())
    }
}

/// Between the machine's order of bytes and the big-endian one: each number is reversed by itself.
fn swap(basic: Basic, values: &mut [u8]) {
    if cfg!(target_endian = "big") {
        return;
    }
    let width = basic.components().0.size() as usize;
    if width > 1 {
        values.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
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
