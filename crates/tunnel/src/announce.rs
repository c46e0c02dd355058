//! Sets of servers, which announce themselves in a folder that clients see.
//!
//! `set` has the identity of the set and the number of its servers, `key` the key, `<index>.server` the address of each server: words
//! separated by spaces. Files are complete when they have their names.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::key::{Key, from_hex, random, to_hex};
use crate::socket::Address;

/// The name of the key file.
pub const KEY: &str = "key";

/// The most bytes of a file of the folder.
const LONGEST: u64 = 4096;

/// The most servers of a set.
const MOST_SERVERS: u16 = 4096;

/// The first word of all files.
const MAGIC: &str = "aqueduct-1";

/// A server's place in a set.
#[derive(Debug)]
pub struct Membership {
    folder: PathBuf,
    /// The identity of the set.
    pub set: [u8; 16],
    /// The place of this server.
    pub index: u16,
    /// How many servers there are.
    pub count: u16,
    /// The key of the set.
    pub key: Key,
    /// Keeps the place; removed when the server ends.
    claim: PathBuf,
    /// Locked as long as the server lives: the claim of one that was killed is free.
    _lock: fs::File,
}

/// A complete set.
#[derive(Debug)]
pub struct AnnouncedSet {
    /// The address of each server, in their order.
    pub addresses: Vec<Address>,
    /// The key.
    pub key: Key,
}

fn invalid(path: &Path, why: impl std::fmt::Display) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("{}: {why}", path.display()))
}

/// The words of a file after the first one.
fn read_words<const N: usize>(path: &Path) -> io::Result<[String; N]> {
    let text = io::read_to_string(io::Read::take(fs::File::open(path)?, LONGEST))?;
    let mut words = text.split_whitespace();
    let malformed = || invalid(path, "the file is malformed");
    if words.next() != Some(MAGIC) {
        return Err(malformed());
    }
    words.map(str::to_owned).collect::<Vec<_>>().try_into().map_err(|_| malformed())
}

/// Writes a file that is complete when it has its name; `exclusive` fails if there is one.
fn write_words(path: &Path, words: &[&str], exclusive: bool) -> io::Result<()> {
    let draft = path.with_extension(format!("{}.draft", to_hex(&random::<4>())));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(format!("{MAGIC} {}\n", words.join(" ")).as_bytes())?;
    file.sync_all()?;
    if !exclusive {
        return fs::rename(&draft, path);
    }
    let linked = fs::hard_link(&draft, path);
    fs::remove_file(&draft)?;
    linked
}

/// Takes a place of a set: the lock of its file, which ends with its server; none if another server has it.
fn claim(path: &Path) -> io::Result<Option<fs::File>> {
    loop {
        let file = fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Ok(None),
            Err(fs::TryLockError::Error(error)) => {
                return Err(invalid(
                    path,
                    format!("the file system has no locks ({error}); name another folder"),
                ));
            }
        }
        // A server that has just ended may have removed the file before it was locked.
        let is_same = |stat: fs::Metadata| file.metadata().is_ok_and(|locked| locked.ino() == stat.ino());
        if fs::metadata(path).is_ok_and(is_same) {
            return Ok(Some(file));
        }
    }
}

