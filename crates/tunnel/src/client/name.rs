//! Names of the device: `SERVERS/FILE`, and its parameters.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aqueduct_device::units::{ByteSize, parse_duration};
use aqueduct_device::{Error, Kind, Operation, Result};

use super::placement::STRIPE_UNIT;
use crate::socket::Address;
use crate::wire::request::LONGEST_NAME;

/// Parameters of the device.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TunnelSettings {
    /// The stripe size of new files on several servers.
    pub(super) stripe: u64,
    /// Connections of this process to each server.
    pub(super) connections: usize,
    /// A server without a sign of life for so long is lost.
    pub(super) silence: Duration,
    /// How long to wait for servers that do not run yet.
    pub(super) wait: Option<Duration>,
    /// Whether payloads have checksums.
    pub(super) check: bool,
    /// The key file; by default that of the environment.
    pub(super) key: Option<PathBuf>,
    /// The folder in which servers announce themselves; by default that of the environment.
    pub(super) servers: Option<PathBuf>,
}

impl Default for TunnelSettings {
    fn default() -> Self {
        Self {
            stripe: 1 << 20,
            connections: 4,
            silence: Duration::from_secs(10),
            wait: None,
            check: true,
            key: None,
            servers: None,
        }
    }
}

const GRAMMAR: &str = "tunnel=stripe=1MiB,connections=4,silence=10s,wait=30s,check=payload,key=FILE,servers=FOLDER with any of these; check is payload or none";

impl TunnelSettings {
    /// Reads the text between `=` and the colon.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let refuse = |problem: String| {
            let error = Error::new(Kind::InvalidName, Operation::Resolve, format!("tunnel={text}"));
            error.advise(format!("{problem}; write {GRAMMAR}"))
        };
        let mut settings = Self::default();
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (key, value) =
                part.split_once('=').ok_or_else(|| refuse(format!("{part:?} has no value")))?;
            let wrong = |why: &str| refuse(format!("{key}={value}: {why}"));
            let duration = || parse_duration(value).map_err(|error| wrong(&error.to_string()));
            match key {
                "stripe" => {
                    let size: ByteSize = value.parse().map_err(|error| wrong(&format!("{error}")))?;
                    if size.0 == 0 || !size.0.is_multiple_of(STRIPE_UNIT) || size.0 > 1 << 40 {
                        return Err(wrong("a stripe is a multiple of 64KiB, and 1TiB at most"));
                    }
                    settings.stripe = size.0;
                }
                "connections" => {
                    let count = value.parse().ok().filter(|count| (1..=1024).contains(count));
                    settings.connections = count.ok_or_else(|| wrong("a number from 1 to 1024 is wanted"))?;
                }
                "silence" => {
                    settings.silence = duration()?;
                    if settings.silence < Duration::from_millis(200) {
                        return Err(wrong("servers need 200ms at least to answer"));
                    }
                }
                "key" => settings.key = Some(value.into()),
                "servers" => settings.servers = Some(value.into()),
                "wait" => settings.wait = Some(duration()?),
                "check" => match value {
                    "payload" => settings.check = true,
                    "none" => settings.check = false,
                    _ => return Err(wrong("payload or none is wanted")),
                },
                _ => return Err(refuse(format!("there is no parameter {key:?}"))),
            }
        }
        Ok(settings)
    }
}

/// Where the servers of a name are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NamedServers {
    /// They are named.
    Listed(Vec<Address>),
    /// They announce themselves in a folder.
    Announced(PathBuf),
}

