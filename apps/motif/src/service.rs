//! The service of `motif serve` and `motif proxy`: searches are queued, executed one after the other, and their results kept.
//!
//! Both have the same methods. The server executes a search on its ranks, the proxy passes it on to a server.

pub mod api;
pub mod forward;
pub mod local;
pub mod request_checks;
pub mod search_request;
pub mod search_store;
