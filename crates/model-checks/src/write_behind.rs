//! The included files of writing in the background.

#[path = "../../file/src/write_behind/activity.rs"]
pub(crate) mod activity;
#[path = "../../file/src/write_behind/background_queue.rs"]
pub(crate) mod background_queue;
#[path = "../../file/src/write_behind/waiting.rs"]
pub(crate) mod waiting;
