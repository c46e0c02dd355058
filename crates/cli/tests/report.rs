//! `aqueduct report`: three slow programs and what the page says of each, exports, large traces, damaged ones, and the page in a headless
//! Chromium. The slow programs are this test itself, because the folder of a trace is a setting of the process.

mod test_folder;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use aqueduct::comm::{Comm, Launch};
use aqueduct::file::trace::{CallRecord, TRACE_VARIABLE};
use aqueduct::prelude::*;
use serde_json::Value;
use test_folder::TestFolder;

const RANKS: usize = 3;
const STEPS: u64 = 12;

/// Each rank writes its blocks of a round-robin file by itself.
fn write_independently(world: &Comm, folder: &str) -> aqueduct::Result<()> {
    let file = File::create(world, format!("throttle=200us:{folder}/blocks.bin"))?;
    let block = vec![world.rank() as u8; 1000];
    for number in 0..300 {
        file.at(1000 * (number * world.size() as u64 + world.rank() as u64)).write(&block)?;
    }
    file.close()
}

/// Every step is synced.
fn sync_each_step(world: &Comm, folder: &str) -> aqueduct::Result<()> {
    let file = File::create(world, format!("throttle=10ms:{folder}/synced.bin"))?;
    let part = vec![1u8; 100_000];
    for step in 0..STEPS {
        file.at(part.len() as u64 * (step * world.size() as u64 + world.rank() as u64)).all().write(&part)?;
        file.sync()?;
    }
    file.close()
}

/// Rank 1 computes longer than the others.
fn one_late_rank(world: &Comm, folder: &str) -> aqueduct::Result<()> {
    let hints = aqueduct::file::Info::parse("romio_cb_write enable");
    let options = OpenOptions::new().write(true).read(true).create(true).hints(&hints);
    let file = options.open(world, format!("{folder}/late.bin"))?;
    for step in 0..STEPS {
        if world.rank() == 1 {
            std::thread::sleep(Duration::from_millis(40));
        }
        let part = vec![1u8; 10_000];
        file.at(part.len() as u64 * (step * world.size() as u64 + world.rank() as u64)).all().write(&part)?;
    }
    file.close()
}

#[test]
fn a_slow_program() {
    let Ok(name) = std::env::var("TEST_SLOW_PROGRAM") else { return };
    let program = match name.as_str() {
        "independent" => write_independently,
        "sync" => sync_each_step,
        _ => one_late_rank,
    };
    let folder = std::env::var("TEST_FOLDER").unwrap();
    Launch::threads(RANKS).run(|world| program(world, &folder)).unwrap();
}

/// Runs a slow program; the folder of its trace.
fn trace(folder: &TestFolder, name: &str) -> PathBuf {
    let trace = folder.path(format!("trace-{name}"));
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_slow_program"])
        .env("TEST_SLOW_PROGRAM", name)
        .env("TEST_FOLDER", folder.path("."))
        .env(TRACE_VARIABLE, &trace)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    trace
}

fn summary(folder: &TestFolder, trace: &Path) -> Value {
    let text = folder.succeed(&["report", trace.to_str().unwrap(), "--json"]);
    serde_json::from_str::<Value>(&text).unwrap()[0].clone()
}

fn first_advice(summary: &Value) -> (String, String) {
    let advice = &summary["advice"][0];
    (advice["code"].as_str().unwrap().to_owned(), advice["text"].as_str().unwrap().to_owned())
}

#[test]
fn the_page_says_why_a_program_is_slow() {
    let folder = TestFolder::new();
    for (name, code, parts) in [
        (
            "independent",
            "independent",
            ["in 900 independent calls of 1.0 kB", "As collective calls"].as_slice(),
        ),
        ("sync", "sync", &["Each sync is for 300 kB", "Sync once"]),
        ("late", "late-rank", &["rank 1 comes last", "balance the work"]),
    ] {
        let trace = trace(&folder, name);
        let summary = summary(&folder, &trace);
        let (found, text) = first_advice(&summary);
        assert_eq!(found, code, "{summary:#}");
        assert!(parts.iter().all(|part| text.contains(part)), "{name}: {text}");
        assert_eq!(summary["ranks"], RANKS);
        let share = summary["io_share"].as_f64().unwrap();
        assert!(share > 0.02 && share <= 1.0, "{share}");
        let page = std::fs::read_to_string(trace.join("report.html")).unwrap();
        assert!(page.contains(&format!("data-code=\"{code}\"")) && !page.contains("http-equiv=\"refresh\""));
    }
}

