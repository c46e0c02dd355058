//! How stored elements differ from the little-endian ones that programs get, and their conversion. Pure.

use aqueduct_object::Object;

/// A part of each element that is changed when it is read.
#[derive(Clone, Debug, PartialEq, Eq, Object)]
pub(crate) enum ElementConversion {
    /// Bytes from an offset on, in the opposite order.
    Swap { offset: u64, bytes: u64 },
    /// A little-endian integer, `precision` bits wide, whose lowest bit is bit `shift`.
    Bits { offset: u64, bytes: u64, shift: u32, precision: u32, signed: bool },
    /// Text that is padded with spaces instead of zeros.
    Spaces { offset: u64, bytes: u64 },
}

impl ElementConversion {
    /// The same for an element that begins later.
    pub(crate) fn shifted(&self, by: u64) -> Self {
        let mut moved = self.clone();
        match &mut moved {
            Self::Swap { offset, .. } | Self::Bits { offset, .. } | Self::Spaces { offset, .. } => {
                *offset += by;
            }
        }
        moved
    }

    fn apply(&self, element: &mut [u8]) {
        let part = |offset: u64, bytes: u64| offset as usize..(offset.saturating_add(bytes)) as usize;
        match *self {
            Self::Swap { offset, bytes } => {
                if let Some(value) = element.get_mut(part(offset, bytes)) {
                    value.reverse();
                }
            }
            Self::Bits { offset, bytes, shift, precision, signed } => {
                if let Some(value) = element.get_mut(part(offset, bytes)) {
                    extract_bits(value, shift, precision, signed);
                }
            }
            Self::Spaces { offset, bytes } => {
                if let Some(text) = element.get_mut(part(offset, bytes)) {
                    text.iter_mut().rev().take_while(|byte| **byte == b' ').for_each(|byte| *byte = 0);
                }
            }
        }
    }
}

/// Converts whole elements of `size` bytes.
pub(crate) fn convert_elements(conversions: &[ElementConversion], size: usize, elements: &mut [u8]) {
    match conversions {
        [] => {}
        [ElementConversion::Swap { offset: 0, bytes }] if *bytes == size as u64 => swap_all(size, elements),
        _ => {
            for element in elements.chunks_exact_mut(size.max(1)) {
                conversions.iter().for_each(|conversion| conversion.apply(element));
            }
        }
    }
}

fn swap_all(size: usize, elements: &mut [u8]) {
    match size {
        2 => elements.as_chunks_mut::<2>().0.iter_mut().for_each(|bytes| bytes.reverse()),
        4 => elements.as_chunks_mut::<4>().0.iter_mut().for_each(|bytes| bytes.reverse()),
        8 => elements.as_chunks_mut::<8>().0.iter_mut().for_each(|bytes| bytes.reverse()),
        _ => elements.chunks_exact_mut(size.max(1)).for_each(<[u8]>::reverse),
    }
}

/// Replaces a little-endian integer of up to 8 bytes by some of its bits, with the sign extended.
fn extract_bits(value: &mut [u8], shift: u32, precision: u32, signed: bool) {
    let mut whole = [0; 8];
    let count = value.len().min(8);
    whole[..count].copy_from_slice(&value[..count]);
    let bits = u64::from_le_bytes(whole).checked_shr(shift).unwrap_or(0);
    let unused = 64u32.saturating_sub(precision.max(1));
    let extended =
        if signed { (((bits << unused) as i64) >> unused) as u64 } else { bits << unused >> unused };
    value[..count].copy_from_slice(&extended.to_le_bytes()[..count]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_elements_are_converted() {
        let conversions = [
            ElementConversion::Swap { offset: 0, bytes: 4 },
            ElementConversion::Bits { offset: 4, bytes: 2, shift: 3, precision: 9, signed: true },
            ElementConversion::Spaces { offset: 6, bytes: 3 },
        ];
        let mut elements = [0, 0, 0, 1, 0b1111_1000, 0b0000_1111, b'a', b' ', b' '];
        convert_elements(&conversions, 9, &mut elements);
        assert_eq!(elements, [1, 0, 0, 0, 255, 255, b'a', 0, 0]);
        let mut swapped = [1, 2, 3, 4];
        convert_elements(&[ElementConversion::Swap { offset: 0, bytes: 2 }], 2, &mut swapped);
        assert_eq!(swapped, [2, 1, 4, 3]);
    }
}
