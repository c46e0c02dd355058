//! Device layers: each wraps a device, adds one feature, and can be stacked in any order.
//!
//! | wrapper | what it adds | by name |
//! |---|---|---|
//! | [`FaultDevice`] | seeded errors, short transfers, a full disk, delays | `fault=seed=7,write=0.1,short=0.3:ufs:f` |
//! | [`ThrottleDevice`] | a limit on bandwidth and a latency per operation | `throttle=200MB/s,1ms:ufs:f` |
//! | [`TraceDevice`] | a record of every operation | `trace=ops.csv:ufs:f` |
//! | [`CrashDevice`] | a power cut that loses what was not synced | `crash=after=17,seed=3:ufs:f` |
//!
//! A wrapper forwards everything else to the inner device: locks, preallocation and the
//! [capabilities](crate::Capabilities). All handles that are opened through one wrapper share its
//! state (counters, time account, trace, unsynced data); handles opened by name share it if the text of the prefixes is the same.

mod crash;
mod fault;
mod parameters;
mod random;
mod throttle;
mod trace;

use std::sync::Arc;

pub use crash::{CrashDevice, CrashImage};
pub use fault::{FaultDevice, FaultPlan, FaultTrigger};
pub use throttle::{ThrottleDevice, ThrottleLimits};
pub use trace::{TraceDevice, TraceEvent};

use crate::{Device, Result};

/// Makes a wrapper from the parameters in a name and the inner device.
type MakeWrapper = fn(&str, Arc<dyn Device>) -> Result<Arc<dyn Device>>;

/// The wrappers of this crate by their prefixes.
pub(crate) const WRAPPERS: [(&str, MakeWrapper); 4] = [
    ("crash", CrashDevice::from_parameters),
    ("fault", FaultDevice::from_parameters),
    ("throttle", ThrottleDevice::from_parameters),
    ("trace", TraceDevice::from_parameters),
];
