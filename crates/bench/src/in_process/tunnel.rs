//! Remote memory over loopback against a bare copy over a socket and a ping: bandwidth, latency, strided and scattered accesses, clients.
//!
//! Servers are threads of this process, so that its processor time is that of both sides. Every ratio is of measurements in turn.

use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use aqueduct::comm::{Comm, Launch};
use aqueduct::device::{DeviceOpenOptions, Handle, HandleExt, Segment, Strip, SyncScope};
use aqueduct::file::layout::{Basic, Layout};
use aqueduct::file::{Error, File, View};
use aqueduct::tunnel::{Address, Key, ServerOptions, Tunnel, TunnelServer};
use rustix::time::ClockId;

use super::is_wanted;
use crate::table::FigureTable;
use crate::timing::{alternate, cpu_seconds, ratios, seconds};
use crate::tools::scratch_folder;

const MIB: usize = 1 << 20;
/// Bytes of a large access.
const LARGE: usize = 8 * MIB;
/// Repetitions of a small one in a measurement.
const SMALL_REPETITIONS: usize = 300;

/// Some rows of the table.
type BenchPart = fn(&TunnelBench, &mut FigureTable) -> Result<()>;

/// The same for all measurements.
struct TunnelBench {
    rounds: usize,
    server: TunnelServer,
    folder: tempfile::TempDir,
}

pub(crate) fn run(words: &[&str]) -> Result<()> {
    let folder = scratch_folder()?;
    let key = Key::read_or_create(&folder.path().join("key"))?;
    let listen = vec![Address::Tcp("127.0.0.1".into(), 0)];
    let options = ServerOptions { listen, key: Some(key), memory: 2 << 30, ..ServerOptions::default() };
    let server = TunnelServer::start(options)?;
    let rounds = if words.contains(&"--quick") { 5 } else { 21 };
    let bench = TunnelBench { rounds, server, folder };
    let table = &mut FigureTable::default();
    let parts: [(&str, BenchPart); 5] = [
        ("contiguous", contiguous),
        ("latency", latency),
        ("patterns", patterns),
        ("clients", clients),
        ("snapshot", snapshot),
    ];
    for (name, part) in parts {
        if is_wanted(words, name) {
            part(&bench, table)?;
        }
    }
    std::mem::take(table).finish();
    Ok(())
}

impl TunnelBench {
    /// The name of a file, for devices with these further parameters.
    fn name(&self, parameters: &str, file: &str) -> String {
        let key = self.folder.path().join("key");
        format!("tunnel=key={}{parameters}:{}/{file}", key.display(), self.server.addresses()[0])
    }

    fn open(&self, parameters: &str, file: &str) -> Result<Arc<dyn Handle>> {
        aqueduct::tunnel::register();
        let options = DeviceOpenOptions::read_write().create(true);
        Ok(aqueduct::device::open(self.name(parameters, file), &options)?)
    }

    /// Measures two works in turn.
    fn compare(&self, mut one: impl FnMut(), mut other: impl FnMut()) -> Result<Vec<(f64, f64)>> {
        one();
        other();
        alternate(self.rounds, || Ok::<_, anyhow::Error>(seconds(&mut one)), || Ok(seconds(&mut other)))
    }
}

/// A connection whose other end copies what arrives into chunks, or answers 64 bytes by 32.
struct BareSocket(TcpStream);

