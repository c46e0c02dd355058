//! The XML header of binary files; no I/O. It reads the subset of XML that these headers use.

use crate::number_text;
use crate::phase_space::{MoleculeFormat, PhaseSpace};
use crate::word_scanner::{LineError, count_lines, printable};

/// The greatest nesting depth of elements.
const DEEPEST: usize = 64;

/// Reads a header.
pub(super) fn read(bytes: &[u8]) -> Result<PhaseSpace, LineError> {
    let mut space = PhaseSpace::new([0.0; 3], Vec::new());
    let mut found = [false; 6];
    let mut walk = XmlReader { bytes, at: 0, path: Vec::new(), closed: false };
    while let Some(event) = walk.next()? {
        let path = walk.path.join("/");
        let line = walk.line();
        let number = |text: &[u8]| {
            number_text::float(text)
                .ok_or_else(|| LineError::new(line, format!("{} is not a number: {path}", printable(text))))
        };
        match (path.as_str(), event) {
            ("mardyn/headerinfo/time", XmlEvent::Text(text)) => {
                (space.time, found[0]) = (number(text)?, true);
            }
            ("mardyn/headerinfo/length/x", XmlEvent::Text(text)) => {
                (space.length[0], found[1]) = (number(text)?, true);
            }
            ("mardyn/headerinfo/length/y", XmlEvent::Text(text)) => {
                (space.length[1], found[2]) = (number(text)?, true);
            }
            ("mardyn/headerinfo/length/z", XmlEvent::Text(text)) => {
                (space.length[2], found[3]) = (number(text)?, true);
            }
            ("mardyn/headerinfo/number", XmlEvent::Text(text)) => {
                let count = number_text::whole(text).ok_or_else(|| {
                    LineError::new(line, format!("{} is not a number of molecules", printable(text)))
                })?;
                (space.molecules, found[4]) = (count, true);
            }
            ("mardyn/headerinfo/format", XmlEvent::Open(attributes)) => {
                let name = attribute(attributes, b"type").unwrap_or_default();
                let rows = std::str::from_utf8(name).ok().and_then(MoleculeFormat::from_name);
                space.molecule_format = rows.ok_or_else(|| {
                    LineError::new(
                        line,
                        format!("{} is not a molecule format: ICRVQD, ICRV or IRV", printable(name)),
                    )
                })?;
                found[5] = true;
            }
            _ => {}
        }
    }
    let names = ["time", "length/x", "length/y", "length/z", "number", "format"];
    if let Some((name, _)) = names.iter().zip(found).find(|(_, found)| !found) {
        return Err(LineError::new(walk.line(), format!("the element /mardyn/headerinfo/{name} is missing")));
    }
    if space.length.iter().any(|&edge| edge <= 0.0) {
        return Err(LineError::new(walk.line(), format!("a box of {:?} has no volume", space.length)));
    }
    Ok(space)
}

/// The header as text.
pub(super) fn encode(space: &PhaseSpace, molecules: u64) -> String {
    let [x, y, z] = space.length.map(number_text::shortest);
    format!(
        "<?xml version='1.0' encoding='UTF-8'?>\n<mardyn version=\"20100525\">\n  <headerinfo>\n    <time>{}</time>\n    <length>\n      \
         <x>{x}</x> <y>{y}</y> <z>{z}</z>\n    </length>\n    <number>{molecules}</number>\n    <format type=\"{}\"/>\n  </headerinfo>\n</mardyn>\n",
        number_text::shortest(space.time),
        space.molecule_format.name()
    )
}

enum XmlEvent<'a> {
    /// An element begins, with these attributes.
    Open(&'a [u8]),
    /// Text that is not blank.
    Text(&'a [u8]),
    /// The end of an element, or something that is ignored.
    Other,
}

struct XmlReader<'a> {
    bytes: &'a [u8],
    at: usize,
    path: Vec<&'a str>,
    /// The last tag was an empty element.
    closed: bool,
}

impl<'a> XmlReader<'a> {
    fn line(&self) -> u64 {
        1 + count_lines(&self.bytes[..self.at])
    }

    fn flaw(&self, what: impl Into<String>) -> LineError {
        LineError::new(self.line(), what)
    }

