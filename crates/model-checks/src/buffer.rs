//! The included files of the write buffer.

#[path = "../../file/src/buffer/batch.rs"]
pub(crate) mod batch;
#[path = "../../file/src/buffer/notice.rs"]
pub(crate) mod notice;
#[path = "../../file/src/buffer/reach.rs"]
pub(crate) mod reach;
#[path = "../../file/src/buffer/slots.rs"]
pub(crate) mod slots;
