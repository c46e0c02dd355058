//! A traced operation and its form as a line of CSV.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Kind, Operation};

/// A traced operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEvent {
    /// The rank that opened the handle; `None` for deletions.
    pub rank: Option<usize>,
    /// What was done.
    pub operation: Operation,
    /// The name of the file without the prefix of the trace.
    pub name: Arc<str>,
    /// When it began, since the Unix epoch: comparable between processes of a machine.
    pub start: Duration,
    /// How long it took.
    pub duration: Duration,
    /// The offset of the first segment that is not empty, or of the locked range, or none.
    pub offset: Option<u64>,
    /// The bytes asked for, the length set, reserved or locked, or 0.
    pub length: u64,
    /// How many segments the list had.
    pub segments: usize,
    /// The bytes transferred (for [`Operation::Len`]: the length found; else 0), or the kind of the error.
    pub outcome: Result<u64, Kind>,
    /// The comment of an [`Operation::Annotate`]; `mapped` for a read or write through mapped pages.
    pub annotation: Option<Arc<str>>,
}

impl TraceEvent {
    /// The names of the columns that [`Display`](fmt::Display) writes.
    pub const HEADER: &str =
        "rank,operation,name,start_s,duration_us,offset,length,segments,outcome,count,remark";
}

impl fmt::Display for TraceEvent {
    /// A line of CSV without its end. Without a rank or an offset the field is empty; the outcome is `ok` or the kind of the error.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(rank) = self.rank {
            write!(f, "{rank}")?;
        }
        write!(
            f,
            ",{:?},{},{}.{:06}",
            self.operation,
            quoted(&self.name),
            self.start.as_secs(),
            self.start.subsec_micros()
        )?;
        write!(f, ",{}.{:03},", self.duration.as_micros(), self.duration.subsec_nanos() % 1000)?;
        if let Some(offset) = self.offset {
            write!(f, "{offset}")?;
        }
        write!(f, ",{},{},", self.length, self.segments)?;
        match self.outcome {
            Ok(count) => write!(f, "ok,{count},"),
            Err(kind) => write!(f, "{kind:?},0,"),
        }?;
        let remark = self.annotation.as_deref().map(quoted);
        remark.map_or(Ok(()), |remark| write!(f, "{remark}"))
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_columns_of_the_header() {
        let mut event = TraceEvent {
            rank: Some(3),
            operation: Operation::Write,
            name: "a \"b\".bin".into(),
            start: Duration::new(1_700_000_000, 1_234_567),
            duration: Duration::from_nanos(12_045),
            offset: Some(4096),
            length: 100,
            segments: 2,
            outcome: Ok(50),
            annotation: None,
        };
        assert_eq!(
            event.to_string(),
            "3,Write,\"a \"\"b\"\".bin\",1700000000.001234,12.045,4096,100,2,ok,50,"
        );
        assert_eq!(event.to_string().split(',').count(), TraceEvent::HEADER.split(',').count());
        event = TraceEvent { rank: None, offset: None, outcome: Err(Kind::NoSpace), ..event };
        assert!(
            event.to_string().starts_with(",Write,") && event.to_string().ends_with(",,100,2,NoSpace,0,")
        );
        event = TraceEvent { annotation: Some("so".into()), ..event };
        assert!(event.to_string().ends_with(",NoSpace,0,\"so\""));
    }
}
