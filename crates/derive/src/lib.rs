//! `#[derive(Object)]`: everything that storing a type takes, computed from its fields at compile time.
//!
//! The trait, the attributes and examples are in the documentation of `aqueduct-object`; this crate only writes the implementation.
//! It writes an `unsafe impl`: a type is declared to be moved as it lies in memory only where the compiler has found, in a constant, that
//! its fields follow one another without padding and that every one of them may be moved so.

mod attributes;
mod enums;
mod generics;
mod structs;
mod unsupported;

use proc_macro::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, parse_macro_input};

/// Makes a type an object: see `aqueduct_object::Object`.
#[proc_macro_derive(Object, attributes(object))]
pub fn derive_object(input: TokenStream) -> TokenStream {
    expand(&parse_macro_input!(input), &quote!(::aqueduct_object))
}

/// The same for programs that use the facade and know `aqueduct` alone.
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
