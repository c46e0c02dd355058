//! An unchanged C program whose file is in the memory of a server (`tunnel:`), with the preload library: what it reads, and which error it gets
//! when the server ends.

mod launch;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use aqueduct_tunnel::{Address, ServerOptions, TunnelServer};
use launch::{Job, MPICH, OPEN_MPI, compile};

fn server(folder: &Path) -> (TunnelServer, String) {
    let socket = folder.join("socket");
    let listen = vec![Address::Unix(socket.clone())];
    let options = ServerOptions { listen, memory: 64 << 20, ..ServerOptions::default() };
    (TunnelServer::start(options).expect("a server"), format!("tunnel:unix:{}/out", socket.display()))
}

#[test]
fn files_are_in_the_memory_of_a_server() {
    for (mpi, ranks) in [(OPEN_MPI, 3), (MPICH, 2)] {
        let Some(program) = compile(mpi, "remote.c", &[]) else { return };
        let folder = tempfile::tempdir().expect("a folder");
        let (server, name) = server(folder.path());
        let words = [program.path.to_str().expect("UTF-8"), name.as_str()];
        let output = Job { mpi, ranks, preloaded: true, variables: &[] }.run(&words);
        assert!(output.success, "{}", output.text());
        for rank in 0..ranks {
            for line in ["open ok", "access ok wrong 0", "close ok"] {
                assert!(output.printed.contains(&format!("{rank} {line}\n")), "{line}: {}", output.text());
            }
        }
        let status = server.status();
        assert_eq!((status.files, status.written), (1, 40 * 6000 * ranks as u64), "{}", output.text());
    }
}

#[test]
fn the_end_of_a_server_is_an_error_on_all_ranks() {
    for (mpi, ranks) in [(OPEN_MPI, 3), (MPICH, 2)] {
        let Some(program) = compile(mpi, "remote.c", &[]) else { return };
        let folder = tempfile::tempdir().expect("a folder");
        let (server, name) = server(folder.path());
        let end_after_some_rounds = thread::spawn(move || {
            let limit = Instant::now() + Duration::from_secs(120);
            while server.status().written < 1 << 20 {
                assert!(Instant::now() < limit, "nothing was written");
                thread::sleep(Duration::from_millis(1));
            }
            drop(server);
        });
        let words = [program.path.to_str().expect("UTF-8"), name.as_str(), "endless"];
        let output = Job { mpi, ranks, preloaded: true, variables: &[] }.run(&words);
        end_after_some_rounds.join().expect("the server has ended");
        assert!(output.success, "{}", output.text());
        for rank in 0..ranks {
            let line = format!("{rank} access MPI_ERR_IO wrong 0\n");
            assert!(output.printed.contains(&line), "{line}: {}", output.text());
        }
    }
}
