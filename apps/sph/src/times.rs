//! The times of a run, as one line of JSON.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use aqueduct::comm::{Comm, Op};
use serde::Serialize;

/// The times of a run in seconds, of the rank that spends most of them writing, so that they add up; and the bytes of all ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunTimes {
    /// The name of the program.
    pub program: &'static str,
    /// The number of ranks.
    pub ranks: usize,
    /// The way of output.
    pub output: String,
    /// The time of computing, with the messages of the decomposition.
    pub compute: f64,
    /// The time of writing.
    pub io: f64,
    /// The time of messages of the output.
    pub talk: f64,
    /// The time of the run.
    pub total: f64,
    /// Bytes that were written.
    pub bytes: u64,
}

impl RunTimes {
    /// From the seconds of each rank: computing, writing, messages, all. Collective.
    pub fn new(world: &Comm, output: &str, seconds: [f64; 4], bytes: u64) -> Result<Self> {
        let all = world.allgather(&[seconds])?;
        let [compute, io, talk, total] =
            all.into_iter().max_by(|one, other| one[1].total_cmp(&other[1])).unwrap_or(seconds);
        let bytes = world.allreduce_one(Op::Sum, bytes)?;
        Ok(Self {
            program: "sph",
            ranks: world.size(),
            output: output.to_owned(),
            compute,
            io,
            talk,
            total,
            bytes,
        })
    }

    /// Appends the line to a file.
    pub fn append(&self, path: &Path) -> Result<()> {
        let write = || {
            let mut file = OpenOptions::new().create(true).append(true).open(path)?;
            writeln!(file, "{}", serde_json::to_string(self)?)
        };
        write().with_context(|| format!("writing {}", path.display()))
    }
}
