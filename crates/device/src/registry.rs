//! The registry of devices and wrappers by prefix.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::name::{self, DeviceName, NamePrefix};
use crate::{Device, DeviceOpenOptions, Error, Handle, Kind, MemFs, Operation, Result, Ufs, Uring, layers};

/// Makes a wrapper around a device, from the parameters in the name.
type MakeWrapper = dyn Fn(&str, Arc<dyn Device>) -> Result<Arc<dyn Device>> + Send + Sync;

/// Devices and wrappers by prefix.
///
/// Most programs use the one of the process, through [`open`], [`delete`], [`register_device`] and [`register_wrapper`].
/// Separate registries isolate tests: each [`Registry::standard`] has its own, empty `memfs`.
///
/// The same text of prefixes gives the same chain of devices, so that the state of a wrapper (the faults already
/// injected, the writes not yet synced) lives as long as the registry. A chain shares its inner parts with shorter ones: `trace:crash:memfs:x`
/// and `crash:memfs:x` go through one `crash`.
///
/// ```
/// use aqueduct_device::{HandleExt, DeviceOpenOptions, Registry};
///
/// let registry = Registry::standard();
/// let file = registry.open("memfs:run7", &DeviceOpenOptions::read_write().create(true))?;
/// file.write_at(0, b"bytes")?;
/// drop(file);
/// registry.delete("memfs:run7")?;
/// assert!(registry.open("floppy:run7", &DeviceOpenOptions::read_only()).is_err());
/// # Ok::<_, aqueduct_device::Error>(())
/// ```
#[derive(Default)]
pub struct Registry {
    entries: Mutex<RegistryEntries>,
}

#[derive(Default)]
struct RegistryEntries {
    devices: BTreeMap<String, Arc<dyn Device>>,
    wrappers: BTreeMap<String, Arc<MakeWrapper>>,
    /// Wrapped devices by the text of their prefixes.
    chains: BTreeMap<String, Arc<dyn Device>>,
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// A registry with all devices and wrappers of this crate.
    pub fn standard() -> Self {
        let registry = Self::new();
        let devices: [(&str, Arc<dyn Device>); _] =
            [("memfs", Arc::new(MemFs::new())), ("ufs", Arc::new(Ufs)), ("uring", Arc::new(Uring::new()))];
        registry.entries().devices.extend(devices.map(|(prefix, device)| (prefix.into(), device)));
        for (prefix, wrap) in layers::WRAPPERS {
            registry.entries().wrappers.insert(prefix.into(), Arc::new(wrap));
        }
        registry
    }

    /// Registers a device under a prefix; a prefix that is taken is `AlreadyExists`.
    pub fn register_device(&self, prefix: &str, device: Arc<dyn Device>) -> Result<()> {
        let mut entries = self.entries();
        entries.check_free(prefix)?;
        entries.devices.insert(prefix.into(), device);
        Ok(())
    }

    /// Registers a wrapper under a prefix; a prefix that is taken is `AlreadyExists`.
    ///
    /// `wrap` gets the parameters between `=` and the colon (may be empty) and the inner device.
    pub fn register_wrapper(
        &self,
        prefix: &str,
        wrap: impl Fn(&str, Arc<dyn Device>) -> Result<Arc<dyn Device>> + Send + Sync + 'static,
    ) -> Result<()> {
        let mut entries = self.entries();
        entries.check_free(prefix)?;
        entries.wrappers.insert(prefix.into(), Arc::new(wrap));
        Ok(())
    }

    /// The device that a name means, and the name to be given to it.
    pub fn resolve(&self, name: impl AsRef<OsStr>) -> Result<(Arc<dyn Device>, OsString)> {
        let whole = name.as_ref();
        let parsed = DeviceName::parse(whole, |prefix| self.entries().wrappers.contains_key(prefix))?;
        let mut device = self.device(&parsed.device, whole)?;
        let mut chain = parsed.device.text();
        for segment in parsed.wrappers.iter().rev() {
            chain = format!("{}:{chain}", segment.text());
            device = self.wrapped(&chain, segment, device)?;
        }
        Ok((device, parsed.path))
    }

    /// Opens the file that a name means.
    pub fn open(&self, name: impl AsRef<OsStr>, options: &DeviceOpenOptions) -> Result<Arc<dyn Handle>> {
        let (device, path) = self.resolve(name)?;
        device.open(&path, options)
    }

    /// Deletes the file that a name means.
    pub fn delete(&self, name: impl AsRef<OsStr>) -> Result<()> {
        let (device, path) = self.resolve(name)?;
        device.delete(&path)
    }

    /// Deletes the file that a name means, to replace it by another.
    pub fn delete_in_background(&self, name: impl AsRef<OsStr>) -> Result<()> {
        let (device, path) = self.resolve(name)?;
        device.delete_in_background(&path)
    }

    fn device(&self, segment: &NamePrefix, whole: &OsStr) -> Result<Arc<dyn Device>> {
        if !segment.parameters.is_empty() {
            let error = Error::new(Kind::InvalidName, Operation::Resolve, whole);
            return Err(error.advise(format!("the device {:?} takes no parameters", segment.prefix)));
        }
        let entries = self.entries();
        entries.devices.get(&segment.prefix).cloned().ok_or_else(|| entries.unknown(segment, whole))
    }

