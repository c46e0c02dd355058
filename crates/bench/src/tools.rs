//! Folders, C compilers and other programs that comparisons need.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

/// The root of the project.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// A folder in the build directory, on the same file system as the project.
pub(crate) fn folder(name: &str) -> Result<PathBuf> {
    let folder = root().join("target").join(name);
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    Ok(folder)
}

/// A folder for files of one run; removed with the value.
pub(crate) fn scratch_folder() -> Result<tempfile::TempDir> {
    Ok(tempfile::tempdir_in(folder("bench")?)?)
}

/// The interposition library; `cargo xtask bench` builds it.
pub(crate) fn preload_library() -> PathBuf {
    root().join("target/release/libaqueduct_mpiio.so")
}

/// Whether a command succeeds; its output is dropped.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// Brings memory and file system into one state: writes, syncs and removes a file of 1.25 times the bytes of the turn, and syncs all.
///
/// A virtual machine returns memory that was free for two seconds to its host and gets it back by page faults, which cost several times as much
/// as writing to it. Memory that was freed just now is still there. The sync completes what earlier turns removed.
pub(crate) fn equalize(folder: &Path, bytes: u64) {
    let path = folder.join("equalize");
    let block = vec![1_u8; 1 << 20];
    let mut file = std::fs::File::create(&path).expect("a file");
    (0..(bytes + bytes / 4).div_ceil(1 << 20)).for_each(|_| file.write_all(&block).expect("room"));
    file.sync_all().expect("room");
    drop(file);
    std::fs::remove_file(&path).expect("the file that was just written");
    rustix::fs::sync();
}

/// Compiles a program of `crates/bench/peer`, with arguments before and after the source. None and a message if that fails.
pub(crate) fn compile(
    compiler: &str,
    before: &[&str],
    source: &str,
    target: &Path,
    after: &[&str],
) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("peer").join(source);
    let mut command = Command::new(compiler);
    // The compiler wrapper of HDF5 leaves an object file in the current folder.
    command.current_dir(target.parent().unwrap_or(target));
    command.arg("-O2").args(before).arg("-o").arg(target).arg(&path).args(after);
    let compiled = succeeds(&mut command);
    if !compiled {
        eprintln!("{compiler} does not compile peer/{source}; cases that need it are n/a");
    }
    compiled.then(|| target.to_path_buf())
}

/// `mpirun` of Open MPI for so many ranks, with a time limit in seconds where a job may hang.
pub(crate) fn openmpi(ranks: usize, time_limit: Option<u64>) -> Command {
    let mut command = match time_limit {
        Some(seconds) => {
            let mut command = Command::new("timeout");
            command.arg(seconds.to_string()).arg("mpirun.openmpi");
            command
        }
        None => Command::new("mpirun.openmpi"),
    };
    // Containers and CI run as root, which Open MPI refuses without both variables.
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.args(["--oversubscribe", "--bind-to", "none", "-n", &ranks.to_string()]);
    command
}
