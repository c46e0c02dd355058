//! Curves over the bytes of a step, the number of boxes or the like, as SVG.

use std::path::Path;

use anyhow::{Context, Result, anyhow};
use plotters::prelude::*;

/// A curve: its name and its points.
pub(super) struct WaveCurve {
    pub(super) name: &'static str,
    pub(super) points: Vec<(f64, f64)>,
}

/// The title of a plot and of its axes.
pub(super) struct PlotTitles<'t> {
    pub(super) title: &'t str,
    pub(super) x: &'t str,
    pub(super) y: &'t str,
}

const COLOURS: [RGBColor; 5] = [
    RGBColor(90, 90, 90),
    RGBColor(40, 100, 180),
    RGBColor(208, 90, 40),
    RGBColor(90, 140, 60),
    RGBColor(140, 80, 160),
];

/// Draws the curves; x is logarithmic, y begins at 0.
pub(super) fn write_svg(path: &Path, titles: &PlotTitles<'_>, curves: &[WaveCurve]) -> Result<()> {
    let mut text = String::new();
    draw(&mut text, titles, curves).map_err(|error| anyhow!("drawing {}: {error}", path.display()))?;
    std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

fn draw(
    text: &mut String,
    titles: &PlotTitles<'_>,
    curves: &[WaveCurve],
) -> Result<(), Box<dyn std::error::Error>> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let least = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let most = points().map(|point| point.0).fold(0.0, f64::max);
    let highest = points().map(|point| point.1).fold(0.0, f64::max);
    let area = SVGBackend::with_string(text, (720, 480)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut builder = ChartBuilder::on(&area);
    builder.margin(12).margin_right(24).x_label_area_size(44).y_label_area_size(60);
    builder.caption(titles.title, ("sans-serif", 18));
    let mut chart = builder.build_cartesian_2d((least * 0.9..most * 1.1).log_scale(), 0.0..highest * 1.1)?;
    chart.configure_mesh().x_desc(titles.x).y_desc(titles.y).light_line_style(WHITE).draw()?;
    for (curve, colour) in curves.iter().zip(COLOURS) {
        chart
            .draw_series(LineSeries::new(curve.points.iter().copied(), colour.stroke_width(2)).point_size(3))?
            .label(curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    let labels = &mut chart.configure_series_labels();
    labels.position(SeriesLabelPosition::LowerRight).background_style(WHITE.mix(0.85)).draw()?;
    area.present()?;
    Ok(())
}
