//! How a file is to be opened.

/// Options for [`Device::open`](crate::Device::open).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) create: bool,
    pub(crate) exclusive: bool,
    pub(crate) truncate: bool,
    pub(crate) direct: bool,
    pub(crate) permissions: u32,
    pub(crate) rank: usize,
}
