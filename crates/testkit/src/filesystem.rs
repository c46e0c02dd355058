//! Small file systems of their own for tests of media that fail: images mounted through a loop device, and tmpfs.
//!
//! They need root and loop devices. Where there are none a notice is printed and the test is skipped; `AQUEDUCT_REQUIRE_MOUNTS=1` makes that a
//! failure.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A kind of file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilesystemKind {
    /// ext4, of 24 MiB.
    Ext4,
    /// xfs, of the 300 MiB that are its minimum.
    Xfs,
    /// btrfs, of 120 MiB.
    Btrfs,
    /// tmpfs, of 8 MiB.
    Tmpfs,
}

impl FilesystemKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ext4, Self::Xfs, Self::Btrfs, Self::Tmpfs];

    /// What mount(8) calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
            Self::Tmpfs => "tmpfs",
        }
    }

    fn bytes(self) -> u64 {
        let mib = match self {
            Self::Ext4 => 24,
            Self::Xfs => 300,
            Self::Btrfs => 120,
            Self::Tmpfs => 8,
        };
        mib << 20
    }

    fn make(self, image: &Path) -> bool {
        let options: &[&str] = match self {
            Self::Ext4 => &["-q", "-F", "-m", "0"],
            Self::Xfs | Self::Btrfs => &["-q", "-f"],
            Self::Tmpfs => return true,
        };
        runs(Command::new(format!("mkfs.{}", self.name())).args(options).arg(image))
    }

    fn mount_options(self) -> &'static str {
        match self {
            Self::Ext4 | Self::Xfs | Self::Btrfs => "loop",
            Self::Tmpfs => "size=8m,mode=1777",
        }
    }
}

/// A mounted file system, unmounted when it is dropped.
#[derive(Debug)]
pub struct TestFilesystem {
    folder: tempfile::TempDir,
    kind: FilesystemKind,
}

impl TestFilesystem {
    /// Makes and mounts one; none, with a notice, where that cannot be.
    ///
    /// # Panics
    /// If it cannot be and `AQUEDUCT_REQUIRE_MOUNTS` is set.
    pub fn mount(kind: FilesystemKind) -> Option<Self> {
        let made = Self::make(kind);
        if made.is_none() {
            let required = std::env::var_os("AQUEDUCT_REQUIRE_MOUNTS").is_some();
            assert!(!required, "{} could not be made and mounted, and is required", kind.name());
            eprintln!(
                "skipped: {} cannot be made and mounted here (root and loop devices are needed)",
                kind.name()
            );
        }
        made
    }

    fn make(kind: FilesystemKind) -> Option<Self> {
        let folder = tempfile::tempdir().ok()?;
        let (image, point) = (folder.path().join("image"), folder.path().join("mounted"));
        fs::create_dir(&point).ok()?;
        open_to_all(folder.path())?;
        fs::File::create(&image).ok()?.set_len(kind.bytes()).ok()?;
        let mount = ["-t", kind.name(), "-o", kind.mount_options()];
        let mounted = kind.make(&image) && runs(Command::new("mount").args(mount).arg(&image).arg(&point));
        let filesystem = mounted.then_some(Self { folder, kind })?;
        open_to_all(&filesystem.path())?;
        Some(filesystem)
    }

    /// Where it is mounted; everybody may write there.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("mounted")
    }

    /// Which it is.
    pub fn kind(&self) -> FilesystemKind {
        self.kind
    }

    /// Fills it but for about so many bytes.
    ///
    /// # Panics
    /// If it cannot be filled.
    pub fn fill_but(&self, free: usize) {
        let room = self.path().join("room");
        fs::write(&room, vec![7; free]).expect("room to be freed");
        fs::File::open(&room).and_then(|file| file.sync_all()).expect("room on the medium");
        let mut filling = fs::File::create(self.path().join("filling")).expect("a file to fill it with");
        for size in [1 << 20, 64 << 10, 4 << 10, 512] {
            let chunk = vec![7; size];
            while filling.write_all(&chunk).is_ok() {}
        }
        // What is reserved and not allocated is given back by this.
        let _ = filling.sync_all();
        while filling.write_all(&[7; 512]).is_ok() {}
        fs::remove_file(room).expect("the room is freed");
        let _ = filling.sync_all();
    }

    /// Shuts it down as after an error of the medium; for ext4 and xfs (`EXT4_IOC_SHUTDOWN`, `XFS_IOC_GOINGDOWN`).
    ///
    /// # Panics
    /// If it cannot be shut down.
    pub fn shut_down(&self) {
        let shutdown = ["-x", "-F", "-c", "shutdown"];
        assert!(runs(Command::new("xfs_io").args(shutdown).arg(self.path())), "xfs_io of xfsprogs");
    }

    /// Sets a quota of so many bytes for everybody; for btrfs, whose quotas need no support by the kernel that others do.
    ///
    /// # Panics
    /// If quotas do not work.
    pub fn limit(&self, bytes: u64) {
        let path = self.path();
        let enabled = runs(Command::new("btrfs").args(["quota", "enable"]).arg(&path));
        let limit = ["qgroup", "limit", &bytes.to_string()];
        assert!(enabled && runs(Command::new("btrfs").args(limit).arg(&path)), "btrfs of btrfs-progs");
    }
}

impl Drop for TestFilesystem {
    fn drop(&mut self) {
        let unmount = |options: &[&str]| runs(Command::new("umount").args(options).arg(self.path()));
        // Lazily if a failed test has left something open.
        if !unmount(&[]) {
            unmount(&["-l"]);
        }
    }
}

fn open_to_all(folder: &Path) -> Option<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o777)).ok()
}

fn runs(command: &mut Command) -> bool {
    let outcome = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output();
    let well = outcome.as_ref().is_ok_and(|output| output.status.success());
    if let Ok(output) = outcome.as_ref()
        && !well
    {
        eprintln!("{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    well
}
