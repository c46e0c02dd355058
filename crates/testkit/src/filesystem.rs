//! Small file systems of their own for tests of media that fail: images mounted through a loop device, and tmpfs.
//!
//! They need root and loop devices. Where there are none a notice is printed and the test is skipped; `AQUEDUCT_REQUIRE_MOUNTS=1` makes that a
//! failure. What only some kernels have is skipped with a notice in any case: quotas of ext4, xfs and tmpfs, and the device mapper.

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

    fn make(self, image: &Path, more: &[&str]) -> bool {
        let options: &[&str] = match self {
            Self::Ext4 => &["-q", "-F", "-m", "0"],
            Self::Xfs | Self::Btrfs => &["-q", "-f"],
            Self::Tmpfs => return true,
        };
        runs(Command::new(format!("mkfs.{}", self.name())).args(options).args(more).arg(image))
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
    /// Taken away after everything that lies on it.
    device: Option<FlakyDevice>,
    folder: tempfile::TempDir,
    kind: FilesystemKind,
}

impl TestFilesystem {
    /// Makes and mounts one; none, with a notice, where that cannot be.
    ///
    /// # Panics
    /// If it cannot be and `AQUEDUCT_REQUIRE_MOUNTS` is set.
    pub fn mount(kind: FilesystemKind) -> Option<Self> {
        required(kind.name(), Self::make(kind))
    }

    /// ext4 without a journal, of 64 MiB, whose image lies on a tmpfs of 16 MiB: pages are accepted, and cannot be written out. None as with
    /// [`mount`](Self::mount).
    ///
    /// # Panics
    /// As with [`mount`](Self::mount).
    pub fn mount_overcommitted() -> Option<Self> {
        let make = || {
            let filesystem = Self::prepare(FilesystemKind::Ext4)?;
            let backing = filesystem.folder.path().join("backing");
            fs::create_dir(&backing).ok()?;
            let mount = ["-t", "tmpfs", "-o", "size=16m", "tmpfs"];
            let mounted = runs(Command::new("mount").args(mount).arg(&backing));
            let image = backing.join("image");
            mounted.then(|| fs::File::create(&image).ok()?.set_len(64 << 20).ok())??;
            let made = FilesystemKind::Ext4.make(&image, &["-O", "^has_journal"]);
            (made && filesystem.mount_image(&image, "loop")).then_some(filesystem)
        };
        required("ext4 on a smaller tmpfs", make())
    }

    /// One with a quota of so many bytes for a user other than root, who has none. None, with a notice, where the kernel has no quotas for
    /// it: ext4 needs `CONFIG_QFMT_V2` (and `setquota`), xfs `CONFIG_XFS_QUOTA`, tmpfs `CONFIG_TMPFS_QUOTA`.
    pub fn mount_with_quota(kind: FilesystemKind, user: u32, bytes: u64) -> Option<Self> {
        let make = || {
            let filesystem = Self::prepare(kind)?;
            let image = filesystem.image(kind.bytes())?;
            let options = kind.mount_options();
            let (features, options): (&[&str], _) = match kind {
                FilesystemKind::Ext4 => (&["-O", "quota"], format!("{options},usrquota")),
                FilesystemKind::Xfs => (&[], format!("{options},uquota")),
                FilesystemKind::Tmpfs => {
                    (&[], format!("{options},usrquota,usrquota_block_hardlimit={bytes}"))
                }
                FilesystemKind::Btrfs => (&[], options.to_owned()),
            };
            let mounted = kind.make(&image, features) && filesystem.mount_image(&image, &options);
            mounted.then(|| filesystem.set_quota(user, bytes))?.then_some(filesystem)
        };
        let made = make();
        if made.is_none() {
            eprintln!("skipped: this kernel has no quotas on {}, or their tools are missing", kind.name());
        }
        made
    }

    fn set_quota(&self, user: u32, bytes: u64) -> bool {
        let (user, kib) = (user.to_string(), (bytes >> 10).to_string());
        match self.kind {
            FilesystemKind::Ext4 => {
                runs(Command::new("setquota").args(["-u", &user, "0", &kib, "0", "0"]).arg(self.path()))
            }
            FilesystemKind::Xfs => {
                let limit = format!("limit -u bhard={bytes} {user}");
                runs(Command::new("xfs_quota").args(["-x", "-c", &limit]).arg(self.path()))
            }
            FilesystemKind::Tmpfs => true,
            FilesystemKind::Btrfs => {
                self.limit(bytes);
                true
            }
        }
    }

