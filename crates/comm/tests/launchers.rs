//! A program started by a launcher without PMI fails with an error that names the remedy.

use std::process::Command;

/// Set for the program that the test below starts.
const CHILD: &str = "AQUEDUCT_TEST_LAUNCHED";

/// The program, if this process is it.
#[test]
fn program() {
    if std::env::var_os(CHILD).is_some() {
        let ran = aqueduct_comm::run(|world| {
            println!("runs on {}", world.size());
            Ok::<_, aqueduct_comm::Error>(())
        });
        if let Err(error) = ran {
            eprintln!("{error}");
            std::process::exit(3);
        }
    }
}

fn run_with(variables: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().expect("a test has a path"));
    command.args(["--exact", "program", "--nocapture"]).env(CHILD, "1").env("AQUEDUCT_RANKS", "2");
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let is_launcher =
            ["PMI", "OMPI_", "SLURM_", "FLUX_", "PALS_", "ALPS_", "MV2_", "MVP_", "AQUEDUCT_MPI"];
        if is_launcher.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    let output = command.envs(variables.iter().copied()).output().expect("the program starts");
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (output.status.success(), text)
}

#[test]
fn a_program_that_slurm_started_without_pmi_fails_with_the_remedy() {
    let several = [("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2")];
    let (success, text) = run_with(&several);
    assert!(!success, "{text}");
    assert!(text.contains("process 1 of 2") && text.contains("srun --mpi=pmix"), "{text}");
    assert!(!text.contains("runs on"), "{text}");
    let (success, text) = run_with(&[several[0], several[1], ("AQUEDUCT_MPI", "none")]);
    assert!(success && text.contains("runs on 2"), "{text}");
    let (success, text) = run_with(&[]);
    assert!(success && text.contains("runs on 2"), "{text}");
}
