//! Plots as SVG, as one would put them into a paper: logarithmic axes with units, a legend, bands from the lowest to the highest value.

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 470.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 56.0;
/// The same below many names, which are written obliquely.
const BOTTOM_OF_MANY: f64 = 112.0;
const MANY_NAMES: usize = 8;
/// A legend line.
const LEGEND_ROW: f64 = 17.0;

/// Colours that readers with colour vision deficiencies can tell apart: M. Okabe, K. Ito, <https://jfly.uni-koeln.de/color/>.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555"];

/// The horizontal axis.
#[derive(Clone, Debug)]
pub(in crate::bench) enum PlotScale {
    /// Bytes, logarithmic.
    Bytes,
    /// Names at the places 0, 1, …
    Names(Vec<String>),
}

/// How a series is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::bench) enum PlotStyle {
    Lines,
    Bars,
}

/// A value with the range that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::bench) struct PlotPoint {
    pub(in crate::bench) x: f64,
    pub(in crate::bench) low: f64,
    pub(in crate::bench) middle: f64,
    pub(in crate::bench) high: f64,
}

#[derive(Clone, Debug)]
pub(in crate::bench) struct PlotSeries {
    pub(in crate::bench) label: String,
    pub(in crate::bench) points: Vec<PlotPoint>,
}

/// A plot with a logarithmic vertical axis.
#[derive(Clone, Debug)]
pub(in crate::bench) struct Plot {
    /// A part of the file name.
    pub(in crate::bench) name: String,
    pub(in crate::bench) title: String,
    pub(in crate::bench) x_label: String,
    pub(in crate::bench) y_label: String,
    pub(in crate::bench) scale: PlotScale,
    pub(in crate::bench) style: PlotStyle,
    pub(in crate::bench) series: Vec<PlotSeries>,
    /// Horizontal lines with their names: limits of the device.
    pub(in crate::bench) limits: Vec<(String, f64)>,
}

/// The ranges of the axes, as logarithms or places, and where the horizontal axis is.
struct PlotFrame {
    x: [f64; 2],
    y: [f64; 2],
    bottom: f64,
}

impl PlotFrame {
    fn x(&self, value: f64) -> f64 {
        LEFT + (value - self.x[0]) / (self.x[1] - self.x[0]) * (WIDTH - LEFT - RIGHT)
    }

    /// The place of a logarithm.
    fn y(&self, value: f64) -> f64 {
        self.bottom - (value - self.y[0]) / (self.y[1] - self.y[0]) * (self.bottom - TOP)
    }
}

