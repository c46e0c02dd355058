//! The JSON form of a schema: the type and a hash that is checked when it is read.

use serde::{Deserialize, Serialize};

use super::{Schema, Type};

/// A schema in a description.
#[derive(Serialize, Deserialize)]
pub(super) struct SchemaJson {
    #[serde(rename = "type")]
    name: String,
    schema: Type,
    hash: String,
}

impl From<Schema> for SchemaJson {
    fn from(schema: Schema) -> Self {
        Self { name: schema.name(), hash: format!("{:016x}", schema.hash()), schema: schema.root }
    }
}

impl TryFrom<SchemaJson> for Schema {
    type Error = String;

    fn try_from(json: SchemaJson) -> Result<Self, String> {
        let schema = Self::new(json.schema);
        schema.check()?;
        if json.hash == format!("{:016x}", schema.hash()) {
            return Ok(schema);
        }
        Err(format!("the hash of {} does not match its schema", json.name))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Object, Schema};

    #[test]
    fn schemas_come_back_and_changes_are_noticed() {
        let schema = <Option<Vec<(u8, String)>>>::schema();
        let text = serde_json::to_string(&*schema).unwrap();
        assert_eq!(serde_json::from_str::<Schema>(&text).unwrap(), *schema);
        let changed = text.replace("u8", "i8");
        assert_ne!(changed, text);
        let error = serde_json::from_str::<Schema>(&changed).unwrap_err();
        assert!(error.to_string().contains("hash"), "{error}");
    }
}
