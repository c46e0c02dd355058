//! Parallel search for motifs in sequence databases. The command is `motif`.
//!
//! ```
//! use aqueduct::comm::Launch;
//! use aqueduct_motif::input::database::DatabaseFile;
//! use aqueduct_motif::query::{Query, ResidueKind};
//! use aqueduct_motif::search::{SearchSettings, search};
//!
//! let folder = std::env::temp_dir().join("motif-example.fa");
//! std::fs::write(&folder, ">one\nAACCATATA\nTGGAA\n")?;
//! let names = [folder.display().to_string()];
//! let settings = SearchSettings::new(Query::parse("CC(A|T){6}GG", ResidueKind::Dna)?);
//! let hits = Launch::threads(3).run(|world| -> anyhow::Result<_> {
//!     let files = DatabaseFile::inspect(world, &names)?;
//!     Ok(search(world, &files, &settings, None)?.hits)
//! })?;
//! assert_eq!((hits[0][0].start, hits[0][0].end), (3, 12)); // rank 0 has the hits
//! # std::fs::remove_file(&folder)?;
//! # anyhow::Ok(())
//! ```
//!
//! # Modules
//! Edges between the modules go one way: [`service`] → [`search`] → [`matcher`], [`hit`], [`input`] → [`query`].

pub mod generate;
pub mod hit;
pub mod input;
pub mod matcher;
pub mod naive;
pub mod output;
pub mod protocol;
pub mod query;
pub mod search;
pub mod service;
pub mod web_page;
