//! Random faults on all ranks: collective calls fail on all ranks or on none, data is correct, and no rank waits forever.

use aqueduct_file::{Info, Mode, wait_all};

use super::super::FileCaseGuard;
use super::super::memory::AccessMethod;
use super::{FaultMatrix, STRATEGIES, bytes};
use crate::rng::SeededRng;

const STORMS: u64 = 12;
const STEPS: usize = 25;

impl FaultMatrix<'_> {
    pub(super) fn fault_storms(&self) {
        for seed in 0..STORMS {
            let _named = FileCaseGuard { case: format!("storm {seed}"), rank: self.fixture.rank() };
            self.fault_storm(&mut SeededRng::new(seed + 1));
        }
    }

    fn fault_storm(&self, dice: &mut SeededRng) {
        let plan = "read=0.1,write=nospace@0.1,lock=busy@0.05,len=0.1,setlen=0.1,preallocate=0.1,short=0.3";
        let (name, faulty) = self.names(plan);
        self.fixture.open(&name, Mode::write_only().create()).expect("a new file").close().expect("closing");
        let file = self.fixture.open(&faulty, Mode::read_write()).expect("a file");
        for step in 0..STEPS {
            file.set_view(&self.view()).expect("a view");
            let strategy = STRATEGIES[dice.below(4)];
            let hints = [("aqueduct_strategy", strategy), ("cb_buffer_size", "32"), ("striping_unit", "8")];
            file.set_info(&Info::from(hints)).expect("hints");
            let mine = Self::values(self.fixture.rank(), step + 1);
            let context = format!("step {step}, {strategy}");
            match dice.below(5) {
                0 => self.same_on_all(&file.set_size(dice.below(500) as u64), &context),
                1 => self.same_on_all(&file.preallocate(dice.below(500) as u64), &context),
                2 => {
                    // Several under way: each has its own outcome, the same on all ranks.
                    let start =
                        |at: u64| file.at(at).all().start_write(mine.clone()).expect("a write starts");
                    let requests = [start(0), start(20), start(40)];
                    for request in requests {
                        self.same_on_all(&request.wait(), &context);
                    }
                }
                3 => {
                    // Independent writes fail on each rank separately.
                    let request = |at: u64| file.at(at).start_write(mine.clone()).expect("a write starts");
                    let _ = wait_all([request(0), request(20)]);
                }
                _ => {
                    let way = AccessMethod::ALL[2 + dice.below(3)];
                    let place = if dice.below(2) == 0 { file.at(3) } else { file.shared() };
                    let written = way.write(place, mine.clone());
                    self.same_on_all(&written, &context);
                    let read = way.read(file.at(3), vec![0u32; mine.len()]);
                    self.same_on_all(&read, &context);
                }
            }
            self.fixture.barrier();
        }
        // Whatever happened, what is written without a fault afterwards is there.
        let mine = Self::values(self.fixture.rank(), 99);
        // In few operations of the device: run by run, many ranks would hardly ever get through.
        let few =
            [("aqueduct_strategy", "two-phase"), ("cb_buffer_size", "100000"), ("striping_unit", "4096")];
        file.set_info(&Info::from(few)).expect("hints");
        let written = (0..200).any(|_| file.at(0).all().write(&mine).is_ok());
        assert!(written, "no write of 200 went through");
        let sound = self.fixture.open(&name, Mode::read_only()).expect("the same file");
        sound.set_view(&self.view()).expect("a view");
        let mut got = vec![0u32; mine.len()];
        sound.at(0).all().read(&mut got).expect("a read that works");
        assert_eq!(bytes(&got), bytes(&mine));
        sound.close().expect("closing");
        file.close().expect("closing");
        if self.fixture.rank() == 0 {
            aqueduct_file::delete(&name).expect("deleting");
        }
    }
}
