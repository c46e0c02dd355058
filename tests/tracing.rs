//! With the feature `tracing` the strategy of an access and the summary of a file are events.
#![cfg(feature = "tracing")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use aqueduct::prelude::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The target, the level and the fields of an event.
type Recorded = (String, String, BTreeMap<&'static str, String>);

/// A subscriber that keeps all events.
#[derive(Clone, Default)]
struct EventRecorder(Arc<Mutex<Vec<Recorded>>>);

struct FieldVisitor(BTreeMap<&'static str, String>);

impl Visit for FieldVisitor {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Subscriber for EventRecorder {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = FieldVisitor(BTreeMap::new());
        event.record(&mut fields);
        let metadata = event.metadata();
        let recorded = (metadata.target().to_owned(), metadata.level().to_string(), fields.0);
        self.0.lock().unwrap().push(recorded);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn an_access_emits_its_strategy_and_close_emits_the_counters() {
    let recorder = EventRecorder::default();
    tracing::subscriber::set_global_default(recorder.clone()).unwrap();
    let write = |world: &Comm| {
        let file = File::create(world, "memfs:traced")?;
        file.set_view(&View::round_robin::<u64>(world)?)?;
        file.at(0).all().write(&vec![world.rank() as u64; 10_000])?;
        file.close()
    };
    Launch::threads(3).run(write).unwrap();
    let events = recorder.0.lock().unwrap();
    let of_file = |(target, level, fields): &&Recorded| {
        target == "aqueduct_file"
            && level == "INFO"
            && fields.get("file").is_some_and(|file| file.contains("memfs:traced"))
    };
    let of_file: Vec<&Recorded> = events.iter().filter(of_file).collect();
    let strategies: Vec<_> =
        of_file.iter().filter(|(_, _, fields)| fields.contains_key("strategy")).collect();
    // One event of rank 0: the strategy of collective writes did not change.
    assert_eq!(strategies.len(), 1, "{events:?}");
    let (_, _, fields) = strategies[0];
    assert!(fields["message"].starts_with("write_all of 80000 bytes"), "{fields:?}");
    assert!(fields["message"].contains(fields["strategy"].trim_matches('"')), "{fields:?}");
    assert!(fields["estimate_ns"].parse::<u64>().is_ok_and(|estimate| estimate > 0), "{fields:?}");
    let summary = |(_, _, fields): &&Recorded| fields["message"].contains("3 ranks wrote 240000 bytes");
    assert_eq!(of_file.iter().copied().filter(summary).count(), 1, "{events:?}");
}
