//! A second opinion: MPI builds the same random types and says where every byte lies.
//!
//! The implementations round bounds differently from the standard and from one another, so layouts are decoded as the interposition library does it: a
//! layout whose bounds MPI sees otherwise is resized to what MPI says, and the bytes must then agree always. Where nothing had to be
//! rounded, the bounds must agree too.

use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use aqueduct_file::layout::{Layout, Member, Result};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::oracle::TypeMap;
use crate::spec::{Spec, specs};

const TYPES: usize = 1500;

/// A layout as MPI has it.
struct Decoded {
    layout: Layout,
    /// No bounds had to be corrected.
    faithful: bool,
    /// A structure mixes members with and without set bounds somewhere inside.
    mixture: bool,
    /// The bounds were set somewhere inside.
    marked: bool,
}

fn which(command: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(command)).find(|path| path.is_file())
}

/// Compiles the program with this MPI; `None`, and said so, if it is not there.
fn compiled(name: &str, folder: &Path) -> Option<PathBuf> {
    let Some(compiler) = which(&format!("mpicc.{name}")) else {
        assert!(env::var_os("AQUEDUCT_REQUIRE_MPI").is_none(), "{name} is required but not there");
        eprintln!("skipped: {name} is not there");
        return None;
    };
    let program = folder.join("types");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/layout/types.c");
    let done = Command::new(compiler).args(["-O1", source, "-o"]).arg(&program).output().expect("a compiler");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Some(program)
}

/// What MPI says about the types, in lines.
fn asked(program: &Path, questions: String) -> Vec<String> {
    let mut child = Command::new(program)
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut input = child.stdin.take().expect("its input");
    let feeder = std::thread::spawn(move || input.write_all(questions.as_bytes()));
    let done = child.wait_with_output().expect("the program ends");
    feeder.join().expect("no panic").expect("the program reads everything");
    assert!(done.status.success(), "the program failed: {}", done.status);
    String::from_utf8(done.stdout).expect("text").lines().map(str::to_owned).collect()
}

/// Small random types, the same ones always, without those that this MPI is known to pack wrongly.
fn sample(name: &str, unit: i64) -> Vec<Spec> {
    let mut runner = TestRunner::deterministic();
    let strategy = specs(unit);
    let random = std::iter::repeat_with(|| strategy.new_tree(&mut runner).expect("a spec").current());
    let small = |spec: &Spec| {
        TypeMap::of(spec).is_some_and(|map| !map.entries.is_empty() && map.entries.len() < 1000)
    };
    random.filter(|spec| small(spec) && (name != "openmpi" || !goes_back(spec))).take(TYPES).collect()
}

/// Whether there is a vector with a negative stride inside: Open MPI 4.1 packs three bytes of stride -1 as if the stride were 1.
fn goes_back(spec: &Spec) -> bool {
    let back = matches!(spec, Spec::Vector(vector, _) | Spec::Hvector(vector, _) if vector.stride < 0);
    back || spec.children().into_iter().any(goes_back)
}

/// Builds the layout bottom up, correcting bounds to those in `nodes`, which come in the same order.
fn decode(spec: &Spec, nodes: &mut dyn Iterator<Item = (i64, i64)>) -> Result<Decoded> {
    let children =
        spec.children().into_iter().map(|child| decode(child, nodes)).collect::<Result<Vec<_>>>()?;
    let layout = rebuilt(spec, &children)?;
    let counted = |index: usize| match spec {
        Spec::Structure(members) => members[index].0 > 0,
        _ => true,
    };
    let marks: Vec<_> = children
        .iter()
        .enumerate()
        .filter(|(index, _)| counted(*index))
        .map(|(_, child)| child.marked)
        .collect();
    let set = matches!(spec, Spec::Resized(..) | Spec::Subarray(..) | Spec::Darray(..));
    let marked = set || marks.contains(&true);
    let mixture = children.iter().any(|child| child.mixture) || (marked && !set && marks.contains(&false));
    let mut faithful = children.iter().all(|child| child.faithful);
    let (lower, extent) = nodes.next().expect("an answer for every node");
    let agree = (layout.lower_bound(), layout.extent()) == (lower, extent);
    let layout = if agree { layout } else { layout.resized(lower, extent)? };
    faithful &= agree;
    Ok(Decoded { layout, faithful, mixture, marked: marked || !agree })
}

