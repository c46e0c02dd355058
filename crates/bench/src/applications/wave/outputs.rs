//! Output of `wave` into HDF5 on a medium of limited bandwidth, in each mode: the figures 5.7 to 5.10 of the study. Each file is compared with that
//! of the blocking mode, byte by byte.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use aqueduct::comm::Launch;
use aqueduct_wave::scenario::built_in::{Scenario, ScenarioKind, ScenarioOptions};
use aqueduct_wave::scenario::input_writer::write_input;
use aqueduct_wave::scenario::listed_points::{ListedSensor, SensorChoice};

use super::super::wave_plot::{PlotTitles, WaveCurve, write_svg};
use super::{WaveBench, WaveRun};
use crate::table::{FigureTable, FigureTarget, TextTable};
use crate::timing::{alternate, median, ratios, seconds};
use crate::tools::folder;

const MODES: [&str; 4] = ["blocking", "thread", "leaders", "auto"];
const STEPS: &str = "24";
/// Ranks of all runs.
const RANKS: usize = 2;
const MEGABYTE: f64 = 1e6;

/// A case of a figure: a sensor, and the value on the axis of the plot.
struct OutputCase {
    label: String,
    at: f64,
    /// `--sensor`, or `-i` with an input file.
    source: (&'static str, String),
}

/// The seconds of a case, as medians: in each mode.
struct OutputTimes {
    seconds: Vec<f64>,
    /// Of the blocking mode: computing, and writing.
    computing: f64,
    writing: f64,
}

impl WaveBench<'_> {
    /// Runs a case in a mode; `device` is a prefix of the file.
    fn output(&self, case: &OutputCase, mode: &str, device: &str, more: &[&str]) -> Result<WaveRun> {
        let file = format!("{device}{}", self.file(&format!("{mode}.h5")).display());
        let grid = self.side.to_string();
        let (option, value) = (case.source.0, case.source.1.as_str());
        let mut words = match option {
            "-i" => vec!["-i", value],
            _ => Self::ball(&grid, STEPS, value),
        };
        words.extend(["-o", &file, "--p_raw", "--mode", mode]);
        words.extend(more);
        self.wave(RANKS, &words)
    }

    /// Runs a case in all modes, in turn; the files of all modes have the same bytes.
    fn modes(&self, case: &OutputCase, device: &str) -> Result<OutputTimes> {
        let mut runs = vec![Vec::new(); MODES.len()];
        for _ in 0..self.rounds {
            for (mode, runs) in MODES.iter().zip(&mut runs) {
                runs.push(self.output(case, mode, device, &[])?);
            }
        }
        for mode in &MODES[1..] {
            let [one, other] = [MODES[0], mode].map(|mode| self.file(&format!("{mode}.h5")));
            ensure!(same_bytes(&one, &other)?, "{}: the file of mode {mode} is another one", case.label);
        }
        let of = |runs: &[WaveRun], value: fn(&WaveRun) -> f64| {
            median(&runs.iter().map(value).collect::<Vec<_>>()).unwrap_or(f64::NAN)
        };
        Ok(OutputTimes {
            seconds: runs.iter().map(|runs| of(runs, |run| run.seconds)).collect(),
            computing: of(&runs[0], |run| run.computing()),
            writing: of(&runs[0], |run| run.seconds - run.computing()),
        })
    }

    /// Runs the cases of a figure, prints its table and draws its plot.
    fn figure(
        &self,
        (name, title, axis): (&str, &str, &str),
        cases: &[OutputCase],
        device: impl Fn(&OutputCase) -> String,
        mut check: impl FnMut(&OutputCase, &OutputTimes),
    ) -> Result<()> {
        let titles = ["", "computing", "blocking", "thread", "leaders", "auto", "auto × blocking"];
        let mut text = TextTable::new(titles);
        let mut curves = MODES.map(|name| WaveCurve { name, points: Vec::new() });
        for case in cases {
            let times = self.modes(case, &device(case))?;
            let mut row = vec![case.label.clone(), format!("{:.2}", times.computing)];
            row.extend(times.seconds.iter().map(|seconds| format!("{seconds:.2}")));
            row.push(format!("{:.2}", times.seconds[3] / times.seconds[0]));
            text.add(row);
            for (curve, seconds) in curves.iter_mut().zip(&times.seconds) {
                curve.points.push((case.at, *seconds));
            }
            check(case, &times);
        }
        println!("{title}: seconds, {RANKS} ranks, {}³ points, {STEPS} steps\n{text}", self.side);
        let path = folder("wave")?.join(format!("{name}.svg"));
        write_svg(&path, &PlotTitles { title, x: axis, y: "seconds" }, &curves)?;
        println!("{}", path.display());
        Ok(())
    }

