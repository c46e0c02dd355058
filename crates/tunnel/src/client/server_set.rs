//! The servers of a file: connected, in the order of the set, and known to belong together.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aqueduct_device::{Error, Kind, Operation, Result};

use super::link::TunnelLink;
use super::name::{NamedServers, TunnelSettings};
use crate::announce;
use crate::key::Key;
use crate::socket::Address;
use crate::wire::answer::{Answer, ListedFile, ServerStatus};
use crate::wire::request::TunnelRequest;

/// How long an incomplete set that announces itself is waited for, unless the name says it.
const ANNOUNCED_WAIT: Duration = Duration::from_secs(30);

/// Links by process, address and settings: all files of a process share them.
type LinkKey = (u32, Address, TunnelSettings);

static LINKS: Mutex<Option<HashMap<LinkKey, Arc<TunnelLink>>>> = Mutex::new(None);

/// The servers that share a set of files.
pub struct ServerSet {
    pub(super) links: Vec<Arc<TunnelLink>>,
}

/// A server of a set.
#[derive(Clone, Copy)]
pub struct ServerConnection<'a>(&'a TunnelLink);

impl ServerSet {
    /// Connects to servers: addresses as in names of files, or an empty text for those of `AQUEDUCT_SERVERS`.
    pub fn connect(servers: &str) -> Result<Self> {
        let settings = TunnelSettings::default();
        let name = format!("{servers}/x");
        let (servers, _) = super::name::parse(name.as_ref(), &settings, Operation::Open)?;
        Self::open(&servers, &settings, Operation::Open, servers_text(&servers))
    }

    /// All servers, in the order of the set.
    pub fn servers(&self) -> impl Iterator<Item = ServerConnection<'_>> {
        self.links.iter().map(|link| ServerConnection(link))
    }

    pub(super) fn open(
        servers: &NamedServers,
        settings: &TunnelSettings,
        operation: Operation,
        name: impl AsRef<std::ffi::OsStr>,
    ) -> Result<Self> {
        let name = name.as_ref();
        let disconnected = |why: String| Error::new(Kind::Disconnected, operation, name).advise(why);
        let (addresses, key, wait) = match servers {
            NamedServers::Listed(addresses) => {
                let needs_key = addresses.iter().any(|address| matches!(address, Address::Tcp(..)));
                let key = if needs_key { listed_key(settings, operation, name)? } else { None };
                (addresses.clone(), key, settings.wait.unwrap_or(Duration::ZERO))
            }
            NamedServers::Announced(folder) => {
                let wait = settings.wait.unwrap_or(ANNOUNCED_WAIT);
                let set = announce::read_when_complete(folder, wait)
                    .map_err(|error| disconnected(error.to_string()))?;
                (set.addresses, Some(set.key), wait)
            }
        };
        let mut links = Vec::new();
        for address in &addresses {
            let link = link_to(address, key.as_ref(), settings, wait);
            links.push(link.map_err(|why| disconnected(format!("server {address}: {why}")))?);
        }
        links.sort_by_key(|link| link.identity().index);
        check_set(&links).map_err(|why| {
            let error = Error::new(Kind::InvalidName, operation, name);
            error.advise(why)
        })?;
        Ok(Self { links })
    }
}

impl ServerSet {
    /// The hash of the epochs of all servers: another one after any of them was started again.
    pub(super) fn epochs(&self) -> [u8; 16] {
        let mut hasher = blake3::Hasher::new();
        for link in &self.links {
            hasher.update(&link.identity().epoch);
        }
        let mut epochs = [0; 16];
        epochs.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        epochs
    }
}

fn servers_text(servers: &NamedServers) -> String {
    match servers {
        NamedServers::Listed(list) => list.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        NamedServers::Announced(folder) => folder.display().to_string(),
    }
}