impl Plot {
    pub(in crate::bench) fn svg(&self) -> String {
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             font-family=\"sans-serif\" font-size=\"12\" role=\"img\" aria-label=\"{0}\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"{1}\" y=\"20\" font-size=\"15\" font-weight=\"bold\">{0}</text>\n",
            escape(&self.title),
            LEFT
        );
        let Some(frame) = self.frame() else {
            return text + "<text x=\"78\" y=\"60\">no figures</text>\n</svg>\n";
        };
        self.axes(&mut text, &frame);
        for (name, value) in self.limits.iter().filter(|(_, value)| *value > 0.0) {
            let y = frame.y(value.log10());
            let _ = writeln!(
                text,
                "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#000\" stroke-dasharray=\"7 4\"/>\n\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#333\">{}</text>",
                WIDTH - RIGHT,
                WIDTH - RIGHT - 4.0,
                y - 4.0,
                escape(name)
            );
        }
        for (at, series) in self.series.iter().enumerate() {
            match self.style {
                PlotStyle::Lines => line(&mut text, &frame, series, self.x_of(), colour(at)),
                PlotStyle::Bars => self.bars(&mut text, &frame, at),
            }
        }
        self.legend(&mut text, &frame);
        text + "</svg>\n"
    }

    /// The place of a value on the horizontal axis.
    fn x_of(&self) -> fn(f64) -> f64 {
        match self.scale {
            PlotScale::Bytes => |x| x.max(1.0).log2(),
            PlotScale::Names(_) => |x| x,
        }
    }

    fn frame(&self) -> Option<PlotFrame> {
        let points = || self.series.iter().flat_map(|series| &series.points).filter(|point| point.low > 0.0);
        let values = points().flat_map(|point| [point.low, point.high]);
        let values: Vec<f64> = values.chain(self.limits.iter().map(|(_, value)| *value)).collect();
        let lowest = values.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let highest = values.iter().copied().fold(0.0, f64::max);
        if !lowest.is_finite() || highest <= 0.0 {
            return None;
        }
        let mut y = [lowest.log10().floor(), highest.log10().ceil()];
        if y[1] - y[0] < 1.0 {
            y[1] = y[0] + 1.0;
        }
        let x = match &self.scale {
            PlotScale::Names(names) => [-0.5, names.len() as f64 - 0.5],
            PlotScale::Bytes => {
                let logs = || points().map(|point| point.x.max(1.0).log2());
                let (from, to) = (logs().fold(f64::INFINITY, f64::min), logs().fold(0.0, f64::max));
                [from, to.max(from + 1.0)]
            }
        };
        let is_crowded = matches!(&self.scale, PlotScale::Names(names) if names.len() > MANY_NAMES);
        Some(PlotFrame { x, y, bottom: HEIGHT - if is_crowded { BOTTOM_OF_MANY } else { BOTTOM } })
    }

    fn axes(&self, text: &mut String, frame: &PlotFrame) {
        let bottom = frame.bottom;
        for power in frame.y[0] as i32..=frame.y[1] as i32 {
            let y = frame.y(f64::from(power));
            let _ = writeln!(
                text,
                "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\n\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 7.0,
                y + 4.0,
                power_of_ten(power)
            );
        }
        match &self.scale {
            PlotScale::Names(names) => {
                for (at, name) in names.iter().enumerate() {
                    let x = frame.x(at as f64);
                    // Many names are written obliquely.
                    let turn = if names.len() > MANY_NAMES {
                        format!(
                            " transform=\"rotate(-28 {x:.1} {:.1})\" text-anchor=\"end\" font-size=\"10\"",
                            bottom + 14.0
                        )
                    } else {
                        " text-anchor=\"middle\"".to_owned()
                    };
                    let _ = writeln!(
                        text,
                        "<text x=\"{x:.1}\" y=\"{:.1}\"{turn}>{}</text>",
                        bottom + 16.0,
                        escape(name)
                    );
                }
            }
            PlotScale::Bytes => {
                let (from, to) = (frame.x[0].ceil() as u32, frame.x[1].floor() as u32);
                for power in (from..=to).step_by((to - from).div_ceil(10).max(1) as usize) {
                    let x = frame.x(f64::from(power));
                    let _ = writeln!(
                        text,
                        "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\" stroke=\"#eee\"/>\n\
                         <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                        bottom + 16.0,
                        power_of_two(power)
                    );
                }
            }
        }
        let middle = f64::midpoint(TOP, bottom);
        let _ = writeln!(
            text,
            "<rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"none\" stroke=\"#888\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\n\
             <text x=\"18\" y=\"{middle:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 18 {middle:.1})\">{}</text>",
            WIDTH - LEFT - RIGHT,
            bottom - TOP,
            f64::midpoint(LEFT, WIDTH - RIGHT),
            HEIGHT - 10.0,
            escape(&self.x_label),
            escape(&self.y_label)
        );
    }

    fn bars(&self, text: &mut String, frame: &PlotFrame, at: usize) {
        let width = 0.8 / self.series.len() as f64;
        for point in self.series[at].points.iter().filter(|point| point.low > 0.0) {
            let left = frame.x(point.x - 0.4 + width * at as f64);
            let right = frame.x(point.x - 0.4 + width * (at as f64 + 0.94));
            let (top, bottom) = (frame.y(point.middle.log10()), frame.bottom);
            let middle = f64::midpoint(left, right);
            let _ = writeln!(
                text,
                "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>\n\
                 <line x1=\"{middle:.1}\" x2=\"{middle:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"#222\"/>",
                right - left,
                (bottom - top).max(0.0),
                colour(at),
                frame.y(point.low.log10()),
                frame.y(point.high.log10())
            );
        }
    }

    fn legend(&self, text: &mut String, frame: &PlotFrame) {
        let longest = self.series.iter().map(|series| series.label.chars().count()).max().unwrap_or(0);
        let (width, height) = (34.0 + 6.6 * longest as f64, LEGEND_ROW * self.series.len() as f64 + 8.0);
        // Rates grow with the size, and fall with it seldom.
        let (left, top) = match self.style {
            PlotStyle::Lines => (WIDTH - RIGHT - width - 8.0, frame.bottom - height - 8.0),
            PlotStyle::Bars => (WIDTH - RIGHT - width - 8.0, TOP + 8.0),
        };
        let _ = writeln!(
            text,
            "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"white\" fill-opacity=\"0.85\" \
             stroke=\"#bbb\"/>"
        );
        for (at, series) in self.series.iter().enumerate() {
            let y = top + LEGEND_ROW * (at as f64 + 0.5) + 4.0;
            let _ = writeln!(
                text,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"16\" height=\"4\" fill=\"{}\"/>\n<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                left + 6.0,
                y - 2.0,
                colour(at),
                left + 28.0,
                y + 4.0,
                escape(&series.label)
            );
        }
    }
}

