//! The envelope and contents of a datatype (`MPI_Type_get_envelope`, `MPI_Type_get_contents`).
//!
//! `unsafe` here: MPI fills arrays of the lengths in the envelope.
#![allow(unsafe_code)]

use crate::host::Mpi;
use crate::host::Outcome;

/// The arguments of the constructor of a datatype.
#[derive(Debug, Default)]
pub(crate) struct DatatypeContents {
    pub(crate) combiner: i64,
    /// The integer arguments.
    pub(crate) integers: Vec<i64>,
    /// The addresses, or, of a datatype made with large counts, all counts and addresses in their order.
    pub(crate) numbers: Vec<i64>,
    /// Whether it was made with large counts.
    pub(crate) large: bool,
    pub(crate) types: Vec<ChildDatatype>,
}

/// A datatype in the contents of another one: a reference to be freed, unless it is predefined.
#[derive(Debug)]
pub(crate) struct ChildDatatype {
    pub(crate) handle: usize,
    owned: bool,
}

impl Drop for ChildDatatype {
    fn drop(&mut self) {
        if let Ok(mpi) = crate::host::mpi()
            && self.owned
        {
            // SAFETY: MPI returned this reference, and it is not used again.
            unsafe { (mpi.functions.type_free)(&raw mut self.handle) };
        }
    }
}

/// How many arguments of each sort, and the combiner.
#[derive(Default)]
struct DatatypeEnvelope {
    integers: i64,
    addresses: i64,
    large: i64,
    types: i64,
    combiner: i32,
}

fn envelope(mpi: &Mpi, handle: usize) -> Outcome<DatatypeEnvelope> {
    let mut found = DatatypeEnvelope::default();
    // SAFETY: a datatype, and integers that live here.
    unsafe {
        if let Some(ask) = mpi.functions.type_get_envelope_c {
            let (integers, addresses) = (&raw mut found.integers, &raw mut found.addresses);
            let (large, types) = (&raw mut found.large, &raw mut found.types);
            let asked = ask(handle, integers, addresses, large, types, &raw mut found.combiner);
            mpi.check("MPI_Type_get_envelope_c", asked)?;
        } else {
            let (mut integers, mut addresses, mut types) = (0, 0, 0);
            let ask = mpi.functions.type_get_envelope;
            let asked =
                ask(handle, &raw mut integers, &raw mut addresses, &raw mut types, &raw mut found.combiner);
            mpi.check("MPI_Type_get_envelope", asked)?;
            (found.integers, found.addresses, found.types) =
                (integers.into(), addresses.into(), types.into());
        }
    }
    Ok(found)
}

/// True if a datatype is predefined: it must not be freed.
pub(crate) fn is_predefined(mpi: &Mpi, handle: usize) -> Outcome<bool> {
    if mpi.constants.named.kind(handle).is_some() {
        return Ok(true);
    }
    let combiner = i64::from(envelope(mpi, handle)?.combiner);
    Ok(is_combiner_of_predefined(mpi, combiner))
}

fn is_combiner_of_predefined(mpi: &Mpi, combiner: i64) -> bool {
    let known = mpi.constants.integers;
    [known.named, known.f90_integer, known.f90_real, known.f90_complex].contains(&combiner)
}

/// Gets the contents of a datatype.
pub(crate) fn contents(mpi: &Mpi, handle: usize) -> Outcome<DatatypeContents> {
    let found = envelope(mpi, handle)?;
    let mut contents = DatatypeContents {
        combiner: found.combiner.into(),
        large: found.large > 0,
        ..DatatypeContents::default()
    };
    if contents.combiner == mpi.constants.integers.named {
        return Ok(contents);
    }
    let mut integers = vec![0i32; found.integers as usize];
    let mut addresses = vec![0i64; found.addresses as usize];
    let mut large = vec![0i64; found.large as usize];
    let width = mpi.constants.width();
    let mut types = vec![0u8; found.types as usize * width];
    // SAFETY: the arrays have the lengths in the envelope.
    unsafe {
        if let Some(ask) = mpi.functions.type_get_contents_c {
            let DatatypeEnvelope { integers: i, addresses: a, large: l, types: t, .. } = found;
            let (integers, addresses) = (integers.as_mut_ptr(), addresses.as_mut_ptr());
            let (large, types) = (large.as_mut_ptr(), types.as_mut_ptr());
            let asked = ask(handle, i, a, l, t, integers, addresses, large, types.cast());
            mpi.check("MPI_Type_get_contents_c", asked)?;
        } else {
            let (i, a, t) = (found.integers as i32, found.addresses as i32, found.types as i32);
            let (integers, addresses) = (integers.as_mut_ptr(), addresses.as_mut_ptr());
            let asked = (mpi.functions.type_get_contents)(
                handle,
                i,
                a,
                t,
                integers,
                addresses,
                types.as_mut_ptr().cast(),
            );
            mpi.check("MPI_Type_get_contents", asked)?;
        }
    }
    contents.integers = integers.into_iter().map(i64::from).collect();
    contents.numbers = if contents.large { large } else { addresses };
    for bytes in types.chunks_exact(width) {
        let mut word = [0; 8];
        word[..width].copy_from_slice(bytes);
        let handle = usize::from_le_bytes(word);
        contents.types.push(ChildDatatype { handle, owned: false });
        let owned = !is_predefined(mpi, handle)?;
        if let Some(child) = contents.types.last_mut() {
            child.owned = owned;
        }
    }
    Ok(contents)
}
