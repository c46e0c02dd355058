//! Enumerations: the number of the variant, then its fields.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{DataEnum, DeriveInput, Error, Ident, LitStr, Result, Variant};

use crate::attributes::{TypeAttributes, VariantAttributes};
use crate::generics;
use crate::structs::{StructField, fields};

/// A variant and its attributes.
struct EnumVariant<'a> {
    variant: &'a Variant,
    fields: Vec<StructField<'a>>,
    name: LitStr,
    aliases: Vec<LitStr>,
    number: u32,
}

impl EnumVariant<'_> {
    /// A binding for each field in the match pattern; skipped fields have none.
    fn bindings(&self) -> Vec<Ident> {
        (0..self.fields.len()).map(|place| format_ident!("field{place}")).collect()
    }

    fn stored(&self) -> Vec<Ident> {
        let bound = self.bindings().into_iter().zip(&self.fields);
        bound.filter(|(_, field)| !field.attributes.skip).map(|(binding, _)| binding).collect()
    }

    /// `Self::Variant { a: field0, … }`, valid for struct, tuple and unit variants.
    fn pattern(&self) -> TokenStream {
        let ident = &self.variant.ident;
        let stored =
            self.bindings().into_iter().zip(&self.fields).filter(|(_, field)| !field.attributes.skip);
        let parts = stored.map(|(binding, field)| {
            let member = &field.member;
            quote!(#member: #binding)
        });
        quote!(Self::#ident { #(#parts,)* .. })
    }

    fn size_arm(&self, krate: &TokenStream) -> TokenStream {
        let (pattern, stored) = (self.pattern(), self.stored());
        quote!(#pattern => 4 #(+ #krate::Object::encoded_size(#stored))*)
    }

    fn encode_arm(&self, krate: &TokenStream) -> TokenStream {
        let (pattern, stored, number) = (self.pattern(), self.stored(), self.number);
        quote!(#pattern => {
            #krate::Object::encode(&#number, out);
            #(#krate::Object::encode(#stored, out);)*
        })
    }

    fn decode_arm(&self, krate: &TokenStream) -> TokenStream {
        let (ident, number, name) = (&self.variant.ident, self.number, &self.name);
        let decoded = self.fields.iter().map(|field| field.decode(krate));
        quote!(#number => {
            let mut variant = || -> ::core::result::Result<Self, #krate::DecodeError> {
                ::core::result::Result::Ok(Self::#ident { #(#decoded),* })
            };
            variant().map_err(|error| error.inside(#name))
        })
    }

    fn describe(&self, krate: &TokenStream) -> TokenStream {
        let (name, aliases) = (&self.name, &self.aliases);
        let described =
            self.fields.iter().filter(|field| !field.attributes.skip).map(|field| field.describe(krate));
        quote!(#krate::schema::Variant::new(#name, ::std::vec![#(#described),*]) #(.with_alias(#aliases))*)
    }
}

fn enum_variants(data: &DataEnum) -> Result<Vec<EnumVariant<'_>>> {
    let mut found: Vec<EnumVariant<'_>> = Vec::new();
    for (variant, number) in data.variants.iter().zip(0..) {
        let attributes = VariantAttributes::parse(&variant.attrs)?;
        let name =
            attributes.rename.unwrap_or_else(|| LitStr::new(&variant.ident.to_string(), Span::call_site()));
        if found.iter().any(|other| other.name.value() == name.value()) {
            let why = format!("two variants would be stored as {:?}; rename one of them", name.value());
            return Err(Error::new_spanned(variant, why));
        }
        found.push(EnumVariant {
            variant,
            fields: fields(&variant.fields)?,
            name,
            aliases: attributes.aliases,
            number,
        });
    }
    Ok(found)
}

pub(crate) fn expand(input: &DeriveInput, data: &DataEnum, krate: &TokenStream) -> Result<TokenStream> {
    if data.variants.is_empty() {
        let why = "an enum without variants has no values to store; add a variant";
        return Err(Error::new_spanned(&input.ident, why));
    }
    let attributes = TypeAttributes::parse(&input.attrs)?;
    if let Some(removed) = attributes.removed.first() {
        let why = "`removed` applies to structures; keep the variant, because files may hold values of it";
        return Err(Error::new_spanned(removed, why));
    }
    let all = enum_variants(data)?;
    let name = attributes.rename.unwrap_or_else(|| LitStr::new(&input.ident.to_string(), Span::call_site()));
    let plain = all.iter().all(|choice| choice.fields.iter().all(|field| field.attributes.skip));
    let (size, category) =
        if plain { (quote!(Some(4)), quote!(Constant)) } else { (quote!(None), quote!(Variable)) };
    let sizes = all.iter().map(|choice| choice.size_arm(krate));
    let encodes = all.iter().map(|choice| choice.encode_arm(krate));
    let decodes = all.iter().map(|choice| choice.decode_arm(krate));
    let describes = all.iter().map(|choice| choice.describe(krate));
    let stored = all.iter().flat_map(|choice| choice.fields.iter()).filter(|field| !field.attributes.skip);
    let generics = generics::add_object_bounds(&input.generics, krate, &stored.map(|field| field.ty));
    let (implementation, _, conditions) = generics.split_for_impl();
    let (ident, (_, arguments, _)) = (&input.ident, input.generics.split_for_impl());
    Ok(quote! {
        // SAFETY: an enum is never trivial.
        #[automatically_derived]
        unsafe impl #implementation #krate::Object for #ident #arguments #conditions {
            const SIZE: ::core::option::Option<usize> = ::core::option::Option::#size;
            const CATEGORY: #krate::Category = #krate::Category::#category;

            fn describe(builder: &mut #krate::SchemaBuilder) -> #krate::schema::Type {
                builder.enumeration::<Self>(#name, |builder| ::std::vec![#(#describes),*])
            }

            #[inline]
            fn encoded_size(&self) -> usize {
                match self { #(#sizes,)* }
            }

            #[inline]
            fn encode(&self, out: &mut #krate::Encoder<'_>) {
                match self { #(#encodes)* }
            }

            #[inline]
            fn decode(input: &mut #krate::Decoder<'_>) -> ::core::result::Result<Self, #krate::DecodeError> {
                match <u32 as #krate::Object>::decode(input)? {
                    #(#decodes)*
                    other => ::core::result::Result::Err(input.no_variant(#name, other)),
                }
            }
        }
    })
}