impl Membership {
    /// Joins the set of a folder, or makes one of `count` servers. The place is the given one or the first free one.
    pub fn join(folder: &Path, count: u16, index: Option<u16>) -> io::Result<Self> {
        if count == 0 || count > MOST_SERVERS || index.is_some_and(|index| index >= count) {
            let text =
                format!("a set has 1 to {MOST_SERVERS} servers, and the index is smaller than their number");
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        fs::create_dir_all(folder)?;
        let path = folder.join("set");
        match write_words(&path, &[&to_hex(&random::<16>()), &count.to_string()], true) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let [set, known] = read_words(&path)?;
        let set = from_hex(&set).ok_or_else(|| invalid(&path, "the identity of the set is malformed"))?;
        if known != count.to_string() {
            return Err(invalid(
                &path,
                format!("the set has {known} servers, not {count}; use another folder"),
            ));
        }
        let key = Key::read_or_create(&folder.join(KEY))?;
        let place = |index: u16| folder.join(format!("{index}.claim"));
        let (index, lock) = match index {
            Some(index) => {
                let lock = claim(&place(index))?.ok_or_else(|| {
                    invalid(folder, format!("place {index} of the set is taken by a server that runs"))
                })?;
                (index, lock)
            }
            None => {
                let mut free = None;
                for index in 0..count {
                    free = claim(&place(index))?.map(|lock| (index, lock));
                    if free.is_some() {
                        break;
                    }
                }
                free.ok_or_else(|| {
                    invalid(folder, format!("all {count} places of the set are taken by servers that run"))
                })?
            }
        };
        Ok(Self { folder: folder.into(), set, index, count, key, claim: place(index), _lock: lock })
    }

    /// Announces the address of this server.
    pub fn publish(&self, address: &Address) -> io::Result<()> {
        let words = [to_hex(&self.set), self.index.to_string(), address.to_string()];
        write_words(&self.path(), &words.each_ref().map(String::as_str), false)
    }

    fn path(&self) -> PathBuf {
        self.folder.join(format!("{}.server", self.index))
    }

    /// Takes the announcement back.
    pub fn leave(&self) {
        // Clients that still read it get an error of connecting.
        let _ = fs::remove_file(self.path());
        let _ = fs::remove_file(&self.claim);
    }
}

/// Reads a set if all of its servers have announced themselves.
fn read(folder: &Path) -> io::Result<AnnouncedSet> {
    let path = folder.join("set");
    let [set, count] = read_words(&path)?;
    let count = count.parse().ok().filter(|count| *count <= MOST_SERVERS);
    let count: u16 = count.ok_or_else(|| invalid(&path, "the number of servers is malformed"))?;
    let address = |index: u16| {
        let path = folder.join(format!("{index}.server"));
        let [of_set, of_index, address] = read_words(&path)?;
        if of_set != set || of_index != index.to_string() {
            return Err(invalid(&path, "this server belongs to another set"));
        }
        address.parse().map_err(|error: String| invalid(&path, error))
    };
    let addresses = (0..count).map(address).collect::<io::Result<_>>()?;
    Ok(AnnouncedSet { addresses, key: Key::read(&folder.join(KEY))? })
}

/// Reads a set; waits so long for servers that have not announced themselves.
pub fn read_when_complete(folder: &Path, wait: Duration) -> io::Result<AnnouncedSet> {
    let start = Instant::now();
    loop {
        match read(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound && start.elapsed() < wait => {
                thread::sleep(Duration::from_millis(50));
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let text = format!(
                    "{}: not all servers of the set have announced themselves ({error}); start them with `aqueduct serve --announce`",
                    folder.display()
                );
                return Err(io::Error::new(ErrorKind::NotFound, text));
            }
            outcome => return outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_take_places_and_clients_find_them() {
        let folder = tempfile::tempdir().unwrap();
        let folder = &folder.path().join("servers");
        let one = Membership::join(folder, 2, None).unwrap();
        let other = Membership::join(folder, 2, None).unwrap();
        assert_eq!((one.index, other.index, one.set == other.set), (0, 1, true));
        assert!(Membership::join(folder, 2, None).unwrap_err().to_string().contains("all 2 places"));
        assert!(Membership::join(folder, 3, None).unwrap_err().to_string().contains("2 servers"));
        one.publish(&"a:1".parse().unwrap()).unwrap();
        assert_eq!(read_when_complete(folder, Duration::ZERO).unwrap_err().kind(), ErrorKind::NotFound);
        other.publish(&"b:2".parse().unwrap()).unwrap();
        let set = read_when_complete(folder, Duration::ZERO).unwrap();
        assert_eq!(set.addresses.iter().map(ToString::to_string).collect::<Vec<_>>(), ["a:1", "b:2"]);
        assert_eq!(set.key, one.key);
        other.leave();
        assert!(read_when_complete(folder, Duration::ZERO).is_err());
        drop(other);
        assert_eq!(Membership::join(folder, 2, Some(1)).unwrap().index, 1);
        // Killed servers leave their files, and their places are free.
        assert!(folder.join("1.claim").exists());
        assert_eq!(Membership::join(folder, 2, None).unwrap().index, 1);
        assert!(Membership::join(folder, 2, Some(0)).unwrap_err().to_string().contains("taken"));
        assert!(Membership::join(folder, 2, Some(2)).is_err());
        fs::write(folder.join("0.server"), "{").unwrap();
        assert_eq!(read(folder).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
