//! Speed-up over the number of ranks, as SVG.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use plotters::prelude::*;

/// A curve: its name and its points (ranks, speed-up).
pub(super) struct SpeedupCurve {
    pub(super) name: &'static str,
    pub(super) points: Vec<(f64, f64)>,
}

const COLOURS: [RGBColor; 3] = [RGBColor(40, 100, 180), RGBColor(208, 90, 40), RGBColor(90, 140, 60)];

/// Draws the curves and the line of the ideal speed-up.
pub(super) fn write_svg(path: &Path, title: &str, curves: &[SpeedupCurve]) -> Result<()> {
    let most = curves.iter().flat_map(|curve| &curve.points).map(|point| point.0).fold(1.0, f64::max);
    let mut text = String::new();
    draw(&mut text, title, curves, most).map_err(|error| anyhow!("drawing {}: {error}", path.display()))?;
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

fn draw(
    text: &mut String,
    title: &str,
    curves: &[SpeedupCurve],
    most: f64,
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(text, (720, 520)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut builder = ChartBuilder::on(&area);
    builder.margin(12).margin_right(24).x_label_area_size(40).y_label_area_size(56);
    builder.caption(title, ("sans-serif", 20));
    let mut chart = builder.build_cartesian_2d(0.0..most * 1.02, 0.0..most * 1.02)?;
    chart.configure_mesh().x_desc("ranks").y_desc("speed-up").light_line_style(WHITE).draw()?;
    let grey = RGBColor(150, 150, 150);
    chart
        .draw_series(LineSeries::new([(0.0, 0.0), (most, most)], grey))?
        .label("ideal")
        .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], grey));
    for (curve, colour) in curves.iter().zip(COLOURS) {
        chart
            .draw_series(LineSeries::new(curve.points.iter().copied(), colour.stroke_width(2)).point_size(3))?
            .label(curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    let labels = &mut chart.configure_series_labels();
    labels.position(SeriesLabelPosition::UpperLeft).background_style(WHITE.mix(0.85)).draw()?;
    area.present()?;
    Ok(())
}
