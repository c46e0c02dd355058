//! Ranks that talk.
