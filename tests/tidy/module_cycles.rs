//! Dependencies between the modules of a crate go one way: no cycles among the modules at its root.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{is_word, library_sources};

/// Crates with cycles, and how many modules the largest one has.
const LARGEST_CYCLES: &[(&str, usize)] = &[];

/// The modules of a crate, each with those that it names as `crate::other`.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The graphs of all crates below the root of the workspace.
fn graphs() -> BTreeMap<String, Graph> {
    let mut graphs: BTreeMap<String, Graph> = BTreeMap::new();
    for source in library_sources() {
        let Some((folder, path)) = source.path.split_once("/src/") else { continue };
        let module = path.split('/').next().unwrap_or(path).trim_end_matches(".rs").to_owned();
        let edges = graphs.entry(folder.to_owned()).or_default().entry(module.clone()).or_default();
        if module != "lib" && module != "main" {
            edges.extend(named(&source.text).filter(|other| *other != module).map(str::to_owned));
        }
    }
    graphs
}

/// What follows `crate::` outside of comments.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let code = text.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    code.flat_map(|line| line.match_indices("crate::").map(move |(at, mark)| (line, at, at + mark.len())))
        .filter(|(line, at, _)| !line[..*at].ends_with(is_word))
        .map(|(line, _, end)| line[end..].split(|letter| !is_word(letter)).next().unwrap_or_default())
}

/// All modules that can be reached from one.
fn reachable<'a>(graph: &'a Graph, start: &'a str) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open = vec![start];
    while let Some(module) = open.pop() {
        let next = graph.get(module).into_iter().flatten().filter(|next| graph.contains_key(*next));
        open.extend(next.map(String::as_str).filter(|next| found.insert(*next)));
    }
    found
}

/// The largest set of modules that all reach one another; empty where there is no cycle.
fn largest_cycle(graph: &Graph) -> BTreeSet<&str> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|module| (module.as_str(), reachable(graph, module))).collect();
    let cycle = |module: &str| -> BTreeSet<&str> {
        reach[module].iter().copied().filter(|other| reach[other].contains(module)).collect()
    };
    graph.keys().map(|module| cycle(module)).max_by_key(BTreeSet::len).unwrap_or_default()
}

#[test]
fn modules_have_no_cycles() {
    let graphs = graphs();
    let cycles: Vec<(&str, BTreeSet<&str>)> = graphs
        .iter()
        .map(|(folder, graph)| (folder.as_str(), largest_cycle(graph)))
        .filter(|(_, cycle)| !cycle.is_empty())
        .collect();
    let sizes: Vec<(&str, usize)> = cycles.iter().map(|(folder, cycle)| (*folder, cycle.len())).collect();
    assert_eq!(
        sizes, LARGEST_CYCLES,
        "largest cycles of modules; remove a new one, or lower LARGEST_CYCLES: {cycles:?}"
    );
}

#[test]
fn the_largest_cycle_is_found() {
    let edges = [("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("d", "b"), ("e", "a"), ("e", "std")];
    let mut graph = Graph::new();
    for (from, to) in edges {
        graph.entry(from.to_owned()).or_default().insert(to.to_owned());
    }
    assert_eq!(largest_cycle(&graph), BTreeSet::from(["b", "c", "d"]));
    graph.remove("b");
    assert!(largest_cycle(&graph).is_empty());
    let text = "use crate::one::Two; // crate::no\nmycrate::no(crate::three());\n";
    assert_eq!(named(text).collect::<Vec<_>>(), ["one", "three"]);
}