#[test]
fn calls_are_exported() {
    let folder = TestFolder::new();
    let trace = trace(&folder, "late");
    folder.succeed(&[
        "report",
        trace.to_str().unwrap(),
        "--csv",
        "calls.csv",
        "--perfetto",
        "calls.json",
        "-o",
        "page.html",
    ]);
    let csv = std::fs::read_to_string(folder.path("calls.csv")).unwrap();
    let columns = csv.lines().next().unwrap().split(',').count();
    assert!(csv.lines().all(|line| line.split(',').count() == columns), "{csv}");
    let writes = csv.lines().filter(|line| line.contains(",write,1,")).count();
    assert_eq!(writes as u64, STEPS * RANKS as u64);
    let events: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.path("calls.json")).unwrap()).unwrap();
    let events = events["traceEvents"].as_array().unwrap();
    let writes = events.iter().filter(|event| event["name"] == "write" && event["args"]["bytes"] == 10_000);
    assert_eq!(writes.count() as u64, STEPS * RANKS as u64);
    assert!(folder.path("page.html").exists());
}

#[test]
fn both_runs_are_exported() {
    let folder = TestFolder::new();
    let traces = [trace(&folder, "late"), trace(&folder, "sync")];
    let [one, two] = traces.each_ref().map(|trace| trace.to_str().unwrap());
    folder.succeed(&["report", one, two, "--csv", "calls.csv", "--perfetto", "calls.json"]);
    let csv = std::fs::read_to_string(folder.path("calls.csv")).unwrap();
    let rows = |run: &str| csv.lines().filter(|line| line.starts_with(&format!("\"{run}\","))).count();
    assert_eq!(rows(one) + rows(two) + 1, csv.lines().count());
    assert!(rows(one) > 30 && rows(two) > 60 && rows(one) != rows(two));
    let events: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.path("calls.json")).unwrap()).unwrap();
    let names = |event: &Value| event["args"]["name"].as_str().unwrap_or_default().to_owned();
    let all = events["traceEvents"].as_array().unwrap();
    let processes: Vec<(u64, String)> = all
        .iter()
        .filter(|event| event["name"] == "process_name")
        .map(|event| (event["pid"].as_u64().unwrap(), names(event)))
        .collect();
    let mut numbers: Vec<u64> = processes.iter().map(|(number, _)| *number).collect();
    numbers.dedup();
    assert_eq!((numbers.len(), processes.len()), (2 * RANKS, 2 * RANKS), "{processes:?}");
    assert!(processes[0].1.starts_with(one) && processes[RANKS].1.starts_with(two), "{processes:?}");
}

#[test]
fn folders_without_a_trace_are_errors() {
    let folder = TestFolder::new();
    std::fs::create_dir(folder.path("empty")).unwrap();
    assert!(folder.exit_2(&["report", "empty"]).contains("AQUEDUCT_TRACE=FOLDER"));
    assert!(folder.exit_2(&["report", "missing"]).contains("missing"));
    std::fs::write(folder.path("empty/rank-000000.facts"), "something else\n").unwrap();
    assert!(folder.exit_2(&["report", "empty"]).contains("rank-000000"));
}

