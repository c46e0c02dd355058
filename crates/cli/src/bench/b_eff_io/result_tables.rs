//! The tables and plots of `b_eff_io`.

use super::effective_figure::PartitionFigures;
use super::{EffectiveMethod, EffectiveType, PatternMeasurement};
use crate::bench::output::{BenchTable, Plot, PlotPoint, PlotScale, PlotSeries, PlotStyle, TableValue};

/// The sizes of chunks of the tables; M is the last.
fn sizes(largest: u64) -> [(String, u64); 7] {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    [
        ("1 KiB", KIB),
        ("1 KiB + 8", KIB + 8),
        ("32 KiB", 32 * KIB),
        ("32 KiB + 8", 32 * KIB + 8),
        ("1 MiB", MIB),
        ("1 MiB + 8", MIB + 8),
        ("M", largest),
    ]
    .map(|(name, size)| (name.to_owned(), size))
}

/// The measurement of a chunk size, type and method; not those of no scheduled time, nor the one of type 0 with two chunks in a call.
fn find(
    figures: &PartitionFigures,
    chunk: u64,
    kind: EffectiveType,
    method: EffectiveMethod,
) -> Option<&PatternMeasurement> {
    let all = figures.measurements.iter();
    all.filter(|found| (found.pattern.kind, found.method, found.pattern.chunk) == (kind, method, chunk))
        .rfind(|found| found.pattern.units > 0)
}

fn rate(measurement: &PatternMeasurement) -> f64 {
    measurement.bytes as f64 / measurement.seconds / 1e6
}

/// All measurements, one in a line.
pub(super) fn figures(all: &[PartitionFigures]) -> BenchTable {
    let columns = [
        "interface",
        "ranks",
        "method",
        "type",
        "pattern",
        "chunk",
        "memory",
        "repetitions",
        "bytes",
        "seconds",
        "MB/s",
        "errors",
    ];
    let mut table = BenchTable::new("", &columns);
    for figures in all {
        for found in &figures.measurements {
            table.add(vec![
                figures.interface.as_str().into(),
                TableValue::Count(figures.ranks as u64),
                found.method.name().into(),
                found.pattern.kind.name().into(),
                TableValue::Count(found.pattern.number as u64),
                TableValue::Count(found.pattern.chunk),
                TableValue::Count(found.pattern.memory),
                TableValue::Count(found.repetitions),
                TableValue::Count(found.bytes),
                found.seconds.into(),
                rate(found).into(),
                TableValue::Count(found.errors),
            ]);
        }
    }
    table
}

/// A table for each partition and method: seven sizes by five types in MB/s, and the total of each type.
pub(super) fn tables(all: &[PartitionFigures], largest: u64) -> Vec<BenchTable> {
    let mut tables = Vec::new();
    for figures in all {
        for method in EffectiveMethod::ALL {
            let name = format!("{}, {} ranks, {}, MB/s", figures.interface, figures.ranks, method.name());
            let columns: Vec<&str> =
                ["chunk"].into_iter().chain(EffectiveType::ALL.map(EffectiveType::name)).collect();
            let mut table = BenchTable::new(&name, &columns);
            for (size, chunk) in sizes(largest) {
                let rates = EffectiveType::ALL
                    .map(|kind| TableValue::from(find(figures, chunk, kind, method).map(rate)));
                table.add(std::iter::once(TableValue::Text(size)).chain(rates).collect());
            }
            let totals = EffectiveType::ALL
                .map(|kind| TableValue::from(figures.bandwidth(kind, method).map(|rate| rate / 1e6)));
            table.add(std::iter::once("total".into()).chain(totals).collect());
            tables.push(table);
        }
        let name = format!("{}, {} ranks", figures.interface, figures.ranks);
        let mut table = BenchTable::new(&name, &["figure", "MB/s"]);
        table.add(vec!["writing".into(), (figures.writing() / 1e6).into()]);
        table.add(vec!["reading".into(), (figures.reading() / 1e6).into()]);
        table.add(vec!["partition".into(), (figures.effective() / 1e6).into()]);
        tables.push(table);
    }
    tables
}

/// For the largest partition of each interface: a plot per method with a curve for each type, and one per type with a curve for each method.
pub(super) fn plots(all: &[PartitionFigures], largest: u64) -> Vec<Plot> {
    let mut plots = Vec::new();
    let names: Vec<String> = sizes(largest).map(|(name, _)| name).to_vec();
    let mut known: Vec<&str> = Vec::new();
    for figures in all {
        if known.contains(&figures.interface.as_str()) {
            continue;
        }
        known.push(&figures.interface);
        let series = |label: &str, kind, method| {
            let points = sizes(largest).into_iter().enumerate().filter_map(|(x, (_, chunk))| {
                let rate = rate(find(figures, chunk, kind, method)?);
                Some(PlotPoint { x: x as f64, low: rate, middle: rate, high: rate })
            });
            PlotSeries { label: label.to_owned(), points: points.collect() }
        };
        let plot = |name: String, title: &str, series: Vec<PlotSeries>| Plot {
            name: format!("{}-{name}", figures.interface),
            title: format!("b_eff_io of {}, {} ranks: {title}", figures.interface, figures.ranks),
            x_label: "contiguous chunk".to_owned(),
            y_label: "MB/s of all ranks".to_owned(),
            scale: PlotScale::Names(names.clone()),
            style: PlotStyle::Lines,
            series: series.into_iter().filter(|series| !series.points.is_empty()).collect(),
            limits: Vec::new(),
        };
        for method in EffectiveMethod::ALL {
            let curves = EffectiveType::ALL.map(|kind| series(kind.name(), kind, method)).to_vec();
            plots.push(plot(method.name().to_owned(), method.name(), curves));
        }
        for kind in EffectiveType::ALL {
            let curves = EffectiveMethod::ALL.map(|method| series(method.name(), kind, method)).to_vec();
            plots.push(plot(format!("type-{}", kind as usize), &format!("type {}", kind.name()), curves));
        }
    }
    plots
}
