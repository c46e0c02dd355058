//! The key of a set of servers: a file that only its user can read, and proofs that a peer has it.

use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::wire::greeting::Proof;

/// Who proves the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofRole {
    /// The server, after the hello of the client.
    Server,
    /// The client, after both hellos.
    Client,
}

/// A secret of 32 bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key([u8; 32]);

impl fmt::Debug for Key {
    /// Shows nothing of the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Random bytes of the system.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        // The call fails only if it is interrupted or the kernel is older than 3.17.
        if let Ok(count) =
            rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())
        {
            filled += count;
        }
    }
    bytes
}

/// Bytes as hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Bytes from hexadecimal digits.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.trim_end().as_bytes();
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, digits) in bytes.iter_mut().zip(text.chunks(2)) {
        let digit = |at: usize| char::from(digits[at]).to_digit(16);
        *byte = (digit(0)? << 4 | digit(1)?) as u8;
    }
    Some(bytes)
}

impl Key {
    /// A new random key.
    pub fn generate() -> Self {
        Self(random())
    }

    /// For Unix sockets, where the kernel names the user of the peer.
    pub(crate) fn of_this_user() -> Self {
        Self([0; 32])
    }

    /// Reads a key file. One that others can read, or that belongs to another user, is refused.
    pub fn read(path: &Path) -> io::Result<Self> {
        let refuse =
            |why: &str| io::Error::new(ErrorKind::PermissionDenied, format!("{}: {why}", path.display()));
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("key file {}: {error}", path.display()));
        let file = fs::File::open(path).map_err(named)?;
        let stat = file.metadata().map_err(named)?;
        if stat.uid() != rustix::process::geteuid().as_raw() {
            return Err(refuse("the key belongs to another user"));
        }
        if stat.permissions().mode() & 0o077 != 0 {
            return Err(refuse("others can read the key: chmod 600, or make another one"));
        }
        let text = io::read_to_string(io::Read::take(file, 100)).map_err(named)?;
        from_hex(&text).map(Self).ok_or_else(|| refuse("a key has 64 hexadecimal digits"))
    }

    /// Reads a key file, or creates it if there is none; of several that create it at the same time one succeeds, and all read that one.
    pub fn read_or_create(path: &Path) -> io::Result<Self> {
        match Self::read(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            outcome => return outcome,
        }
        let text = to_hex(&Self::generate().0) + "\n";
        // Complete before it has its name.
        let draft = path.with_extension(format!("{}.draft", std::process::id()));
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        let linked = fs::hard_link(&draft, path);
        fs::remove_file(&draft)?;
        match linked {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
            _ => Self::read(path),
        }
    }

    /// The proof of a role over what was sent before it.
    pub fn prove(&self, role: ProofRole, sent: &[&[u8]]) -> Proof {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(match role {
            ProofRole::Server => b"aqueduct server proof 1",
            ProofRole::Client => b"aqueduct client proof 1",
        });
        for part in sent {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        *hasher.finalize().as_bytes()
    }

    /// Checks a proof; the time does not depend on where it differs.
    pub fn is_proven(&self, role: ProofRole, sent: &[&[u8]], proof: &Proof) -> bool {
        blake3::Hash::from_bytes(self.prove(role, sent)) == blake3::Hash::from_bytes(*proof)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_is_private_and_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        assert_eq!(Key::read(&path).unwrap_err().kind(), ErrorKind::NotFound);
        let key = Key::read_or_create(&path).unwrap();
        assert!(Key::read_or_create(&path).unwrap() == key && Key::read(&path).unwrap() == key);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no draft is left");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let error = Key::read(&path).unwrap_err();
        assert!(error.to_string().contains("chmod 600"), "{error}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "abc").unwrap();
        assert!(Key::read(&path).is_err());
        assert_eq!(format!("{key:?}"), "Key(…)");
    }

    #[test]
    fn proofs_depend_on_key_role_and_every_part() {
        let (key, other) = (Key::generate(), Key::generate());
        let proof = key.prove(ProofRole::Server, &[b"ab", b"c"]);
        assert!(key.is_proven(ProofRole::Server, &[b"ab", b"c"], &proof));
        assert!(!key.is_proven(ProofRole::Client, &[b"ab", b"c"], &proof));
        assert!(!key.is_proven(ProofRole::Server, &[b"a", b"bc"], &proof));
        assert!(!other.is_proven(ProofRole::Server, &[b"ab", b"c"], &proof));
    }
}
