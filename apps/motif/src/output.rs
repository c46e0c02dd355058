//! Hits as text, TSV, GFF3 and FASTA.

use std::io::{self, Write};

use crate::hit::Hit;
use crate::query::Query;

/// A format of hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HitFormat {
    /// Tab-separated, without a header line.
    Text,
    /// Tab-separated, with a header line.
    Tsv,
    /// [GFF3](https://github.com/The-Sequence-Ontology/Specifications/blob/master/gff3.md).
    Gff3,
    /// FASTA: the residues of each hit.
    Fasta,
}

impl HitFormat {
    /// The format of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [
            ("text", Self::Text),
            ("tsv", Self::Tsv),
            ("gff3", Self::Gff3),
            ("gff", Self::Gff3),
            ("fasta", Self::Fasta),
        ];
        all.into_iter().find(|(known, _)| *known == name).map(|(_, format)| format)
    }
}

/// The values of the constraints of a hit, as `name=value`.
pub fn constraint_values(hit: &Hit, query: &Query) -> String {
    let values = hit.parts().zip(&query.terms).flat_map(|(part, term)| {
        term.constraints
            .iter()
            .map(move |call| format!("{}={:.4}", call.function.name, (call.function.value)(part.as_bytes())))
    });
    values.collect::<Vec<_>>().join(",")
}

/// Writes hits.
pub fn write_hits(out: &mut impl Write, format: HitFormat, hits: &[Hit], query: &Query) -> io::Result<()> {
    match format {
        HitFormat::Tsv => writeln!(out, "file\tsequence\tname\tstart\tend\tstrand\tmatch\tvalues")?,
        HitFormat::Gff3 => writeln!(out, "##gff-version 3")?,
        HitFormat::Text | HitFormat::Fasta => {}
    }
    for (number, hit) in hits.iter().enumerate() {
        let (start, end, strand) = (hit.start, hit.end, hit.strand());
        match format {
            HitFormat::Text | HitFormat::Tsv => {
                let parts: Vec<&str> = hit.parts().collect();
                let values = constraint_values(hit, query);
                let (file, name, parts) = (plain(&hit.file), plain(&hit.name), parts.join("|"));
                writeln!(
                    out,
                    "{file}\t{}\t{name}\t{start}\t{end}\t{strand}\t{parts}\t{values}",
                    hit.sequence
                )?;
            }
            HitFormat::Gff3 => {
                let name = if hit.name.is_empty() {
                    format!("sequence{}", hit.sequence)
                } else {
                    escaped(&hit.name)
                };
                let (id, file) = (number + 1, escaped(&hit.file));
                writeln!(
                    out,
                    "{name}\tmotif\tsequence_motif\t{start}\t{end}\t.\t{strand}\t.\tID=hit{id};Note={};file={file}",
                    hit.residues
                )?;
            }
            HitFormat::Fasta => {
                writeln!(out, ">{}:{start}-{end}({strand}) {}", plain(&hit.name), plain(&hit.file))?;
                for line in hit.residues.as_bytes().chunks(60) {
                    out.write_all(line)?;
                    writeln!(out)?;
                }
            }
        }
    }
    Ok(())
}

/// Without control characters, which would end a column.
fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// With the characters that GFF3 reserves as `%XX`.
fn escaped(text: &str) -> String {
    let escape = |byte: u8| match byte {
        b'%' | b';' | b'=' | b'&' | b',' | b' ' | b'>' | 0..=31 | 127 => format!("%{byte:02X}"),
        _ => String::new(),
    };
    let mut out = String::new();
    for letter in text.chars() {
        let code = if letter.is_ascii() { escape(letter as u8) } else { String::new() };
        if code.is_empty() {
            out.push(letter);
        } else {
            out.push_str(&code);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::ResidueKind;

    #[test]
    fn every_format_has_the_hit() {
        let query = Query::parse("(CC)/gc(0,100) @ AT", ResidueKind::Dna).unwrap();
        let hit = Hit {
            file_number: 0,
            sequence: 2,
            start: 11,
            end: 14,
            reverse: 1,
            term_lengths: vec![2, 2],
            file: "a;b.fa".to_owned(),
            name: "chr\t2".to_owned(),
            residues: "CCAT".to_owned(),
        };
        let text = |format| {
            let mut out = Vec::new();
            write_hits(&mut out, format, std::slice::from_ref(&hit), &query).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(HitFormat::Text), "a;b.fa\t2\tchr?2\t11\t14\t-\tCC|AT\tgc=100.0000\n");
        assert!(text(HitFormat::Tsv).starts_with("file\tsequence\tname\t"));
        let gff = "chr%092\tmotif\tsequence_motif\t11\t14\t.\t-\t.\tID=hit1;Note=CCAT;file=a%3Bb.fa\n";
        assert_eq!(text(HitFormat::Gff3), format!("##gff-version 3\n{gff}"));
        assert_eq!(text(HitFormat::Fasta), ">chr?2:11-14(-) a;b.fa\nCCAT\n");
    }
}