impl BareSocket {
    fn connect(answer: fn(TcpStream) -> std::io::Result<()>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let stream = TcpStream::connect(listener.local_addr()?)?;
        let (other, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        other.set_nodelay(true)?;
        // It ends with the connection.
        thread::spawn(move || answer(other));
        Ok(Self(stream))
    }

    /// Sends `LARGE` bytes in buffers of 1 MiB, and waits until all are copied.
    fn copy(&mut self, buffer: &[u8]) -> std::io::Result<()> {
        for _ in 0..LARGE / MIB {
            self.0.write_all(buffer)?;
        }
        self.0.read_exact(&mut [0])
    }

    fn ping(&mut self) -> std::io::Result<()> {
        self.0.write_all(&[1; 64])?;
        self.0.read_exact(&mut [0; 32])
    }
}

/// Receives `LARGE` bytes again and again into 64 KiB chunks by way of a buffer of 1 MiB.
fn copy_into_chunks(mut stream: TcpStream) -> std::io::Result<()> {
    let mut chunks = vec![vec![0; 64 << 10]; LARGE >> 16];
    let mut buffer = vec![0; MIB];
    loop {
        for part in chunks.chunks_mut(MIB >> 16) {
            stream.read_exact(&mut buffer)?;
            part.iter_mut()
                .zip(buffer.chunks(64 << 10))
                .for_each(|(chunk, bytes)| chunk.copy_from_slice(bytes));
        }
        black_box(&mut chunks);
        stream.write_all(&[1])?;
    }
}

fn answer_pings(mut stream: TcpStream) -> std::io::Result<()> {
    loop {
        stream.read_exact(&mut [0; 64])?;
        stream.write_all(&[2; 32])?;
    }
}

fn contiguous(bench: &TunnelBench, table: &mut FigureTable) -> Result<()> {
    let (file, plain) = (bench.open("", "contiguous")?, bench.open(",check=none", "contiguous")?);
    let (bytes, buffer) = (vec![3; LARGE], vec![3; MIB]);
    let mut back = vec![0; LARGE];
    let mut wire = BareSocket::connect(copy_into_chunks)?;
    let mut copy = || wire.copy(&buffer).expect("the other end lives");
    let write = |file: &Arc<dyn Handle>| file.write_at(0, &bytes).expect("a write");
    let rounds = bench.compare(&mut copy, || write(&file))?;
    table.at_least("contiguous write of 8 MiB / bare copy over a socket", &ratios(&rounds), 0.85);
    let mut read = || assert_eq!(file.read_at(0, &mut back).expect("a read"), LARGE as u64);
    let rounds = bench.compare(&mut copy, &mut read)?;
    table.at_least("contiguous read of 8 MiB / bare copy over a socket", &ratios(&rounds), 0.85);
    let cpu = |work: &mut dyn FnMut()| {
        let before = cpu_seconds(ClockId::ProcessCPUTime);
        work();
        cpu_seconds(ClockId::ProcessCPUTime) - before
    };
    let both = (0..bench.rounds).map(|_| cpu(&mut || write(&file)) / cpu(&mut copy));
    table.at_most("processor time of both sides per byte / bare copy", &both.collect::<Vec<_>>(), 1.3);
    let rounds = bench.compare(|| write(&plain), || write(&file))?;
    table.at_least("with checksums / without", &ratios(&rounds), 0.9);
    Ok(())
}

fn latency(bench: &TunnelBench, table: &mut FigureTable) -> Result<()> {
    let file = bench.open("", "latency")?;
    file.write_at(0, &[1; 4096])?;
    let mut socket = BareSocket::connect(answer_pings)?;
    let mut ping = || (0..SMALL_REPETITIONS).for_each(|_| socket.ping().expect("the other end lives"));
    let inverse = |rounds: Vec<(f64, f64)>| rounds.iter().map(|(one, other)| other / one).collect::<Vec<_>>();
    let mut write = || (0..SMALL_REPETITIONS).for_each(|_| file.write_at(64, &[1; 64]).expect("a write"));
    table.at_most("64-byte write / ping", &inverse(bench.compare(&mut ping, &mut write)?), 1.5);
    let mut read = || {
        (0..SMALL_REPETITIONS).for_each(|_| {
            file.read_at(64, &mut [0; 64]).expect("a read");
        });
    };
    table.at_most("64-byte read / ping", &inverse(bench.compare(&mut ping, &mut read)?), 1.5);
    let mut open = || {
        (0..SMALL_REPETITIONS).for_each(|_| {
            bench.open("", "latency").expect("an open").close().expect("a close");
        });
    };
    table.at_most("open and close / ping", &inverse(bench.compare(&mut ping, &mut open)?), 2.5);
    let mut number = 0;
    let mut create = || {
        for _ in 0..SMALL_REPETITIONS {
            number += 1;
            bench.open("", &format!("new{number}")).expect("an open").close().expect("a close");
        }
    };
    table.at_most("create and close / ping", &inverse(bench.compare(&mut ping, &mut create)?), 3.5);
    Ok(())
}

fn patterns(bench: &TunnelBench, table: &mut FigureTable) -> Result<()> {
    let file = bench.open("", "patterns")?;
    let bytes = vec![3; 2 * LARGE];
    file.write_at(0, &vec![0; 4 * LARGE])?;
    let mut back = vec![0; LARGE];
    // As the file layer hands them over: one strip.
    let tiles = [Strip { offset: 0, len: 1024, stride: 2048, count: LARGE as u64 / 1024 }];
    let whole = || file.write_at(0, &bytes[..LARGE]).expect("a write");
    let rounds = bench.compare(whole, || file.write_all_strips(&tiles, &bytes[..LARGE]).expect("a write"))?;
    table.at_least("tiles of 1 KiB, written / contiguous", &ratios(&rounds), 0.8);
    let rounds = bench.compare(whole, || {
        file.read_full_strips(&tiles, &mut back).expect("a read");
    })?;
    table.at_least("tiles of 1 KiB, read / contiguous", &ratios(&rounds), 0.8);
    // A permutation of the extents of 4 KiB, the same in each run.
    let extents = bytes.len() as u64 / 4096;
    let scattered: Vec<Segment<'_>> = bytes
        .chunks(4096)
        .zip(0_u64..)
        .map(|(part, at)| Segment::new(at * 2_654_435_761 % extents * 4096, part))
        .collect();
    let both = || file.write_at(0, &bytes).expect("a write");
    let rounds = bench.compare(both, || file.write_all(&scattered).expect("a write"))?;
    table.at_least("random extents of 4 KiB, 16 MiB / contiguous", &ratios(&rounds), 0.6);
    let (whole, pieces, together) = round_robin(bench)?;
    let divided =
        |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(one, other)| one / other).collect();
    let independent: Vec<f64> = divided(&whole, &pieces);
    table.at_least("round-robin 4 B of 2 ranks, independent / contiguous", &independent, 0.4);
    let collective: Vec<f64> = divided(&pieces, &together);
    table.at_least("round-robin 4 B of 2 ranks, collective / independent", &collective, 1.0);
    Ok(())
}

