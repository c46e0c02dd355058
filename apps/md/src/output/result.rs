//! `ResultWriter`: energies as a table of text and, at the end, as a plot.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::plot;
use crate::row::Row;

/// The table `<prefix>.res`, kept by rank 0.
pub struct Results {
    path: PathBuf,
    file: File,
    rows: Vec<Row>,
}

impl Results {
    /// A new table; or, where a run comes back, what there was up to the step it comes back to.
    pub fn open(prefix: &str, back_to: Option<u64>) -> Result<Self> {
        let path = PathBuf::from(format!("{prefix}.res"));
        let rows = match back_to {
            Some(step) if path.exists() => kept(&path, step)?,
            _ => Vec::new(),
        };
        let text = std::iter::once(Row::HEAD.to_owned()).chain(rows.iter().map(Row::to_string));
        let text = text.map(|line| line + "\n").collect::<String>();
        // The old table stays until the new one is whole.
        let fresh = PathBuf::from(format!("{prefix}.res.new"));
        let failed = || format!("ResultWriter: writing {}", fresh.display());
        let mut file = File::create(&fresh).with_context(failed)?;
        file.write_all(text.as_bytes()).with_context(failed)?;
        file.sync_all().with_context(failed)?;
        fs::rename(&fresh, &path).with_context(|| format!("ResultWriter: replacing {}", path.display()))?;
        Ok(Self { path, file, rows })
    }

    /// Whether the table has this step already.
    pub fn has(&self, step: u64) -> bool {
        self.rows.last().is_some_and(|row| row.step >= step)
    }

    /// One more row.
    pub fn write(&mut self, row: &Row) -> Result<()> {
        let written = self.file.write_all(format!("{row}\n").as_bytes());
        written.with_context(|| format!("ResultWriter: writing {}", self.path.display()))?;
        self.rows.push(*row);
        Ok(())
    }

    /// Makes the rows durable.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().with_context(|| format!("ResultWriter: syncing {}", self.path.display()))
    }

    /// Draws what there is into `<prefix>.svg`; its name, where there was something to draw.
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

/// The rows up to a step. A last line that a crash has torn is dropped: it was written after the step.
fn kept(path: &Path, step: u64) -> Result<Vec<Row>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("ResultWriter: reading {}", path.display()))?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let rows = whole.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    let place = |at: usize| format!("ResultWriter: {}, line {}: not a table of ours", path.display(), at + 1);
    let rows = rows.map(|(at, line)| line.parse::<Row>().with_context(|| place(at)));
    let rows = rows.collect::<Result<Vec<Row>>>()?;
    Ok(rows.into_iter().filter(|row| row.step <= step).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_goes_on_where_a_run_comes_back_to() {
        let folder = tempfile::tempdir().unwrap();
        let prefix = folder.path().join("run").display().to_string();
        let row = |step: u64| Row {
            step,
            time: 0.1,
            kinetic: 1.0,
            potential: 2.0,
            temperature: 3.0,
            pressure: 4.0,
        };
        let mut results = Results::open(&prefix, None).unwrap();
        (0..5).for_each(|step| results.write(&row(step)).unwrap());
        drop(results);
        let path = folder.path().join("run.res");
        let torn = fs::read_to_string(&path).unwrap() + "5 0.1 1";
        fs::write(&path, torn).unwrap();
        let mut results = Results::open(&prefix, Some(2)).unwrap();
        assert!(results.has(2) && !results.has(3));
        results.write(&row(3)).unwrap();
        let lines: Vec<String> = fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 5);
        assert_eq!(lines[4].parse::<Row>().unwrap(), row(3));
        assert!(results.plot().unwrap().unwrap().exists());
        fs::write(&path, "what\n").unwrap();
        let error = format!("{:#}", Results::open(&prefix, Some(2)).err().unwrap());
        assert!(error.contains("line 1: not a table of ours"), "{error}");
    }
}
