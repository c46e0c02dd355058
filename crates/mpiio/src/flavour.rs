//! What differs between MPI implementations, as the C door meets it: numbers, handles and named datatypes, one column each.
//!
//! Everything we rely on stands here once, and the test `constants` compares each line with the implementation's own header.

mod handles;
mod integers;
mod named;

use aqueduct_comm::Host;
use aqueduct_comm::abi::{Fact, Flavour};

pub(crate) use handles::{Handles, errors_abort};
pub(crate) use integers::Integers;
pub(crate) use named::{Kind, Named};

/// One implementation's constants.
pub(crate) struct Constants {
    pub(crate) flavour: Flavour,
    pub(crate) integers: &'static Integers,
    pub(crate) handles: Handles,
    pub(crate) named: Named,
}

impl Constants {
    pub(crate) fn of(host: &Host) -> Result<Self, String> {
        let flavour = host.flavour();
        let handles = Handles::of(host)?;
        Ok(Self { flavour, integers: Integers::of(flavour), handles, named: Named::of(host) })
    }

    /// A handle as a C function gets it, without what an integer leaves in the upper half of a register.
    pub(crate) fn handle(&self, raw: usize) -> usize {
        match self.flavour {
            Flavour::Mpich => raw & 0xffff_ffff,
            Flavour::OpenMpi | Flavour::Standard => raw,
        }
    }

    /// Bytes of a handle in memory.
    pub(crate) fn width(&self) -> usize {
        match self.flavour {
            Flavour::Mpich => 4,
            Flavour::OpenMpi | Flavour::Standard => 8,
        }
    }
}

/// All that we rely on for `flavour`, to be compared with a header.
pub fn facts(flavour: Flavour) -> Vec<Fact> {
    [Integers::facts(flavour), Handles::facts(flavour), Named::facts(flavour)].concat()
}

/// A fact about an exported object, or about a value, by flavour.
fn handle_fact(
    flavour: Flavour,
    constant: &str,
    object: &str,
    mpich: usize,
    standard: usize,
) -> Option<Fact> {
    let value = match flavour {
        Flavour::OpenMpi if object.is_empty() => return None,
        Flavour::OpenMpi => {
            let expression = format!("(void *){constant} == dlsym(RTLD_DEFAULT, \"{object}\")");
            return Some(Fact { expression, value: 1 });
        }
        Flavour::Mpich => i64::from(mpich as u32 as i32),
        Flavour::Standard => standard as i64,
    };
    (value != 0).then(|| Fact { expression: format!("(long)(intptr_t){constant}"), value })
}