/// Repeats the calls of each rank until there are as many, one copy after another in time.
fn enlarge(trace: &Path, calls: usize) {
    for rank in 0..RANKS {
        let path = |kind: &str| trace.join(format!("rank-{rank:06}.{kind}"));
        let (records, extents) =
            (std::fs::read(path("calls")).unwrap(), std::fs::read(path("extents")).unwrap());
        let count = records.len() / CallRecord::SIZE;
        let (mut all, mut all_extents) = (Vec::new(), Vec::new());
        let sequence = std::mem::offset_of!(CallRecord, sequence);
        for copy in 0..calls.div_ceil(RANKS * count) as u64 {
            for record in records.chunks_exact(CallRecord::SIZE) {
                let mut record = record.to_vec();
                for time in [0..8, 8..16] {
                    let value = u64::from_le_bytes(record[time.clone()].try_into().unwrap());
                    record[time].copy_from_slice(&(value + copy * 1_000_000_000).to_le_bytes());
                }
                // Collective calls of different copies do not belong together.
                let number = &mut record[sequence..sequence + 4];
                let value = u32::from_le_bytes((&*number).try_into().unwrap());
                number.copy_from_slice(&(value + copy as u32 * 1000).to_le_bytes());
                all.extend_from_slice(&record);
            }
            all_extents.extend_from_slice(&extents);
        }
        std::fs::write(path("calls"), all).unwrap();
        std::fs::write(path("extents"), all_extents).unwrap();
    }
}

/// What Chromium makes of a page: the elements after it was loaded, and what it wrote to the console.
struct Rendering {
    elements: String,
    messages: String,
}

/// The colours of a page.
#[derive(Clone, Copy, Debug, PartialEq)]
enum PageColours {
    Light,
    Dark,
}

/// Opens a page, with a script at its end that is not a part of it; none without Chromium.
fn render(
    page: &Path,
    (width, colours): (u32, PageColours),
    script: &str,
    screenshot: Option<&str>,
) -> Option<Rendering> {
    let text = std::fs::read_to_string(page).unwrap();
    let with_script = page.with_extension("test.html");
    std::fs::write(&with_script, text.replace("</body>", &format!("<script>{script}</script></body>")))
        .unwrap();
    let profile = tempfile::tempdir().unwrap();
    let mut command = Command::new("chromium");
    command
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--enable-logging=stderr",
        ])
        .args([
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
            "--virtual-time-budget=20000",
            "--hide-scrollbars",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--window-size={width},2600"));
    // The setting of the system, which the page asks for by `prefers-color-scheme`.
    let scheme = i32::from(colours != PageColours::Dark);
    command.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
    if let (Ok(folder), Some(name)) = (std::env::var("AQUEDUCT_TEST_SCREENSHOTS"), screenshot) {
        let picture = format!("--screenshot={folder}/{name}");
        let _ = Command::new("chromium").args(command.get_args()).arg(&picture).arg(page).output();
    }
    let output = command.arg("--dump-dom").arg(&with_script).output();
    let Ok(output) = output else {
        assert!(std::env::var_os("AQUEDUCT_REQUIRE_CHROMIUM").is_none(), "chromium is missing");
        println!("skipped: chromium is missing");
        return None;
    };
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    let elements = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(Rendering { elements, messages })
}

/// Zooms, moves, selects, resizes, and lists what was loaded.
const CLICKS: &str = "
  const out = document.body.appendChild(document.createElement('pre'));
  out.id = 'tested';
  const click = (chart, title) => document.querySelector(`[data-chart=${chart}] [data-zoom='${title}']`).click();
  const label = (chart) => document.querySelector(`[data-chart=${chart}] .range`).textContent;
  const before = [label('timeline'), label('map')];
  for (const chart of ['timeline', 'map']) { click(chart, 'zoom in'); click(chart, 'on'); click(chart, 'zoom in'); click(chart, 'back'); }
  const zoomed = [label('timeline'), label('map')];
  for (const chart of ['timeline', 'map']) { click(chart, 'everything'); }
  const after = [label('timeline'), label('map')];
  for (const canvas of document.querySelectorAll('canvas'))
    for (const type of ['mousemove', 'dblclick']) canvas.dispatchEvent(new MouseEvent(type, { clientX: 200, clientY: 20, bubbles: true }));
  const blank = [...document.querySelectorAll('canvas')].filter((c) => {
    const pixels = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
    return !pixels.some((value) => value > 0);
  }).length;
  const loaded = performance.getEntriesByType('resource').map((entry) => entry.name).filter((name) => !name.startsWith('data:'));
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  const luminance = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const background = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$/.test(colour) && colour !== 'transparent') return luminance(colour);
    }
    return 1;
  };
  const names = ['p', 'h1', 'h2', 'h3', 'td', 'th', 'dd', 'dt', 'span', 'button', '.readout'].map((name) => 'main ' + name);
  const texts = [...document.querySelectorAll(names.join(', '))].filter((e) => e.textContent.trim());
  const contrasts = texts.map((e) => {
    const [a, b] = [luminance(getComputedStyle(e).color), background(e)].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  });
  // The colour that most of a canvas has behind its drawing: transparent, so that of the card.
  const canvasBackground = background(document.querySelector('canvas'));
  out.textContent = 'RESULT' + JSON.stringify({ dark, page: background(document.body), canvasBackground,
    contrast: Math.min(...contrasts), before, zoomed, after, blank, loaded, charts: document.querySelectorAll('canvas').length,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth, ready: document.documentElement.dataset.ready }) + 'END';
