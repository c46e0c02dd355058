//! The client: the device `tunnel`, whose files are in the memory of servers.

mod connection;
mod device;
mod handle;
mod known_end;
mod link;
mod link_pace;
mod name;
mod placement;
mod read_memory;
mod server_set;
mod transfer;

pub use device::Tunnel;
pub use server_set::{ServerConnection, ServerSet};
