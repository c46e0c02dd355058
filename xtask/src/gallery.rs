//! The plots and pictures of pages in `docs/images`: `cargo xtask gallery`.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::shell::{cargo, root, run, succeeds};

/// The name that a benchmark gives to a plot, and the name of the image.
type PlotName = (&'static str, &'static str);

/// Benchmarks that leave plots, and the plots that are kept.
const PLOTS: [(&[&str], &[PlotName]); 6] = [
    (&["patterns", "-n", "2", "--sizes", "1MiB"], &[("write", "patterns-write"), ("read", "patterns-read")]),
    (
        &["sweep", "-n", "2", "--to", "16MiB", "--rounds", "3"],
        &[("collective-write", "sweep-collective-write"), ("single-write", "sweep-single-write")],
    ),
    (&["b_eff_io", "-n", "2", "--quick", "--memory", "512MiB"], &[("aqueduct-write", "b_eff_io-write")]),
    (&["overhead", "-n", "2"], &[("rates", "overhead")]),
    (&["mardyn", "-n", "2", "--molecules", "10000,100000,1000000"], &[("write", "mardyn-write")]),
    (
        &[
            "scaling",
            "--ranks",
            "1,2",
            "--runs",
            "3",
            "--",
            "SPH",
            "--steps",
            "3",
            "--output",
            "{gather,together}",
        ],
        &[("times", "scaling-times")],
    ),
];

/// Pictures of pages: the page, the name of the image, width, height and whether it is dark.
const PICTURES: [(&str, &str, u32, u32, bool); 4] = [
    ("report", "report-light", 1160, 1000, false),
    ("report", "report-dark", 1160, 1000, true),
    ("report", "report-phone", 390, 2000, false),
    ("patterns", "bench-page", 1160, 1000, false),
];

/// Builds the programs, runs the benchmarks and takes the pictures.
pub(crate) fn make() -> Result<()> {
    run(&mut cargo(&[
        "build",
        "--release",
        "--quiet",
        "--package",
        "aqueduct-cli",
        "--package",
        "aqueduct-sph",
    ]))?;
    let programs = root().join("target/release");
    let work = root().join("target/gallery");
    let _ = std::fs::remove_dir_all(&work);
    std::fs::create_dir_all(&work).with_context(|| format!("creating {}", work.display()))?;
    let images = root().join("docs/images");
    std::fs::create_dir_all(&images).with_context(|| format!("creating {}", images.display()))?;
    let aqueduct = |words: &[String]| {
        let mut command = Command::new(programs.join("aqueduct"));
        // The name that the page shows.
        command.arg0("aqueduct").args(words).current_dir(&work);
        run(&mut command)
    };
    for (words, plots) in PLOTS {
        let name = words[0];
        let sph = programs.join("sph").display().to_string();
        let outputs =
            ["--svg".to_owned(), format!("{name}-plot"), "--html".to_owned(), format!("{name}.html")];
        let (front, back) =
            words.split_at(words.iter().position(|word| *word == "--").unwrap_or(words.len()));
        let words = std::iter::once("bench").chain(front.iter().copied()).map(str::to_owned);
        let back = back.iter().map(|word| if *word == "SPH" { sph.clone() } else { (*word).to_owned() });
        let mut words: Vec<String> = words.chain(outputs).chain(back).collect();
        if name == "scaling" {
            words.extend(["--prefix", "out-{way}", "--start-over"].map(str::to_owned));
        }
        aqueduct(&words)?;
        for (plot, image) in plots {
            copy(&work.join(format!("{name}-plot-{plot}.svg")), &images.join(format!("{image}.svg")))?;
        }
    }
    aqueduct(
        &["bench", "overlap", "-n", "2", "-g", "64", "--cpu", "2", "--svg", "overlap.svg"].map(str::to_owned),
    )?;
    copy(&work.join("overlap.svg"), &images.join("overlap-timeline.svg"))?;
    // The run without a command leaves a page about its I/O.
    aqueduct(&[])?;
    copy(&work.join("aqueduct-run/report.html"), &work.join("report.html"))?;
    take_pictures(&work, &images)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to)
        .map(drop)
        .with_context(|| format!("copying {} to {}", from.display(), to.display()))
}

/// Pictures of pages in a headless Chromium.
fn take_pictures(work: &Path, images: &Path) -> Result<()> {
    ensure!(
        succeeds(Command::new("chromium").arg("--version")),
        "chromium is missing; install it with: apt-get install chromium"
    );
    for (page, image, width, height, is_dark) in PICTURES {
        let path: PathBuf = images.join(format!("{image}.png"));
        let scheme = i32::from(!is_dark);
        let mut command = Command::new("chromium");
        command.args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--no-first-run",
        ]);
        command.arg(format!("--user-data-dir={}", work.join("chromium").display()));
        command.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
        command.arg(format!("--window-size={width},{height}")).arg("--virtual-time-budget=10000");
        command.arg(format!("--screenshot={}", path.display())).arg(work.join(format!("{page}.html")));
        run(&mut command)?;
        ensure!(path.exists(), "chromium left no picture {}", path.display());
    }
    Ok(())
}
