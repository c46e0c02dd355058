//! Builds the schema of a Rust type.

use std::any::TypeId;

use super::Object;
use crate::schema::{Enum, Field, Struct, Type, Variant};

/// Builds the [`Type`] of an object, and detects types that contain themselves.
#[derive(Debug, Default)]
pub struct SchemaBuilder {
    /// The structures and enums that are being described, outermost first.
    open: Vec<TypeId>,
}

impl SchemaBuilder {
    /// The type of a part.
    pub fn describe<T: Object>(&mut self) -> Type {
        T::describe(self)
    }

    /// A structure with these fields.
    pub fn structure<T: Object>(
        &mut self,
        name: &str,
        fields: impl FnOnce(&mut Self) -> Vec<Field>,
        removed: &[&str],
    ) -> Type {
        self.named::<T>(|builder| {
            let removed = removed.iter().map(|name| (*name).to_owned()).collect();
            Type::Struct(Struct { name: name.to_owned(), fields: fields(builder), removed })
        })
    }

    /// An enum with these variants.
    pub fn enumeration<T: Object>(
        &mut self,
        name: &str,
        variants: impl FnOnce(&mut Self) -> Vec<Variant>,
    ) -> Type {
        self.named::<T>(|builder| Type::Enum(Enum { name: name.to_owned(), variants: variants(builder) }))
    }

    fn named<T: Object>(&mut self, describe: impl FnOnce(&mut Self) -> Type) -> Type {
        let id = TypeId::of::<T>();
        if let Some(levels) = self.open.iter().rev().position(|open| *open == id) {
            return Type::Recursive(levels as u32);
        }
        self.open.push(id);
        let described = describe(self);
        self.open.pop();
        described
    }
}