    fn next(&mut self) -> Result<Option<XmlEvent<'a>>, LineError> {
        // An empty element is left when the next event is read.
        if std::mem::take(&mut self.closed) {
            self.path.pop();
        }
        let rest = &self.bytes[self.at..];
        if rest.is_empty() {
            let open = self.path.last().map(|name| self.flaw(format!("the text ends inside <{name}>")));
            return open.map_or(Ok(None), Err);
        }
        if rest.starts_with(b"<!--") {
            return self.skip(b"-->");
        }
        if rest.starts_with(b"<?") {
            return self.skip(b"?>");
        }
        if rest[0] == b'<' {
            return self.tag();
        }
        let end = rest.iter().position(|&byte| byte == b'<').unwrap_or(rest.len());
        self.at += end;
        let text = rest[..end].trim_ascii();
        Ok(Some(if text.is_empty() { XmlEvent::Other } else { XmlEvent::Text(text) }))
    }

    fn skip(&mut self, end: &[u8]) -> Result<Option<XmlEvent<'a>>, LineError> {
        let found = self.bytes[self.at..].windows(end.len()).position(|window| window == end);
        self.at += found.ok_or_else(|| self.flaw("a comment or declaration without an end"))? + end.len();
        Ok(Some(XmlEvent::Other))
    }

    fn tag(&mut self) -> Result<Option<XmlEvent<'a>>, LineError> {
        let rest = &self.bytes[self.at + 1..];
        let end =
            rest.iter().position(|&byte| byte == b'>').ok_or_else(|| self.flaw("a tag without an end"))?;
        let (inner, closed) = match rest[..end].split_last() {
            Some((b'/', inner)) => (inner, true),
            _ => (&rest[..end], false),
        };
        let split = inner.iter().position(u8::is_ascii_whitespace).unwrap_or(inner.len());
        let name = std::str::from_utf8(&inner[..split]).map_err(|_| self.flaw("a tag that is not UTF-8"))?;
        if let Some(name) = name.strip_prefix('/') {
            if self.path.last() != Some(&name) {
                return Err(self.flaw(format!("</{name}> closes an element that is not open")));
            }
            self.path.pop();
            self.at += end + 2;
            return Ok(Some(XmlEvent::Other));
        }
        if name.is_empty() || self.path.len() >= DEEPEST {
            return Err(self.flaw("a tag without a name, or nested too deeply"));
        }
        self.path.push(name);
        self.at += end + 2;
        self.closed = closed;
        Ok(Some(XmlEvent::Open(&inner[split..])))
    }
}

/// The value of an attribute.
fn attribute<'a>(attributes: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let at = attributes.windows(name.len()).position(|window| window == name)?;
    let rest = attributes[at + name.len()..].trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    let (&quote, rest) = rest.split_first()?;
    let end = rest.iter().position(|&byte| byte == quote)?;
    matches!(quote, b'"' | b'\'').then(|| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_encoding_and_decoding() {
        let mut space = PhaseSpace::new([1.0, 20.0, 1.0 / 3.0], Vec::new());
        (space.time, space.molecules, space.molecule_format) =
            (91.183_499_999_907_2, 118, MoleculeFormat::Icrv);
        assert_eq!(read(encode(&space, 118).as_bytes()), Ok(space));
    }

    #[test]
    fn errors_name_the_line() {
        let whole = encode(&PhaseSpace::new([1.0; 3], Vec::new()), 5);
        let cases = [
            (whole.replace("<time>0.0", "<time>x"), 4, "not a number"),
            (whole.replace("<number>5", "<number>-5"), 8, "not a number of molecules"),
            (whole.replace("ICRVQD", "IQ"), 9, "not a molecule format"),
            (whole.replace("<x>1.0", "<x>0"), 12, "no volume"),
            (whole.replace("    <number>5</number>\n", ""), 11, "/mardyn/headerinfo/number"),
            (whole.replace("</length>", "</lenght>"), 7, "closes an element that is not open"),
            (whole.replace("</mardyn>\n", ""), 11, "ends inside <mardyn>"),
            (whole.replace("<mardyn ", "<!-- "), 2, "without an end"),
            (String::new(), 1, "is missing"),
        ];
        for (text, line, what) in cases {
            let flaw = read(text.as_bytes()).unwrap_err();
            assert!(flaw.line == line && flaw.what.contains(what), "{text}: {flaw:?}");
        }
    }
}