    /// A medium that takes this share of the time of computing for the bytes of a step.
    fn medium(&self, bytes: f64, share: f64) -> Result<String> {
        let grid = self.side.to_string();
        let step = self.wave(RANKS, &Self::ball(&grid, STEPS, "slice:z"))?.step();
        Ok(format!("throttle={:.1}MB/s:", bytes / (share * step) / MEGABYTE))
    }

    /// Figure 5.7: bytes of a step. The medium takes half of the time of computing, or all of it.
    pub(super) fn sizes(&self, table: &mut FigureTable) -> Result<()> {
        let largest = 4.0 * (self.side as f64).powi(3);
        for share in [0.5, 1.0] {
            let cases: Vec<OutputCase> = [0.1, 0.5, 1.0, 2.0, 8.0, 64.0]
                .into_iter()
                .filter(|megabytes| megabytes * MEGABYTE <= 1.1 * largest)
                .map(|megabytes| {
                    let side = ((megabytes * MEGABYTE / 4.0).cbrt() as usize).min(self.side);
                    OutputCase {
                        label: format!("{megabytes} MB per step"),
                        at: megabytes,
                        source: ("--sensor", format!("boxes:1x{side}")),
                    }
                })
                .collect();
            let device = |case: &OutputCase| self.medium(case.at * MEGABYTE, share).unwrap_or_default();
            let title = format!("Size of a step, writing takes {share} of computing");
            let name = format!("figure-5.7-{share}");
            self.figure((&name, &title, "MB per step"), &cases, device, |case, times| {
                let [blocking, thread, leaders, auto] = times.seconds[..] else { return };
                if case.at >= 2.0 {
                    let least = times.computing.max(times.writing);
                    let label =
                        format!("{}, writing {share} of computing: auto / the longer of both", case.label);
                    table.row(&label, [auto / least; 2], FigureTarget::AtMost(1.1));
                } else {
                    let label = format!("{}, writing {share} of computing: auto / blocking", case.label);
                    table.row(&label, [auto / blocking; 2], FigureTarget::AtMost(1.03));
                }
                let best = blocking.min(thread).min(leaders);
                let label = format!("{}, writing {share} of computing: auto / the best mode", case.label);
                table.row(&label, [auto / best; 2], FigureTarget::AtMost(1.03));
            })?;
        }
        Ok(())
    }

    /// Figure 5.8: a slice that one rank holds, and one of which each rank holds a part.
    pub(super) fn slice(&self, table: &mut FigureTable) -> Result<()> {
        let cases = ["x", "y", "z"].into_iter().zip(1..).map(|(direction, at)| OutputCase {
            label: format!("slice across {direction}"),
            at: f64::from(at),
            source: ("--sensor", format!("slice:{direction}")),
        });
        let cases: Vec<OutputCase> = cases.collect();
        let bytes = 4.0 * (self.side as f64).powi(2);
        let device = self.medium(bytes, 0.5)?;
        let heading = ("figure-5.8", "Slices, of which z is on one rank", "direction (x, y, z)");
        self.figure(
            heading,
            &cases,
            |_| device.clone(),
            |case, times| {
                let label = format!("{}: auto / blocking", case.label);
                table.row(&label, [times.seconds[3] / times.seconds[0]; 2], FigureTarget::AtMost(1.03));
            },
        )
    }

