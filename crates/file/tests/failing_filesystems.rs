//! Every strategy on file systems that fail: full, shut down, over quota, and truncated by another process. The program gets an error of the
//! right kind on all ranks; no signal ends it, and nothing hangs.
//!
//! Each scenario runs in a child process, so that a signal or a hang of it is seen. The file systems are small ones of their own, mounted for the
//! test.
//!
//! Quotas are tested on btrfs everywhere, and on ext4, xfs and tmpfs where the kernel has them: `CONFIG_QFMT_V2`, `CONFIG_XFS_QUOTA` and
//! `CONFIG_TMPFS_QUOTA` are off in the kernel that these tests were written on. dm-flakey is used where the kernel has the device mapper. What is
//! missing is skipped with a notice.

use std::fs::Permissions;
use std::io::{BufRead, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use aqueduct_comm::{Comm, Launch};
use aqueduct_device::{Device, DeviceOpenOptions, Ufs, Uring};
use aqueduct_file::layout::{Basic, Layout};
use aqueduct_file::{Error, File, Info, Kind, Mode, OpenOptions, Result, View};
use aqueduct_testkit::filesystem::{FilesystemKind, TestFilesystem};

const RANKS: usize = 2;
/// What a rank accesses.
const MINE: usize = 1 << 20;
/// A user without privileges.
const NOBODY: u32 = 65534;

/// A way of access, forced by hints.
struct Forced {
    name: &'static str,
    device: &'static str,
    piece: usize,
    hints: &'static [(&'static str, &'static str)],
}

const fn forced(
    name: &'static str,
    device: &'static str,
    piece: usize,
    hints: &'static [(&'static str, &'static str)],
) -> Forced {
    Forced { name, device, piece, hints }
}

const STRATEGIES: [Forced; 8] = [
    forced("default", "ufs:", 64, &[]),
    forced("list", "ufs:", 512, &[("aqueduct_strategy", "list")]),
    forced("sieve", "ufs:", 64, &[("aqueduct_strategy", "sieve"), ("romio_ds_write", "enable")]),
    forced("map", "ufs:", 64, &[("aqueduct_strategy", "map")]),
    forced("two-phase", "ufs:", 64, &[("aqueduct_strategy", "two-phase")]),
    forced("buffered", "ufs:", 64, &[("aqueduct_buffer", "1MiB")]),
    forced("uring", "uring:", 512, &[("aqueduct_strategy", "list")]),
    forced("direct", "ufs:", 4096, &[("aqueduct_direct", "true"), ("aqueduct_strategy", "list")]),
];

impl Forced {
    fn open(&self, world: &Comm, folder: &Path, mode: Mode) -> Result<File> {
        let name = format!("{}{}", self.device, folder.join(self.name).display());
        let file =
            OpenOptions::from(mode).hints(&self.hints.iter().copied().collect::<Info>()).open(world, name)?;
        // Pieces of the ranks in turns.
        let bytes = Layout::from(Basic::Byte).contiguous(self.piece as u64).unwrap();
        let turns = bytes.resized(0, (self.piece * world.size()) as i64).unwrap();
        file.set_view(&View::new((world.rank() * self.piece) as u64, &Basic::Byte.into(), &turns)?)?;
        Ok(file)
    }
}

fn write(file: &File, value: u8) -> Result<()> {
    file.at(0).all().write(&vec![value; MINE]).map(drop)
}

/// Runs a program on all ranks for each strategy; all of them must succeed.
fn each_strategy(program: impl Fn(&Comm, &Forced) + Sync) {
    for strategy in &STRATEGIES {
        let outcome = Launch::threads(RANKS).run(|world| {
            program(world, strategy);
            Ok::<_, Error>(())
        });
        outcome.unwrap_or_else(|error| panic!("{}: {error}", strategy.name));
    }
}

/// The first error of writing, syncing and closing.
fn write_all_of_it(world: &Comm, strategy: &Forced, folder: &Path) -> Result<()> {
    let file = strategy.open(world, folder, Mode::read_write().create())?;
    let sized = file.set_size((RANKS * MINE) as u64);
    let written = sized.and_then(|()| write(&file, 1)).and_then(|()| write(&file, 2));
    let synced = written.and_then(|()| file.sync());
    let closed = file.close();
    synced.and(closed)
}

/// Every rank must get an error of this kind; the file is deleted.
fn expect_error(folder: &Path, kind: Kind) {
    each_strategy(|world, strategy| {
        let error = write_all_of_it(world, strategy, folder).expect_err(strategy.name);
        assert_eq!(error.kind(), kind, "{}: {error}", strategy.name);
        world.barrier().unwrap();
        if world.rank() == 0 {
            std::fs::remove_file(folder.join(strategy.name)).unwrap();
        }
        world.barrier().unwrap();
    });
}

/// Strategies are those that were asked for, as far as counters show.
fn use_strategies(folder: &Path) {
    each_strategy(|world, strategy| {
        if world.rank() == 0 && strategy.name == "direct" {
            create_without_checksums(&folder.join(strategy.name));
        }
        world.barrier().unwrap();
        let file = strategy.open(world, folder, Mode::read_write().create().delete_on_close()).unwrap();
        write(&file, 1).unwrap();
        let before = file.counters();
        write(&file, 2).unwrap();
        let done = file.counters() - before;
        let runs = (MINE / strategy.piece) as u64;
        match strategy.name {
            "list" => assert!(done.system_calls >= runs, "{done:?}"),
            "map" => assert!(done.copied == MINE as u64 && done.system_calls < 20, "{done:?}"),
            "sieve" => assert!(done.locks > 0 && done.copied >= MINE as u64, "{done:?}"),
            "two-phase" => assert!(done.copied >= MINE as u64 && done.system_calls < 20, "{done:?}"),
            "buffered" => assert!(file.buffering().is_some()),
            "uring" => {
                let path = folder.join(strategy.name);
                let handle = Uring::new().open(path.as_os_str(), &DeviceOpenOptions::read_only()).unwrap();
                let rings = handle.capabilities().native_lists;
                assert!(!rings || done.system_calls < runs / 4, "{done:?}");
            }
            "direct" => check_direct(&folder.join(strategy.name)),
            _ => assert!(done.copied >= MINE as u64 && done.system_calls < runs / 100, "{done:?}"),
        }
        let mut back = vec![0u8; MINE];
        file.at(0).all().read(&mut back).unwrap();
        let wrong = back.iter().position(|byte| *byte != 2);
        assert_eq!(wrong.map(|at| (at, back[at])), None, "{}", strategy.name);
        file.close().unwrap();
    });
}

/// Creates a file that btrfs writes past the page cache: since Linux 6.14 it does so only with files without checksums, and for
/// others it drops the pages afterwards, most of them (btrfs documentation, "Checksumming").
fn create_without_checksums(path: &Path) {
    std::fs::File::create(path).unwrap();
    // Other file systems do not know the attribute.
    let _ = Command::new("chattr").arg("+C").arg(path).stderr(Stdio::null()).status();
}

/// A file that was written past the page cache has no pages there.
fn check_direct(path: &Path) {
    let handle = Ufs.open(path.as_os_str(), &DeviceOpenOptions::read_only().direct(true)).unwrap();
    if handle.capabilities().alignment == 1 {
        return eprintln!("skipped: {} has no O_DIRECT", path.display());
    }
    let kind = Command::new("stat").args(["--file-system", "--format=%T"]).arg(path).output().unwrap();
    let resident = Command::new("fincore").args(["--noheadings", "--output=PAGES"]).arg(path).output();
    let text = |output: &[u8]| String::from_utf8_lossy(output).trim().to_owned();
    match resident {
        // The page cache is all that tmpfs has.
        Ok(_) if text(&kind.stdout) == "tmpfs" => {}
        Ok(resident) => assert_eq!(text(&resident.stdout), "0", "pages of {}", path.display()),
        Err(_) => eprintln!("skipped: fincore of util-linux is missing"),
    }
}

/// Pages that had room lose it by a truncation; the disk is full when they are stored to again.
fn store_to_pages_without_room(folder: &Path) {
    let size = (RANKS * MINE) as u64;
    let rest = folder.join("rest");
    for name in ["default", "map", "buffered"] {
        let strategy = STRATEGIES.iter().find(|strategy| strategy.name == name).unwrap();
        let outcome = Launch::threads(RANKS).run(|world| {
            let file = strategy.open(world, folder, Mode::read_write().create().delete_on_close())?;
            write(&file, 1)?;
            write(&file, 2)?;
            file.set_size(0)?;
            file.set_size(size)?;
            if world.rank() == 0 {
                let mut filling = std::fs::File::create(&rest).unwrap();
                while std::io::Write::write_all(&mut filling, &[7; 4096]).is_ok() {}
                let _ = filling.sync_all();
                while std::io::Write::write_all(&mut filling, &[7; 512]).is_ok() {}
            }
            world.barrier().unwrap();
            let mut hole = vec![9u8; MINE];
            file.at(0).all().read(&mut hole)?;
            assert!(hole.iter().all(|byte| *byte == 0));
            let error = write(&file, 3).and_then(|()| file.sync()).expect_err("the disk is full");
            assert_eq!(error.kind(), Kind::NoSpace, "{error}");
            let _ = file.close();
            if world.rank() == 0 {
                std::fs::remove_file(&rest).unwrap();
            }
            world.barrier().unwrap();
            Ok::<_, Error>(())
        });
        outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// What happens to the file system while files of all strategies are open.
#[derive(Clone, Copy, PartialEq)]
enum Death {
    /// It is shut down.
    Shutdown,
    /// The same, and the modes of the files forbid to open them again.
    ShutdownWithoutPermission,
    /// Writes to the medium fail: known when pages are written out.
    FailingWrites,
}

/// Each file reports what happened by its close at the latest; where only writing out fails, by its sync.
fn outlive_the_file_system(folder: &Path, death: Death) {
    let met = Barrier::new(RANKS);
    let outcome = Launch::threads(RANKS).run(|world| {
        let mut files = Vec::new();
        for strategy in &STRATEGIES {
            let file = strategy.open(world, folder, Mode::read_write().create())?;
            write(&file, 1)?;
            write(&file, 2)?;
            if strategy.name == "buffered" {
                file.sync()?;
            }
            files.push(file);
        }
        met.wait();
        if world.rank() == 0 {
            for strategy in STRATEGIES.iter().filter(|_| death == Death::ShutdownWithoutPermission) {
                std::fs::set_permissions(folder.join(strategy.name), Permissions::from_mode(0o400)).unwrap();
            }
            wait_for_parent(folder);
        }
        met.wait();
        for (strategy, file) in STRATEGIES.iter().zip(files) {
            let written = write(&file, 3);
            let written = if death == Death::FailingWrites { written.and(file.sync()) } else { written };
            let error = written.and(file.close()).expect_err(strategy.name);
            assert_eq!(error.kind(), Kind::Io, "{}: {error}", strategy.name);
        }
        Ok::<_, Error>(())
    });
    outcome.unwrap();
}

/// Cuts and extends a file again and again, in another process, which ends with this one, however that ends.
fn truncate_repeatedly(path: &Path, size: usize) -> Child {
    let script =
        "while [ -d /proc/$2 ]; do for size in 0 $1 5000 $1; do truncate -c -s $size \"$0\"; done; done";
    let (size, process) = (size.to_string(), std::process::id().to_string());
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(path).args([size, process]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// Another process cuts and extends the file while it is read and, if it was opened for that, written.
fn be_truncated(folder: &Path, mode: Mode) {
    let size = RANKS * MINE;
    each_strategy(|world, strategy| {
        let path = folder.join(strategy.name);
        if world.rank() == 0 {
            std::fs::write(&path, vec![1; size]).unwrap();
        }
        world.barrier().unwrap();
        let file = strategy.open(world, folder, mode.delete_on_close()).unwrap();
        let other = (world.rank() == 0).then(|| truncate_repeatedly(&path, size));
        let begun = Instant::now();
        let mut back = vec![0u8; MINE];
        for step in 0u64.. {
            let over = u8::from(begun.elapsed() > Duration::from_millis(120));
            if world.allreduce_one(aqueduct_comm::Op::Max, over).unwrap() == 1 {
                break;
            }
            let alone = file.at(0).read(&mut back);
            let together = file.at(0).all().read(&mut back);
            for count in [alone, together].into_iter().flatten() {
                let read = &back[..count.bytes() as usize];
                assert!(read.iter().all(|byte| [0, 1, 2].contains(byte)), "{}", strategy.name);
            }
            if mode.is_write() {
                // An error is allowed, the end is not.
                let _ = write(&file, 1 + (step % 2) as u8);
                let _ = file.at(0).write(&vec![1u8; MINE / 8]);
            }
        }
        if let Some(mut other) = other {
            other.kill().unwrap();
            other.wait().unwrap();
        }
        world.barrier().unwrap();
        let _ = file.close();
    });
}

const SCENARIO: &str = "AQUEDUCT_TEST_SCENARIO";
const FOLDER: &str = "AQUEDUCT_TEST_FOLDER";

/// Not a test of its own: what a child process does.
#[test]
fn scenario_of_a_child() {
    let Ok(scenario) = std::env::var(SCENARIO) else { return };
    let folder = std::env::var_os(FOLDER).unwrap();
    let folder = Path::new(&folder);
    match scenario.as_str() {
        "strategies" => use_strategies(folder),
        "full" => expect_error(folder, Kind::NoSpace),
        "quota" => expect_error(folder, Kind::Quota),
        "room lost" => store_to_pages_without_room(folder),
        "dead" => outlive_the_file_system(folder, Death::Shutdown),
        "dead without permission" => outlive_the_file_system(folder, Death::ShutdownWithoutPermission),
        "failing writes" => outlive_the_file_system(folder, Death::FailingWrites),
        "truncated" => be_truncated(folder, Mode::read_write()),
        "truncated when read only" => be_truncated(folder, Mode::read_only()),
        other => panic!("no scenario {other}"),
    }
}

/// In a child process: signals the parent to continue, and waits for its signal.
fn wait_for_parent(folder: &Path) {
    std::fs::write(folder.join("ready"), "").unwrap();
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).unwrap();
}

/// Runs a scenario in a child process; it must end well, and in time.
fn run(scenario: &str, folder: &Path) {
    run_as(None, scenario, folder, || {});
}

/// The same as another user; `meanwhile` runs once the child waits for its parent.
fn run_as(user: Option<u32>, scenario: &str, folder: &Path, meanwhile: impl FnOnce()) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "scenario_of_a_child", "--nocapture"])
        .env(SCENARIO, scenario)
        .env(FOLDER, folder);
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let mut child = match command.stdin(Stdio::piped()).spawn() {
        Err(error) if user.is_some() => {
            return eprintln!("skipped: another user cannot run this test here: {error}");
        }
        child => child.unwrap(),
    };
    let (begun, mut meanwhile) = (Instant::now(), Some(meanwhile));
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if folder.join("ready").exists()
            && let Some(meanwhile) = meanwhile.take()
        {
            meanwhile();
            writeln!(child.stdin.take().unwrap()).unwrap();
        }
        if begun.elapsed() > Duration::from_secs(100) {
            let _ = child.kill();
            panic!("{scenario} on {} hangs", folder.display());
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.signal(), None, "{scenario} on {} is ended by a signal", folder.display());
    assert!(status.success(), "{scenario} on {}", folder.display());
}

fn on(kind: FilesystemKind, program: impl FnOnce(&TestFilesystem)) {
    if let Some(filesystem) = TestFilesystem::mount(kind) {
        program(&filesystem);
    }
}

/// What is tested on each file system.
fn run_suite(kind: FilesystemKind) {
    on(kind, |filesystem| {
        run("strategies", &filesystem.path());
        run("truncated", &filesystem.path());
        run("truncated when read only", &filesystem.path());
        run("room lost", &filesystem.path());
        filesystem.fill_but(256 << 10);
        run("full", &filesystem.path());
    });
}

#[test]
fn ext4_full_or_truncated_gives_errors() {
    run_suite(FilesystemKind::Ext4);
}

#[test]
fn xfs_full_or_truncated_gives_errors() {
    run_suite(FilesystemKind::Xfs);
}

#[test]
fn btrfs_full_or_truncated_gives_errors() {
    run_suite(FilesystemKind::Btrfs);
}

#[test]
fn tmpfs_full_or_truncated_gives_errors() {
    run_suite(FilesystemKind::Tmpfs);
}

#[test]
fn a_dead_file_system_is_reported_by_the_close_at_the_latest() {
    for (user, scenario) in [(None, "dead"), (Some(NOBODY), "dead without permission")] {
        for kind in [FilesystemKind::Ext4, FilesystemKind::Xfs] {
            on(kind, |filesystem| run_as(user, scenario, &filesystem.path(), || filesystem.shut_down()));
        }
    }
}

#[test]
fn writes_that_fail_on_the_medium_are_reported_by_the_sync() {
    if let Some(filesystem) = TestFilesystem::mount_flaky() {
        let device = filesystem.device().unwrap();
        run_as(None, "failing writes", &filesystem.path(), || device.fail_writes());
    }
}

#[test]
fn a_quota_is_an_error_of_its_own_kind() {
    on(FilesystemKind::Btrfs, |filesystem| {
        filesystem.limit(1 << 20);
        run("quota", &filesystem.path());
    });
    for kind in [FilesystemKind::Ext4, FilesystemKind::Xfs, FilesystemKind::Tmpfs] {
        if let Some(filesystem) = TestFilesystem::mount_with_quota(kind, NOBODY, 1 << 20) {
            run_as(Some(NOBODY), "quota", &filesystem.path(), || {});
        }
    }
}
