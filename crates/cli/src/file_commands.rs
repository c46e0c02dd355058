//! The commands on files: `inspect`, `dump`, `verify`, `compare`, `convert`, `copy`, `watch`, `refs`.

pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod copy;
pub(crate) mod dump;
mod encoders;
pub(crate) mod inspect;
mod json;
pub(crate) mod refs;

mod statistics;
pub(crate) mod verify;
pub(crate) mod watch;
