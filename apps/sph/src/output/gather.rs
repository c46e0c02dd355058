//! The way `gather`: rank 0 receives all particles, selects the quantities to be stored and writes them as text, one particle per line.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use aqueduct::comm::Comm;
use aqueduct::file::OpenOptions;
use aqueduct::object::ObjectCommExt;

use crate::record::{StoredParticle, text_line};

/// The first line of the files.
pub const TEXT_HEADER: &str =
    "# id fluid x/m y/m z/m px/(kg m/s) py/(kg m/s) pz/(kg m/s) mass/kg density/(kg/m3) pressure/Pa\n";

/// Bytes of text that are written at once.
const PART: usize = 4 << 20;

/// Writes the records of all ranks; the bytes that this rank wrote, and the time of messages and of waiting for rank 0. Collective.
pub(super) fn write<R: StoredParticle>(
    world: &Comm,
    name: &str,
    records: &Vec<R>,
) -> Result<(u64, Duration)> {
    let began = Instant::now();
    let gathered = world.gather_objects(0, records)?;
    let mut talk = began.elapsed();
    let written = gathered.map_or(Ok(0), |gathered| {
        write_text(&world.comm_self(), name, &gathered).map_err(|error| format!("{error:#}"))
    });
    // The next step needs all ranks: the wait for rank 0 belongs to the output.
    let began = Instant::now();
    let message = world
        .broadcast_vec(0, written.as_ref().err().map_or(Vec::new(), |error| error.clone().into_bytes()))?;
    if world.rank() != 0 {
        talk += began.elapsed();
    }
    anyhow::ensure!(message.is_empty(), "{}", String::from_utf8_lossy(&message));
    Ok((written.unwrap_or(0), talk))
}

fn write_text<R: StoredParticle>(own: &Comm, name: &str, gathered: &[Vec<R>]) -> Result<u64> {
    let options = OpenOptions::new().write(true).create(true).truncate(true);
    let file = options.open(own, name).with_context(|| format!("creating {name}"))?;
    let (mut text, mut place) = (String::from(TEXT_HEADER), 0);
    for record in gathered.iter().flatten() {
        text_line(record, &mut text);
        if text.len() >= PART {
            file.at(place).write(text.as_bytes())?;
            place += text.len() as u64;
            text.clear();
        }
    }
    file.at(place).write(text.as_bytes())?;
    file.sync()?;
    file.close()?;
    Ok(place + text.len() as u64)
}
