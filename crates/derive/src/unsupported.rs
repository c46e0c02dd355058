//! Types that cannot be objects: compile errors at the field, with the reason and the remedy.

use syn::{DataUnion, DeriveInput, Error, GenericArgument, PathArguments, Result, Type};

/// Types of the standard library that are not plain values, and the remedy for each.
const UNSUPPORTED_TYPES: [(&str, &str); 14] = [
    ("Cell", "it can change during the encoding; store the value"),
    ("RefCell", "it can change during the encoding; store the value"),
    ("UnsafeCell", "it can change during the encoding; store the value"),
    ("Mutex", "a lock cannot be stored; store the value that it guards"),
    ("RwLock", "a lock cannot be stored; store the value that it guards"),
    ("OnceLock", "it may be empty; use Option"),
    ("OnceCell", "it may be empty; use Option"),
    ("Weak", "the value may have been dropped; store the value or an index"),
    ("File", "an open file is not data; store its name"),
    ("Instant", "it is valid in this process only; store seconds as f64"),
    ("Sender", "a channel is not data"),
    ("Receiver", "a channel is not data"),
    ("JoinHandle", "a thread is not data"),
    ("Pin", "stored data has no address; store the value"),
];

/// Lifetimes: an object owns its data.
pub(crate) fn check_lifetimes(input: &DeriveInput) -> Result<()> {
    match input.generics.lifetimes().next() {
        Some(found) => Err(Error::new_spanned(
            found,
            "an object owns its data, because a decoded object has nothing to borrow from; \
             use String for &str, Vec<T> for &[T], Box<T> or T for &T",
        )),
        None => Ok(()),
    }
}

/// Unions.
pub(crate) fn union_error(data: &DataUnion) -> Error {
    Error::new_spanned(
        data.union_token,
        "a union cannot be an object, because the active field is not known; use an enum",
    )
}

/// Checks the type of a field by its syntax: name resolution is not available in a derive macro.
pub(crate) fn check_field_type(ty: &Type) -> Result<()> {
    let because = |why: &str| {
        let remedy = "or leave the field out with #[object(skip)]";
        Err(Error::new_spanned(ty, format!("this cannot be part of an object: {why}, {remedy}")))
    };
    match ty {
        Type::Reference(_) => {
            because("a reference points into this process; own the data (String, Vec<T>, Box<T>)")
        }
        Type::Ptr(_) => because(
            "a pointer is valid in this process only; own the data (Box<T>, Vec<T>) or store an index",
        ),
        Type::FnPtr(_) => because("a function is code, not data; store an enum instead"),
        Type::TraitObject(_) => because(
            "the type of a trait object is not known when it is read; use an enum of the possible types",
        ),
        Type::Never(_) => because("the type `!` has no value"),
        Type::Slice(_) => because("a slice has no size of its own; use Vec<T>"),
        Type::Array(array) => check_field_type(&array.elem),
        Type::Paren(inner) => check_field_type(&inner.elem),
        Type::Group(inner) => check_field_type(&inner.elem),
        Type::Tuple(tuple) => tuple.elems.iter().try_for_each(check_field_type),
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return Ok(()) };
            // A program may define its own `Cell`: only paths of the standard library are matched.
            let first = &path.path.segments[0].ident;
            let standard =
                path.path.segments.len() > 1 && ["std", "core", "alloc"].iter().any(|name| first == name);
            let known = UNSUPPORTED_TYPES.iter().find(|(name, _)| standard && last.ident == name);
            if let Some((name, why)) = known {
                return because(&format!("`{name}`: {why}"));
            }
            let PathArguments::AngleBracketed(arguments) = &last.arguments else { return Ok(()) };
            if last.ident == "PhantomData" {
                return Ok(());
            }
            arguments.args.iter().try_for_each(|argument| match argument {
                GenericArgument::Type(ty) => check_field_type(ty),
                _ => Ok(()),
            })
        }
        _ => Ok(()),
    }
}
