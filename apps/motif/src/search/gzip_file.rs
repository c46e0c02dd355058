//! The search of a gzip file, which one rank reads from its start to its end.

use std::io::{BufReader, Read};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use aqueduct::comm::Comm;
use flate2::read::MultiGzDecoder;

use super::SearchProgress;
use super::range_search::RangeSearch;
use super::rounds::{PartProgress, SearchRounds};
use crate::input::contents::FileStream;
use crate::input::database::DatabaseFile;
use crate::matcher::work_meter::InterruptCondition;

/// Searches a gzip file.
pub(super) fn search_gzip(
    world: &Comm,
    file: &DatabaseFile,
    search: &mut RangeSearch,
    rounds: &mut SearchRounds<'_>,
) -> Result<()> {
    let buffered = BufReader::with_capacity(1 << 18, FileStream::open(world, &file.name)?);
    let mut decoder = MultiGzDecoder::new(buffered);
    let mut piece = vec![0; rounds.settings.buffer.clamp(1 << 10, 1 << 20)];
    loop {
        if rounds.cancellation.is_met() {
            rounds.was_stopped = true;
            break;
        }
        let since = Instant::now();
        let count = decoder.read(&mut piece).with_context(|| format!("{}: inflating", file.name))?;
        rounds.io += since.elapsed();
        let since = Instant::now();
        if count == 0 {
            search.finish();
            rounds.compute += since.elapsed();
            break;
        }
        search.feed(&piece[..count]);
        rounds.compute += since.elapsed();
        let mut all = rounds.complete.plus(PartProgress::of(search));
        if all.hits > rounds.settings.most || all.hit_bytes > rounds.settings.most_bytes {
            rounds.was_stopped = true;
            break;
        }
        all.done = rounds.complete.done + decoder.get_ref().get_ref().bytes;
        rounds.show(SearchProgress { done: all.done, total: rounds.total, hits: all.hits });
    }
    let stream = decoder.into_inner().into_inner();
    if stream.bytes == 0 && file.length > 0 && !rounds.was_stopped {
        bail!("{}: nothing could be read", file.name);
    }
    rounds.bytes_read += stream.bytes;
    let done = rounds.complete.done + stream.bytes;
    rounds.complete = PartProgress { done, ..rounds.complete.plus(PartProgress::of(search)) };
    stream.close()
}