    /// The wrapper of a chain, an existing or a new one. Created outside the lock, because `wrap` may use this registry.
    fn wrapped(&self, chain: &str, segment: &NamePrefix, inner: Arc<dyn Device>) -> Result<Arc<dyn Device>> {
        let wrap = {
            let entries = self.entries();
            if let Some(device) = entries.chains.get(chain) {
                return Ok(Arc::clone(device));
            }
            entries.wrappers.get(&segment.prefix).cloned()
        };
        let Some(wrap) = wrap else { return Ok(inner) };
        let device = wrap(&segment.parameters, inner)?;
        Ok(Arc::clone(self.entries().chains.entry(chain.into()).or_insert(device)))
    }

    fn entries(&self) -> MutexGuard<'_, RegistryEntries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RegistryEntries {
    fn check_free(&self, prefix: &str) -> Result<()> {
        let refuse = |kind, why: &str| Err(Error::new(kind, Operation::Resolve, prefix).advise(why));
        if !name::is_prefix(prefix.as_bytes()) {
            return refuse(
                Kind::InvalidName,
                "a prefix consists of a-z, 0-9, _ and - and starts with a letter",
            );
        }
        if self.devices.contains_key(prefix) || self.wrappers.contains_key(prefix) {
            return refuse(Kind::AlreadyExists, "choose another prefix");
        }
        Ok(())
    }

    fn unknown(&self, segment: &NamePrefix, whole: &OsStr) -> Error {
        let list = |names: Vec<&String>| names.into_iter().cloned().collect::<Vec<_>>().join(", ");
        let (devices, wrappers) = (list(self.devices.keys().collect()), list(self.wrappers.keys().collect()));
        Error::new(Kind::UnknownDevice, Operation::Resolve, whole).advise(format!(
            "unknown prefix {:?}; devices: {devices}; wrappers: {wrappers}; a path with a colon is written ./like:this",
            segment.prefix
        ))
    }
}

/// The registry of the process: all devices and wrappers of this crate, and those that the program registers.
pub fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(Registry::standard)
}

/// Opens a file by its name, through the [registry] of the process.
pub fn open(name: impl AsRef<OsStr>, options: &DeviceOpenOptions) -> Result<Arc<dyn Handle>> {
    registry().open(name, options)
}

/// Deletes a file by its name, through the [registry] of the process.
pub fn delete(name: impl AsRef<OsStr>) -> Result<()> {
    registry().delete(name)
}

/// Deletes a file by its name to replace it by another, through the [registry] of the process; see [`Device::delete_in_background`].
pub fn discard(name: impl AsRef<OsStr>) -> Result<()> {
    registry().delete_in_background(name)
}

/// Registers a device in the [registry] of the process.
pub fn register_device(prefix: &str, device: Arc<dyn Device>) -> Result<()> {
    registry().register_device(prefix, device)
}

/// Registers a wrapper in the [registry] of the process.
pub fn register_wrapper(
    prefix: &str,
    wrap: impl Fn(&str, Arc<dyn Device>) -> Result<Arc<dyn Device>> + Send + Sync + 'static,
) -> Result<()> {
    registry().register_wrapper(prefix, wrap)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wrapper without an effect.
    struct Same(Arc<dyn Device>);

    impl Device for Same {
        fn open(&self, name: &OsStr, options: &DeviceOpenOptions) -> Result<Arc<dyn Handle>> {
            self.0.open(name, options)
        }

        fn delete(&self, name: &OsStr) -> Result<()> {
            self.0.delete(name)
        }
    }

    fn with_wrapper() -> Registry {
        let registry = Registry::standard();
        registry.register_wrapper("same", |_, inner| Ok(Arc::new(Same(inner)))).unwrap();
        registry
    }

    #[test]
    fn the_error_of_an_unknown_prefix_lists_the_known_ones() {
        let error = with_wrapper().resolve("floppy:a").err().unwrap();
        assert_eq!(error.kind(), Kind::UnknownDevice);
        let text = error.to_string();
        assert!(text.contains("memfs") && text.contains("same") && text.contains("floppy"), "{text}");
    }

    #[test]
    fn a_prefix_is_registered_once_and_well_formed() {
        let registry = with_wrapper();
        let device: Arc<dyn Device> = Arc::new(MemFs::new());
        for (prefix, kind) in [
            ("memfs", Kind::AlreadyExists),
            ("same", Kind::AlreadyExists),
            ("A", Kind::InvalidName),
            ("", Kind::InvalidName),
            ("a:b", Kind::InvalidName),
        ] {
            assert_eq!(
                registry.register_device(prefix, Arc::clone(&device)).unwrap_err().kind(),
                kind,
                "{prefix}"
            );
        }
    }

    #[test]
    fn the_same_prefixes_give_the_same_chain() {
        let registry = with_wrapper();
        let device = |name: &str| registry.resolve(name).unwrap().0;
        assert!(Arc::ptr_eq(&device("same=1:memfs:a"), &device("same=1:memfs:b")));
        assert!(!Arc::ptr_eq(&device("same=1:memfs:a"), &device("same=2:memfs:a")));
        let path = registry.resolve("same=1:same=2:memfs:a:b").unwrap().1;
        assert_eq!(path, "a:b");
    }

    #[test]
    fn devices_take_no_parameters() {
        let error = with_wrapper().resolve("memfs=3:a").err().unwrap();
        assert_eq!(error.kind(), Kind::InvalidName);
    }
}
