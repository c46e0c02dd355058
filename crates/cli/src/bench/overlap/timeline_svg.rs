//! A timeline as SVG: one band per mode, two lanes per rank, the program above and its writes below.

use std::fmt::Write as _;

use super::mode_run::ModeResult;
use super::timeline::{ActivitySpan, RankActivity};

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 30.0;
const LANE: f64 = 9.0;
const ROW: f64 = 2.0 * LANE + 5.0;
const TITLE: f64 = 26.0;
const TOP: f64 = 34.0;
/// The greatest number of ranks of a mode that are drawn.
const MOST: usize = 16;

fn colour(doing: RankActivity) -> &'static str {
    match doing {
        RankActivity::Computing => "#4c78a8",
        RankActivity::HandingOver => "#e45756",
        RankActivity::Writing => "#f2a93b",
    }
}

pub(crate) fn draw(trials: &[&ModeResult]) -> String {
    let ends = trials.iter().flat_map(|trial| trial.spans.iter().flatten()).map(|span| span.end);
    let longest = ends.fold(1e-9, f64::max);
    let rows = |trial: &ModeResult| trial.spans.len().min(MOST) as f64;
    let height = TOP + trials.iter().map(|trial| TITLE + rows(trial) * ROW).sum::<f64>() + 40.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    legend(&mut text);
    let mut y = TOP;
    for trial in trials {
        let title = format!("{}: {:.3} s", trial.mode, trial.seconds);
        let _ = writeln!(
            text,
            "<text x=\"8\" y=\"{}\" font-size=\"13\" font-weight=\"bold\">{title}</text>",
            y + 17.0
        );
        y += TITLE;
        for (rank, spans) in trial.spans.iter().take(MOST).enumerate() {
            let _ = writeln!(text, "<text x=\"8\" y=\"{}\" fill=\"#444\">rank {rank}</text>", y + LANE + 4.0);
            lanes(&mut text, spans, y, longest);
            y += ROW;
        }
    }
    axis(&mut text, y + 4.0, longest);
    text.push_str("</svg>\n");
    text
}

fn legend(text: &mut String) {
    let entries = [
        (RankActivity::Computing, "computing"),
        (RankActivity::HandingOver, "in commit and finish"),
        (RankActivity::Writing, "writing"),
    ];
    for (number, (doing, words)) in entries.into_iter().enumerate() {
        let x = LEFT + 190.0 * number as f64;
        let fill = colour(doing);
        let _ = writeln!(text, "<rect x=\"{x}\" y=\"10\" width=\"12\" height=\"12\" fill=\"{fill}\"/>");
        let _ = writeln!(text, "<text x=\"{}\" y=\"20\">{words}</text>", x + 18.0);
    }
}

/// The two lanes of a rank. Short intervals are drawn with a minimum width.
fn lanes(text: &mut String, spans: &[ActivitySpan], y: f64, longest: f64) {
    let scale = (WIDTH - LEFT - RIGHT) / longest;
    let _ = writeln!(
        text,
        "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{}\" height=\"{}\" fill=\"#f3f3f3\"/>",
        WIDTH - LEFT - RIGHT,
        2.0 * LANE
    );
    for span in spans {
        let lane = if span.activity == RankActivity::Writing { y + LANE } else { y };
        let (x, width) = (LEFT + span.begin * scale, ((span.end - span.begin) * scale).max(0.3));
        let fill = colour(span.activity);
        let _ = writeln!(
            text,
            "<rect x=\"{x:.2}\" y=\"{lane}\" width=\"{width:.2}\" height=\"{LANE}\" fill=\"{fill}\"/>"
        );
    }
}

fn axis(text: &mut String, y: f64, longest: f64) {
    for tick in 0..=10 {
        let (share, x) = (f64::from(tick) / 10.0, LEFT + (WIDTH - LEFT - RIGHT) * f64::from(tick) / 10.0);
        let _ = writeln!(
            text,
            "<line x1=\"{x}\" y1=\"{TOP}\" x2=\"{x}\" y2=\"{y}\" stroke=\"#bbb\" stroke-width=\"0.5\"/>"
        );
        let seconds = share * longest;
        let _ =
            writeln!(text, "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{seconds:.2} s</text>", y + 14.0);
    }
}