/// The key for servers that are named: the file that the name or `AQUEDUCT_KEY` names, or that of the folder `AQUEDUCT_SERVERS`.
fn listed_key(
    settings: &TunnelSettings,
    operation: Operation,
    name: &std::ffi::OsStr,
) -> Result<Option<Key>> {
    let variable = |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty());
    let path = settings.key.clone().or_else(|| variable("AQUEDUCT_KEY").map(std::path::PathBuf::from));
    let path =
        path.or_else(|| variable("AQUEDUCT_SERVERS").map(|folder| Path::new(&folder).join(announce::KEY)));
    let Some(path) = path else { return Ok(None) };
    Key::read(&path)
        .map(Some)
        .map_err(|error| Error::new(Kind::PermissionDenied, operation, name).advise(error.to_string()))
}

/// The link of this process to a server, an existing or a new one.
fn link_to(
    address: &Address,
    key: Option<&Key>,
    settings: &TunnelSettings,
    wait: Duration,
) -> std::result::Result<Arc<TunnelLink>, String> {
    let id =
        (std::process::id(), address.clone(), TunnelSettings { stripe: 0, wait: None, ..settings.clone() });
    let find = || {
        let mut links = LINKS.lock().unwrap_or_else(PoisonError::into_inner);
        let links = links.get_or_insert_default();
        links.retain(|_, link| link.is_usable());
        links.get(&id).cloned()
    };
    if let Some(link) = find() {
        return Ok(link);
    }
    let link = TunnelLink::connect(address, key.cloned(), settings, wait)?;
    if let Some(earlier) = find() {
        link.say_goodbye();
        return Ok(earlier);
    }
    let mut links = LINKS.lock().unwrap_or_else(PoisonError::into_inner);
    links.get_or_insert_default().insert(id, Arc::clone(&link));
    Ok(link)
}

/// Checks that these are all servers of one set.
fn check_set(links: &[Arc<TunnelLink>]) -> std::result::Result<(), String> {
    let Some(first) = links.first().map(|link| link.identity()) else {
        return Err("no server is named".into());
    };
    for (at, link) in links.iter().enumerate() {
        let identity = link.identity();
        if identity.set != first.set {
            return Err(format!(
                "{} and {} belong to different sets; start servers of one set with --announce FOLDER --of N",
                links[0].address(),
                link.address()
            ));
        }
        if usize::from(identity.index) != at || usize::from(identity.count) != links.len() {
            return Err(format!(
                "the set has {} servers and {} of them are named; name each once",
                identity.count,
                links.len()
            ));
        }
    }
    Ok(())
}

impl ServerConnection<'_> {
    /// Its address.
    pub fn address(&self) -> &Address {
        self.0.address()
    }

    /// Its state.
    pub fn status(&self) -> Result<ServerStatus> {
        match self.0.call(Operation::Open, "", &TunnelRequest::Status)? {
            Answer::Status(status) => Ok(status),
            _ => Err(unexpected_answer(Operation::Open, "")),
        }
    }

    /// Its files whose names begin with `prefix`, in the order of their names.
    pub fn list(&self, prefix: &[u8]) -> Result<Vec<ListedFile>> {
        let mut all: Vec<ListedFile> = Vec::new();
        loop {
            let after = all.last().map(|file| file.name.clone()).unwrap_or_default();
            let request = TunnelRequest::List { prefix: prefix.to_vec(), after };
            match self.0.call(Operation::Open, "", &request)? {
                Answer::Listing { files, more } => {
                    let is_last = !more || files.is_empty();
                    all.extend(files);
                    if is_last {
                        return Ok(all);
                    }
                }
                _ => return Err(unexpected_answer(Operation::Open, "")),
            }
        }
    }
}

/// The error of an answer that does not belong to its request.
pub(super) fn unexpected_answer(operation: Operation, name: &str) -> Error {
    Error::new(Kind::Io, operation, name)
        .advise("the server gave an answer of another operation; use the same version on both sides")
}
