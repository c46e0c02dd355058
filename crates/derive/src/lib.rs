//! `#[derive(Object)]`: the schema, the size and the encoding of a type, computed from its fields at compile time.
//!
//! The trait, the attributes and examples are in the documentation of `aqueduct-object`; this crate generates the implementation.
//! It generates an `unsafe impl`: a type is declared trivial (copied as its bytes in memory) only if a constant expression shows that its
//! fields are trivial and without padding.

mod attributes;
mod enums;
mod generics;
mod structs;
mod unsupported;

use proc_macro::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, parse_macro_input};

/// Implements `aqueduct_object::Object`.
#[proc_macro_derive(Object, attributes(object))]
pub fn derive_object(input: TokenStream) -> TokenStream {
    expand(&parse_macro_input!(input), &quote!(::aqueduct_object))
}

/// The same for programs that depend on the facade crate `aqueduct` only.
#[proc_macro_derive(FacadeObject, attributes(object))]
pub fn derive_facade_object(input: TokenStream) -> TokenStream {
    expand(&parse_macro_input!(input), &quote!(::aqueduct::object))
}

fn expand(input: &DeriveInput, krate: &proc_macro2::TokenStream) -> TokenStream {
    let expanded = unsupported::check_lifetimes(input).and_then(|()| match &input.data {
        Data::Struct(data) => structs::expand(input, data, krate),
        Data::Enum(data) => enums::expand(input, data, krate),
        Data::Union(data) => Err(unsupported::union_error(data)),
    });
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}