/// Splits a name into servers and file. Without servers, `AQUEDUCT_SERVERS` names the folder in which they announce themselves.
pub(super) fn parse(
    name: &OsStr,
    settings: &TunnelSettings,
    operation: Operation,
) -> Result<(NamedServers, OsString)> {
    let refuse = |why: String| Err(Error::new(Kind::InvalidName, operation, name).advise(why));
    let bytes = name.as_bytes();
    if bytes.contains(&0) {
        return refuse("the name holds a NUL byte".into());
    }
    let Some((servers, file)) = split_servers(bytes) else {
        return refuse(
            "the file is missing: write tunnel:HOST:PORT/FILE, or tunnel:/FILE with AQUEDUCT_SERVERS".into(),
        );
    };
    let start = file.iter().position(|byte| *byte != b'/').unwrap_or(file.len());
    let file = &file[start..];
    if file.is_empty() || file.len() > LONGEST_NAME {
        return refuse(format!("the name of the file is empty or longer than {LONGEST_NAME} bytes"));
    }
    let file = OsStr::from_bytes(file).to_owned();
    if servers.is_empty() {
        let from_environment =
            || Some(std::env::var_os("AQUEDUCT_SERVERS").filter(|folder| !folder.is_empty())?.into());
        return match settings.servers.clone().or_else(from_environment) {
            Some(folder) => Ok((NamedServers::Announced(folder), file)),
            None => refuse("no server is named: write tunnel:HOST:PORT/FILE, or set AQUEDUCT_SERVERS to the folder of `aqueduct serve --announce`".into()),
        };
    }
    let text = String::from_utf8_lossy(servers);
    let addresses: std::result::Result<Vec<Address>, String> = text.split(',').map(str::parse).collect();
    match addresses {
        Ok(addresses) => Ok((NamedServers::Listed(addresses), file)),
        Err(why) => refuse(why),
    }
}

/// Servers and file, divided at the first slash that does not belong to the path of a socket; none if there is no file.
fn split_servers(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    if !bytes.starts_with(b"unix:") {
        let slash = bytes.iter().position(|byte| *byte == b'/')?;
        return Some(bytes.split_at(slash));
    }
    // The socket is the shortest prefix that is one, or else all but the last part.
    let slashes: Vec<usize> = (6..bytes.len()).filter(|at| bytes[*at] == b'/').collect();
    let is_socket = |at: &&usize| {
        use std::os::unix::fs::FileTypeExt;
        let path = Path::new(OsStr::from_bytes(&bytes[5..**at]));
        std::fs::metadata(path).is_ok_and(|stat| stat.file_type().is_socket())
    };
    let at = slashes.iter().find(is_socket).or(slashes.last())?;
    Some(bytes.split_at(*at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(name: &str) -> (Vec<String>, String) {
        match parse(name.as_ref(), &TunnelSettings::default(), Operation::Open).unwrap() {
            (NamedServers::Listed(list), file) => {
                (list.iter().map(ToString::to_string).collect(), file.into_string().unwrap())
            }
            (announced, _) => panic!("{announced:?}"),
        }
    }

    #[test]
    fn servers_and_file() {
        assert_eq!(parsed("n1:7701/run7"), (vec!["n1:7701".into()], "run7".into()));
        let (servers, file) = parsed("n1,n2:80,[fe80::1]:9/a/b:c");
        assert_eq!(
            (servers, file.as_str()),
            (vec!["n1:7700".into(), "n2:80".into(), "[fe80::1]:9".into()], "a/b:c")
        );
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let address = format!("unix:{}", socket.display());
        assert_eq!(parsed(&format!("{address}/a/b")), (vec![address], "a/b".into()));
        for name in ["", "n1", "n1/", "n1:x/a", ":/a", "a b/c", "unix:/sock", "n1/a\0b"] {
            let error = parse(name.as_ref(), &TunnelSettings::default(), Operation::Open).unwrap_err();
            assert_eq!(error.kind(), Kind::InvalidName, "{name}");
        }
    }

    #[test]
    fn parameters() {
        let settings =
            TunnelSettings::parse("stripe=4MiB,connections=2,silence=1s,wait=5s,check=none").unwrap();
        let expected = TunnelSettings {
            stripe: 4 << 20,
            connections: 2,
            silence: Duration::from_secs(1),
            wait: Some(Duration::from_secs(5)),
            check: false,
            ..TunnelSettings::default()
        };
        assert_eq!(settings, expected);
        assert_eq!(TunnelSettings::parse("").unwrap(), TunnelSettings::default());
        for text in
            ["x", "x=1", "stripe=1", "stripe=0", "connections=0", "silence=1us", "check=all", "stripe=1MiB,"]
        {
            let error = TunnelSettings::parse(text).unwrap_err();
            assert!(error.to_string().contains("stripe=1MiB,connections=4"), "{error}");
        }
    }
}
