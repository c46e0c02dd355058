//! A plot of energies and temperature over time.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::output::result_row::ResultRow;

/// Name, colour and column of a curve.
type Curve = (&'static str, RGBColor, fn(&ResultRow) -> f64);

const ENERGIES: [Curve; 3] = [
    ("kinetic", RGBColor(208, 90, 40), |row| row.kinetic),
    ("potential", RGBColor(40, 100, 180), |row| row.potential),
    ("total", RGBColor(60, 60, 60), ResultRow::total),
];
const TEMPERATURE: [Curve; 1] = [("temperature", RGBColor(150, 40, 120), |row| row.temperature)];

/// Draws rows as SVG text.
pub fn svg(title: &str, rows: &[ResultRow]) -> Result<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (900, 700)).into_drawing_area();
        area.fill(&WHITE)?;
        let (upper, lower) = area.split_vertically(430);
        chart(&upper, title, "energy", &ENERGIES, rows)?;
        chart(&lower, "", "temperature", &TEMPERATURE, rows)?;
        area.present()?;
    }
    Ok(text)
}

fn chart(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    title: &str,
    quantity: &str,
    curves: &[Curve],
    rows: &[ResultRow],
) -> Result<()> {
    let times =
        bounds(rows.iter().map(|row| row.time)).ok_or_else(|| anyhow!("there are no rows to plot"))?;
    let values = bounds(curves.iter().flat_map(|(.., column)| rows.iter().map(column)))
        .ok_or_else(|| anyhow!("no value of {quantity} is finite"))?;
    let margin = 0.06 * (values.1 - values.0);
    let mut builder = ChartBuilder::on(area);
    builder.margin(12).margin_right(24).x_label_area_size(36).y_label_area_size(76);
    if !title.is_empty() {
        builder.caption(title, ("sans-serif", 20));
    }
    let mut chart = builder.build_cartesian_2d(times.0..times.1, values.0 - margin..values.1 + margin)?;
    chart
        .configure_mesh()
        .x_desc("time")
        .y_desc(quantity)
        .light_line_style(WHITE)
        .label_style(("sans-serif", 13))
        .draw()?;
    for &(name, colour, column) in curves {
        let points = rows.iter().map(|row| (row.time, column(row)));
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    if curves.len() > 1 {
        let labels = &mut chart.configure_series_labels();
        labels
            .background_style(WHITE.mix(0.85))
            .border_style(BLACK.mix(0.3))
            .label_font(("sans-serif", 14))
            .draw()?;
    }
    Ok(())
}

/// The smallest and the largest number, widened if they are equal.
fn bounds(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let finite = values.filter(|value| value.is_finite());
    let (low, high) = finite
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    let apart = (low.abs().max(high.abs()) * 1e-3).max(1e-12);
    (low <= high).then_some(if high - low < apart { (low - apart, high + apart) } else { (low, high) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_have_a_point_per_row() {
        let row = |step: u64| ResultRow {
            step,
            time: step as f64,
            kinetic: 1.0,
            potential: -2.0 - step as f64,
            temperature: 0.5,
            pressure: 0.0,
        };
        let rows: Vec<ResultRow> = (0..10).map(row).collect();
        let text = svg("a liquid", &rows).unwrap();
        let longest = text.match_indices("<polyline").map(|(at, _)| {
            let points = text[at..].split("points=\"").nth(1).unwrap().split('"').next().unwrap();
            points.split_whitespace().count()
        });
        assert_eq!(longest.filter(|points| *points == 10).count(), 4);
        assert!(text.contains("a liquid") && text.contains("potential"));
        assert!(svg("one", &rows[..1]).is_ok());
        assert!(svg("none", &[]).unwrap_err().to_string().contains("no rows"));
    }
}
