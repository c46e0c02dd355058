//! Servers and clients in one process, over real sockets: conformance, failures, security, locks.

#[path = "remote/admission.rs"]
mod admission;
#[path = "remote/conformance.rs"]
mod conformance;
#[path = "remote/failures.rs"]
mod failures;
#[path = "remote/fault_relay.rs"]
mod fault_relay;
#[path = "remote/fencing.rs"]
mod fencing;
#[path = "remote/limits.rs"]
mod limits;
#[path = "remote/locks.rs"]
mod locks;
#[path = "remote/security.rs"]
mod security;
#[path = "remote/test_servers.rs"]
mod test_servers;
