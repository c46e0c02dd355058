//! Structures: fields in the order of their declaration, without gaps.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::{DataStruct, DeriveInput, Error, Fields, Index, LitStr, Member, Result, Type};

use crate::attributes::{DefaultValue, FieldAttributes, TypeAttributes};
use crate::{generics, unsupported};

/// A field and its attributes.
pub(crate) struct StructField<'a> {
    /// Its name or index in the structure.
    pub(crate) member: Member,
    pub(crate) ty: &'a Type,
    /// Its name in files.
    pub(crate) name: LitStr,
    pub(crate) attributes: FieldAttributes,
}

/// The fields of a structure or variant; their names in files are all different.
pub(crate) fn fields(fields: &Fields) -> Result<Vec<StructField<'_>>> {
    let mut found: Vec<StructField<'_>> = Vec::new();
    for (place, field) in fields.iter().enumerate() {
        let attributes = FieldAttributes::parse(&field.attrs)?;
        if !attributes.skip {
            unsupported::check_field_type(&field.ty)?;
        }
        let (member, plain) = match &field.ident {
            Some(ident) => {
                (Member::Named(ident.clone()), ident.to_string().trim_start_matches("r#").to_owned())
            }
            None => (Member::Unnamed(Index::from(place)), place.to_string()),
        };
        let name = attributes.rename.clone().unwrap_or_else(|| LitStr::new(&plain, Span::call_site()));
        if let Some(bad) = name.value().chars().find(|letter| ".[]".contains(*letter) || letter.is_control())
        {
            let why = format!("{bad:?} separates the parts of a field path; choose a name without it");
            return Err(Error::new_spanned(&name, why));
        }
        let stored = found.iter().filter(|other| !other.attributes.skip && !attributes.skip);
        if stored.into_iter().any(|other| other.name.value() == name.value()) {
            let why = format!("two fields would be stored as {:?}; rename one of them", name.value());
            return Err(Error::new_spanned(field, why));
        }
        found.push(StructField { member, ty: &field.ty, name, attributes });
    }
    Ok(found)
}

impl StructField<'_> {
    /// The value if none is stored.
    fn default_value(&self) -> TokenStream {
        match &self.attributes.default {
            Some(DefaultValue::Expression(expression)) => quote!(#expression),
            _ => quote!(::core::default::Default::default()),
        }
    }

    /// `member: value`, decoded or the default.
    pub(crate) fn decode(&self, krate: &TokenStream) -> TokenStream {
        let (member, ty, name) = (&self.member, self.ty, &self.name);
        if self.attributes.skip {
            let value = self.default_value();
            return quote!(#member: #value);
        }
        quote!(#member: <#ty as #krate::Object>::decode(input).map_err(|error| error.inside(#name))?)
    }

    /// The expression of its schema entry.
    pub(crate) fn describe(&self, krate: &TokenStream) -> TokenStream {
        let (ty, name) = (self.ty, &self.name);
        let unit = self.attributes.unit.iter();
        let description = self.attributes.description.iter();
        let aliases = &self.attributes.aliases;
        let default = self.attributes.default.as_ref().map(|_| {
            let value = self.default_value();
            quote!(.with_default(#krate::encode::<#ty>(&{ #value })))
        });
        quote! {
            #krate::schema::Field::new(#name, builder.describe::<#ty>())
                #(.with_unit(#unit))* #(.with_description(#description))* #(.with_alias(#aliases))* #default
        }
    }
}

pub(crate) fn expand(input: &DeriveInput, data: &DataStruct, krate: &TokenStream) -> Result<TokenStream> {
    let attributes = TypeAttributes::parse(&input.attrs)?;
    let all = fields(&data.fields)?;
    let stored: Vec<&StructField<'_>> = all.iter().filter(|field| !field.attributes.skip).collect();
    let name = attributes.rename.unwrap_or_else(|| LitStr::new(&input.ident.to_string(), Span::call_site()));
    let types = || stored.iter().map(|field| field.ty);
    let members: Vec<&Member> = stored.iter().map(|field| &field.member).collect();
    let (types_a, types_b) = (types(), types());
    let decoded = all.iter().map(|field| field.decode(krate));
    let described = stored.iter().map(|field| field.describe(krate));
    let skips = all.len() > stored.len();
    let removed = &attributes.removed;
    let generics = generics::add_object_bounds(&input.generics, krate, &types());
    let (implementation, _, conditions) = generics.split_for_impl();
    let (ident, (_, arguments, _)) = (&input.ident, input.generics.split_for_impl());
    Ok(quote! {
        // SAFETY: the category is trivial only if all fields are trivial, in encoding order and without padding.
        #[automatically_derived]
        unsafe impl #implementation #krate::Object for #ident #arguments #conditions {
            const SIZE: ::core::option::Option<usize> =
                #krate::fold::size(&[#(<#types_a as #krate::Object>::SIZE),*]);
            const CATEGORY: #krate::Category = #krate::fold::category(
                &[#(#krate::fold::part::<#types_b>(::core::mem::offset_of!(Self, #members))),*],
                ::core::mem::size_of::<Self>(),
                #skips,
            );

            fn describe(builder: &mut #krate::SchemaBuilder) -> #krate::schema::Type {
                builder.structure::<Self>(#name, |builder| ::std::vec![#(#described),*], &[#(#removed),*])
            }

            #[inline]
            fn encoded_size(&self) -> usize {
                if let ::core::option::Option::Some(size) = Self::SIZE {
                    return size;
                }
                0 #(+ #krate::Object::encoded_size(&self.#members))*
            }

            #[inline]
            fn encode(&self, out: &mut #krate::Encoder<'_>) {
                #(#krate::Object::encode(&self.#members, out);)*
            }

            #[inline]
            fn decode(input: &mut #krate::Decoder<'_>) -> ::core::result::Result<Self, #krate::DecodeError> {
                ::core::result::Result::Ok(Self { #(#decoded),* })
            }
        }
    })
}