";

fn check_rendering(
    page: &Path,
    (width, colours): (u32, PageColours),
    screenshot: Option<&str>,
) -> Option<Value> {
    let rendering = render(page, (width, colours), CLICKS, screenshot)?;
    let console: String = rendering.messages.lines().filter(|line| line.contains("CONSOLE")).fold(
        String::new(),
        |mut all, line| {
            let _ = writeln!(all, "{line}");
            all
        },
    );
    assert!(console.is_empty(), "{console}");
    // The program text has the words too; the result is in the last element.
    let (_, result) = rendering.elements.rsplit_once("RESULT").expect("the script has run");
    let result = result.split_once("END").unwrap().0.replace("&amp;", "&");
    let result: Value = serde_json::from_str(&result).unwrap();
    assert_eq!((&result["ready"], &result["blank"]), (&Value::from("yes"), &Value::from(0)), "{result}");
    assert_eq!(result["loaded"], Value::from(Vec::<Value>::new()), "{result}");
    assert!(result["overflow"].as_i64().unwrap() <= 0, "nothing is wider than the window: {result}");
    let number = |key: &str| result[key].as_f64().unwrap();
    let is_dark = colours == PageColours::Dark;
    assert_eq!(result["dark"], is_dark, "the browser has the colours that the test asks for: {result}");
    for surface in ["page", "canvasBackground"] {
        assert!((number(surface) < 0.1) == is_dark && (number(surface) > 0.8) != is_dark, "{result}");
    }
    // WCAG 2.1, success criterion 1.4.3.
    assert!(number("contrast") >= 4.5, "all text is readable: {result}");
    assert_eq!(result["before"], result["after"]);
    assert!((0..2).all(|at| result["before"][at] != result["zoomed"][at]), "{result}");
    Some(result)
}

#[test]
fn the_page_works_in_a_browser() {
    let folder = TestFolder::new();
    let (late, independent) = (trace(&folder, "late"), trace(&folder, "independent"));
    let (late, independent) = (late.to_str().unwrap(), independent.to_str().unwrap());
    folder.succeed(&["report", independent, "-o", "one.html"]);
    for (width, colours, name) in [
        (1280, PageColours::Light, "report-light.png"),
        (1280, PageColours::Dark, "report-dark.png"),
        (390, PageColours::Light, "report-phone.png"),
        (390, PageColours::Dark, "report-phone-dark.png"),
    ] {
        let page = folder.path("one.html");
        let Some(result) = check_rendering(&page, (width, colours), Some(name)) else { return };
        assert!(result["charts"].as_u64().unwrap() >= 6, "{result}");
    }
    folder.succeed(&["report", late, independent, "-o", "two.html"]);
    let result =
        check_rendering(&folder.path("two.html"), (1900, PageColours::Light), Some("report-two.png"))
            .unwrap();
    assert!(result["charts"].as_u64().unwrap() >= 12, "{result}");
}

#[test]
fn a_large_trace_opens() {
    let calls = std::env::var("AQUEDUCT_TRACE_CALLS").map_or(60_000, |calls| calls.parse().unwrap());
    let folder = TestFolder::new();
    let trace = trace(&folder, "late");
    enlarge(&trace, calls);
    let found = summary(&folder, &trace);
    assert!(found["calls"].as_u64().unwrap() >= calls as u64, "{found}");
    let page = trace.join("report.html");
    let size = page.metadata().unwrap().len();
    assert!(size < 5_000_000, "{size} bytes");
    check_rendering(&page, (1280, PageColours::Dark), None);
}
