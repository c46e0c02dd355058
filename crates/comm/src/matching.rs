//! Messages and their matching, the same on every transport.

pub(crate) mod mailbox;
pub(crate) mod packet;
