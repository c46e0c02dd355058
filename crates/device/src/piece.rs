//! A piece of an access: where in the file, and which memory. Lists of pieces are the primitive of this layer.

/// Memory to be written at a place in the file.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Byte offset in the file.
    pub offset: u64,
    /// What to write there.
    pub bytes: &'a [u8],
}

/// Memory to be filled from a place in the file.
#[derive(Debug)]
pub struct PieceMut<'a> {
    /// Byte offset in the file.
    pub offset: u64,
    /// Where to put what is read there.
    pub bytes: &'a mut [u8],
}

/// The number of bytes of a list.
pub fn total(pieces: &[Piece<'_>]) -> u64 {
    pieces.iter().map(|piece| piece.bytes.len() as u64).sum()
}

/// The number of bytes of a list to be read.
pub fn total_mut(pieces: &[PieceMut<'_>]) -> u64 {
    pieces.iter().map(|piece| piece.bytes.len() as u64).sum()
}
