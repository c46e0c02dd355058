//! What differs between MPI implementations, as the C door meets it: numbers, handles and named datatypes, one column each.
//!
//! Everything we rely on stands here once, and the test `constants` compares each line with the implementation's own header.

mod handles;
mod integers;
mod named_datatypes;

use aqueduct_comm::Host;
use aqueduct_comm::abi::{Fact, MpiAbi};

pub(crate) use handles::{Handles, errors_abort};
pub(crate) use integers::Integers;
pub(crate) use named_datatypes::{Kind, NamedDatatypes};

/// One implementation's constants.
pub(crate) struct AbiConstants {
    pub(crate) flavour: MpiAbi,
    pub(crate) integers: &'static Integers,
    pub(crate) handles: Handles,
    pub(crate) named: NamedDatatypes,
}

impl AbiConstants {
    pub(crate) fn of(host: &Host) -> Result<Self, String> {
        let flavour = host.flavour();
        let handles = Handles::of(host)?;
        Ok(Self { flavour, integers: Integers::of(flavour), handles, named: NamedDatatypes::of(host) })
    }

    /// A handle as a C function gets it, without what an integer leaves in the upper half of a register.
    pub(crate) fn handle(&self, raw: usize) -> usize {
        match self.flavour {
            MpiAbi::Mpich => raw & 0xffff_ffff,
            MpiAbi::OpenMpi | MpiAbi::Standard => raw,
        }
    }

    /// Bytes of a handle in memory.
    pub(crate) fn width(&self) -> usize {
        match self.flavour {
            MpiAbi::Mpich => 4,
            MpiAbi::OpenMpi | MpiAbi::Standard => 8,
        }
    }
}

/// All that we rely on for `flavour`, to be compared with a header.
pub fn facts(flavour: MpiAbi) -> Vec<Fact> {
    [Integers::facts(flavour), Handles::facts(flavour), NamedDatatypes::facts(flavour)].concat()
}

/// A fact about an exported object, or about a value, by flavour.
fn handle_fact(flavour: MpiAbi, constant: &str, object: &str, mpich: usize, standard: usize) -> Option<Fact> {
    let value = match flavour {
        MpiAbi::OpenMpi if object.is_empty() => return None,
        MpiAbi::OpenMpi => {
            let expression = format!("(void *){constant} == dlsym(RTLD_DEFAULT, \"{object}\")");
            return Some(Fact { expression, value: 1 });
        }
        MpiAbi::Mpich => i64::from(mpich as u32 as i32),
        MpiAbi::Standard => standard as i64,
    };
    (value != 0).then(|| Fact { expression: format!("(long)(intptr_t){constant}"), value })
}
