//! Detection of launchers that start several processes without PMI: each process would run the whole job.

use std::ffi::OsString;

/// A launcher that is recognised by its environment variables.
struct LauncherVariables {
    name: &'static str,
    /// The variable with the rank of this process.
    rank: &'static str,
    /// The variable with the number of processes, if the launcher has one.
    size: Option<&'static str>,
    remedy: &'static str,
}

const LAUNCHERS: [LauncherVariables; 6] = [
    LauncherVariables {
        name: "Slurm's srun",
        rank: "SLURM_PROCID",
        size: Some("SLURM_STEP_NUM_TASKS"),
        remedy: "srun --mpi=pmix (or --mpi=pmi2 for MPICH)",
    },
    LauncherVariables {
        name: "Flux",
        rank: "FLUX_TASK_RANK",
        size: Some("FLUX_JOB_SIZE"),
        remedy: "flux run -o pmi=simple,pmix",
    },
    LauncherVariables {
        name: "PALS",
        rank: "PALS_RANKID",
        size: Some("PALS_SIZE"),
        remedy: "mpiexec --pmi=pmix (or --pmi=cray for Cray MPICH)",
    },
    LauncherVariables {
        name: "ALPS' aprun",
        rank: "ALPS_APP_PE",
        size: None,
        remedy: "mpiexec of the MPI library, or aprun with its PMI enabled (without PMI_NO_FORK)",
    },
    LauncherVariables {
        name: "MVAPICH2",
        rank: "MV2_COMM_WORLD_RANK",
        size: Some("MV2_COMM_WORLD_SIZE"),
        remedy: "AQUEDUCT_MPI=mpich, or mpiexec of the MPI library",
    },
    LauncherVariables {
        name: "MVAPICH",
        rank: "MVP_COMM_WORLD_RANK",
        size: Some("MVP_COMM_WORLD_SIZE"),
        remedy: "AQUEDUCT_MPI=mpich, or mpiexec of the MPI library",
    },
];

/// The error if this process must not run as a separate job, with the remedy; none if it may. Called only if no variable of MPI (`PMI*`,
/// `PMIX*`, `OMPI*`) is set.
pub(super) fn missing_pmi_error(variable: impl Fn(&str) -> Option<OsString>) -> Option<String> {
    let number = |name: &str| variable(name)?.to_str()?.trim().parse::<u64>().ok();
    LAUNCHERS.iter().find_map(|launcher| {
        let rank = number(launcher.rank)?;
        let size = match launcher.size {
            Some("SLURM_STEP_NUM_TASKS") => slurm_tasks(&number, rank, &variable),
            Some(size) => number(size),
            None => None,
        };
        if size == Some(1) {
            return None;
        }
        let of = size.map_or_else(String::new, |size| format!(" of {size}"));
        Some(format!(
            "{} started this as process {rank}{of}, but without PMI, so that MPI cannot connect the processes and each would run the whole job; \
             start it with {}, or set AQUEDUCT_MPI=none to run each process by itself on threads",
            launcher.name, launcher.remedy
        ))
    })
}

/// The ranks on this node, of `size` in all, from the variables of Open MPI's and MPICH's launchers; without them, all.
pub(super) fn ranks_of_node(size: usize) -> usize {
    let number = |name: &str| std::env::var(name).ok()?.trim().parse().ok();
    let local = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"].into_iter().find_map(number);
    local.map_or(size, |ranks: usize| ranks.clamp(1, size.max(1)))
}

/// The tasks of the job step of this process. A batch script has `SLURM_NTASKS` of the job too, but is a single process: only `srun` sets
/// `SLURM_STEP_ID` and `SLURM_STEP_NUM_TASKS` (sbatch(1), srun(1), "OUTPUT ENVIRONMENT VARIABLES"), `sbatch` sets `ENVIRONMENT=BATCH`.
fn slurm_tasks(
    number: &impl Fn(&str) -> Option<u64>,
    rank: u64,
    variable: &impl Fn(&str) -> Option<OsString>,
) -> Option<u64> {
    let is_step = variable("SLURM_STEP_ID").is_some() || variable("SLURM_STEPID").is_some();
    let is_marked = variable("ENVIRONMENT").is_some_and(|value| value == "BATCH");
    let is_batch_script = rank == 0 && !is_step && (is_marked || variable("SLURM_JOB_ID").is_some());
    let all = || if is_batch_script { Some(1) } else { number("SLURM_NTASKS").or(Some(1)) };
    number("SLURM_STEP_NUM_TASKS").or_else(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(variables: &[(&str, &str)]) -> Option<String> {
        missing_pmi_error(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn several_processes_without_pmi_are_refused_with_the_remedy() {
        let text = refused(&[("SLURM_PROCID", "2"), ("SLURM_NTASKS", "4")]).unwrap();
        assert!(text.contains("process 2 of 4") && text.contains("srun --mpi=pmix"), "{text}");
        assert!(text.contains("AQUEDUCT_MPI=none"), "{text}");
        for variables in [
            &[("SLURM_PROCID", "0"), ("SLURM_STEP_NUM_TASKS", "4"), ("ENVIRONMENT", "BATCH")][..],
            &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")],
            &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_JOB_ID", "7"), ("SLURM_STEP_ID", "0")],
            &[("FLUX_TASK_RANK", "0"), ("FLUX_JOB_SIZE", "2")],
            &[("PALS_RANKID", "0")],
            &[("ALPS_APP_PE", "3")],
            &[("MV2_COMM_WORLD_RANK", "0"), ("MV2_COMM_WORLD_SIZE", "8")],
            &[("MVP_COMM_WORLD_RANK", "1"), ("MVP_COMM_WORLD_SIZE", "8")],
        ] {
            assert!(refused(variables).is_some(), "{variables:?}");
        }
    }

    #[test]
    fn single_processes_and_batch_scripts_are_accepted() {
        for variables in [
            &[][..],
            &[("SLURM_NTASKS", "4")],
            &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")],
            &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("ENVIRONMENT", "BATCH")],
            &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("SLURM_JOB_ID", "7")],
            &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8"), ("SLURM_STEP_NUM_TASKS", "1")],
            &[("FLUX_TASK_RANK", "0"), ("FLUX_JOB_SIZE", "1")],
            &[("MV2_COMM_WORLD_RANK", "0"), ("MV2_COMM_WORLD_SIZE", "1")],
        ] {
            assert_eq!(refused(variables), None, "{variables:?}");
        }
    }
}
