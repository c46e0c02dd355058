//! Comparison of metadata: types, names of dimensions, attributes.

use std::collections::BTreeSet;

use crate::array_file::{self, Array, ArrayFile, AttributeValue, NamedAttribute, SharedDimension};

/// The differences between the metadata of two files, a line each.
pub(super) fn of_files(one: &dyn ArrayFile, other: &dyn ArrayFile) -> Vec<String> {
    let mut found = Vec::new();
    if !(one.holds_metadata() && other.holds_metadata()) {
        return found;
    }
    let (mine, its) = (one.attributes(), other.attributes());
    let groups: BTreeSet<&String> = mine.iter().chain(&its).map(|(group, _)| group).collect();
    for group in groups {
        let of = |all: &[(String, Vec<NamedAttribute>)]| {
            all.iter()
                .find(|(name, _)| name == group)
                .map_or_else(Vec::new, |(_, attributes)| attributes.clone())
        };
        attributes(group, &of(&mine), &of(&its), &mut found);
    }
    if one.holds_dimensions() && other.holds_dimensions() {
        dimensions(one, other, &mut found);
    }
    found
}

/// Compares dimensions that belong to no array in one of the files. Other dimensions are compared with their arrays.
fn dimensions(one: &dyn ArrayFile, other: &dyn ArrayFile, found: &mut Vec<String>) {
    let is_used = |file: &dyn ArrayFile, name: &str| {
        file.arrays().iter().any(|array| array.dimensions.iter().any(|own| own == name))
    };
    let (mine, its) = (one.dimensions(), other.dimensions());
    let names: BTreeSet<&String> = mine.iter().chain(&its).map(|dimension| &dimension.name).collect();
    for name in names {
        if is_used(one, name) && is_used(other, name) {
            continue;
        }
        let of = |all: &[SharedDimension]| all.iter().find(|dimension| dimension.name == *name).cloned();
        let shown = |dimension: &SharedDimension| {
            format!("{}{}", dimension.length, if dimension.grows { ", grows" } else { "" })
        };
        match (of(&mine), of(&its)) {
            (Some(one), Some(other)) if one == other => {}
            (Some(one), Some(other)) => {
                found.push(format!("dimension {name}: {} and {}", shown(&one), shown(&other)));
            }
            (one, other) => {
                let length = one.or(other).map_or(String::new(), |dimension| shown(&dimension));
                found.push(format!("dimension {name}: in one of the files only: {length}"));
            }
        }
    }
}

/// The differences between the metadata of two arrays, a line each.
pub(super) fn of_arrays(name: &str, one: &Array, other: &Array, both_hold: bool) -> Vec<String> {
    let mut found = Vec::new();
    let same_type = match (&one.element.parts, &other.element.parts) {
        (Some(parts), Some(others)) => parts == others,
        _ => one.element.name == other.element.name,
    };
    if !same_type {
        found.push(format!("{name}: types {} and {}", one.element.name, other.element.name));
    }
    if !both_hold {
        return found;
    }
    if one.dimensions != other.dimensions {
        let shown = |array: &Array| {
            if array.dimensions.is_empty() {
                "none".to_owned()
            } else {
                format!("({})", array.dimensions.join(", "))
            }
        };
        found.push(format!("{name}: names of dimensions {} and {}", shown(one), shown(other)));
    }
    if one.grows != other.grows {
        found.push(format!("{name}: the first dimension grows in one of the files only"));
    }
    attributes(name, &one.attributes, &other.attributes, &mut found);
    found
}

fn attributes(owner: &str, one: &[NamedAttribute], other: &[NamedAttribute], found: &mut Vec<String>) {
    let names: BTreeSet<&String> = one.iter().chain(other).map(|attribute| &attribute.name).collect();
    for name in names {
        let value = |all: &[NamedAttribute]| {
            all.iter().find(|attribute| attribute.name == *name).map(|attribute| attribute.value.clone())
        };
        match (value(one), value(other)) {
            (Some(one), Some(other)) if one.is_same(&other) => {}
            (Some(one), Some(other)) => {
                found.push(format!("{owner}@{name}: {} and {}", shown(&one), shown(&other)));
            }
            // Each format has its own attributes for dimensions.
            (None, _) | (_, None)
                if array_file::is_internal(name, one) || array_file::is_internal(name, other) => {}
            (one, other) => {
                let value = one.or(other).map_or(String::new(), |value| shown(&value));
                found.push(format!("{owner}@{name}: in one of the files only: {value}"));
            }
        }
    }
}

/// A value with its type.
fn shown(value: &AttributeValue) -> String {
    match value {
        AttributeValue::Text(text) => format!("{text:?}"),
        AttributeValue::Numbers(number, ..) => format!("{value} ({})", format!("{number:?}").to_lowercase()),
        other => other.to_string(),
    }
}
