//! The judges.

pub mod crash;
pub mod device;
pub mod oracle;
