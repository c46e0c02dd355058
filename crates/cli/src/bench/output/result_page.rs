//! A page with the header block, the tables and the plots of a benchmark: one file that loads nothing.

use super::plot::escape;
use super::{BenchResult, BenchTable};

const STYLE: &str = "\
:root { color-scheme: light dark; --back: #fcfcfa; --text: #1d2430; --soft: #5d6675; --line: #d9dde3; }
@media (prefers-color-scheme: dark) { :root { --back: #14171c; --text: #e6e9ee; --soft: #9aa4b2; --line: #343b46; } }
body { margin: 0 auto; max-width: 1080px; padding: 24px 16px 64px; background: var(--back); color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 26px; margin: 0 0 12px; }
h2 { font-size: 18px; margin: 32px 0 8px; border-bottom: 1px solid var(--line); }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 2px 16px; margin: 0; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th { color: var(--soft); font-weight: 600; }
th, td { padding: 3px 16px 3px 0; border-bottom: 1px solid var(--line); white-space: nowrap; text-align: right; }
.text { text-align: left; }
svg { display: block; max-width: 100%; height: auto; margin: 12px 0; border: 1px solid var(--line); border-radius: 6px; }
";

pub(super) fn page(result: &BenchResult) -> String {
    let facts = result
        .facts
        .iter()
        .map(|(name, value)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(value)));
    let notes = result.notes.iter().map(|note| format!("<p>{}</p>\n", escape(note)));
    let title = escape(&result.title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <h1>{title}</h1>\n<dl>\n{}</dl>\n{}{}{}</body>\n</html>\n",
        facts.collect::<String>(),
        result.all_drawings().into_iter().map(|(_, svg)| svg).collect::<String>(),
        result.shown_tables().iter().map(table).collect::<String>(),
        notes.collect::<String>(),
    )
}

fn table(table: &BenchTable) -> String {
    let class = |at: usize| {
        let is_text = table.rows.first().is_some_and(|row| row[at].is_text());
        if is_text { " class=\"text\"" } else { "" }
    };
    let heads =
        table.columns.iter().enumerate().map(|(at, head)| format!("<th{}>{}</th>", class(at), escape(head)));
    let row = |row: &Vec<super::TableValue>| {
        let entries = row
            .iter()
            .enumerate()
            .map(|(at, value)| format!("<td{}>{}</td>", class(at), escape(&value.text())));
        format!("<tr>{}</tr>\n", entries.collect::<String>())
    };
    let name = if table.name.is_empty() { "Figures" } else { &table.name };
    format!(
        "<h2>{}</h2>\n<div class=\"wide\"><table><thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n",
        escape(name),
        heads.collect::<String>(),
        table.rows.iter().map(row).collect::<String>()
    )
}
