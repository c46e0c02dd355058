//! Requests for searches: what a client asks for, as it is kept, passed on and executed.

use std::fmt::Write as _;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};

use crate::hit::Regions;
use crate::query::{Query, QueryGrammar, ResidueKind};
use crate::search::{DEFAULT_LONGEST, SearchSettings};

/// The hits of a search that does not say how many it wants.
const DEFAULT_MOST: u64 = 10_000;
/// The most databases that a request names.
const MOST_DATABASES: usize = 1000;
/// Members of a request. Others are refused, so that nothing is ignored silently.
const MEMBERS: [&str; 11] = [
    "query",
    "kind",
    "plain",
    "strands",
    "every",
    "most",
    "longest",
    "databases",
    "within",
    "around",
    "regions",
];

/// A request for a search.
#[derive(Clone, Debug)]
pub struct SearchRequest {
    /// The query, which is valid for the kind of residues.
    pub query: String,
    /// The kind of residues.
    pub kind: ResidueKind,
    /// Whether letters stand for themselves.
    pub plain: bool,
    /// Whether both strands are searched.
    pub both_strands: bool,
    /// Whether all hits of a start are wanted.
    pub every: bool,
    /// The most hits.
    pub most: u64,
    /// The longest hit.
    pub longest: Option<usize>,
    /// Names of databases; none means all.
    pub databases: Vec<String>,
    /// Only in these parts of sequences. They are shared, and dropped when the search has ended.
    pub regions: Option<Arc<Regions>>,
}

/// The search within whose hits is searched, and by how many residues these are widened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlierSearch {
    /// Its number.
    pub id: u64,
    /// Residues on both sides.
    pub around: u64,
}

impl SearchRequest {
    /// From a structure. `kind_of` finds the kind of residues of databases, if the structure has none.
    pub fn from_value(
        value: &Value,
        kind_of: impl FnOnce(&[String]) -> Result<ResidueKind>,
    ) -> Result<(Self, Option<EarlierSearch>)> {
        let members = value.as_object().context("expected a structure")?;
        let unknown = members.keys().find(|name| !MEMBERS.contains(&name.as_str()));
        if let Some(name) = unknown {
            return Err(anyhow!("unknown member `{name}`; there are {}", MEMBERS.join(", ")));
        }
        let databases = databases(&value["databases"])?;
        let kind = match text(value, "kind")?.unwrap_or("auto") {
            "auto" => kind_of(&databases)?,
            name => ResidueKind::from_name(name)
                .context("an unknown `kind`; there are auto, dna, rna, protein")?,
        };
        let both_strands = match text(value, "strands")?.unwrap_or("forward") {
            "both" => true,
            "forward" => false,
            _ => return Err(anyhow!("unknown `strands`; there are forward, both")),
        };
        let around = number(value, "around")?.unwrap_or(0);
        let earlier = number(value, "within")?.map(|id| EarlierSearch { id, around });
        let longest = number(value, "longest")?.map(|longest| longest as usize);
        let allowed = longest.is_none_or(|longest| (1..=DEFAULT_LONGEST).contains(&longest));
        ensure!(allowed, "`longest` is between 1 and {DEFAULT_LONGEST}");
        let request = Self {
            query: text(value, "query")?.context("`query` is missing")?.to_owned(),
            kind,
            plain: flag(value, "plain")?,
            both_strands,
            every: flag(value, "every")?,
            most: number(value, "most")?.unwrap_or(DEFAULT_MOST),
            longest,
            databases,
            regions: regions(&value["regions"], around)?.map(Arc::new),
        };
        request.parse_query()?;
        Ok((request, earlier))
    }

    /// As a structure, from which [`from_value`](Self::from_value) makes the same request.
    pub fn to_value(&self) -> Value {
        let mut value = json!({
            "query": self.query, "kind": self.kind.name(), "plain": self.plain, "every": self.every,
            "strands": if self.both_strands { "both" } else { "forward" }, "most": self.most,
            "databases": self.databases,
        });
        if let Some(longest) = self.longest {
            value["longest"] = json!(longest);
        }
        if let Some(regions) = &self.regions {
            let entry = |(file, sequence, spans): (&str, u64, &[std::ops::Range<u64>])| {
                let mut text = String::new();
                for span in spans {
                    let comma = if text.is_empty() { "" } else { "," };
                    let _ = write!(text, "{comma}{}-{}", span.start + 1, span.end);
                }
                json!([file, sequence, text])
            };
            value["regions"] = regions.iter().map(entry).collect();
        }
        value
    }

    /// The parsed query.
    pub fn parse_query(&self) -> Result<Query> {
        let query = QueryGrammar::new(self.kind).plain(self.plain).parse(&self.query);
        query.map_err(|error| anyhow!("the query is invalid at {error}"))
    }

