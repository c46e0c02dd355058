//! Patterns of views by name: for configuration files and command lines.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_comm::Comm;

use super::view::ObjectView;
use crate::error::{Error, Kind, Result, agree};

/// Makes a view of its argument, the text after the colon.
type PatternFunction = dyn Fn(&Comm, &str) -> Result<ObjectView> + Send + Sync;

/// The patterns that the program has registered.
static REGISTERED: Mutex<BTreeMap<String, Arc<PatternFunction>>> = Mutex::new(BTreeMap::new());

/// The patterns that are always there.
const BUILT_IN: [&str; 6] = ["all", "block", "contiguous", "cyclic", "mask", "round-robin"];

impl ObjectView {
    /// A view by the name of its pattern, with an argument after a colon. Collective.
    ///
    /// | name | view |
    /// |---|---|
    /// | `all` | [`ObjectView::all`] |
    /// | `contiguous:COUNT` | [`ObjectView::contiguous`] of this rank's own count |
    /// | `block:TOTAL` | [`ObjectView::block`] |
    /// | `round-robin` | [`ObjectView::round_robin`] |
    /// | `cyclic:BLOCK` | [`ObjectView::cyclic`] |
    /// | `mask:110…` | [`ObjectView::mask`] |
    /// | a name that was [registered](ObjectView::register) | that of the program |
    ///
    /// ```
    /// # use aqueduct_comm::Launch;
    /// # use aqueduct_object::{Error, Kind, ObjectView};
    /// ObjectView::register("every-other", |_, first| {
    ///     ObjectView::mask(if first == "odd" { "01" } else { "10" })
    /// })?;
    /// Launch::threads(2).run(|world| {
    ///     assert_eq!(ObjectView::named(world, "cyclic:2")?, ObjectView::cyclic(world, 2)?);
    ///     assert_eq!(ObjectView::named(world, "every-other:odd")?.number(1), Some(3));
    ///     assert_eq!(ObjectView::named(world, "cubic").unwrap_err().kind(), Kind::BadArgument);
    ///     Ok::<_, Error>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn named(comm: &Comm, pattern: &str) -> Result<Self> {
        let (name, argument) = pattern.split_once(':').unwrap_or((pattern, ""));
        let number = || {
            let bad = |_| refused(format!("{argument:?} in the pattern {pattern:?} is not a number"));
            argument.parse::<u64>().map_err(bad)
        };
        // The collective ones agree before they begin, so that a bad argument of one rank is an error on all.
        match name {
            "contiguous" => Self::contiguous(comm, agree(comm, "view", pattern, number())?),
            "block" => Self::block(comm, agree(comm, "view", pattern, number())?),
            "cyclic" => Self::cyclic(comm, agree(comm, "view", pattern, number())?),
            "all" => Ok(Self::all()),
            "round-robin" => Ok(Self::round_robin(comm)),
            "mask" => Self::mask(argument),
            _ => {
                let registered = registered().get(name).cloned();
                let found = registered.ok_or_else(|| unknown(name));
                agree(comm, "view", pattern, found)?(comm, argument)
            }
        }
    }

    /// Registers a pattern of the program under a name, for [`ObjectView::named`]: a function of the communicator and the text after the colon. The same
    /// on all ranks; a name that exists is an error.
    pub fn register(
        name: &str,
        pattern: impl Fn(&Comm, &str) -> Result<Self> + Send + Sync + 'static,
    ) -> Result<()> {
        let mut registered = registered();
        if name.is_empty() || name.contains(':') || BUILT_IN.contains(&name) || registered.contains_key(name)
        {
            return Err(refused(format!("a pattern cannot be registered as {name:?}; use another name")));
        }
        registered.insert(name.to_owned(), Arc::new(pattern));
        Ok(())
    }
}

fn registered() -> MutexGuard<'static, BTreeMap<String, Arc<PatternFunction>>> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unknown(name: &str) -> Error {
    let mut known: Vec<String> = BUILT_IN.map(str::to_owned).to_vec();
    known.extend(registered().keys().cloned());
    refused(format!("there is no pattern {name:?}; there are {}", known.join(", ")))
}

fn refused(detail: String) -> Error {
    Error::new(Kind::BadArgument, "view", "view", detail)
}
