//! Elements from the signatures of their types, as manifests of checkpoints have them: see `docs/format-object.md`.

use super::{Element, Number};

/// An element has not more numbers than this, else it is bytes here.
const MOST_PARTS: usize = 1 << 12;

/// The element of a type of constant size that takes so many bytes; its bytes alone, if the signature tells of more than numbers.
pub(super) fn element(signature: &str, size: u64) -> Element {
    let mut parser = Parser { rest: signature, at: 0, parts: Vec::new() };
    let known = parser.parse("").is_some() && parser.rest.is_empty() && parser.at == size;
    Element::new(signature.to_owned(), size, known.then_some(parser.parts))
}

/// The bytes of a type that is made of numbers alone.
pub(super) fn size(signature: &str) -> Option<u64> {
    let mut parser = Parser { rest: signature, at: 0, parts: Vec::new() };
    parser.parse("")?;
    parser.rest.is_empty().then_some(parser.at)
}

struct Parser<'s> {
    rest: &'s str,
    at: u64,
    parts: Vec<(u64, String, Number)>,
}

impl Parser<'_> {
    /// The next type, of a part of this name; none if it is more than numbers.
    fn parse(&mut self, name: &str) -> Option<()> {
        if self.skip("[") {
            return self.array(name);
        }
        if self.skip("(") {
            return self.fields(name, ")", |_, number| Some(number.to_string()));
        }
        let word = self.word();
        if !word.is_empty() && self.skip("{") {
            return self.fields(name, "}", |parser, _| {
                let field = parser.word();
                parser.skip(":").then_some(field)
            });
        }
        let number = match word.as_str() {
            "bool" | "u8" => Number::U8,
            "u16" => Number::U16,
            "u32" | "char" => Number::U32,
            "u64" => Number::U64,
            "i8" => Number::I8,
            "i16" => Number::I16,
            "i32" => Number::I32,
            "i64" => Number::I64,
            "f32" => Number::F32,
            "f64" => Number::F64,
            _ => return None,
        };
        (self.parts.len() < MOST_PARTS).then(|| self.parts.push((self.at, name.to_owned(), number)))?;
        self.at += number.size();
        Some(())
    }

    /// The rest of `[T;n]`.
    fn array(&mut self, name: &str) -> Option<()> {
        let inner = self.rest;
        let (before, known) = (self.at, self.parts.len());
        self.parse(&format!("{name}[0]"))?;
        let after = self.skip(";").then_some(self.rest)?;
        let count: u64 = self.word().parse().ok()?;
        self.skip("]").then_some(())?;
        let end = self.rest;
        debug_assert!(inner.len() > after.len());
        (self.at, self.rest) = (before, end);
        self.parts.truncate(known);
        for index in 0..count {
            self.rest = inner;
            self.parse(&format!("{name}[{index}]"))?;
        }
        self.rest = end;
        Some(())
    }

    /// The rest of a tuple or structure, whose parts are called as `called` says.
    fn fields(
        &mut self,
        name: &str,
        end: &str,
        called: impl Fn(&mut Self, usize) -> Option<String>,
    ) -> Option<()> {
        for number in 0.. {
            if self.skip(end) {
                break;
            }
            let field = called(self, number)?;
            self.parse(&if name.is_empty() { field } else { format!("{name}.{field}") })?;
            // A unit belongs to the field, not to its type.
            if self.skip("<") {
                self.rest = self.rest.split_once('>')?.1;
            }
            if !self.skip(",") && !self.rest.starts_with(end) {
                return None;
            }
        }
        Some(())
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
    fn numbers_arrays_and_structures_are_known() {
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
        assert_eq!(parts("f64", 4), None, "the size is another one");
        assert_eq!((size("[f64;3]"), size("text")), (Some(24), None));
    }
}