    /// Figure 5.9: the same number of points in 1, 4, 32 and 256 boxes.
    pub(super) fn boxes(&self, table: &mut FigureTable) -> Result<()> {
        let small = self.side / 8;
        let points = 256.0 * (small as f64).powi(3);
        let case = |(count, side): (usize, usize)| OutputCase {
            label: format!("{count} × {side}³"),
            at: count as f64,
            source: ("--sensor", format!("boxes:{count}x{side}")),
        };
        let whole = points.cbrt().round() as usize;
        let cases = [(1, whole), (4, 4 * small), (32, 2 * small), (256, small)].map(case);
        let device = self.medium(4.0 * points, 0.5)?;
        let heading = ("figure-5.9", "Boxes of the same volume", "boxes");
        self.against_first(table, heading, &cases, &device, |_| FigureTarget::AtMost(1.15))
    }

    /// A figure whose cases are compared with the first one, in each mode.
    fn against_first(
        &self,
        table: &mut FigureTable,
        heading: (&str, &str, &str),
        cases: &[OutputCase],
        device: &str,
        target: impl Fn(&OutputCase) -> FigureTarget,
    ) -> Result<()> {
        let mut first: Option<Vec<f64>> = None;
        let name = &cases[0].label;
        self.figure(
            heading,
            cases,
            |_| device.to_owned(),
            |case, times| {
                let Some(first) = &first else {
                    first = Some(times.seconds.clone());
                    return;
                };
                for ((mode, seconds), one) in MODES.iter().zip(&times.seconds).zip(first) {
                    let label = format!("{}, {mode}: run / that of {name}", case.label);
                    table.row(&label, [seconds / one; 2], target(case));
                }
            },
        )
    }

    /// Figure 5.10: a list of the points of boxes against the boxes; and the same list in another order.
    pub(super) fn points(&self, table: &mut FigureTable) -> Result<()> {
        let (count, box_side) = (4, self.side / 2);
        let options = ScenarioOptions {
            kind: ScenarioKind::Ball,
            points: [self.side; 3],
            steps: STEPS.parse()?,
            sensor: SensorChoice::Boxes(count, box_side),
            ..ScenarioOptions::default()
        };
        let boxes = Scenario::new(options)?;
        let ListedSensor::Boxes(ranges) = &boxes.sensor else { anyhow::bail!("the sensor has no boxes") };
        let mut list = Vec::new();
        for [x, y, z] in ranges {
            for (z, y) in z.clone().flat_map(|z| y.clone().map(move |y| (z, y))) {
                list.extend(x.clone().map(|x| x + self.side * (y + self.side * z)));
            }
        }
        let volume = list.len();
        // Each point far from the one before it.
        let stride = (volume as f64 * 0.618_034) as usize | 1;
        let stride = (stride..2 * volume).find(|stride| gcd(*stride, volume) == 1).unwrap_or(1);
        let scattered = (0..volume).map(|at| list[at * stride % volume]).collect();
        let with = |sensor| {
            let mut scenario = boxes.clone();
            scenario.sensor = sensor;
            scenario
        };
        let files = [
            ("boxes", boxes.clone()),
            ("list", with(ListedSensor::Points(list.clone()))),
            ("scattered list", with(ListedSensor::Points(scattered))),
        ];
        let mut cases = Vec::new();
        for (at, (name, scenario)) in (1..).zip(files) {
            let file = self.file(&format!("points-{at}.h5")).display().to_string();
            Launch::threads(1)
                .run(|world| write_input(world, &scenario, &file).map_err(|error| format!("{error:#}")))?;
            cases.push(OutputCase { label: name.to_owned(), at: f64::from(at), source: ("-i", file) });
        }
        let device = self.medium(4.0 * volume as f64, 0.5)?;
        let heading =
            ("figure-5.10", "Boxes, a list of their points, and the same list in another order", "sensor");
        let target = |case: &OutputCase| {
            if case.label == "list" { FigureTarget::AtMost(1.15) } else { FigureTarget::None }
        };
        self.against_first(table, heading, &cases, &device, target)
    }

