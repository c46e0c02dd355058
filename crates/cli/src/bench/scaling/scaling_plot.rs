//! Plots of measured runs as SVG: the speed-up over the number of ranks, and the times as bars.

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::measured_run::Measurements;

const COLOURS: [RGBColor; 5] = [
    RGBColor(208, 90, 40),
    RGBColor(40, 100, 180),
    RGBColor(90, 140, 60),
    RGBColor(130, 80, 160),
    RGBColor(120, 120, 120),
];

type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

/// A curve of the speed-up for each way, and the ideal one.
pub(super) fn speedup(program: &str, measurements: &Measurements, ways: &[String]) -> Result<String> {
    let mut text = String::new();
    draw_speedup(&mut text, program, measurements, ways)
        .map_err(|error| anyhow!("drawing the speed-up: {error}"))?;
    Ok(text)
}

fn draw_speedup(text: &mut String, program: &str, measurements: &Measurements, ways: &[String]) -> Drawn {
    let all = || ways.iter().flat_map(|way| measurements.speedups(way));
    let most = all().map(|(ranks, _)| ranks as f64).fold(1.0, f64::max);
    let highest = all().map(|(_, speedup)| speedup).fold(most, f64::max);
    let area = SVGBackend::with_string(text, (640, 460)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut builder = ChartBuilder::on(&area);
    builder.margin(12).margin_right(24).x_label_area_size(40).y_label_area_size(56);
    builder.caption(format!("{program}: speed-up"), ("sans-serif", 20));
    let mut chart = builder.build_cartesian_2d(0.0..most * 1.02, 0.0..highest * 1.02)?;
    chart.configure_mesh().x_desc("ranks").y_desc("speed-up").light_line_style(WHITE).draw()?;
    let grey = RGBColor(170, 170, 170);
    chart
        .draw_series(LineSeries::new([(0.0, 0.0), (most, most)], grey))?
        .label("ideal")
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], grey));
    for (way, colour) in ways.iter().zip(COLOURS.into_iter().cycle()) {
        let points: Vec<(f64, f64)> =
            measurements.speedups(way).into_iter().map(|(ranks, speedup)| (ranks as f64, speedup)).collect();
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)).point_size(3))?
            .label(if way.is_empty() { "measured" } else { way })
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    let labels = &mut chart.configure_series_labels();
    labels.position(SeriesLabelPosition::UpperLeft).background_style(WHITE.mix(0.85)).draw()?;
    area.present()?;
    Ok(())
}

/// A bar for each number of ranks and way: computing, and input and output on top.
pub(super) fn times(program: &str, measurements: &Measurements, ways: &[String]) -> Result<String> {
    let mut text = String::new();
    draw_times(&mut text, program, measurements, ways)
        .map_err(|error| anyhow!("drawing the times: {error}"))?;
    Ok(text)
}

fn draw_times(text: &mut String, program: &str, measurements: &Measurements, ways: &[String]) -> Drawn {
    let mut numbers: Vec<u64> =
        ways.iter().flat_map(|way| measurements.best(way)).map(|run| run.ranks).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let highest = ways
        .iter()
        .flat_map(|way| measurements.best(way))
        .map(|run| run.compute + run.io)
        .fold(1e-9, f64::max);
    let area = SVGBackend::with_string(text, (720, 460)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut builder = ChartBuilder::on(&area);
    builder.margin(12).margin_right(24).x_label_area_size(40).y_label_area_size(64);
    builder.caption(format!("{program}: computing, and output on top (lighter)"), ("sans-serif", 20));
    let mut chart = builder.build_cartesian_2d(-0.5..numbers.len() as f64 - 0.5, 0.0..highest * 1.05)?;
    let label = |place: &f64| {
        let whole = (place - place.round()).abs() < 1e-6;
        let number = numbers.get(place.round().max(0.0) as usize).filter(|_| whole);
        number.map_or(String::new(), ToString::to_string)
    };
    let mut mesh = chart.configure_mesh();
    mesh.disable_x_mesh().x_labels(2 * numbers.len() + 1).x_label_formatter(&label);
    mesh.x_desc("ranks").y_desc("seconds").light_line_style(WHITE).draw()?;
    let width = 0.8 / ways.len().max(1) as f64;
    for (number, (way, colour)) in ways.iter().zip(COLOURS.into_iter().cycle()).enumerate() {
        let runs = measurements.best(way);
        let bars = runs.iter().flat_map(|run| {
            let place = numbers.iter().position(|ranks| *ranks == run.ranks).unwrap_or(0) as f64;
            let left = place - 0.4 + number as f64 * width;
            let right = left + 0.92 * width;
            [
                Rectangle::new([(left, 0.0), (right, run.compute)], colour.filled()),
                Rectangle::new(
                    [(left, run.compute), (right, run.compute + run.io)],
                    colour.mix(0.45).filled(),
                ),
            ]
        });
        chart
            .draw_series(bars)?
            .label(if way.is_empty() { "measured" } else { way })
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled()));
    }
    let labels = &mut chart.configure_series_labels();
    labels.position(SeriesLabelPosition::UpperRight).background_style(WHITE.mix(0.85)).draw()?;
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::measured_run::MeasuredRun;
    use super::*;

    #[test]
    fn plots_have_a_curve_and_bars_for_each_way() {
        let mut measurements = Measurements::default();
        let ways = ["gather", "together"].map(str::to_owned);
        for ranks in [1, 2, 4] {
            for way in &ways {
                let (compute, io, total) = (4.0 / ranks as f64, 1.0, 4.0 / ranks as f64 + 1.0);
                measurements.add(MeasuredRun { way: way.clone(), ranks, compute, io, total, bytes: 10 });
            }
        }
        let text = speedup("sph", &measurements, &ways).unwrap();
        assert!(
            text.contains("together") && text.contains("ideal") && text.matches("<polyline").count() >= 3
        );
        let text = times("sph", &measurements, &ways).unwrap();
        assert!(text.contains("gather") && text.matches("<rect").count() >= 12, "{text}");
    }
}