/// The constructor of the specification, applied to layouts that are there already.
fn rebuilt(spec: &Spec, children: &[Decoded]) -> Result<Layout> {
    let old = || &children[0].layout;
    match spec {
        Spec::Basic(basic) => Ok(Layout::from(*basic)),
        Spec::Contiguous(count, _) => old().contiguous(*count),
        Spec::Vector(vector, _) => old().vector(*vector),
        Spec::Hvector(vector, _) => old().hvector(*vector),
        Spec::Indexed(blocks, _) => old().indexed(blocks.iter().copied()),
        Spec::Hindexed(blocks, _) => old().hindexed(blocks.iter().copied()),
        Spec::IndexedBlock(length, at, _) => old().indexed_block(*length, at.iter().copied()),
        Spec::HindexedBlock(length, at, _) => old().hindexed_block(*length, at.iter().copied()),
        Spec::Structure(members) => {
            Layout::structure(members.iter().zip(children).map(|(&(count, displacement, _), child)| Member {
                count,
                displacement,
                layout: child.layout.clone(),
            }))
        }
        Spec::Subarray(shape, part, order, _) => old().subarray(shape, part, *order),
        Spec::Darray(rank, dimensions, order, _) => old().darray(*rank, dimensions, *order),
        Spec::Resized(lower, extent, _) => old().resized(*lower, *extent),
        Spec::Dup(_) => Ok(old().dup()),
    }
}

/// What MPI said about a type.
struct Answer {
    /// Lower bound and extent of each node, parts first.
    nodes: Vec<(i64, i64)>,
    size: u64,
    true_lower: i64,
    true_extent: i64,
    /// The offset of every packed byte.
    bytes: Vec<i64>,
}

/// The next answer; `None` if MPI refused to build the type.
fn answer<'a>(lines: &mut impl Iterator<Item = &'a String>) -> Option<Answer> {
    let mut nodes = Vec::new();
    loop {
        let line = lines.next().expect("an answer for every type");
        let numbers: Vec<i64> = line.split(' ').skip(1).map(|word| word.parse().expect("a number")).collect();
        match (line.split(' ').next(), &*numbers) {
            (Some("node"), &[lower, extent]) => nodes.push((lower, extent)),
            (Some("type"), &[size, true_lower, true_extent, ref offsets @ ..]) => {
                let bytes = offsets.iter().map(|at| at + true_lower).collect();
                return Some(Answer { nodes, size: size as u64, true_lower, true_extent, bytes });
            }
            _ => return None,
        }
    }
}

/// Whether some part describes no bytes, or may do so inside of MPI; the implementations let such parts widen true bounds.
fn has_void(spec: &Spec) -> bool {
    let void = TypeMap::of(spec).is_none_or(|map| map.entries.is_empty());
    void || matches!(spec, Spec::Darray(..)) || spec.children().into_iter().any(has_void)
}

/// Compares with one MPI; returns how many types it built, and for how many of them all bounds agree.
fn compare(name: &str, unit: i64) -> Option<(usize, usize)> {
    let folder = tempfile::tempdir().expect("a folder");
    let program = compiled(name, folder.path())?;
    let sample = sample(name, unit);
    let mut questions = String::new();
    for spec in &sample {
        spec.words(&mut questions);
        questions.push_str("end\n");
    }
    let lines = asked(&program, questions);
    let mut lines = lines.iter();
    let (mut built, mut agreed) = (0, 0);
    for spec in &sample {
        let Some(answer) = answer(&mut lines) else { continue };
        let decoded = decode(spec, &mut answer.nodes.into_iter()).expect("possible");
        let layout = &decoded.layout;
        assert_eq!(layout.size(), answer.size, "{name}: {spec:?}");
        let bytes: Vec<i64> = layout.runs(..).flat_map(|run| run.offset..run.end()).collect();
        assert_eq!(bytes, answer.bytes, "{name}: {spec:?}");
        if !has_void(spec) {
            let bounds = (layout.true_lower_bound(), layout.true_extent());
            assert_eq!(bounds, (answer.true_lower, answer.true_extent), "{name}: {spec:?}");
            let known = unit < 16 || decoded.mixture;
            assert!(decoded.faithful || known, "{name}: bounds of {spec:?}");
        }
        built += 1;
        agreed += usize::from(decoded.faithful);
    }
    Some((built, agreed))
}

/// Displacements of any size, and such that nothing needs rounding.
fn compare_all(name: &str) {
    for unit in [1, 16] {
        if let Some((built, agreed)) = compare(name, unit) {
            println!(
                "{name}, displacements in {unit}: {built} of {TYPES} types, bounds of {agreed} as in the standard"
            );
            assert!(built > TYPES * 9 / 10, "{name} refused too many types");
        }
    }
}

#[test]
fn open_mpi_packs_the_same_bytes() {
    compare_all("openmpi");
}

#[test]
fn mpich_packs_the_same_bytes() {
    compare_all("mpich");
}
