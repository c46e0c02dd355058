//! The methods of a service, by XML-RPC at `/RPC2` and by JSON at `/api/METHOD`; the web page.

use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::search_store::{SearchState, SearchStore};
use crate::hit::Hit;
use crate::output::{self, HitFormat};
use crate::protocol::http_server::{HttpRequest, HttpResponse};
use crate::protocol::users::UserTable;
use crate::protocol::xml_rpc;
use crate::query::{Query, ResidueKind};

/// The most hits of one answer.
const MOST_HITS_PER_CALL: u64 = 10_000;

/// A service.
#[derive(Debug)]
pub struct SearchService {
    /// Its searches.
    pub store: Arc<SearchStore>,
    /// Its users.
    pub users: UserTable,
    /// The databases: an array of structures.
    pub databases: Box<dyn DatabaseList>,
    /// The page at `/`, if there is one.
    pub page: Option<&'static str>,
}

/// Where the list of databases comes from.
pub trait DatabaseList: Send + Sync + std::fmt::Debug {
    /// An array of structures with name, residues and kind.
    fn list(&self) -> Result<Value>;
}

impl SearchService {
    /// Answers an HTTP request.
    pub fn answer(&self, request: &HttpRequest) -> HttpResponse {
        let Some(user) = self.users.authenticate(request.authorization.as_deref()) else {
            let mut refused = HttpResponse::new(401, "text/plain", "a user and a password are needed\n");
            refused.headers.push(("WWW-Authenticate", "Basic realm=\"motif\"".to_owned()));
            return refused;
        };
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/") if self.page.is_some() => {
                let mut page = HttpResponse::new(200, "text/html; charset=utf-8", self.page.unwrap_or(""));
                let policy = "default-src 'self' 'unsafe-inline'; frame-ancestors 'none'";
                page.headers.push(("Content-Security-Policy", policy.to_owned()));
                page
            }
            ("POST", "/RPC2") => {
                let text = String::from_utf8_lossy(&request.body);
                let outcome = xml_rpc::parse_call(&text).and_then(|(method, parameters)| {
                    let name = method.strip_prefix("motif.").unwrap_or(&method).to_owned();
                    self.call(&user, &name, &parameters)
                });
                HttpResponse::new(200, "text/xml; charset=utf-8", xml_rpc::write_response(&outcome))
            }
            ("GET", "/api/download") => {
                self.download(&user, &request.query).unwrap_or_else(|error| refused(&error))
            }
            ("POST", path) if path.starts_with("/api/") => {
                // A page of another site cannot send JSON without asking first.
                if !request.content_type.starts_with("application/json") {
                    return HttpResponse::new(415, "text/plain", "expected application/json\n");
                }
                let parameters =
                    serde_json::from_slice::<Vec<Value>>(&request.body).context("the body is no JSON array");
                let outcome = parameters.and_then(|parameters| self.call(&user, &path[5..], &parameters));
                match outcome {
                    Ok(value) => HttpResponse::new(200, "application/json", value.to_string()),
                    Err(error) => refused(&error),
                }
            }
            _ => HttpResponse::new(404, "text/plain", "not found\n"),
        }
    }

    fn call(&self, user: &str, method: &str, parameters: &[Value]) -> Result<Value> {
        let number =
            |at: usize| parameters.get(at).and_then(Value::as_u64).context("expected a number of at least 0");
        let text = |at: usize| parameters.get(at).and_then(Value::as_str).unwrap_or("");
        match method {
            "databases" => self.databases.list(),
            "check" => Ok(check(text(0), text(1))),
            "search" => {
                let request = parameters
                    .first()
                    .filter(|request| request.is_object())
                    .context("expected a structure")?;
                self.search(user, request.clone()).map(Value::from)
            }
            "status" => self.store.get(user, number(0)?).and_then(|search| Ok(search.status(number(0)?))),
            "list" => Ok(Value::Array(self.store.list(user))),
            "hits" => {
                let (from, count) = (number(1)? as usize, number(2)?.min(MOST_HITS_PER_CALL) as usize);
                let hits = self.store.get(user, number(0)?)?.hits;
                let some = hits.iter().skip(from).take(count);
                Ok(some.map(hit_value).collect())
            }
            "cancel" => self.store.cancel(user, number(0)?).map(|()| Value::from(true)),
            "forget" => self.store.forget(user, number(0)?).map(|()| Value::from(true)),
            _ => bail!(
                "there is no method {method}; there are databases, check, search, status, list, hits, cancel, forget"
            ),
        }
    }

    /// Checks and queues a search.
    fn search(&self, user: &str, mut request: Value) -> Result<u64> {
        let query = request["query"].as_str().context("`query` is missing")?;
        let kind =
            ResidueKind::from_name(request["kind"].as_str().unwrap_or("dna")).context("an unknown `kind`")?;
        Query::parse(query, kind).map_err(|error| anyhow::anyhow!("the query is invalid at {error}"))?;
        if let Some(earlier) = request["within"].as_u64() {
            let earlier = self.store.get(user, earlier)?;
            ensure!(earlier.state == SearchState::Finished, "the search of `within` has not finished");
            let spans = earlier.hits.iter().map(|hit| json!([hit.file, hit.sequence, hit.start, hit.end]));
            request["regions"] = spans.collect();
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
        let kind = ResidueKind::from_name(search.request["kind"].as_str().unwrap_or("dna"))
            .unwrap_or(ResidueKind::Dna);
        let parsed = Query::parse(search.request["query"].as_str().unwrap_or(""), kind)?;
        let mut body = Vec::new();
        output::write_hits(&mut body, format, &search.hits, &parsed)?;
        let mut response = HttpResponse::new(200, "text/plain; charset=utf-8", body);
        let disposition = format!("attachment; filename=\"motif-{id}.{name}\"");
        response.headers.push(("Content-Disposition", disposition));
        Ok(response)
    }
}

fn refused(error: &anyhow::Error) -> HttpResponse {
    HttpResponse::new(400, "application/json", json!({"error": format!("{error:#}")}).to_string())
}

/// Whether a query is valid, and where it is not.
fn check(query: &str, kind: &str) -> Value {
    let kind = ResidueKind::from_name(kind).unwrap_or(ResidueKind::Dna);
    match Query::parse(query, kind) {
        Ok(query) => json!({
            "valid": true, "terms": query.terms.len(), "least": query.least_length(),
            "most": query.most_length().map_or(-1, |most| most as i64), "message": "",
        }),
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
