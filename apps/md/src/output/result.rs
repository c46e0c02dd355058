//! `ResultWriter`: energies as a text table and, at the end, as a plot.

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::output::plot;
use crate::output::result_row::ResultRow;

/// The table `<prefix>.res`, written by rank 0. On file systems with locks no other program writes it meanwhile.
pub struct ResultTable {
    path: PathBuf,
    file: File,
    rows: Vec<ResultRow>,
}

/// The checkpoint of a restart.
#[derive(Clone, Copy, Debug)]
pub struct TableMark {
    /// The step.
    pub step: u64,
    /// The length of the table in bytes; `None` if the checkpoint has none.
    pub length: Option<u64>,
}

impl ResultTable {
    /// Opens a new table or, after a restart, truncates the table to the checkpoint.
    pub fn open(prefix: &str, back_to: Option<TableMark>) -> Result<Self> {
        let path = PathBuf::from(format!("{prefix}.res"));
        if let Some(TableMark { length: Some(length), .. }) = back_to {
            let found = fs::metadata(&path).map_or(0, |data| data.len());
            ensure!(
                found >= length,
                "ResultWriter: {} has {found} bytes, but {length} when the checkpoint was written; restore the file, or use --start-over",
                path.display()
            );
        }
        let failed = || format!("ResultWriter: opening {}", path.display());
        let file = File::options().create(true).append(true).read(true).open(&path).with_context(failed)?;
        if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) {
            bail!("ResultWriter: another program writes {}; end it, or use another prefix", path.display());
        }
        let (length, rows) = match back_to {
            Some(mark) => kept(&path, mark)?,
            None => (0, Vec::new()),
        };
        let failed = || format!("ResultWriter: writing {}", path.display());
        file.set_len(length).with_context(failed)?;
        let mut results = Self { path: path.clone(), file, rows };
        if length == 0 {
            results.file.write_all(format!("{}\n", ResultRow::HEAD).as_bytes()).with_context(failed)?;
        }
        results.sync()?;
        Ok(results)
    }

    /// Whether the table has this step.
    pub fn has(&self, step: u64) -> bool {
        self.rows.last().is_some_and(|row| row.step >= step)
    }

    /// Appends a row.
    pub fn write(&mut self, row: &ResultRow) -> Result<()> {
        let written = self.file.write_all(format!("{row}\n").as_bytes());
        written.with_context(|| format!("ResultWriter: writing {}", self.path.display()))?;
        self.rows.push(*row);
        Ok(())
    }

    /// Syncs the table; returns its length in bytes.
    pub fn sync(&self) -> Result<u64> {
        let synced = self.file.sync_data().and_then(|()| self.file.metadata());
        let data = synced.with_context(|| format!("ResultWriter: syncing {}", self.path.display()))?;
        Ok(data.len())
    }

    /// Draws the rows into `<prefix>.svg`; returns its name if there are rows.
    pub fn plot(&self) -> Result<Option<PathBuf>> {
        if self.rows.is_empty() {
            return Ok(None);
        }
        let picture = self.path.with_extension("svg");
        let title = self.path.file_stem().unwrap_or_default().to_string_lossy();
        let drawn = plot::svg(&title, &self.rows)?;
        fs::write(&picture, drawn).with_context(|| format!("ResultWriter: writing {}", picture.display()))?;
        Ok(Some(picture))
    }
}

/// The bytes and rows that are kept: those of the checkpoint's length, or those up to its step. An incomplete last line is dropped, since
/// it was written after the step.
fn kept(path: &Path, mark: TableMark) -> Result<(u64, Vec<ResultRow>)> {
    let text =
        fs::read_to_string(path).with_context(|| format!("ResultWriter: reading {}", path.display()))?;
    let (mut length, mut rows) = (0, Vec::new());
    for (at, line) in text.split_inclusive('\n').enumerate() {
        let beyond = mark.length.is_some_and(|most| length + line.len() as u64 > most);
        if beyond || !line.ends_with('\n') {
            break;
        }
        if !line.starts_with('#') {
            let place =
                || format!("ResultWriter: {}, line {}: not a table of ResultWriter", path.display(), at + 1);
            let row = line.parse::<ResultRow>().with_context(place)?;
            if row.step > mark.step {
                break;
            }
            rows.push(row);
        }
        length += line.len() as u64;
    }
    ensure!(
        mark.length.is_none_or(|known| known == length),
        "ResultWriter: {} was changed after the checkpoint was written: its first {length} bytes are rows up to step {}; \
         restore the file, or use --start-over",
        path.display(),
        mark.step
    );
    Ok((length, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_continued_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("run").display().to_string();
        let row = |step: u64| ResultRow {
            step,
            time: 0.1,
            kinetic: 1.0,
            potential: 2.0,
            temperature: 3.0,
            pressure: 4.0,
        };
        let mut results = ResultTable::open(&prefix, None).unwrap();
        (0..5).for_each(|step| results.write(&row(step)).unwrap());
        drop(results);
        let path = folder.path().join("run.res");
        let torn = fs::read_to_string(&path).unwrap() + "5 0.1 1";
        fs::write(&path, torn).unwrap();
        let back = |length| Some(TableMark { step: 2, length });
        let error = format!("{:#}", ResultTable::open(&prefix, back(Some(100_000))).err().unwrap());
        assert!(error.contains("100000 when the checkpoint was written"), "{error}");
        let mut results = ResultTable::open(&prefix, back(None)).unwrap();
        let error = format!("{:#}", ResultTable::open(&prefix, None).err().unwrap());
        assert!(error.contains("another program writes"), "{error}");
        assert!(results.has(2) && !results.has(3));
        results.write(&row(3)).unwrap();
        let lines: Vec<String> = fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 5);
        assert_eq!(lines[4].parse::<ResultRow>().unwrap(), row(3));
        assert!(results.plot().unwrap().unwrap().exists());
        let length = results.sync().unwrap();
        results.write(&row(4)).unwrap();
        drop(results);
        let back = |length| Some(TableMark { step: 3, length });
        let results = ResultTable::open(&prefix, back(Some(length))).unwrap();
        assert!(results.has(3) && !results.has(4) && results.sync().unwrap() == length);
        drop(results);
        let error = format!("{:#}", ResultTable::open(&prefix, back(Some(length - 1))).err().unwrap());
        assert!(error.contains("was changed after the checkpoint"), "{error}");
        fs::write(&path, "what\n").unwrap();
        let error = format!("{:#}", ResultTable::open(&prefix, back(None)).err().unwrap());
        assert!(error.contains("line 1: not a table of ResultWriter"), "{error}");
    }
}
