//! Files that a run wrote after the checkpoint of a restart. Their steps are computed again, so they are removed.

use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};

/// The greatest lag of a file system's clock.
const SLACK: Duration = Duration::from_secs(1);

/// The checkpoint of a restart, and the input files.
#[derive(Clone, Debug)]
pub struct StaleFiles {
    /// The step of the checkpoint.
    pub step: u64,
    /// The time of the checkpoint. Older files were not written after it, and are not removed.
    pub taken: SystemTime,
    /// Input files of the run.
    pub inputs: Vec<PathBuf>,
}

impl StaleFiles {
    /// Removes `<prefix>-<step><ending>` of all later steps. A folder that does not exist has none.
    pub fn remove(&self, prefix: &str, endings: &[String]) -> Result<()> {
        let path = Path::new(prefix);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned() + "-";
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let file = entry.file_name().to_string_lossy().into_owned();
            let Some(rest) = file.strip_prefix(&name) else { continue };
            let (digits, ending) =
                rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
            let later = digits.parse::<u64>().is_ok_and(|step| step > self.step);
            if later && endings.iter().any(|known| known == ending) && self.is_ours(&entry) {
                let path = entry.path();
                fs::remove_file(&path)
                    .with_context(|| format!("removing {}, which is of a later step", path.display()))?;
            }
        }
        Ok(())
    }

    /// Whether the run wrote the file after the checkpoint.
    fn is_ours(&self, entry: &DirEntry) -> bool {
        let written = entry.metadata().and_then(|data| data.modified());
        let same = |input: &PathBuf| match (fs::canonicalize(input), fs::canonicalize(entry.path())) {
            (Ok(input), Ok(path)) => input == path,
            _ => false,
        };
        written.is_ok_and(|written| written + SLACK >= self.taken) && !self.inputs.iter().any(same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_later_steps_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let names = [
            "run-5.xyz",
            "run-10.xyz",
            "run-11.xyz",
            "run-99.xyz",
            "run-200.xyz",
            "run-11.pov",
            "run-x.xyz",
            "a-11.xyz",
        ];
        names.iter().for_each(|name| fs::write(folder.path().join(name), "").unwrap());
        let older = fs::File::options().write(true).open(folder.path().join("run-200.xyz")).unwrap();
        older.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
        let inputs = vec![folder.path().join("run-99.xyz"), folder.path().join("not there")];
        let later = StaleFiles { step: 10, taken: SystemTime::now(), inputs };
        later.remove(&folder.path().join("run").display().to_string(), &[".xyz".to_owned()]).unwrap();
        let gone: Vec<&str> = names.into_iter().filter(|name| !folder.path().join(name).exists()).collect();
        assert_eq!(gone, ["run-11.xyz"], "neither older files nor input files");
        later.remove("not/there/run", &[".xyz".to_owned()]).unwrap();
    }
}