    /// The settings of the search. The longest hit is limited, so that memory is.
    pub fn settings(&self) -> Result<SearchSettings> {
        let mut settings = SearchSettings::new(self.parse_query()?);
        settings.both_strands = self.both_strands;
        settings.every = self.every;
        settings.most = self.most;
        settings.longest = Some(self.longest.unwrap_or(DEFAULT_LONGEST));
        settings.within.clone_from(&self.regions);
        Ok(settings)
    }

    /// The memory that it takes, about, in bytes.
    pub fn memory(&self) -> u64 {
        let names: usize = self.databases.iter().map(|name| name.len() + 24).sum();
        let regions = self.regions.as_ref().map_or(0, |regions| regions.memory());
        regions + (256 + self.query.len() + names) as u64
    }
}

fn text<'a>(value: &'a Value, name: &str) -> Result<Option<&'a str>> {
    match &value[name] {
        Value::Null => Ok(None),
        found => found.as_str().map(Some).with_context(|| format!("`{name}` is not a text")),
    }
}

fn number(value: &Value, name: &str) -> Result<Option<u64>> {
    match &value[name] {
        Value::Null => Ok(None),
        found => found.as_u64().map(Some).with_context(|| format!("`{name}` is not a number of at least 0")),
    }
}

fn flag(value: &Value, name: &str) -> Result<bool> {
    match &value[name] {
        Value::Null => Ok(false),
        found => found.as_bool().with_context(|| format!("`{name}` is neither true nor false")),
    }
}

fn databases(value: &Value) -> Result<Vec<String>> {
    if value.is_null() {
        return Ok(Vec::new());
    }
    let names = value.as_array().context("`databases` is not an array of names")?;
    ensure!(names.len() <= MOST_DATABASES, "`databases` has at most {MOST_DATABASES} names");
    let name = |name: &Value| name.as_str().map(str::to_owned);
    names.iter().map(name).collect::<Option<_>>().context("`databases` is not an array of names")
}

/// Regions: an array of `[database, number of the sequence, "first-last,first-last,…"]`.
fn regions(value: &Value, around: u64) -> Result<Option<Regions>> {
    if value.is_null() {
        return Ok(None);
    }
    let mut spans = Vec::new();
    for entry in value.as_array().context("`regions` is not an array")? {
        let parts = entry[0].as_str().zip(entry[1].as_u64()).zip(entry[2].as_str());
        let ((file, sequence), list) = parts.context("a region is not [database, sequence, list]")?;
        for span in list.split(',').filter(|span| !span.is_empty()) {
            let bounds = span
                .split_once('-')
                .and_then(|(first, last)| Some((first.parse::<u64>().ok()?, last.parse::<u64>().ok()?)));
            let (first, last) = bounds.with_context(|| format!("`{span}` is not a region first-last"))?;
            spans.push((file.to_owned(), sequence, first, last));
        }
    }
    Ok(Some(Regions::of_spans(spans, around)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(value: &Value) -> Result<(SearchRequest, Option<EarlierSearch>)> {
        SearchRequest::from_value(value, |_| Ok(ResidueKind::Protein))
    }

    #[test]
    fn a_request_survives_a_round_trip() {
        let value = json!({
            "query": "ACN", "kind": "dna", "plain": true, "strands": "both", "every": true, "most": 7, "longest": 9,
            "databases": ["a.fa"], "regions": [["a.fa", 2, "11-20,31-40"]], "around": 2,
        });
        let (request, earlier) = parsed(&value).unwrap();
        assert_eq!(earlier, None);
        assert_eq!(request.regions.as_ref().unwrap().of_sequence("a.fa", 2), [8..22, 28..42]);
        let (again, _) = parsed(&request.to_value()).unwrap();
        assert_eq!(format!("{request:?}"), format!("{again:?}"));
        let settings = again.settings().unwrap();
        assert!(settings.both_strands && settings.every && settings.most == 7 && settings.longest == Some(9));
        let (request, earlier) = parsed(&json!({"query": "M", "within": 3, "around": 5})).unwrap();
        assert_eq!((request.kind, earlier), (ResidueKind::Protein, Some(EarlierSearch { id: 3, around: 5 })));
    }

    #[test]
    fn nothing_is_ignored() {
        for (value, message) in [
            (json!({"query": "ACN", "sort": 1}), "unknown member `sort`"),
            (json!({"query": "ACN", "most": -1}), "`most`"),
            (json!({"query": "ACN", "longest": 20_000}), "`longest`"),
            (json!({"query": "ACN", "strands": "reverse"}), "`strands`"),
            (json!({"query": "ACN", "kind": "lipid"}), "`kind`"),
            (json!({"query": "ACN", "every": "yes"}), "`every`"),
            (json!({"query": "ACN", "regions": [["a", 1, "5"]]}), "first-last"),
            (json!({"kind": "dna"}), "`query` is missing"),
            (json!({"query": "AC(", "kind": "dna"}), "column 3"),
        ] {
            let error = parsed(&value).unwrap_err().to_string();
            assert!(error.contains(message), "{value}: {error}");
        }
    }
}
