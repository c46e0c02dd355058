//! What cannot be an object: said at the place where it stands, with the reason and the way out.

use syn::{DataUnion, DeriveInput, Error, GenericArgument, PathArguments, Result, Type};

/// Types of the standard library that hold something else than values, and what to do about each.
const UNSUPPORTED_TYPES: [(&str, &str); 14] = [
    ("Cell", "it can change while it is read; store the value itself"),
    ("RefCell", "it can change while it is read; store the value itself"),
    ("UnsafeCell", "it can change while it is read; store the value itself"),
    ("Mutex", "a lock has no meaning in a file; store the value it guards"),
    ("RwLock", "a lock has no meaning in a file; store the value it guards"),
    ("OnceLock", "it may be empty; use Option"),
    ("OnceCell", "it may be empty; use Option"),
    ("Weak", "what it points to may be gone; store the value or its number"),
    ("File", "an open file is not data; store its name"),
    ("Instant", "it means nothing to another process; store seconds as f64"),
    ("Sender", "a channel is not data"),
    ("Receiver", "a channel is not data"),
    ("JoinHandle", "a thread is not data"),
    ("Pin", "stored data has no address; store the value itself"),
];

/// Lifetimes: an object owns its data.
pub(crate) fn check_lifetimes(input: &DeriveInput) -> Result<()> {
    match input.generics.lifetimes().next() {
        Some(found) => Err(Error::new_spanned(
            found,
            "an object owns its data: what is read from a file or a message has nobody to borrow from; \
             use String for &str, Vec<T> for &[T], Box<T> or T for &T",
        )),
        None => Ok(()),
    }
}

/// Unions.
pub(crate) fn union_error(data: &DataUnion) -> Error {
    Error::new_spanned(
        data.union_token,
        "a union cannot be an object: which of its fields holds the value is not known; use an enum",
    )
}

/// A field's type, looked through as far as it can be seen without knowing what names mean.
pub(crate) fn check_field_type(ty: &Type) -> Result<()> {
    let because = |why: &str| {
        let way = "or leave the field out with #[object(skip)]";
        Err(Error::new_spanned(ty, format!("this cannot be part of an object: {why}, {way}")))
    };
    match ty {
        Type::Reference(_) => {
            because("a reference points into this process; own the data (String, Vec<T>, Box<T>)")
        }
        Type::Ptr(_) => because(
            "a pointer means nothing to another process; own the data (Box<T>, Vec<T>) or store a number",
        ),
        Type::FnPtr(_) => because("a function is code, not data; store an enum that names it"),
        Type::TraitObject(_) => because(
            "a trait object may be of any type, so that nobody could read it back; use an enum of the types there are",
        ),
        Type::Never(_) => because("the type `!` has no value"),
        Type::Slice(_) => because("a slice has no size of its own; use Vec<T>"),
        Type::Array(array) => check_field_type(&array.elem),
        Type::Paren(inner) => check_field_type(&inner.elem),
        Type::Group(inner) => check_field_type(&inner.elem),
        Type::Tuple(tuple) => tuple.elems.iter().try_for_each(check_field_type),
        Type::Path(path) => {
            let Some(last) = path.path.segments.last() else { return Ok(()) };
            // A program may have a `Cell` of its own: only what is named as the standard library's is known.
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
