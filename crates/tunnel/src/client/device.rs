//! The device: opens and deletes files on servers.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use aqueduct_device::{Device, DeviceOpenOptions, Handle, Operation, Result};

use super::handle::TunnelHandle;
use super::name::{self, TunnelSettings};
use super::placement::{Placement, first_server};
use super::server_set::{ServerSet, unexpected_answer};
use crate::wire::answer::Answer;
use crate::wire::request::{OpenFlags, OpenRole, TunnelRequest};

/// Files in the memory of servers: `tunnel:HOST:PORT,…/FILE`.
///
/// Nothing is cached: when a write returns, its bytes are in the memory of the servers, and every client on every machine reads them.
/// A server that does not answer is an error of kind [`Disconnected`](aqueduct_device::Kind::Disconnected) within a stated time.
#[derive(Clone, Debug, Default)]
pub struct Tunnel {
    settings: TunnelSettings,
}

impl Tunnel {
    /// With default parameters.
    pub fn new() -> Self {
        Self::default()
    }

    /// With the parameters of a name, such as `stripe=4MiB,silence=5s`.
    pub fn from_parameters(parameters: &str) -> Result<Arc<dyn Device>> {
        Ok(Arc::new(Self { settings: TunnelSettings::parse(parameters)? }))
    }
}

impl Device for Tunnel {
    fn open(&self, name: &OsStr, options: &DeviceOpenOptions) -> Result<Arc<dyn Handle>> {
        options.check(name)?;
        let (servers, file) = name::parse(name, &self.settings, Operation::Open)?;
        let set = ServerSet::open(&servers, &self.settings, Operation::Open, name)?;
        let shown = name.to_string_lossy().into_owned();
        let first = first_server(file.as_bytes(), set.links.len());
        let flags = OpenFlags {
            read: options.is_read(),
            write: options.is_write(),
            create: options.is_create(),
            exclusive: options.is_exclusive(),
            truncate: options.is_truncate(),
        };
        let open = |server: usize, role| {
            let request = TunnelRequest::Open {
                name: file.as_bytes().to_vec(),
                flags,
                permissions: options.get_permissions() & 0o7777,
                stripe: self.settings.stripe,
                role,
            };
            match set.links[server].call(Operation::Open, &shown, &request)? {
                Answer::Opened { handle, id, stripe, persistent } => Ok((handle, id, stripe, persistent)),
                _ => Err(unexpected_answer(Operation::Open, &shown)),
            }
        };
        let (first_handle, id, stripe, persistent) = open(first, OpenRole::First { epochs: set.epochs() })?;
        let placement = Placement { servers: set.links.len(), first, stripe: stripe.max(1) };
        let owner = set.links[first].session();
        let mut handle =
            TunnelHandle::new(shown.clone(), set.links.clone(), placement, flags, persistent, id);
        handle.add_part(first, first_handle);
        for server in (0..set.links.len()).filter(|server| *server != first) {
            // If this fails, dropping the handle closes the parts that are open.
            let (part, ..) = open(server, OpenRole::Part { id, owner })?;
            handle.add_part(server, part);
        }
        if flags.truncate && set.links.len() > 1 {
            handle.note_truncation()?;
        }
        Ok(Arc::new(handle))
    }

    fn delete(&self, name: &OsStr) -> Result<()> {
        let (servers, file) = name::parse(name, &self.settings, Operation::Delete)?;
        let set = ServerSet::open(&servers, &self.settings, Operation::Delete, name)?;
        let shown = name.to_string_lossy().into_owned();
        let first = first_server(file.as_bytes(), set.links.len());
        let delete = |server: usize, part| {
            let request = TunnelRequest::Delete { name: file.as_bytes().to_vec(), part };
            match set.links[server].call(Operation::Delete, &shown, &request)? {
                Answer::Deleted { id } => Ok(id),
                _ => Err(unexpected_answer(Operation::Delete, &shown)),
            }
        };
        let id = delete(first, None)?;
        for server in (0..set.links.len()).filter(|server| *server != first) {
            delete(server, Some(id))?;
        }
        Ok(())
    }
}
