//! The forms in which values are printed: text, CSV, JSON, npy.

use std::fmt::Write as _;

use anyhow::{Result, ensure};

use crate::array_file::{Array, ArrayPart, AttributeValue, ElementType, NumberType};
use crate::file_commands::json;

/// A form of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DumpForm {
    Text,
    Csv,
    Json,
    Npy,
}

/// Encodes the parts of an array. Each part is encoded alone, so that ranks can share them.
pub(super) struct ArrayEncoder<'a> {
    form: DumpForm,
    array: &'a Array,
    /// The bytes of the fill value, which text shows as `_`.
    fill: Option<&'a [u8]>,
    /// Factor and offset of packed values, if they are applied.
    packing: Option<(f64, f64)>,
}

impl<'a> ArrayEncoder<'a> {
    /// With `unpack`, the attributes `scale_factor` and `add_offset` are applied.
    pub(super) fn new(form: DumpForm, array: &'a Array, unpack: bool) -> Result<Self> {
        if form == DumpForm::Npy {
            ensure!(
                array.element.parts.is_some(),
                "{}: its elements {} are not numbers, which npy cannot store",
                array.name,
                array.element.name
            );
        }
        let named = |name: &str| array.attributes.iter().find(|attribute| attribute.name == name);
        let fill = array.fill_value();
        let number = |name: &str| match named(name).map(|attribute| &attribute.value) {
            Some(AttributeValue::Numbers(kind, _, bytes)) => {
                ElementType::number(*kind).numbers(bytes)?.first().map(|value| value.nearest)
            }
            _ => None,
        };
        let packing = match (number("scale_factor"), number("add_offset")) {
            (None, None) => None,
            (factor, offset) => Some((factor.unwrap_or(1.0), offset.unwrap_or(0.0))),
        };
        let packing =
            packing.filter(|_| unpack && form != DumpForm::Npy && array.element.as_number().is_some());
        Ok(Self { form, array, fill, packing })
    }

    /// What precedes the values.
    pub(super) fn header(&self) -> Vec<u8> {
        let array = self.array;
        match self.form {
            DumpForm::Text => format!("# {} {}\n", array.name, array.element.name).into_bytes(),
            DumpForm::Csv => {
                let mut names: Vec<String> = (0..array.shape.len())
                    .map(|at| match array.dimensions.get(at).filter(|name| !name.is_empty()) {
                        Some(name) => csv_field(name),
                        None => format!("i{at}"),
                    })
                    .collect();
                match &array.element.parts {
                    Some(parts) if array.element.as_number().is_none() => {
                        names.extend(parts.iter().map(|(_, name, _)| csv_field(name)));
                    }
                    _ => names.push("value".to_owned()),
                }
                format!("{}\n", names.join(",")).into_bytes()
            }
            DumpForm::Json => {
                let about = serde_json::json!({
                    "name": array.name, "type": array.element.name, "shape": array.shape, "dimensions": array.dimensions,
                });
                let about = about.to_string();
                format!("{},\"data\":", &about[..about.len() - 1]).into_bytes()
            }
            DumpForm::Npy => npy_header(array),
        }
    }

