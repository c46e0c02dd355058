//! The methods of a service, by XML-RPC at `/RPC2` and by JSON at `/api/METHOD`; the web page.

use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::request_checks;
use super::search_request::SearchRequest;
use super::search_store::{SearchState, SearchStore};
use crate::hit::{Hit, Regions};
use crate::input::database::DatabaseFile;
use crate::matcher::estimate::HitEstimate;
use crate::output::{self, HitFormat};
use crate::protocol::http_server::{HttpRequest, HttpResponse, HttpService};
use crate::protocol::users::UserTable;
use crate::protocol::xml_rpc;
use crate::query::{Query, ResidueKind};
use crate::search::DEFAULT_LONGEST;

/// The most hits of one answer, and the most memory that they may take.
const MOST_HITS_PER_CALL: u64 = 10_000;
const MOST_BYTES_PER_CALL: u64 = 8 << 20;

/// A service.
#[derive(Debug)]
pub struct SearchService {
    /// Its searches.
    pub store: Arc<SearchStore>,
    /// Its users.
    pub users: UserTable,
    /// The databases.
    pub databases: Box<dyn DatabaseList>,
    /// The page at `/`, if there is one.
    pub page: Option<&'static str>,
}

/// What is known of the databases of a service.
pub trait DatabaseList: Send + Sync + std::fmt::Debug {
    /// An array of structures with name, bytes, sequences, residues and kind.
    fn list(&self) -> Result<Value>;

    /// The lengths of sequences of a database, by their numbers from 0; -1 if it is not known.
    fn lengths(&self, database: &str, sequences: &[u64]) -> Result<Value>;
}

impl HttpService for SearchService {
    fn refuse(&self, head: &HttpRequest) -> Option<HttpResponse> {
        let known = match (head.method.as_str(), head.path.as_str()) {
            ("GET", "/") => self.page.is_some(),
            ("GET", "/api/download") | ("POST", "/RPC2") => true,
            ("POST", path) => path.starts_with("/api/"),
            _ => false,
        };
        if !known {
            return Some(HttpResponse::new(404, "text/plain", "not found\n"));
        }
        if self.users.authenticate(head.authorization.as_deref()).is_none() {
            let mut refused = HttpResponse::new(401, "text/plain", "a user and a password are needed\n");
            refused.headers.push(("WWW-Authenticate", "Basic realm=\"motif\"".to_owned()));
            return Some(refused);
        }
        request_checks::refuse(head, self.users.is_open())
    }

    fn answer(&self, request: &HttpRequest) -> HttpResponse {
        if let Some(refused) = self.refuse(request) {
            return refused;
        }
        let user = self.users.authenticate(request.authorization.as_deref()).unwrap_or_default();
        match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/RPC2") => {
                let text = String::from_utf8_lossy(&request.body);
                let outcome = xml_rpc::parse_call(&text).and_then(|(method, parameters)| {
                    let name = method.strip_prefix("motif.").unwrap_or(&method).to_owned();
                    self.call(&user, &name, &parameters)
                });
                HttpResponse::new(200, "text/xml; charset=utf-8", xml_rpc::write_response(&outcome))
            }
            ("POST", path) => {
                let parameters =
                    serde_json::from_slice::<Vec<Value>>(&request.body).context("the body is no JSON array");
                let outcome = parameters.and_then(|parameters| self.call(&user, &path[5..], &parameters));
                match outcome {
                    Ok(value) => HttpResponse::new(200, "application/json", value.to_string()),
                    Err(error) => refused(&error),
                }
            }
            (_, "/api/download") => {
                self.download(&user, &request.query).unwrap_or_else(|error| refused(&error))
            }
            _ => {
                let mut page = HttpResponse::new(200, "text/html; charset=utf-8", self.page.unwrap_or(""));
                let policy = "default-src 'self' 'unsafe-inline'; frame-ancestors 'none'";
                page.headers.push(("Content-Security-Policy", policy.to_owned()));
                page
            }
        }
    }
}

impl SearchService {
    fn call(&self, user: &str, method: &str, parameters: &[Value]) -> Result<Value> {
        let number =
            |at: usize| parameters.get(at).and_then(Value::as_u64).context("expected a number of at least 0");
        let text = |at: usize| parameters.get(at).and_then(Value::as_str).unwrap_or("");
        match method {
            "databases" => self.databases.list(),
            "lengths" => {
                let numbers = parameters.get(1).and_then(Value::as_array).context("expected an array")?;
                let numbers: Vec<u64> = numbers.iter().filter_map(Value::as_u64).collect();
                self.databases.lengths(text(0), &numbers)
            }
            "check" => Ok(check(text(0), text(1))),
            "search" => {
                self.search(user, parameters.first().context("expected a structure")?).map(Value::from)
            }
            "status" => self.store.get(user, number(0)?).map(|search| search.status()),
            "list" => Ok(Value::Array(self.store.list(user))),
            "hits" => {
                let (from, count) = (number(1)? as usize, number(2)?.min(MOST_HITS_PER_CALL) as usize);
                let hits = self.store.get(user, number(0)?)?.hits;
                Ok(some_hits(&hits, from, count))
            }
            "cancel" => self.store.cancel(user, number(0)?).map(|()| Value::from(true)),
            "forget" => self.store.forget(user, number(0)?).map(|()| Value::from(true)),
            _ => bail!(
                "there is no method {method}; there are databases, lengths, check, search, status, list, hits, cancel, \
                 forget"
            ),
        }
    }