    /// What computing costs while a thread writes.
    pub(super) fn drain(&self, table: &mut FigureTable) -> Result<()> {
        let grid = self.side.to_string();
        let case = OutputCase {
            label: "whole".to_owned(),
            at: 1.0,
            source: ("--sensor", format!("boxes:1x{}", self.side)),
        };
        let device = self.medium(4.0 * (self.side as f64).powi(3), 0.9)?;
        let alone =
            || Ok::<_, anyhow::Error>(self.wave(RANKS, &Self::ball(&grid, STEPS, "slice:z"))?.stepping);
        let writing = || Ok(self.output(&case, "thread", &device, &[])?.computing());
        let rounds = alternate(self.rounds, writing, alone)?;
        table.at_most("computing while a thread writes each field / computing alone", &ratios(&rounds), 1.05);
        Ok(())
    }

    /// Two buffers against four.
    pub(super) fn buffers(&self, table: &mut FigureTable) -> Result<()> {
        let case = OutputCase {
            label: "whole".to_owned(),
            at: 1.0,
            source: ("--sensor", format!("boxes:1x{}", self.side)),
        };
        let device = self.medium(4.0 * (self.side as f64).powi(3), 0.9)?;
        let run = |buffers| {
            Ok::<_, anyhow::Error>(self.output(&case, "thread", &device, &["--buffers", buffers])?.seconds)
        };
        let rounds = alternate(self.rounds, || run("2"), || run("4"))?;
        table.at_most("two buffers / four buffers", &ratios(&rounds), 1.03);
        Ok(())
    }

    /// Groups of leaders: the default against the best of others.
    pub(super) fn group(&self, table: &mut FigureTable) -> Result<()> {
        let grid = (self.side / 2).to_string();
        let file = self.file("group.h5").display().to_string();
        let run = |more: &[&str]| {
            let mut words = Self::ball(&grid, STEPS, "boxes:8x8");
            words.extend(["-o", &file, "--mode", "leaders"]);
            words.extend(more);
            Ok::<_, anyhow::Error>(self.wave(4, &words)?.seconds)
        };
        let sizes = ["1", "2", "3", "4"];
        let mut others = vec![Vec::new(); sizes.len()];
        let mut default = Vec::new();
        for _ in 0..self.rounds {
            default.push(run(&[])?);
            for (size, seconds) in sizes.iter().zip(&mut others) {
                seconds.push(run(&["--group", size])?);
            }
        }
        let best = others.iter().filter_map(|seconds| median(seconds)).fold(f64::INFINITY, f64::min);
        let default = median(&default).unwrap_or(f64::NAN) / best;
        table.row(
            "4 ranks, default group of leaders / the best of 1, 2, 3, 4",
            [default; 2],
            FigureTarget::AtMost(1.05),
        );
        Ok(())
    }

    /// How long the program stands still for a checkpoint, against a copy of its fields.
    pub(super) fn checkpoint(&self, table: &mut FigureTable) -> Result<()> {
        let (grid, file) = (self.side.to_string(), self.file("saved.h5").display().to_string());
        let points = self.side.pow(3);
        let standing = || {
            let saved = self.file("checkpoints");
            let _ = fs::remove_dir_all(&saved);
            let saved = saved.display().to_string();
            let mut words = Self::ball(&grid, "12", "slice:z");
            words.extend(["-o", &file, "--checkpoints", &saved, "--every", "6"]);
            Ok::<_, anyhow::Error>(self.wave(1, &words)?.checkpoints)
        };
        let copy = || {
            let field = vec![0.5f32; 7 * points];
            Ok(seconds(|| drop(std::hint::black_box(field.clone()))))
        };
        let rounds = alternate(self.rounds, standing, copy)?;
        table.at_most(
            "standing still for a checkpoint / a copy of the fields, one rank",
            &ratios(&rounds),
            1.25,
        );
        Ok(())
    }
}

fn gcd(one: usize, other: usize) -> usize {
    if other == 0 { one } else { gcd(other, one % other) }
}

fn same_bytes(one: &Path, other: &Path) -> Result<bool> {
    Ok(fs::read(one)? == fs::read(other)?)
}