    /// ext4 on a device whose writes can be made to fail ([`FlakyDevice`]). None, with a notice, where the kernel has no dm-flakey.
    pub fn mount_flaky() -> Option<Self> {
        let make = || {
            let mut filesystem = Self::prepare(FilesystemKind::Ext4)?;
            let image = filesystem.image(FilesystemKind::Ext4.bytes())?;
            let device = FlakyDevice::new(&image)?;
            let path = device.path();
            filesystem.device = Some(device);
            let made = FilesystemKind::Ext4.make(&path, &[]);
            (made && filesystem.mount_image(&path, "defaults")).then_some(filesystem)
        };
        let made = make();
        if made.is_none() {
            eprintln!("skipped: this kernel has no dm-flakey, or dmsetup is missing");
        }
        made
    }

    /// The device beneath, if its writes can be made to fail.
    pub fn device(&self) -> Option<&FlakyDevice> {
        self.device.as_ref()
    }

    fn make(kind: FilesystemKind) -> Option<Self> {
        let filesystem = Self::prepare(kind)?;
        let image = filesystem.image(kind.bytes())?;
        let mounted = kind.make(&image, &[]) && filesystem.mount_image(&image, kind.mount_options());
        mounted.then_some(filesystem)
    }

    /// A folder for one, where nothing is mounted yet.
    fn prepare(kind: FilesystemKind) -> Option<Self> {
        let filesystem = Self { device: None, folder: tempfile::tempdir().ok()?, kind };
        fs::create_dir(filesystem.path()).ok()?;
        open_to_all(filesystem.folder.path())?;
        Some(filesystem)
    }

    fn image(&self, bytes: u64) -> Option<PathBuf> {
        let image = self.folder.path().join("image");
        fs::File::create(&image).ok()?.set_len(bytes).ok()?;
        Some(image)
    }

    fn mount_image(&self, image: &Path, options: &str) -> bool {
        let mount = ["-t", self.kind.name(), "-o", options];
        runs(Command::new("mount").args(mount).arg(image).arg(self.path()))
            && open_to_all(&self.path()).is_some()
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
        for point in [self.path(), self.folder.path().join("backing")] {
            // Lazily if a failed test has left something open.
            if is_mount_point(&point) && !runs(Command::new("umount").arg(&point)) {
                runs(Command::new("umount").arg("-l").arg(&point));
            }
        }
        self.device = None;
    }
}

/// A loop device under the device mapper, whose writes fail once they are made to (dm-flakey).
#[derive(Debug)]
pub struct FlakyDevice {
    name: String,
    under: String,
    sectors: u64,
}

impl FlakyDevice {
    fn new(image: &Path) -> Option<Self> {
        let targets = Command::new("dmsetup").arg("targets").output().ok()?;
        if !String::from_utf8_lossy(&targets.stdout).contains("flakey") {
            return None;
        }
        let sectors = fs::metadata(image).ok()?.len() / 512;
        let attached = Command::new("losetup").args(["--find", "--show"]).arg(image).output().ok()?;
        let under = String::from_utf8_lossy(&attached.stdout).trim().to_owned();
        let name = format!("aqueduct-test-{}", std::process::id());
        let device = Self { name, under, sectors };
        let table = device.table("3600 0");
        runs(Command::new("dmsetup").args(["create", &device.name, "--table", &table])).then_some(device)
    }

    fn path(&self) -> PathBuf {
        Path::new("/dev/mapper").join(&self.name)
    }

    /// `intervals`: seconds in which it works and in which it fails, and how.
    fn table(&self, intervals: &str) -> String {
        format!("0 {} flakey {} 0 {intervals}", self.sectors, self.under)
    }

    /// From now on every write fails.
    ///
    /// # Panics
    /// If that cannot be set.
    pub fn fail_writes(&self) {
        let table = self.table("0 3600 1 error_writes");
        let steps = [
            &["suspend", "--noflush", "--nolockfs", &self.name][..],
            &["load", &self.name, "--table", &table],
            &["resume", &self.name],
        ];
        assert!(steps.iter().all(|step| runs(Command::new("dmsetup").args(*step))), "dmsetup");
    }
}

impl Drop for FlakyDevice {
    fn drop(&mut self) {
        runs(Command::new("dmsetup").args(["remove", "--retry", &self.name]));
        runs(Command::new("losetup").args(["--detach", &self.under]));
    }
}

/// What was made; a notice, or a failure where that is wanted, if it was not.
fn required(what: &str, made: Option<TestFilesystem>) -> Option<TestFilesystem> {
    if made.is_none() {
        let required = std::env::var_os("AQUEDUCT_REQUIRE_MOUNTS").is_some();
        assert!(!required, "{what} could not be made and mounted, and is required");
        eprintln!("skipped: {what} cannot be made and mounted here (root and loop devices are needed)");
    }
    made
}

fn is_mount_point(folder: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(1).is_some_and(|point| Path::new(point) == folder))
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
