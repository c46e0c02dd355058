//! `aqueduct bench scaling`: runs a program on more and more ranks, in each of its ways of I/O, and compares the times that it writes.

mod amdahl;
mod measured_run;
mod scaling_plot;

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::output::{BenchResult, OutputArguments, system_facts};
use measured_run::{MeasuredRun, Measurements};

/// Options of `aqueduct bench scaling`.
#[derive(clap::Args)]
pub(crate) struct ScalingArguments {
    /// Numbers of ranks
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8", value_parser = clap::value_parser!(u64).range(1..=4096))]
    ranks: Vec<u64>,
    /// Runs of each number of ranks and way; the fastest counts. Ways take turns
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    runs: u64,
    /// Start ranks by a launcher, for example "mpirun -n {ranks}"; without, they are threads, and `-n` is added to the program's options
    #[arg(long)]
    launcher: Option<String>,
    #[command(flatten)]
    output: OutputArguments,
    /// The program and its options. One option may list ways in braces: '{gather,together}'. In the others {way} and {ranks} are replaced
    #[arg(last = true, required = true)]
    program: Vec<String>,
}

pub(crate) fn run(arguments: &ScalingArguments) -> Result<()> {
    let (place, ways) = ways(&arguments.program)?;
    let mut ranks = arguments.ranks.clone();
    ranks.sort_unstable();
    ranks.dedup();
    let mut measurements = Measurements::default();
    for &ranks in &ranks {
        for _ in 0..arguments.runs {
            for way in &ways {
                let run = measure(arguments, place, way, ranks)?;
                eprintln!("{ranks} ranks, {way}: {:.3} s", run.total);
                measurements.add(run);
            }
        }
    }
    let program = arguments.program[0].rsplit('/').next().unwrap_or_default();
    let mut facts = system_facts(None, ".", &[]);
    facts.push(("program".to_owned(), arguments.program.join(" ")));
    facts.push(("launcher".to_owned(), arguments.launcher.clone().unwrap_or_else(|| "threads".to_owned())));
    let result = BenchResult {
        title: format!("Scaling of {program}"),
        facts,
        figures: measurements.figures(),
        tables: vec![measurements.table(&ways)],
        notes: measurements.serial_parts(&ways),
        drawings: vec![
            ("speedup".to_owned(), scaling_plot::speedup(program, &measurements, &ways)?),
            ("times".to_owned(), scaling_plot::times(program, &measurements, &ways)?),
        ],
        ..BenchResult::default()
    };
    result.publish(&arguments.output)
}

/// The option with the ways, and the ways; without such an option one way without a name.
fn ways(program: &[String]) -> Result<(Option<usize>, Vec<String>)> {
    let listed = |word: &String| word.starts_with('{') && word.ends_with('}') && word.contains(',');
    let places: Vec<usize> = (0..program.len()).filter(|place| listed(&program[*place])).collect();
    match places[..] {
        [] => Ok((None, vec![String::new()])),
        [place] => {
            let word = &program[place];
            let ways: Vec<String> = word[1..word.len() - 1].split(',').map(str::to_owned).collect();
            ensure!(ways.iter().all(|way| !way.is_empty()), "{word} has an empty way");
            Ok((Some(place), ways))
        }
        _ => bail!("one option lists the ways; {} do", places.len()),
    }
}

/// Runs the program once; the times that it wrote.
fn measure(arguments: &ScalingArguments, place: Option<usize>, way: &str, ranks: u64) -> Result<MeasuredRun> {
    let file = std::env::temp_dir().join(format!("aqueduct-scaling-{}.json", std::process::id()));
    let _ = std::fs::remove_file(&file);
    let replaced = |word: &str| word.replace("{way}", way).replace("{ranks}", &ranks.to_string());
    let launcher = arguments.launcher.as_deref().map(replaced).unwrap_or_default();
    let words = arguments.program.iter().enumerate();
    let program = words.map(|(at, word)| if Some(at) == place { way.to_owned() } else { replaced(word) });
    let mut words: Vec<String> = launcher.split_whitespace().map(str::to_owned).chain(program).collect();
    if arguments.launcher.is_none() {
        words.extend(["-n".to_owned(), ranks.to_string()]);
    }
    words.extend(["--times".to_owned(), file.display().to_string()]);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdout(Stdio::null());
    let status = command.status().with_context(|| format!("starting {}", words[0]))?;
    ensure!(status.success(), "{words:?} ended with {status}");
    let text = std::fs::read_to_string(&file);
    let text = text.with_context(|| format!("{} wrote no times: it needs the option --times", words[0]))?;
    let _ = std::fs::remove_file(&file);
    let line = text.lines().last().unwrap_or_default();
    let run = MeasuredRun::parse(line, way).with_context(|| format!("the times of {}: {line}", words[0]))?;
    ensure!(run.ranks == ranks, "{} ran on {} ranks instead of {ranks}", words[0], run.ranks);
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn ways_are_an_option_in_braces() {
        let found = ways(&words("sph --output {gather,together} --prefix {way}")).unwrap();
        assert_eq!(found, (Some(2), vec!["gather".to_owned(), "together".to_owned()]));
        assert_eq!(ways(&words("md a.cfg")).unwrap(), (None, vec![String::new()]));
        assert!(ways(&words("a {b,c} {d,e}")).is_err());
        assert!(ways(&words("a {b,}")).is_err());
    }
}
