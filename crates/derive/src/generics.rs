//! The bounds of type parameters.

use proc_macro2::TokenStream;
use syn::{GenericArgument, Generics, Ident, PathArguments, Type, parse_quote};

/// The generics with their bounds: `Object` for parameters that stored fields mention outside of `PhantomData`, and `'static` for all.
pub(crate) fn add_object_bounds<'t>(
    generics: &Generics,
    krate: &TokenStream,
    stored: &(impl Iterator<Item = &'t Type> + Clone),
) -> Generics {
    let mut bounded = generics.clone();
    for parameter in bounded.type_params_mut() {
        let name = parameter.ident.clone();
        parameter.bounds.push(parse_quote!('static));
        if stored.clone().any(|ty| mentions(ty, &name)) {
            parameter.bounds.push(parse_quote!(#krate::Object));
        }
    }
    bounded
}

fn mentions(ty: &Type, name: &Ident) -> bool {
    match ty {
        Type::Array(array) => mentions(&array.elem, name),
        Type::Paren(inner) => mentions(&inner.elem, name),
        Type::Group(inner) => mentions(&inner.elem, name),
        Type::Tuple(tuple) => tuple.elems.iter().any(|ty| mentions(ty, name)),
        Type::Path(path) => {
            path.path.is_ident(name)
                || path.path.segments.iter().any(|segment| match &segment.arguments {
                    PathArguments::AngleBracketed(arguments) if segment.ident != "PhantomData" => {
                        arguments.args.iter().any(|argument| match argument {
                            GenericArgument::Type(ty) => mentions(ty, name),
                            _ => false,
                        })
                    }
                    _ => false,
                })
        }
        _ => false,
    }
}
