//! Faults in the calls that access nothing: opening, sizes, sync, seeking, deleting.

use aqueduct_file::{File, Kind, Mode, Result, Whence, delete};

use super::super::FileCaseGuard;
use super::FaultMatrix;

impl FaultMatrix<'_> {
    pub(super) fn calls(&self) {
        for rank in 0..self.fixture.size() {
            self.opening(rank);
            self.sync(rank);
            self.seeking(rank);
        }
        self.sizes();
        self.deleting();
    }

    fn named(&self, what: &str, rank: usize) -> FileCaseGuard {
        FileCaseGuard { case: format!("a fault of rank {rank} in {what}"), rank: self.fixture.rank() }
    }

    /// Runs `program` on a file of which rank `rank` meets the planned fault.
    fn with(&self, plan: &str, mode: Mode, program: impl FnOnce(Result<File>)) {
        let (name, faulty) = self.names(plan);
        self.fixture.open(&name, Mode::write_only().create()).expect("a new file").close().expect("closing");
        program(self.fixture.open(&faulty, mode));
        self.fixture.barrier();
        if self.fixture.rank() == 0 {
            delete(&name).expect("deleting");
        }
    }

    fn opening(&self, rank: usize) {
        for (operation, mode) in [("open", Mode::read_write()), ("len", Mode::read_write().append())] {
            let _named = self.named(operation, rank);
            let plan = format!("rank={rank},{operation}=permission@#1");
            self.with(&plan, mode, |opened| {
                self.same_on_all(&opened, operation);
                assert_eq!(opened.expect_err("a fault").kind(), Kind::AccessDenied);
            });
        }
    }

    fn sync(&self, rank: usize) {
        let _named = self.named("sync", rank);
        self.with(&format!("rank={rank},sync=#1"), Mode::read_write(), |opened| {
            let file = opened.expect("a file");
            file.at(self.fixture.rank() as u64).all().write(&[1u8]).expect("a write");
            let outcome = file.sync();
            self.same_on_all(&outcome, "sync");
            assert_eq!(outcome.expect_err("a fault").kind(), Kind::Io);
            // Nobody can say any more what is on the medium.
            let later = [
                file.sync(),
                file.at(0).all().write(&[1u8]).map(drop),
                file.at(0).read(&mut [0u8]).map(drop),
                file.set_size(0),
            ];
            later.into_iter().for_each(|outcome| {
                assert_eq!(outcome.expect_err("after a failed sync").kind(), Kind::Closed);
            });
            file.close().expect("closing");
        });
    }

    fn seeking(&self, rank: usize) {
        let _named = self.named("a seek to the end", rank);
        self.with(&format!("rank={rank},len=#1"), Mode::read_write(), |opened| {
            let file = opened.expect("a file");
            let outcome = file.seek(0, Whence::End);
            assert_eq!(outcome.is_err(), rank == self.fixture.rank());
            assert_eq!(file.position().expect("the position"), 0);
            file.close().expect("closing");
        });
        self.with(&format!("rank={rank},len=#1"), Mode::read_write(), |opened| {
            let file = opened.expect("a file");
            let outcome = file.seek_shared(0, Whence::End);
            self.same_on_all(&outcome, "seek_shared");
            assert_eq!(outcome.expect_err("a fault").kind(), Kind::Io);
            assert_eq!(file.seek_shared(0, Whence::End).expect("the second time"), 0);
            file.close().expect("closing");
        });
    }

    fn sizes(&self) {
        for (operation, call) in [
            ("setlen", File::set_size as fn(&File, u64) -> Result<()>),
            ("preallocate", File::preallocate as fn(&File, u64) -> Result<()>),
        ] {
            let _named = self.named(operation, 0);
            self.with(&format!("{operation}=nospace@#1"), Mode::read_write(), |opened| {
                let file = opened.expect("a file");
                let outcome = call(&file, 100);
                self.same_on_all(&outcome, operation);
                assert_eq!(outcome.expect_err("a fault").kind(), Kind::NoSpace);
                assert_eq!(file.size().expect("the size"), 0);
                call(&file, 100).expect("the second time");
                assert_eq!(file.size().expect("the size"), 100);
                file.close().expect("closing");
            });
        }
    }

    fn deleting(&self) {
        let _named = self.named("deleting", 0);
        self.with("delete=permission@#1", Mode::read_write().delete_on_close(), |opened| {
            let outcome = opened.expect("a file").close();
            self.same_on_all(&outcome, "close");
            assert_eq!(outcome.expect_err("a fault").kind(), Kind::AccessDenied);
        });
    }
}
