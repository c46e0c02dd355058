//! The attributes `#[object(…)]` of types, variants and fields.

use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Expr, LitStr, Result, Token, meta::ParseNestedMeta};

/// The attributes of a field.
#[derive(Default)]
pub(crate) struct FieldAttributes {
    pub(crate) skip: bool,
    pub(crate) rename: Option<LitStr>,
    pub(crate) default: Option<DefaultValue>,
    pub(crate) unit: Option<LitStr>,
    pub(crate) description: Option<LitStr>,
    pub(crate) aliases: Vec<LitStr>,
}

/// The value of a field that is not stored.
pub(crate) enum DefaultValue {
    /// `Default::default()`.
    OfType,
    Expression(Box<Expr>),
}

/// The attributes of a type.
#[derive(Default)]
pub(crate) struct TypeAttributes {
    pub(crate) rename: Option<LitStr>,
    pub(crate) removed: Vec<LitStr>,
}

/// The attributes of a variant.
#[derive(Default)]
pub(crate) struct VariantAttributes {
    pub(crate) rename: Option<LitStr>,
    pub(crate) aliases: Vec<LitStr>,
}

impl FieldAttributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut found = Self::default();
        parse_each(attributes, |meta| {
            match name(&meta).as_str() {
            "skip" => {
                found.skip = true;
                Ok(())
            }
            "rename" => once(&meta, &mut found.rename),
            "unit" => once(&meta, &mut found.unit),
            "description" => once(&meta, &mut found.description),
            "alias" => append(&meta, &mut found.aliases),
            "default" => {
                found.default = Some(if meta.input.peek(Token![=]) {
                    DefaultValue::Expression(Box::new(meta.value()?.parse()?))
                } else {
                    DefaultValue::OfType
                });
                Ok(())
            }
            other => Err(meta.error(format!(
                "`{other}` is not an attribute of fields; there are skip, rename = \"…\", default, default = …, \
                 unit = \"…\", description = \"…\", alias = \"…\""
            ))),
        }
        })?;
        let stored = found.rename.as_ref().or(found.unit.as_ref()).or(found.description.as_ref());
        match stored.or(found.aliases.first()).filter(|_| found.skip) {
            Some(attribute) => Err(Error::new_spanned(
                attribute,
                "a field that is skipped is not stored: it has no name, unit or description in the file",
            )),
            None => Ok(found),
        }
    }
}

impl TypeAttributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut found = Self::default();
        parse_each(attributes, |meta| match name(&meta).as_str() {
            "rename" => once(&meta, &mut found.rename),
            "removed" => list(&meta, &mut found.removed),
            other => Err(meta.error(format!(
                "`{other}` is not an attribute of types; there are rename = \"…\" and removed(\"…\", …)"
            ))),
        })?;
        Ok(found)
    }
}

impl VariantAttributes {
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut found = Self::default();
        parse_each(attributes, |meta| match name(&meta).as_str() {
            "rename" => once(&meta, &mut found.rename),
            "alias" => append(&meta, &mut found.aliases),
            other => Err(meta.error(format!(
                "`{other}` is not an attribute of variants; there are rename = \"…\" and alias = \"…\""
            ))),
        })?;
        Ok(found)
    }
}

fn parse_each(
    attributes: &[Attribute],
    mut take: impl FnMut(ParseNestedMeta<'_>) -> Result<()>,
) -> Result<()> {
    let ours = attributes.iter().filter(|attribute| attribute.path().is_ident("object"));
    ours.into_iter().try_for_each(|attribute| attribute.parse_nested_meta(&mut take))
}

fn name(meta: &ParseNestedMeta<'_>) -> String {
    meta.path.get_ident().map_or_else(String::new, ToString::to_string)
}

fn once(meta: &ParseNestedMeta<'_>, into: &mut Option<LitStr>) -> Result<()> {
    if into.is_some() {
        return Err(meta.error("this attribute is given twice"));
    }
    *into = Some(meta.value()?.parse()?);
    Ok(())
}

/// One more value of an attribute that may be repeated, as serde's `alias`.
fn append(meta: &ParseNestedMeta<'_>, into: &mut Vec<LitStr>) -> Result<()> {
    into.push(meta.value()?.parse()?);
    Ok(())
}

fn list(meta: &ParseNestedMeta<'_>, into: &mut Vec<LitStr>) -> Result<()> {
    let inside;
    syn::parenthesized!(inside in meta.input);
    into.extend(Punctuated::<LitStr, Token![,]>::parse_terminated(&inside)?);
    Ok(())
}