    /// Checks and queues a search.
    fn search(&self, user: &str, value: &Value) -> Result<u64> {
        let (mut request, earlier) = SearchRequest::from_value(value, |names| {
            kind_of(&self.databases.list().context("looking for the kind of residues; give `kind`")?, names)
        })?;
        if let Some(earlier) = earlier {
            let found = self.store.get(user, earlier.id)?;
            ensure!(found.state == SearchState::Finished, "the search of `within` has not finished");
            request.regions = Some(Arc::new(Regions::of_hits(&found.hits, earlier.around)));
        }
        self.store.add(user, request)
    }

    fn download(&self, user: &str, query: &str) -> Result<HttpResponse> {
        let parameter = |name: &str| {
            query
                .split('&')
                .filter_map(|pair| pair.split_once('='))
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value)
        };
        let id = parameter("id").and_then(|id| id.parse().ok()).context("`id` is missing")?;
        let name = parameter("format").unwrap_or("tsv");
        let format = HitFormat::from_name(name).context("an unknown `format`")?;
        let search = self.store.get(user, id)?;
        let mut body = Vec::new();
        output::write_hits(&mut body, format, &search.hits, &search.request.parse_query()?)?;
        let mut response = HttpResponse::new(200, "text/plain; charset=utf-8", body);
        let disposition = format!("attachment; filename=\"motif-{id}.{name}\"");
        response.headers.push(("Content-Disposition", disposition));
        Ok(response)
    }
}

/// The kind of residues that databases of a list have; without names, all of them.
pub fn kind_of(list: &Value, names: &[String]) -> Result<ResidueKind> {
    let all: Vec<(&str, Option<ResidueKind>)> = list
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            Some((entry["name"].as_str()?, entry["kind"].as_str().and_then(ResidueKind::from_name)))
        })
        .collect();
    let unknown = names.iter().find(|name| !all.iter().any(|(known, _)| known == name));
    ensure!(unknown.is_none(), "there is no database {}", unknown.map_or("", String::as_str));
    let wanted = |(name, _): &(&str, _)| names.is_empty() || names.iter().any(|known| known == name);
    DatabaseFile::common_kind(all.into_iter().filter(wanted))
}

/// Up to `count` hits; fewer if they are long, but at least one if there is one.
fn some_hits(hits: &[Hit], from: usize, count: usize) -> Value {
    let mut bytes = 0;
    let some = hits.iter().skip(from).take(count).take_while(|hit| {
        let is_first = bytes == 0;
        bytes += hit.memory();
        is_first || bytes <= MOST_BYTES_PER_CALL
    });
    some.map(hit_value).collect()
}

fn refused(error: &anyhow::Error) -> HttpResponse {
    HttpResponse::new(400, "application/json", json!({"error": format!("{error:#}")}).to_string())
}

/// Whether a query is valid, and where it is not.
fn check(query: &str, kind: &str) -> Value {
    let kind = ResidueKind::from_name(kind).unwrap_or(ResidueKind::Dna);
    match Query::parse(query, kind) {
        Ok(query) => {
            let longest = query.most_length().unwrap_or(DEFAULT_LONGEST).min(DEFAULT_LONGEST);
            // Of many errors a user is warned.
            let is_approximate = query.terms.iter().any(|term| term.errors.limit() > 0);
            let per_start = if is_approximate { HitEstimate::new(&query, longest).per_start } else { 0.0 };
            json!({
                "valid": true, "terms": query.terms.len(), "least": query.least_length(),
                "most": query.most_length().map_or(-1, |most| most as i64), "message": "",
                "hits_per_residue": per_start,
            })
        }
        Err(error) => json!({
            "valid": false, "column": error.column, "width": error.width, "message": error.message,
        }),
    }
}

/// A hit as a structure.
pub fn hit_value(hit: &Hit) -> Value {
    json!({
        "file_number": hit.file_number, "file": hit.file, "sequence": hit.sequence, "name": hit.name,
        "start": hit.start, "end": hit.end, "strand": hit.strand().to_string(), "residues": hit.residues,
        "term_lengths": hit.term_lengths,
    })
}

/// A hit from a structure.
pub fn hit_from_value(value: &Value) -> Option<Hit> {
    Some(Hit {
        file_number: value["file_number"].as_u64()?,
        sequence: value["sequence"].as_u64()?,
        start: value["start"].as_u64()?,
        end: value["end"].as_u64()?,
        reverse: u8::from(value["strand"].as_str()? == "-"),
        term_lengths: value["term_lengths"].as_array()?.iter().filter_map(Value::as_u64).collect(),
        file: value["file"].as_str()?.to_owned(),
        name: value["name"].as_str()?.to_owned(),
        residues: value["residues"].as_str()?.to_owned(),
    })
}
