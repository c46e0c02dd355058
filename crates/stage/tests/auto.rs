//! The mode that is chosen while a program runs: a thread where it hides something, none where it does not, and the same file.

use std::time::Duration;

use aqueduct_comm::{Comm, Launch};
use aqueduct_stage::target::{Parcel, Supply, Target};
use aqueduct_stage::{Error, Mode, Options, Output, Reader, Stream, Streams};

/// Of each rank; two ranks have more than a small step.
const VALUES: u64 = 120_000;

fn create(world: &Comm, name: &str, options: &Options) -> Result<(Output, aqueduct_stage::Key<f64>), Error> {
    let (streams, key) = declare(world);
    Ok((options.create(world, name, &streams)?, key))
}

fn declare(world: &Comm) -> (Streams, aqueduct_stage::Key<f64>) {
    let mut streams = Streams::new();
    let array = Stream::array("a", [VALUES * world.size() as u64]);
    let key = streams.add(array.block([VALUES * world.rank() as u64], [VALUES]));
    (streams, key)
}

#[test]
fn a_slow_medium_gets_a_thread() {
    let run = |world: &Comm| {
        let (mut output, key) = create(world, "throttle=40MB/s:memfs:auto-slow", &Options::new())?;
        let mut modes = Vec::new();
        for step in 0..24 {
            std::thread::sleep(Duration::from_millis(20));
            let values = vec![f64::from(step); VALUES as usize];
            output.step()?.put(key, &values).commit()?;
            modes.push(output.mode().0);
        }
        assert_eq!(modes[..2], [Mode::Blocking; 2], "nothing is known yet");
        assert_eq!(modes[3..16], [Mode::Thread; 13], "{}", output.mode().1);
        let report = output.finish()?;
        assert!(report.reason.contains("ms"), "{report:?}");
        let reader = Reader::open(world, "memfs:auto-slow")?;
        for step in 0..24 {
            let parcel = reader.step(step).expect("complete");
            assert!(reader.read::<f64>("a", parcel)? == vec![step as f64; VALUES as usize * world.size()]);
        }
        Ok::<_, Error>(())
    };
    Launch::threads(2).run(run).unwrap();
}

/// Takes its time, and so much more of it on an I/O thread that no other load of the machine hides it.
struct WorseInTheBackground;

impl Target for WorseInTheBackground {
    fn write(&mut self, _parcel: &Parcel, supply: &mut dyn Supply) -> Result<(), Error> {
        while !supply.next()?.is_empty() {}
        let background = std::thread::current().name() == Some("aqueduct stage");
        std::thread::sleep(Duration::from_millis(if background { 200 } else { 5 }));
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn finish(self: Box<Self>, _steps: u64) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn a_thread_that_does_not_help_is_given_up() {
    let run = |world: &Comm| {
        let (streams, key) = declare(world);
        let mut output =
            Options::new().create_on(world, "worse", &streams, |_, _| Ok(Box::new(WorseInTheBackground)))?;
        let values = vec![1.0; VALUES as usize];
        let mut modes = Vec::new();
        for _ in 0..30 {
            std::thread::sleep(Duration::from_millis(5));
            output.step()?.put(key, &values).commit()?;
            modes.push(output.mode().0);
        }
        assert_eq!(modes[5], Mode::Thread);
        assert_eq!(modes[25..], [Mode::Blocking; 5], "{}", output.mode().1);
        assert!(output.mode().1.contains("with a thread"));
        let report = output.finish()?;
        assert_eq!((report.mode, report.steps), (Mode::Blocking, 30));
        Ok::<_, Error>(())
    };
    Launch::threads(2).run(run).unwrap();
}

/// Looks where it runs.
struct Looks {
    cpu: usize,
}

impl Target for Looks {
    fn write(&mut self, _parcel: &Parcel, _supply: &mut dyn Supply) -> Result<(), Error> {
        let allowed = rustix::thread::sched_getaffinity(None).unwrap();
        assert!(allowed.is_set(self.cpu) && allowed.count() == 1);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn finish(self: Box<Self>, _steps: u64) -> Result<(), Error> {
        Ok(())
    }
}

#[test]
fn a_thread_stays_on_its_processor() {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let cpu = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap();
    let run = |world: &Comm| {
        let (streams, key) = declare(world);
        let options = Options::new().mode(Mode::Thread).pin([cpu]);
        let mut output = options.create_on(world, "pinned", &streams, |_, _| Ok(Box::new(Looks { cpu })))?;
        let values = vec![1.0; VALUES as usize];
        output.step()?.put(key, &values).commit()?.wait_visible()?;
        output.finish().map(drop)
    };
    Launch::threads(2).run(run).unwrap();
}
