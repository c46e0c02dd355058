//! The web page of the proxy: one file without external resources.

/// The page.
pub const PAGE: &str = include_str!("web_page/index.html");
