//! Links to objects that are not hard links.

use std::fmt;

use aqueduct_object::Object;

/// A name that refers to an object by a path.
#[derive(Clone, Debug, PartialEq, Eq, Object)]
pub enum Hdf5Link {
    /// A path in the same file.
    Soft {
        /// The path.
        target: String,
        /// Whether there is an object; it is listed under the path of the link too.
        resolved: bool,
    },
    /// A path in another file, which is not opened.
    External {
        /// The name of the file.
        file: String,
        /// The path in it.
        target: String,
    },
    /// A kind that only another program knows.
    UserDefined {
        /// Its registered number.
        class: u8,
    },
}

impl fmt::Display for Hdf5Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Soft { target, resolved: true } => write!(f, "a soft link to {target:?}"),
            Self::Soft { target, resolved: false } => {
                write!(f, "a soft link to {target:?}, which is not there")
            }
            Self::External { file, target } => {
                write!(f, "an external link to {target:?} in the file {file:?}")
            }
            Self::UserDefined { class } => write!(f, "a user-defined link of class {class}"),
        }
    }
}
