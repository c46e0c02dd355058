//! The device that the prefix `memfs` means: files of this process, or of all processes of the node.

use std::ffi::OsStr;
use std::sync::Arc;

use super::{MemFs, NodeMemFs};
use crate::units::ByteSize;
use crate::{Device, DeviceOpenOptions, Error, Handle, Kind, OpenedBy, Operation, Result};

/// Files in memory: of this process where its ranks are threads, of the node where they are processes.
#[derive(Debug)]
pub(crate) struct NamedMemFs {
    process: MemFs,
    node: NodeMemFs,
}

impl NamedMemFs {
    /// The device that the parameters of a name describe: none, or the capacity.
    pub(crate) fn from_parameters(parameters: &str) -> Result<Arc<dyn Device>> {
        let given = if parameters.is_empty() { None } else { Some(("", parameters.to_owned())) };
        let from_environment = || {
            std::env::var("AQUEDUCT_MEMFS")
                .ok()
                .filter(|text| !text.is_empty())
                .map(|text| ("AQUEDUCT_MEMFS=", text))
        };
        let capacity = given.or_else(from_environment).map(|(variable, text)| {
            text.parse::<ByteSize>().map(|size| size.0).map_err(|error| {
                let error_name =
                    if variable.is_empty() { format!("memfs={text}") } else { format!("{variable}{text}") };
                Error::new(Kind::InvalidName, Operation::Resolve, error_name)
                    .advise(format!("{error}; write memfs=CAPACITY, such as memfs=8GiB"))
            })
        });
        let capacity = capacity.transpose()?;
        Ok(Arc::new(Self {
            process: capacity.map_or_else(MemFs::new, MemFs::with_capacity),
            node: NodeMemFs::new(capacity),
        }))
    }
}

impl Device for NamedMemFs {
    fn open(&self, name: &OsStr, options: &DeviceOpenOptions) -> Result<Arc<dyn Handle>> {
        match options.get_opened_by() {
            OpenedBy::Cluster => {
                let error = Error::new(Kind::Unsupported, Operation::Open, name);
                Err(error.advise(
                    "files of memfs are in the memory of one node, and the ranks are on several; use a shared file, or remote memory: \
                     tunnel:SERVER/NAME",
                ))
            }
            OpenedBy::Node => self.node.open(name, options),
            // What a job of processes has left can be read by any program.
            OpenedBy::Process
                if !options.is_create() && !self.process.contains(name) && self.node.contains(name) =>
            {
                self.node.open(name, options)
            }
            OpenedBy::Process => self.process.open(name, options),
        }
    }

    fn delete(&self, name: &OsStr) -> Result<()> {
        match self.process.delete(name) {
            Err(error) if error.kind() == Kind::NotFound && self.node.contains(name) => {
                self.node.delete(name)
            }
            outcome => outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HandleExt;

    fn open(device: &dyn Device, name: &str, by: OpenedBy, create: bool) -> Result<Arc<dyn Handle>> {
        device.open(name.as_ref(), &DeviceOpenOptions::read_write().create(create).opened_by(by))
    }

    #[test]
    fn ranks_that_are_processes_share_files_and_nodes_do_not() {
        let parent = tempfile::tempdir().unwrap();
        let device = || NamedMemFs {
            process: MemFs::new(),
            node: NodeMemFs::in_folder(parent.path().join("files"), Some(1 << 20)),
        };
        // Two devices stand for two processes.
        let (one, other) = (device(), device());
        open(&one, "a", OpenedBy::Node, true).unwrap().write_at(0, b"abc").unwrap();
        assert_eq!(open(&other, "a", OpenedBy::Node, false).unwrap().len().unwrap(), 3);
        assert_eq!(open(&other, "a", OpenedBy::Process, false).unwrap().len().unwrap(), 3);
        assert_eq!(
            open(&other, "a", OpenedBy::Process, true).unwrap().len().unwrap(),
            0,
            "a file of its own"
        );
        let error = open(&one, "a", OpenedBy::Cluster, true).err().unwrap();
        assert_eq!(error.kind(), Kind::Unsupported);
        assert!(error.to_string().contains("tunnel:"), "{error}");
        other.delete("a".as_ref()).unwrap();
        other.delete("a".as_ref()).unwrap();
        assert_eq!(one.delete("a".as_ref()).unwrap_err().kind(), Kind::NotFound);
    }

    #[test]
    fn the_parameter_is_a_capacity() {
        let device = NamedMemFs::from_parameters("1000").unwrap();
        let file = open(&*device, "a", OpenedBy::Process, true).unwrap();
        assert_eq!(file.write_at(0, &[1; 1001]).unwrap_err().kind(), Kind::NoSpace);
        let error = NamedMemFs::from_parameters("much").err().unwrap();
        assert_eq!(error.kind(), Kind::InvalidName);
        assert!(error.to_string().contains("memfs=8GiB"), "{error}");
    }
}
