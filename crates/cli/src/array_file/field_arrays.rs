//! The fields of records as arrays of numbers, for formats that have only those. Pure.

use aqueduct::formats::Hyperslab;

use super::{Array, ArrayPart, ElementType, NumberType};

/// A field of an array of records, or the array itself if its elements are numbers.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FieldArray {
    pub(crate) array: Array,
    pub(crate) number: NumberType,
    /// The offset of the field in a record.
    at: u64,
    /// The length of the last dimension, if the field is a list of numbers.
    count: Option<u64>,
}

/// The fields of an array in the order of the records: `name[0]`, `name[1]`, … are one array with a further dimension.
pub(crate) fn fields_of(array: &Array) -> Vec<FieldArray> {
    if let Some(number) = array.element.as_number() {
        return vec![FieldArray { array: array.clone(), number, at: 0, count: None }];
    }
    let plain = array.name.trim_matches('/').replace('/', ".");
    let mut fields: Vec<(&str, FieldArray)> = Vec::new();
    for (at, name, number) in array.element.parts.iter().flatten() {
        let list = list_name(name);
        if let (Some(list), Some((last, field))) = (list, fields.last_mut())
            && list == *last
            && field.number == *number
            && let Some(count) = &mut field.count
            && field.at + *count * number.size() == *at
        {
            *count += 1;
            continue;
        }
        let own = list.unwrap_or(name);
        let joint = if array.name.ends_with('/') || own.is_empty() { "" } else { "." };
        // The fields share the dimensions of the records.
        let shared = |at: usize| if at == 0 && array.grows { String::new() } else { format!("{plain}.{at}") };
        let named = || (0..array.shape.len()).map(shared).collect();
        let of_field = Array {
            dimensions: if array.dimensions.is_empty() { named() } else { array.dimensions.clone() },
            name: format!("{}{joint}{own}", array.name),
            element: ElementType::number(*number),
            ..array.clone()
        };
        let field = FieldArray { array: of_field, number: *number, at: *at, count: list.map(|_| 1) };
        fields.push((list.unwrap_or(name), field));
    }
    let with_list = |(_, mut field): (&str, FieldArray)| {
        if let Some(count) = field.count {
            field.array.shape.push(count);
            field.array.dimensions.push(String::new());
        }
        field
    };
    fields.into_iter().map(with_list).collect()
}

/// The name of a list of numbers: `m` of `m[0]` and `m[0][1]`.
fn list_name(name: &str) -> Option<&str> {
    let (list, rest) = name.split_once('[')?;
    let is_index = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    rest.strip_suffix(']')?.split("][").all(is_index).then_some(list)
}

impl FieldArray {
    /// How many numbers an element has.
    pub(crate) fn components(&self) -> u64 {
        self.count.unwrap_or(1)
    }

    /// The part of this array that a part of the records has.
    pub(crate) fn slab(&self, part: &ArrayPart) -> Hyperslab {
        let mut slab = part.slab.clone();
        if let Some(count) = self.count {
            slab.start.push(0);
            slab.count.push(count);
        }
        slab
    }

    /// The values of this field in records of `size` bytes.
    pub(crate) fn extract(&self, records: &[u8], size: u64) -> Vec<u8> {
        let bytes = self.at as usize..(self.at + self.count.unwrap_or(1) * self.number.size()) as usize;
        records
            .chunks_exact(size.max(1) as usize)
            .flat_map(|record| &record[bytes.clone()])
            .copied()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_a_dimension_and_other_fields_arrays() {
        let parts = [
            (0, "id", NumberType::U16),
            (2, "at[0]", NumberType::F32),
            (6, "at[1]", NumberType::F32),
            (10, "m[0][0]", NumberType::U8),
            (11, "m[0][1]", NumberType::U8),
            (12, "s[0].x", NumberType::U8),
            (13, "s[1].x", NumberType::U8),
        ];
        let parts = parts.map(|(at, name, number)| (at, name.to_owned(), number)).to_vec();
        let element = ElementType::new("P".into(), 14, Some(parts));
        let mut array = Array::new("p", element, vec![3]);
        array.dimensions = vec!["n".into()];
        let fields = fields_of(&array);
        let shown: Vec<_> = fields.iter().map(|field| (&*field.array.name, &field.array.shape[..])).collect();
        assert_eq!(
            shown,
            [("p.id", &[3][..]), ("p.at", &[3, 2]), ("p.m", &[3, 2]), ("p.s[0].x", &[3]), ("p.s[1].x", &[3])]
        );
        assert_eq!(fields[1].array.dimensions, ["n", ""]);
        let records: Vec<u8> = (0..28).collect();
        assert_eq!(fields[2].extract(&records, 14), [10, 11, 24, 25]);
        let part = array.parts_of_rows(1..2).next().unwrap();
        assert_eq!(fields[1].slab(&part), Hyperslab { start: vec![1, 0], count: vec![1, 2] });
    }
}
