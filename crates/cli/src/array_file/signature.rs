//! Element types from type signatures, as in the manifests of checkpoints: see `docs/format-object.md`.

use super::{ElementType, NumberType};

/// The greatest number of numbers in an element; an element with more is treated as bytes.
const MOST_PARTS: usize = 1 << 12;

/// The greatest nesting depth of types; a deeper type is treated as bytes, since a damaged file may claim any depth.
const DEEPEST: usize = 64;

/// The greatest total length of the names of an element's numbers.
const LONGEST_NAMES: usize = 1 << 20;

/// The element type of a signature of constant size with this number of bytes; bytes, if the type has other fields than numbers.
pub(super) fn element(signature: &str, size: u64) -> ElementType {
    let parts = parse(signature).filter(|parsed| parsed.size == size).map(|parsed| parsed.parts);
    ElementType::new(signature.to_owned(), size, parts)
}

/// The size of a type of numbers.
pub(super) fn size(signature: &str) -> Option<u64> {
    parse(signature).map(|parsed| parsed.size)
}

fn parse(signature: &str) -> Option<ParsedType> {
    let mut parser = SignatureParser { rest: signature, depth: 0 };
    let parsed = parser.parse()?;
    parser.rest.is_empty().then_some(parsed)
}

/// A type of numbers: its size, and offset and name of each number.
#[derive(Default)]
struct ParsedType {
    size: u64,
    parts: Vec<(u64, String, NumberType)>,
    /// The total length of the names.
    names: usize,
}

impl ParsedType {
    /// Appends another type under a name; `None` if the result is too large.
    fn push(&mut self, name: &str, inner: &Self) -> Option<()> {
        let names = self.names + inner.names + inner.parts.len() * (name.len() + 1);
        if self.parts.len() + inner.parts.len() > MOST_PARTS || names > LONGEST_NAMES {
            return None;
        }
        for (at, field, number) in &inner.parts {
            let joint = if name.is_empty() || field.is_empty() || field.starts_with('[') { "" } else { "." };
            self.parts.push((self.size.checked_add(*at)?, format!("{name}{joint}{field}"), *number));
        }
        (self.names, self.size) = (names, self.size.checked_add(inner.size)?);
        Some(())
    }
}

struct SignatureParser<'s> {
    rest: &'s str,
    depth: usize,
}