/// Seconds of two ranks that write 4 MiB each: contiguous, round-robin in pieces of 4 bytes, and the same collectively.
fn round_robin(bench: &TunnelBench) -> Result<(Vec<f64>, Vec<f64>, Vec<f64>)> {
    const BYTES: u64 = 4 << 20;
    let name = bench.name("", "round-robin");
    let program = |world: &Comm| -> Result<[Vec<f64>; 3], Error> {
        let file = File::create(world, &name)?;
        let (rank, byte) = (world.rank() as u64, Layout::from(Basic::Byte));
        let piece = Layout::bytes(4).and_then(|piece| piece.resized(0, 8)).expect("a layout");
        let views = [View::new(rank * BYTES, &byte, &byte)?, View::new(rank * 4, &byte, &piece)?];
        let data = vec![rank as u8; BYTES as usize];
        let mut times = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..=bench.rounds {
            for (way, times) in times.iter_mut().enumerate() {
                file.set_view(&views[way.min(1)])?;
                world.barrier()?;
                let start = std::time::Instant::now();
                if way == 2 {
                    file.at(0).all().write(&data)?
                } else {
                    file.at(0).write(&data)?
                };
                world.barrier()?;
                times.push(start.elapsed().as_secs_f64());
            }
        }
        file.close()?;
        Ok(times)
    };
    let times = Launch::threads(2).run(program).map_err(|error| anyhow::anyhow!("{error}"))?;
    let [whole, pieces, together] = times.into_iter().next().context("a rank")?.map(|mut times| {
        // The first one takes memory.
        times.remove(0);
        times
    });
    Ok((whole, pieces, together))
}

