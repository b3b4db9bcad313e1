//! Variables of a request: no name twice, as that would leave open which value was meant.

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
};

/// `env`.
#[derive(Default)]
pub(crate) struct Env(pub(crate) BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Env {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Variables)
    }
}

struct Variables;

impl<'de> Visitor<'de> for Variables {
    type Value = Env;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Env, A::Error> {
        let mut env = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            match env.entry(name) {
                Entry::Vacant(variable) => variable.insert(map.next_value()?),
                // In serde's words for a field that is there twice.
                Entry::Occupied(variable) => {
                    return Err(A::Error::custom(format_args!("duplicate field `env.{}`", variable.key())));
                }
            };
        }
        Ok(Env(env))
    }
}
