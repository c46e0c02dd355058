//! Checks of requests that a browser may send for the page of another site.
//!
//! A page of another site can send a request without asking the service first only with the content types of forms; therefore calls must be XML
//! or JSON. A site whose name is changed to the address of this machine (DNS rebinding) is known by the header `Host`, a page of another site by `Origin`.

use std::net::IpAddr;

use crate::protocol::http_server::{HttpRequest, HttpResponse};

/// Refuses a request by its head. `is_open`: the service asks for no password, and is for this machine only.
pub fn refuse(head: &HttpRequest, is_open: bool) -> Option<HttpResponse> {
    let forbidden = |why: &str| Some(HttpResponse::new(403, "text/plain", format!("{why}\n")));
    if is_open && !is_this_machine(&head.host) {
        return forbidden("without users, this service is for this machine only: use localhost or 127.0.0.1");
    }
    let same_origin = |origin: &str| origin.split_once("://").is_some_and(|(_, host)| host == head.host);
    if head.origin.as_deref().is_some_and(|origin| !same_origin(origin)) {
        return forbidden("a page of another site sent this request");
    }
    let media_type = head.content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    let expected: &[&str] = match (head.method.as_str(), head.path.as_str()) {
        ("POST", "/RPC2") => &["text/xml", "application/xml"],
        ("POST", _) => &["application/json"],
        _ => return None,
    };
    let wrong = !expected.contains(&media_type.as_str());
    wrong.then(|| {
        HttpResponse::new(415, "text/plain", format!("the Content-Type must be {}\n", expected.join(" or ")))
    })
}

/// Whether a `Host` header names this machine.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or(""),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(host: &str, origin: Option<&str>, content_type: &str, path: &str, is_open: bool) -> u16 {
        let head = HttpRequest {
            method: "POST".to_owned(),
            path: path.to_owned(),
            host: host.to_owned(),
            origin: origin.map(str::to_owned),
            content_type: content_type.to_owned(),
            ..HttpRequest::default()
        };
        refuse(&head, is_open).map_or(200, |refused| refused.status)
    }

    #[test]
    fn requests_for_other_sites_are_refused() {
        let rpc =
            |host: &str, origin: Option<&str>, open: bool| status(host, origin, "text/xml", "/RPC2", open);
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080", "127.5.5.5"] {
            assert_eq!(rpc(host, None, true), 200, "{host}");
        }
        for host in
            ["", "evil.example", "evil.example:8080", "192.168.0.1", "localhost.evil.example", "[::2]:1"]
        {
            assert_eq!(rpc(host, None, true), 403, "{host}");
            assert_eq!(rpc(host, None, false), 200, "{host}");
        }
        assert_eq!(rpc("localhost:1", Some("http://localhost:1"), true), 200);
        for origin in ["http://evil.example", "null", "http://localhost:2", "http://localhost:1.evil.example"]
        {
            assert_eq!(rpc("localhost:1", Some(origin), true), 403, "{origin}");
            assert_eq!(rpc("localhost:1", Some(origin), false), 403, "{origin}");
        }
    }

    #[test]
    fn content_types_of_forms_are_refused() {
        let typed = |content_type: &str, path: &str| status("localhost", None, content_type, path, true);
        assert_eq!(typed("text/xml; charset=utf-8", "/RPC2"), 200);
        assert_eq!(typed("Application/XML", "/RPC2"), 200);
        assert_eq!(typed("application/json", "/api/list"), 200);
        for content_type in
            ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/xmlx"]
        {
            assert_eq!(typed(content_type, "/RPC2"), 415, "{content_type}");
            assert_eq!(typed(content_type, "/api/list"), 415, "{content_type}");
        }
        assert_eq!(typed("application/jsonp", "/api/list"), 415);
    }
}