/// Seconds of each client of several that write 4 MiB so many times, all at once.
fn client_seconds(bench: &TunnelBench, clients: usize, times: usize) -> Result<Vec<f64>> {
    let files: Result<Vec<_>> = (0..clients)
        // Other settings: another session.
        .map(|client| bench.open(&format!(",connections={}", client + 1), &format!("client{client}")))
        .collect();
    let (files, bytes) = (files?, vec![5; 4 * MIB]);
    let start = std::sync::Barrier::new(clients);
    Ok(thread::scope(|scope| {
        let write = |file: &Arc<dyn Handle>| {
            start.wait();
            seconds(|| (0..times).for_each(|_| file.write_at(0, &bytes).expect("a write")))
        };
        let threads: Vec<_> = files.iter().map(|file| scope.spawn(move || write(file))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a client")).collect()
    }))
}

fn clients(bench: &TunnelBench, table: &mut FigureTable) -> Result<()> {
    let (mut fairness, mut sums) = (Vec::new(), Vec::new());
    let longest = |times: &[f64]| times.iter().copied().fold(0.0, f64::max);
    for _ in 0..bench.rounds.min(5) {
        let two = client_seconds(bench, 2, 64)?;
        let many = client_seconds(bench, 64, 2)?;
        fairness.push(many.iter().copied().fold(f64::MAX, f64::min) / longest(&many));
        sums.push(longest(&two) / longest(&many));
    }
    table.at_least("64 clients: slowest / fastest", &fairness, 0.5);
    table.at_least("64 clients: bytes per second of all / those of 2", &sums, 0.9);
    let mut alone = Vec::new();
    for _ in 0..bench.rounds {
        alone.push(longest(&client_seconds(bench, 2, 8)?));
    }
    let address = bench.server.addresses()[0].to_string();
    let key = bench.folder.path().join("key");
    let idle: Result<Vec<_>> = (0..512)
        .map(|number| {
            // A session of its own for each, with a connection for pings and one for calls.
            let text = format!("key={},connections=1,silence={}ms", key.display(), 30_000 + number);
            let device = Tunnel::from_parameters(&text)?;
            Ok(device
                .open(format!("{address}/idle").as_ref(), &DeviceOpenOptions::read_write().create(true))?)
        })
        .collect();
    let idle = idle?;
    ensure!(bench.server.status().connections >= 1024, "1024 connections");
    let beside: Result<Vec<f64>> =
        alone.iter().map(|alone| Ok(alone / longest(&client_seconds(bench, 2, 8)?))).collect();
    table.at_least("2 clients beside 1024 idle connections / without", &beside?, 0.95);
    drop(idle);
    thread::sleep(Duration::from_millis(100));
    Ok(())
}

/// A snapshot of 64 MiB into the memory of a server, and into a file that is synced.
fn snapshot(bench: &TunnelBench, table: &mut FigureTable) -> Result<()> {
    let remote = bench.open("", "snapshot")?;
    let path = bench.folder.path().join("snapshot");
    let options = DeviceOpenOptions::read_write().create(true);
    let local = aqueduct::device::open(format!("ufs:{}", path.display()), &options)?;
    let bytes = vec![7; 64 * MIB];
    let store = |file: &Arc<dyn Handle>| {
        file.write_at(0, &bytes).expect("a write");
        file.sync(SyncScope::Data).expect("a sync");
    };
    let rounds = bench.compare(|| store(&local), || store(&remote))?;
    table.at_least(
        "snapshot of 64 MiB with sync: seconds on the disk / seconds in remote memory",
        &ratios(&rounds),
        1.0,
    );
    Ok(())
}
