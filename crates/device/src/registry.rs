//! The registry of devices and wrappers by prefix.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::memfs::NamedMemFs;
use crate::name::{self, DeviceName, NamePrefix};
use crate::{Device, DeviceOpenOptions, Error, Handle, Kind, Operation, Result, Ufs, Uring, layers};

/// Makes a wrapper around a device, from the parameters in the name.
type MakeWrapper = dyn Fn(&str, Arc<dyn Device>) -> Result<Arc<dyn Device>> + Send + Sync;

/// Makes a device from the parameters in the name.
type MakeDevice = dyn Fn(&str) -> Result<Arc<dyn Device>> + Send + Sync;

/// What a prefix means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefixKind {
    /// A device: the rest of the name is a file of it.
    Device,
    /// A wrapper: the rest of the name is another name.
    Wrapper,
}

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
    devices: BTreeMap<String, Arc<MakeDevice>>,
    wrappers: BTreeMap<String, Arc<MakeWrapper>>,
    /// Devices and wrapped devices by the text of their prefixes.
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
            [("ufs", Arc::new(Ufs)), ("uring", Arc::new(Uring::new()))];
        let devices = devices.map(|(prefix, device)| (prefix.into(), without_parameters(prefix, device)));
        registry.entries().devices.extend(devices);
        registry.entries().devices.insert("memfs".into(), Arc::new(NamedMemFs::from_parameters));
        for (prefix, wrap) in layers::WRAPPERS {
            registry.entries().wrappers.insert(prefix.into(), Arc::new(wrap));
        }
        registry
    }

    /// Registers a device under a prefix; a prefix that is taken is `AlreadyExists`.
    pub fn register_device(&self, prefix: &str, device: Arc<dyn Device>) -> Result<()> {
        let mut entries = self.entries();
        entries.check_free(prefix)?;
        entries.devices.insert(prefix.into(), without_parameters(prefix, device));
        Ok(())
    }

    /// Registers a device that takes parameters under a prefix; a prefix that is taken is `AlreadyExists`.
    ///
    /// `make` gets the parameters between `=` and the colon (may be empty). Its result is kept for the same text.
    pub fn register_device_maker(
        &self,
        prefix: &str,
        make: impl Fn(&str) -> Result<Arc<dyn Device>> + Send + Sync + 'static,
    ) -> Result<()> {
        let mut entries = self.entries();
        entries.check_free(prefix)?;
        entries.devices.insert(prefix.into(), Arc::new(make));
        Ok(())
    }

    /// What a prefix means; none if it is unknown.
    pub fn prefix_kind(&self, prefix: &str) -> Option<PrefixKind> {
        let entries = self.entries();
        let device = entries.devices.contains_key(prefix).then_some(PrefixKind::Device);
        device.or_else(|| entries.wrappers.contains_key(prefix).then_some(PrefixKind::Wrapper))
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

    /// The device of a prefix and its parameters, an existing or a new one. Created outside the lock, because `make` may use this registry.
    fn device(&self, segment: &NamePrefix, whole: &OsStr) -> Result<Arc<dyn Device>> {
        let text = segment.text();
        let make = {
            let entries = self.entries();
            if let Some(device) = entries.chains.get(&text) {
                return Ok(Arc::clone(device));
            }
            let make = entries.devices.get(&segment.prefix).cloned();
            make.ok_or_else(|| entries.unknown(segment, whole))?
        };
        let device = make(&segment.parameters)?;
        Ok(Arc::clone(self.entries().chains.entry(text).or_insert(device)))
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

/// The maker of a device that takes no parameters.
fn without_parameters(prefix: &str, device: Arc<dyn Device>) -> Arc<MakeDevice> {
    let prefix = prefix.to_owned();
    Arc::new(move |parameters| {
        if parameters.is_empty() {
            return Ok(Arc::clone(&device));
        }
        let error = Error::new(Kind::InvalidName, Operation::Resolve, format!("{prefix}={parameters}"));
        Err(error.advise(format!("the device {prefix:?} takes no parameters")))
    })
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
    use crate::MemFs;

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
    fn devices_without_parameters_refuse_them() {
        let error = with_wrapper().resolve("ufs=3:a").err().unwrap();
        assert_eq!(error.kind(), Kind::InvalidName);
    }

    #[test]
    fn a_device_with_parameters_is_made_once_for_each_text() {
        let registry = with_wrapper();
        let device = |name: &str| registry.resolve(name).unwrap().0;
        assert!(Arc::ptr_eq(&device("memfs=1MiB:a"), &device("memfs=1MiB:b")));
        assert!(!Arc::ptr_eq(&device("memfs=1MiB:a"), &device("memfs:a")));
        registry.register_device_maker("made", |_| Ok(Arc::new(MemFs::new()))).unwrap();
        assert!(Arc::ptr_eq(&device("same:made=x=1,y:a"), &device("same:made=x=1,y:b")));
        assert_eq!(registry.prefix_kind("made"), Some(PrefixKind::Device));
        assert_eq!(registry.prefix_kind("same"), Some(PrefixKind::Wrapper));
        assert_eq!(registry.prefix_kind("floppy"), None);
    }
}
