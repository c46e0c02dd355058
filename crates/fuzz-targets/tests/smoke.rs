//! Every fuzz target over seeded mutations of its seed inputs: no panic, no hang, and bounded memory.
//!
//! `AQUEDUCT_FUZZ_INPUTS` is the number of inputs of each target, `AQUEDUCT_FUZZ_TARGET` selects one target, `AQUEDUCT_SEED` is the first
//! seed. The message of a failure names target and seed.
//!
//! `unsafe` here: an allocator that counts.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aqueduct_fuzz_targets::{FuzzTarget, Mutator, TARGETS};

/// Inputs of a target, unless `AQUEDUCT_FUZZ_INPUTS` is set.
const INPUTS: u64 = 20_000;
/// Time limit for all inputs of a target, unless `AQUEDUCT_FUZZ_INPUTS` is set: a slow machine runs fewer inputs.
const TIME: Duration = Duration::from_secs(3);
/// Inputs that every target gets, even if the time limit is exceeded.
const LEAST: u64 = 300;
/// Time limit of one input; after it the process ends.
const LONGEST: Duration = Duration::from_secs(20);
/// Memory limit of any input: the buffers of the file engine, 4 MiB at most, and the rest.
const MEMORY: usize = 8 << 20;
/// More for each byte of the input.
const MEMORY_PER_BYTE: usize = 64;

struct CountingAllocator;

static HELD: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

fn count(bytes: usize) {
    let held = HELD.fetch_add(bytes, Ordering::Relaxed).wrapping_add(bytes);
    PEAK.fetch_max(held, Ordering::Relaxed);
}

// SAFETY: every call is forwarded to the system allocator with the same arguments.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller guarantees what the system allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }

    // Zeroed memory counts too, although untouched pages are not resident.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Ends the process if one input takes too long.
#[derive(Default)]
struct Watchdog {
    running: Mutex<Option<(Instant, String)>>,
}

impl Watchdog {
    fn start() -> Arc<Self> {
        let watchdog = Arc::new(Self::default());
        let watched = Arc::clone(&watchdog);
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_millis(500));
                if let Some((_, what)) =
                    watched.running.lock().unwrap().as_ref().filter(|(since, _)| since.elapsed() > LONGEST)
                {
                    eprintln!("{what} runs for more than {LONGEST:?}");
                    std::process::exit(101);
                }
            }
        });
        watchdog
    }

    fn watch(&self, what: Option<String>) {
        *self.running.lock().unwrap() = what.map(|what| (Instant::now(), what));
    }
}

/// The result of one target.
#[derive(Default)]
struct Outcome {
    inputs: u64,
    accepted: u64,
    /// Peak of memory less the memory held before, and the seed.
    peak: (usize, u64),
    slowest: Duration,
}

fn run_inputs(target: &FuzzTarget, first: u64, inputs: Option<u64>, watchdog: &Watchdog) -> Outcome {
    let seeds = (target.seeds)();
    assert!(!seeds.is_empty(), "{}: no seed inputs", target.name);
    // Also initializes state that later runs of the target reuse.
    assert!(seeds.iter().any(|seed| (target.run)(seed)), "{}: no seed input is accepted", target.name);
    let mut outcome = Outcome::default();
    let start = Instant::now();
    for seed in first..first + inputs.unwrap_or(INPUTS) {
        if inputs.is_none() && outcome.inputs >= LEAST && start.elapsed() > TIME {
            break;
        }
        let input = Mutator::new(seed, target.words).mutate(&seeds);
        watchdog.watch(Some(format!("target {}, seed {seed}", target.name)));
        let held = HELD.load(Ordering::Relaxed);
        PEAK.store(held, Ordering::Relaxed);
        let began = Instant::now();
        match std::panic::catch_unwind(|| (target.run)(&input)) {
            Ok(accepted) => outcome.accepted += u64::from(accepted),
            Err(panic) => {
                eprintln!("target {}, seed {seed}, input {}", target.name, input.escape_ascii());
                std::panic::resume_unwind(panic);
            }
        }
        outcome.slowest = outcome.slowest.max(began.elapsed());
        let peak = PEAK.load(Ordering::Relaxed).saturating_sub(held);
        outcome.peak = outcome.peak.max((peak, seed));
        let most = MEMORY + MEMORY_PER_BYTE * input.len();
        assert!(
            peak <= most,
            "target {}, seed {seed}: {peak} bytes of memory for an input of {} bytes, {most} allowed",
            target.name,
            input.len()
        );
        outcome.inputs += 1;
    }
    watchdog.watch(None);
    outcome
}

#[test]
fn mutated_inputs_are_decoded_or_refused_in_bounded_time_and_memory() {
    let number = |name: &str| std::env::var(name).ok().map(|given| given.parse().expect("a number"));
    let (first, inputs) = (number("AQUEDUCT_SEED").unwrap_or(0), number("AQUEDUCT_FUZZ_INPUTS"));
    let wanted = std::env::var("AQUEDUCT_FUZZ_TARGET").ok();
    let watchdog = Watchdog::start();
    let mut targets = 0;
    for target in TARGETS.iter().filter(|target| wanted.as_ref().is_none_or(|wanted| target.name == wanted)) {
        let Outcome { inputs, accepted, peak: (peak, seed), slowest } =
            run_inputs(target, first, inputs, &watchdog);
        let name = target.name;
        println!(
            "{name}: {inputs} inputs, {accepted} accepted, at most {slowest:.1?} and {} KiB (seed {seed})",
            peak >> 10
        );
        // Otherwise the mutations would not reach the code that they test.
        assert!(
            accepted > inputs / 100 && accepted < inputs,
            "{name}: {accepted} of {inputs} inputs are accepted"
        );
        targets += 1;
    }
    assert!(targets > 0, "there is no target {wanted:?}");
}
