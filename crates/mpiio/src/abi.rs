//! Differences between MPI implementations: numbers, handles and named datatypes, one column per ABI.
//!
//! The test `constants` compares every constant with the implementation's header.

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
    pub(crate) abi: MpiAbi,
    pub(crate) integers: &'static Integers,
    pub(crate) handles: Handles,
    pub(crate) named: NamedDatatypes,
}

impl AbiConstants {
    pub(crate) fn of(host: &Host) -> Result<Self, String> {
        let abi = host.abi();
        let handles = Handles::of(host)?;
        Ok(Self { abi, integers: Integers::of(abi), handles, named: NamedDatatypes::of(host) })
    }

    /// A handle as a C function gets it; for integer handles the upper half of the register is cleared.
    pub(crate) fn handle(&self, raw: usize) -> usize {
        match self.abi {
            MpiAbi::Mpich => raw & 0xffff_ffff,
            MpiAbi::OpenMpi | MpiAbi::Standard => raw,
        }
    }

    /// Bytes of a handle in memory.
    pub(crate) fn width(&self) -> usize {
        match self.abi {
            MpiAbi::Mpich => 4,
            MpiAbi::OpenMpi | MpiAbi::Standard => 8,
        }
    }
}

/// All facts for `abi`, to be compared with a header.
pub fn facts(abi: MpiAbi) -> Vec<Fact> {
    [Integers::facts(abi), Handles::facts(abi), NamedDatatypes::facts(abi)].concat()
}

/// A fact about an exported object or a value, by ABI.
fn handle_fact(abi: MpiAbi, constant: &str, object: &str, mpich: usize, standard: usize) -> Option<Fact> {
    let value = match abi {
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
