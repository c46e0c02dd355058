//! Numbers as text in JSON, with all bits: readers of JSON may round the last one.

use serde::{Deserialize, Deserializer, Serializer, de};

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{value:e}"))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use crate::simulation::TimeState;

    #[test]
    fn all_bits_are_kept() {
        let mut time = 0.1f64;
        for step in 0..2000 {
            time *= 1.013_7;
            let state = TimeState { step, time, timestep: 1.0 / time, next_id: 3, layers: 0 };
            let text = serde_json::to_string(&state).unwrap();
            assert_eq!(serde_json::from_str::<TimeState>(&text).unwrap(), state, "{text}");
        }
    }
}