    /// What follows the values.
    pub(super) fn end(&self) -> &'static [u8] {
        if self.form != DumpForm::Json {
            return b"";
        }
        if self.array.shape.contains(&0) { b"[]}" } else { b"}" }
    }

    /// A part as it is printed.
    pub(super) fn part(&self, part: &ArrayPart, bytes: Vec<u8>) -> Result<Vec<u8>> {
        Ok(match self.form {
            DumpForm::Text => self.text(part, &bytes).into_bytes(),
            DumpForm::Csv => self.csv(part, &bytes)?.into_bytes(),
            DumpForm::Json => self.json(part, &bytes)?.into_bytes(),
            DumpForm::Npy => bytes,
        })
    }

    /// A row of the first dimension per line. A part is some rows, or a part of one row.
    fn text(&self, part: &ArrayPart, bytes: &[u8]) -> String {
        let (array, mut text) = (self.array, String::new());
        let row = array.row_elements();
        let (mut done, mut rest) = (0, bytes);
        while done < part.count {
            let place = (part.first + done) % row;
            let count = (row - place).min(part.count - done);
            let (some, others) = rest.split_at(((count * array.element.size) as usize).min(rest.len()));
            if place > 0 {
                text.push(' ');
            }
            self.text_of_elements(some, &mut text);
            if place + count == row {
                text.push('\n');
            }
            (done, rest) = (done + count, others);
        }
        text
    }

    /// Elements of one row, separated by spaces. Text that is longer than a part is printed in pieces.
    fn text_of_elements(&self, bytes: &[u8], text: &mut String) {
        let array = self.array;
        // Text along the last dimension.
        if array.element.as_number() == Some(NumberType::Char) {
            let width = if array.shape.len() > 1 { array.shape.last().copied().unwrap_or(1) } else { 1 };
            for (at, part) in bytes.chunks(width.max(1) as usize).enumerate() {
                let space = if at == 0 { "" } else { " " };
                let _ = write!(text, "{space}{:?}", String::from_utf8_lossy(part).trim_end_matches('\0'));
            }
            return;
        }
        for (at, element) in bytes.chunks_exact(array.element.size.max(1) as usize).enumerate() {
            if at > 0 {
                text.push(' ');
            }
            if self.fill == Some(element) {
                text.push('_');
                continue;
            }
            for (at, field) in self.fields(element).into_iter().enumerate() {
                if at > 0 {
                    text.push(' ');
                }
                text.push_str(&field);
            }
        }
    }

    /// The numbers of an element as text; its bytes, if it has other fields.
    fn fields(&self, element: &[u8]) -> Vec<String> {
        match &self.array.element.parts {
            Some(parts) => {
                parts.iter().map(|(at, _, kind)| self.number(*kind, &element[*at as usize..])).collect()
            }
            None => vec![hexadecimal(element)],
        }
    }

    fn number(&self, kind: NumberType, bytes: &[u8]) -> String {
        let Some((factor, offset)) = self.packing else { return kind.text(bytes) };
        let size = kind.size() as usize;
        let value =
            ElementType::number(kind).numbers(&bytes[..size]).and_then(|values| values.first().copied());
        value.map_or(String::new(), |value| (value.nearest * factor + offset).to_string())
    }

    /// An element per line: its indices and its numbers.
    fn csv(&self, part: &ArrayPart, bytes: &[u8]) -> Result<String> {
        let mut text = String::new();
        let mut index = index_of(&self.array.shape, part.first);
        for element in bytes.chunks_exact(self.array.element.size.max(1) as usize) {
            for at in &index {
                write!(text, "{at},")?;
            }
            if self.fill == Some(element) {
                text.push('\n');
            } else if self.array.element.as_number() == Some(NumberType::Char) {
                writeln!(text, "{}", csv_field(&String::from_utf8_lossy(element)))?;
            } else {
                writeln!(text, "{}", self.fields(element).join(","))?;
            }
            advance(&mut index, &self.array.shape);
        }
        Ok(text)
    }

    /// Nested lists. A list begins where its first element is, and ends with its last one.
    fn json(&self, part: &ArrayPart, bytes: &[u8]) -> Result<String> {
        let shape = &self.array.shape;
        let mut text = String::new();
        let mut index = index_of(shape, part.first);
        for element in bytes.chunks_exact(self.array.element.size.max(1) as usize) {
            let begun = index.iter().rev().take_while(|at| **at == 0).count();
            if begun < index.len() {
                text.push(',');
            }
            text.extend(std::iter::repeat_n('[', begun));
            self.json_element(element, &mut text)?;
            let pairs = index.iter().zip(shape).rev();
            let ended = pairs.take_while(|(at, length)| **at + 1 == **length).count();
            text.extend(std::iter::repeat_n(']', ended));
            advance(&mut index, shape);
        }
        Ok(text)
    }

    fn json_element(&self, element: &[u8], text: &mut String) -> Result<()> {
        let value = |kind: NumberType, bytes: &[u8]| match self.packing {
            Some(_) => json::number(self.number(kind, bytes).parse().unwrap_or(f64::NAN)),
            None => json::element(kind, bytes),
        };
        let shown = match &self.array.element.parts {
            _ if self.fill == Some(element) => serde_json::Value::Null,
            None => hexadecimal(element).into(),
            Some(_) if self.array.element.as_number() == Some(NumberType::Char) => {
                String::from_utf8_lossy(element).into()
            }
            Some(parts) if self.array.element.as_number().is_none() => {
                let fields = parts
                    .iter()
                    .map(|(at, name, kind)| (name.clone(), value(*kind, &element[*at as usize..])));
                fields.collect::<serde_json::Map<_, _>>().into()
            }
            Some(parts) => {
                parts.first().map_or(serde_json::Value::Null, |(_, _, kind)| value(*kind, element))
            }
        };
        Ok(write!(text, "{shown}")?)
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A field of CSV (RFC 4180).
pub(super) fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn index_of(shape: &[u64], element: u64) -> Vec<u64> {
    let mut rest = element;
    let mut index: Vec<u64> = shape
        .iter()
        .rev()
        .map(|length| {
            let at = rest % (*length).max(1);
            rest /= (*length).max(1);
            at
        })
        .collect();
    index.reverse();
    index
}

/// The next index, the last dimension fastest.
fn advance(index: &mut [u64], shape: &[u64]) {
    for (at, length) in index.iter_mut().zip(shape).rev() {
        *at += 1;
        if *at < *length {
            return;
        }
        *at = 0;
    }
}

/// The header of version 1.0 of the format npy, see `numpy.lib.format`; version 2.0 for long ones.
fn npy_header(array: &Array) -> Vec<u8> {
    let lengths: Vec<String> = array.shape.iter().map(|length| format!("{length},")).collect();
    let dtype = dtype(&array.element);
    let mut text =
        format!("{{'descr': {dtype}, 'fortran_order': False, 'shape': ({}), }}", lengths.join(" "));
    let is_long = text.len() + 1 + 64 > usize::from(u16::MAX);
    let before = if is_long { 12 } else { 10 };
    // The data begins at a multiple of 64 bytes.
    let padding = (before + text.len() + 1).next_multiple_of(64) - (before + text.len() + 1);
    text.push_str(&" ".repeat(padding));
    text.push('\n');
    let mut bytes = b"\x93NUMPY".to_vec();
    if is_long {
        bytes.extend([2, 0]);
        bytes.extend((text.len() as u32).to_le_bytes());
    } else {
        bytes.extend([1, 0]);
        bytes.extend((text.len() as u16).to_le_bytes());
    }
    bytes.extend(text.bytes());
    bytes
}

/// The dtype of an element as a Python literal. Bytes that belong to no number are fields without a name.
fn dtype(element: &ElementType) -> String {
    let kind = |kind: NumberType| match kind {
        NumberType::I8 => "|i1",
        NumberType::U8 => "|u1",
        NumberType::Char => "|S1",
        NumberType::I16 => "<i2",
        NumberType::U16 => "<u2",
        NumberType::I32 => "<i4",
        NumberType::U32 => "<u4",
        NumberType::I64 => "<i8",
        NumberType::U64 => "<u8",
        NumberType::F32 => "<f4",
        NumberType::F64 => "<f8",
    };
    if let Some(number) = element.as_number().filter(|number| number.size() == element.size) {
        return format!("'{}'", kind(number));
    }
    let mut parts: Vec<&(u64, String, NumberType)> = element.parts.iter().flatten().collect();
    parts.sort_by_key(|(at, ..)| *at);
    let (mut fields, mut end) = (Vec::new(), 0);
    for (at, name, number) in parts {
        if *at > end {
            fields.push(format!("('', '|V{}')", at - end));
        }
        let name = if name.is_empty() { "value" } else { name };
        let name = name.replace('\\', "\\\\").replace('\'', "\\'");
        fields.push(format!("('{name}', '{}')", kind(*number)));
        end = at + number.size();
    }
    if end < element.size {
        fields.push(format!("('', '|V{}')", element.size - end));
    }
    format!("[{}]", fields.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(shape: &[u64]) -> (Array, Vec<u8>) {
        let array = Array::new("a", ElementType::number(NumberType::U8), shape.to_vec());
        let count = shape.iter().product::<u64>() as u8;
        (array, (0..count).collect())
    }

    /// A part from one element on.
    fn part(array: &Array, first: u64, count: u64) -> ArrayPart {
        let part = array.parts().next();
        part.map_or_else(|| unreachable!(), |part| ArrayPart { first, count, ..part })
    }

    #[test]
    fn json_is_the_same_wherever_parts_are_cut() {
        let (array, bytes) = numbers(&[2, 3, 2]);
        let encoder = ArrayEncoder::new(DumpForm::Json, &array, false).unwrap();
        let mut texts = Vec::new();
        for size in 1..=12 {
            let pieces = (0..12).step_by(size).map(|at| {
                let some = bytes[at..12.min(at + size)].to_vec();
                encoder.json(&part(&array, at as u64, some.len() as u64), &some).unwrap()
            });
            texts.push(pieces.collect::<String>());
        }
        assert_eq!(texts[0], "[[[0,1],[2,3],[4,5]],[[6,7],[8,9],[10,11]]]");
        assert!(texts.iter().all(|text| *text == texts[0]), "{texts:?}");
    }

    #[test]
    fn csv_has_an_element_per_line() {
        let (array, bytes) = numbers(&[2, 2]);
        let encoder = ArrayEncoder::new(DumpForm::Csv, &array, false).unwrap();
        assert_eq!(String::from_utf8(encoder.header()).unwrap(), "i0,i1,value\n");
        assert_eq!(encoder.csv(&part(&array, 1, 3), &bytes[1..]).unwrap(), "0,1,1\n1,0,2\n1,1,3\n");
        assert_eq!(csv_field("a,\"b\""), "\"a,\"\"b\"\"\"");
    }

    #[test]
    fn npy_headers_are_aligned_and_name_fields() {
        let element = ElementType::new(
            "P".into(),
            12,
            Some(vec![(0, "id".into(), NumberType::U16), (4, "x".into(), NumberType::F64)]),
        );
        let header = npy_header(&Array::new("p", element, vec![7]));
        assert!(header.len().is_multiple_of(64) && header.ends_with(b"\n"));
        let text = String::from_utf8_lossy(&header[10..]).into_owned();
        assert!(
            text.contains("[('id', '<u2'), ('', '|V2'), ('x', '<f8')]") && text.contains("(7,)"),
            "{text}"
        );
    }
}