fn colour(at: usize) -> &'static str {
    COLOURS[at % COLOURS.len()]
}

/// A line through the middles, points, and a band from the lowest to the highest value.
fn line(text: &mut String, frame: &PlotFrame, series: &PlotSeries, x_of: fn(f64) -> f64, colour: &str) {
    let points: Vec<&PlotPoint> = series.points.iter().filter(|point| point.low > 0.0).collect();
    let place = |point: &PlotPoint, value: f64| {
        format!("{:.1},{:.1}", frame.x(x_of(point.x)), frame.y(value.log10()))
    };
    let upper = points.iter().map(|point| place(point, point.high));
    let lower = points.iter().rev().map(|point| place(point, point.low));
    let band = upper.chain(lower).collect::<Vec<_>>().join(" ");
    let middle = points.iter().map(|point| place(point, point.middle)).collect::<Vec<_>>().join(" ");
    let _ = writeln!(text, "<polygon points=\"{band}\" fill=\"{colour}\" fill-opacity=\"0.18\"/>");
    let _ = writeln!(
        text,
        "<polyline points=\"{middle}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
    );
    for point in points {
        let (x, y) = (frame.x(x_of(point.x)), frame.y(point.middle.log10()));
        let _ = writeln!(text, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\" fill=\"{colour}\"/>");
    }
}

fn power_of_ten(power: i32) -> String {
    match power {
        -3..=6 => format!("{}", 10f64.powi(power)),
        _ => format!("1e{power}"),
    }
}

fn power_of_two(power: u32) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    format!("{} {}", 1u64 << (power % 10), units[(power / 10) as usize])
}

pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(scale: PlotScale, style: PlotStyle) -> Plot {
        let points = |factor: f64| {
            (0..5).map(move |at| {
                let middle = factor * f64::from(4u32.pow(at));
                PlotPoint { x: f64::from(1u32 << (2 * at)), low: middle * 0.8, middle, high: middle * 1.2 }
            })
        };
        let series = [("ours", 1.0), ("mpi <x>", 0.5)]
            .map(|(label, factor)| PlotSeries { label: label.to_owned(), points: points(factor).collect() });
        Plot {
            name: "write".into(),
            title: "writing & reading".into(),
            x_label: "bytes of each rank".into(),
            y_label: "MB/s".into(),
            scale,
            style,
            series: series.into(),
            limits: vec![("device".into(), 300.0)],
        }
    }

    #[test]
    fn lines_have_axes_units_a_legend_bands_and_a_limit() {
        let text = plot(PlotScale::Bytes, PlotStyle::Lines).svg();
        for part in [
            "writing &amp; reading",
            "mpi &lt;x&gt;",
            ">256 B<",
            ">100<",
            ">device<",
            "MB/s",
            "bytes of each rank",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!((text.matches("<polyline").count(), text.matches("<polygon").count()), (2, 2));
        assert_eq!(text.matches("<circle").count(), 10);
    }

    #[test]
    fn bars_stand_side_by_side_and_a_plot_without_figures_says_so() {
        let names = PlotScale::Names(["a", "b"].map(str::to_owned).to_vec());
        let mut plot = plot(names, PlotStyle::Bars);
        plot.series.iter_mut().for_each(|series| series.points.truncate(2));
        plot.series.iter_mut().for_each(|series| {
            series.points.iter_mut().enumerate().for_each(|(at, point)| point.x = at as f64);
        });
        let text = plot.svg();
        assert!(text.contains(">b</text>") && text.matches("fill=\"#d55e00\"").count() == 3, "{text}");
        plot.series.clear();
        plot.limits.clear();
        assert!(plot.svg().contains("no figures"));
    }
}
