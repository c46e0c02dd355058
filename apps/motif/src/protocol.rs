//! HTTP and [XML-RPC](http://xmlrpc.com/spec.md).

pub mod client;
pub mod http_server;
pub mod users;
pub mod xml_rpc;
