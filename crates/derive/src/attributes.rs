//! `#[object(…)]`: what the author says about a type, a variant or a field.

use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Expr, LitStr, Result, Token, meta::ParseNestedMeta};

/// What is said about a field.
#[derive(Default)]
pub(crate) struct FieldAttributes {
    pub(crate) skip: bool,
    pub(crate) rename: Option<LitStr>,
    pub(crate) default: Option<DefaultValue>,
    pub(crate) unit: Option<LitStr>,
    pub(crate) description: Option<LitStr>,
    pub(crate) aliases: Vec<LitStr>,
}

/// Where the value of a field comes from that is not stored.
pub(crate) enum DefaultValue {
    /// `Default::default()`.
    OfType,
    Expression(Box<Expr>),
}

/// What is said about a type.
#[derive(Default)]
pub(crate) struct TypeAttributes {
    pub(crate) rename: Option<LitStr>,
    pub(crate) removed: Vec<LitStr>,
}

/// What is said about a variant.
#[derive(Default)]
pub(crate) struct VariantAttributes {
    pub(crate) rename: Option<LitStr>,
    pub(crate) aliases: Vec<LitStr>,
}

impl FieldAttributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut words = Self::default();
        each(attributes, |meta| {
            match word(&meta).as_str() {
            "skip" => {
                words.skip = true;
                Ok(())
            }
            "rename" => once(&meta, &mut words.rename),
            "unit" => once(&meta, &mut words.unit),
            "description" => once(&meta, &mut words.description),
            "was" => list(&meta, &mut words.aliases),
            "default" => {
                words.default = Some(if meta.input.peek(Token![=]) {
                    DefaultValue::Expression(Box::new(meta.value()?.parse()?))
                } else {
                    DefaultValue::OfType
                });
                Ok(())
            }
            other => Err(meta.error(format!(
                "`{other}` is not an attribute of fields; there are skip, rename = \"…\", default, default = …, \
                 unit = \"…\", description = \"…\", was(\"…\")"
            ))),
        }
        })?;
        let stored = words.rename.as_ref().or(words.unit.as_ref()).or(words.description.as_ref());
        match stored.or(words.aliases.first()).filter(|_| words.skip) {
            Some(said) => Err(Error::new_spanned(
                said,
                "a field that is skipped is not stored: it has no name, unit or description in the file",
            )),
            None => Ok(words),
        }
    }
}

impl TypeAttributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut words = Self::default();
        each(attributes, |meta| match word(&meta).as_str() {
            "rename" => once(&meta, &mut words.rename),
            "removed" => list(&meta, &mut words.removed),
            other => Err(meta.error(format!(
                "`{other}` is not an attribute of types; there are rename = \"…\" and removed(\"…\", …)"
            ))),
        })?;
        Ok(words)
    }
}

impl VariantAttributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut words = Self::default();
        each(attributes, |meta| match word(&meta).as_str() {
            "rename" => once(&meta, &mut words.rename),
            "was" => list(&meta, &mut words.aliases),
            other => Err(meta.error(format!(
                "`{other}` is not an attribute of variants; there are rename = \"…\" and was(\"…\")"
            ))),
        })?;
        Ok(words)
    }
}

fn each(attributes: &[Attribute], mut take: impl FnMut(ParseNestedMeta<'_>) -> Result<()>) -> Result<()> {
    let ours = attributes.iter().filter(|attribute| attribute.path().is_ident("object"));
    ours.into_iter().try_for_each(|attribute| attribute.parse_nested_meta(&mut take))
}

fn word(meta: &ParseNestedMeta<'_>) -> String {
    meta.path.get_ident().map_or_else(String::new, ToString::to_string)
}

fn once(meta: &ParseNestedMeta<'_>, into: &mut Option<LitStr>) -> Result<()> {
    if into.is_some() {
        return Err(meta.error("this is said twice"));
    }
    *into = Some(meta.value()?.parse()?);
    Ok(())
}

fn list(meta: &ParseNestedMeta<'_>, into: &mut Vec<LitStr>) -> Result<()> {
    let inside;
    syn::parenthesized!(inside in meta.input);
    into.extend(Punctuated::<LitStr, Token![,]>::parse_terminated(&inside)?);
    Ok(())
}
