//! The n-bit filter: only the significant bits of each number. Pure.

use super::bit_stream::BitStream;

/// Types that are nested deeper are refused.
const DEEPEST: usize = 16;

/// What is stored of an element.
enum PackedType {
    /// Bytes as they are.
    Plain(usize),
    /// An integer or floating-point number: its bytes, whether they are big-endian, and its bits.
    Number {
        size: usize,
        big_endian: bool,
        precision: u32,
        shift: u32,
    },
    Array {
        size: usize,
        element: Box<PackedType>,
    },
    Compound {
        size: usize,
        fields: Vec<(usize, PackedType)>,
    },
}

/// Decompresses the values of a chunk.
pub(super) fn decode(parameters: &[u32], bytes: &[u8], limit: usize) -> Result<Vec<u8>, String> {
    let &[_, stored_as_is, count, ref rest @ ..] = parameters else {
        return Err(format!("{} parameters of n-bit", parameters.len()));
    };
    if stored_as_is != 0 {
        return Ok(bytes.to_vec());
    }
    let ty = parse(&mut rest.iter().copied(), 0)?;
    let length = ty.size().checked_mul(count as usize).filter(|length| *length <= limit && ty.size() > 0);
    let mut out = vec![0; length.ok_or_else(|| format!("{count} values of {} bytes by n-bit", ty.size()))?];
    let mut packed = BitStream::new(bytes);
    for element in out.chunks_exact_mut(ty.size()) {
        ty.unpack(&mut packed, element)?;
    }
    Ok(out)
}

fn parse(parameters: &mut impl Iterator<Item = u32>, depth: usize) -> Result<PackedType, String> {
    if depth > DEEPEST {
        return Err(format!("types in types more than {DEEPEST} deep"));
    }
    let mut next = || parameters.next().map(|value| value as usize).ok_or("too few parameters of n-bit");
    let (class, size) = (next()?, next()?);
    match class {
        1 => {
            let (order, precision, shift) = (next()?, next()? as u32, next()? as u32);
            let sound =
                size <= 8 && precision > 0 && u64::from(precision) + u64::from(shift) <= 8 * size as u64;
            let number = PackedType::Number { size, big_endian: order == 1, precision, shift };
            if sound {
                Ok(number)
            } else {
                Err(format!("{precision} bits from bit {shift} on in {size} bytes"))
            }
        }
        2 => {
            let element = parse(parameters, depth + 1)?;
            if element.size() == 0 || !size.is_multiple_of(element.size()) {
                return Err(format!("an array of {size} bytes with elements of {}", element.size()));
            }
            Ok(PackedType::Array { size, element: Box::new(element) })
        }
        3 => {
            let count = next()?;
            let mut fields = Vec::new();
            for _ in 0..count {
                let offset = parameters.next().ok_or("too few parameters of n-bit")? as usize;
                let field = parse(parameters, depth + 1)?;
                if offset.checked_add(field.size()).is_none_or(|end| end > size) {
                    return Err(format!("a field at byte {offset} of {size}"));
                }
                fields.push((offset, field));
            }
            Ok(PackedType::Compound { size, fields })
        }
        4 => Ok(PackedType::Plain(size)),
        class => Err(format!("n-bit of class {class}")),
    }
}

impl PackedType {
    fn size(&self) -> usize {
        match self {
            Self::Plain(size)
            | Self::Number { size, .. }
            | Self::Array { size, .. }
            | Self::Compound { size, .. } => *size,
        }
    }

    fn unpack(&self, packed: &mut BitStream<'_>, out: &mut [u8]) -> Result<(), String> {
        match self {
            Self::Plain(_) => {
                for byte in out {
                    *byte = packed.take(8)? as u8;
                }
            }
            Self::Number { size, big_endian, precision, shift } => {
                let bits = packed.take(*precision)? << shift;
                out.copy_from_slice(&bits.to_le_bytes()[..*size]);
                if *big_endian {
                    out.reverse();
                }
            }
            Self::Array { element, .. } => {
                for part in out.chunks_exact_mut(element.size()) {
                    element.unpack(packed, part)?;
                }
            }
            Self::Compound { fields, .. } => {
                for (offset, field) in fields {
                    field.unpack(packed, &mut out[*offset..offset + field.size()])?;
                }
            }
        }
        Ok(())
    }
}