impl SignatureParser<'_> {
    /// Parses the next type; `None` if it has other fields than numbers.
    fn parse(&mut self) -> Option<ParsedType> {
        if self.depth == DEEPEST {
            return None;
        }
        self.depth += 1;
        let parsed = self.parse_inner();
        self.depth -= 1;
        parsed
    }

    fn parse_inner(&mut self) -> Option<ParsedType> {
        if self.skip("[") {
            return self.array();
        }
        if self.skip("(") {
            return self.fields(")", |_, number| Some(number.to_string()));
        }
        let word = self.word();
        if !word.is_empty() && self.skip("{") {
            return self.fields("}", |parser, _| {
                let field = parser.word();
                parser.skip(":").then_some(field)
            });
        }
        let number = match word.as_str() {
            "bool" | "u8" => NumberType::U8,
            "u16" => NumberType::U16,
            "u32" | "char" => NumberType::U32,
            "u64" => NumberType::U64,
            "i8" => NumberType::I8,
            "i16" => NumberType::I16,
            "i32" => NumberType::I32,
            "i64" => NumberType::I64,
            "f32" => NumberType::F32,
            "f64" => NumberType::F64,
            _ => return None,
        };
        Some(ParsedType { size: number.size(), parts: vec![(0, String::new(), number)], names: 0 })
    }

    /// Parses the rest of `[T;n]`: T is parsed once and repeated.
    fn array(&mut self) -> Option<ParsedType> {
        let inner = self.parse()?;
        self.skip(";").then_some(())?;
        let count: u64 = self.word().parse().ok()?;
        self.skip("]").then_some(())?;
        let mut all = ParsedType::default();
        // Elements of size 0 are skipped; others reach the limit soon.
        for index in 0..if inner.parts.is_empty() { 0 } else { count } {
            all.push(&format!("[{index}]"), &inner)?;
        }
        Some(all)
    }

    /// Parses the rest of a tuple or structure; `called` gives the names of its fields.
    fn fields(
        &mut self,
        end: &str,
        called: impl Fn(&mut Self, usize) -> Option<String>,
    ) -> Option<ParsedType> {
        let mut all = ParsedType::default();
        for number in 0.. {
            if self.skip(end) {
                break;
            }
            let field = called(self, number)?;
            let inner = self.parse()?;
            all.push(&field, &inner)?;
            // A unit belongs to the field, not to its type.
            if self.skip("<") {
                self.rest = self.rest.split_once('>')?.1;
            }
            if !self.skip(",") && !self.rest.starts_with(end) {
                return None;
            }
        }
        Some(all)
    }

    fn skip(&mut self, what: &str) -> bool {
        let rest = self.rest.strip_prefix(what);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn word(&mut self) -> String {
        let end = self.rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(signature: &str, size: u64) -> Option<Vec<(u64, String)>> {
        let parts = element(signature, size).parts?;
        Some(parts.into_iter().map(|(at, name, _)| (at, name)).collect())
    }

    #[test]
    fn numbers_arrays_and_structures_are_parsed() {
        let named =
            |list: &[(u64, &str)]| Some(list.iter().map(|(at, name)| (*at, (*name).to_owned())).collect());
        assert_eq!(parts("f64", 8), named(&[(0, "")]));
        assert_eq!(parts("[f32;2]", 8), named(&[(0, "[0]"), (4, "[1]")]));
        assert_eq!(
            parts("W{id:u16,at:[f64;1]<m>,t:(u8,u8)}", 12),
            named(&[(0, "id"), (2, "at[0]"), (10, "t.0"), (11, "t.1")])
        );
        assert_eq!(
            parts("[[u8;2];2]", 4),
            named(&[(0, "[0][0]"), (1, "[0][1]"), (2, "[1][0]"), (3, "[1][1]")])
        );
        for other in ["text", "[f64]", "u8?", "N<A,B>", "W{a:text}", "[f64;2", "f64x", "", "[u8;9999999999]"]
        {
            assert_eq!(parts(other, 8), None, "{other}");
        }
        assert_eq!(parts("f64", 4), None, "the size differs");
        assert_eq!((size("[f64;3]"), size("text")), (Some(24), None));
        assert_eq!((size("()"), size("[();9999999999]"), size("[f64;0]")), (Some(0), Some(0), Some(0)));
    }

    /// Depth, counts and long names in a damaged manifest must not take more time than the length of the signature justifies.
    #[test]
    fn extreme_signatures_are_parsed_in_bounded_time() {
        let began = std::time::Instant::now();
        let nested = |depth: usize, count: u64| {
            format!("{}u8{}", "[".repeat(depth), format!(";{count}]").repeat(depth))
        };
        assert_eq!(size(&nested(40, 1)), Some(1));
        let long = "n".repeat(100_000);
        let hostile = [
            "(".repeat(1_000_000),
            "[".repeat(1_000_000),
            "a{b:".repeat(250_000),
            nested(1000, 1),
            nested(60, 2),
            nested(60, u64::MAX),
            format!("[{};99999999]", nested(12, 2)),
            format!("[(u64,{});{}]", nested(11, 2), u64::MAX),
            format!("[{long}{{{long}:u8}};4000]"),
        ];
        for signature in &hostile {
            let start: String = signature.chars().take(40).collect();
            assert!(size(signature).is_none() && element(signature, 8).parts.is_none(), "{start}");
        }
        assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    }

    /// Random texts of signature tokens: an accepted type has its numbers inside its size, and at most the allowed number.
    #[test]
    fn random_signatures_are_rejected_or_valid() {
        const WORDS: [&str; 14] = ["[", "]", "(", ")", "{", "}", ";", ",", ":", "<m>", "u8", "f64", "3", "W"];
        let (mut state, mut accepted) = (7_u64, 0);
        for _ in 0..200_000 {
            let mut text = String::new();
            for _ in 0..=state >> 60 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                text.push_str(WORDS[(state >> 33) as usize % WORDS.len()]);
            }
            let Some(parsed) = parse(&text) else { continue };
            accepted += 1;
            assert!(parsed.parts.len() <= MOST_PARTS, "{text}");
            assert!(parsed.parts.iter().all(|(at, _, number)| at + number.size() <= parsed.size), "{text}");
        }
        assert!(accepted > 100, "{accepted}");
    }
}
