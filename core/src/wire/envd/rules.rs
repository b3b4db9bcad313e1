//! How protobuf writes values in JSON: <https://protobuf.dev/programming-guides/json/>.
//!
//! What is written: bytes as standard base64 with padding, 64-bit numbers as strings, enums by name, times as RFC 3339; a
//! field with the value that it has anyway is left out. What is read besides: `null` for a field that is left out, base64
//! of either alphabet with or without padding, numbers as strings and with a fraction of zero, enums by number.

use serde::{Deserialize, Deserializer, de};
use std::fmt;

/// Whether a field has the value that it has anyway.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// `null` is a field that is left out.
pub(super) fn nullable<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A whole number of any form.
struct Number<T>(std::marker::PhantomData<T>);

impl<T: TryFrom<i128>> de::Visitor<'_> for Number<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number in its range")
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<T, E> {
        T::try_from(number.into()).map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<T, E> {
        T::try_from(number.into()).map_err(|_| E::invalid_value(de::Unexpected::Unsigned(number), &self))
    }

    #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^64: i128 holds it")]
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<T, E> {
        let whole = number.fract() == 0.0 && number.abs() <= 2f64.powi(64);
        let value = whole.then_some(number as i128).and_then(|number| T::try_from(number).ok());
        value.ok_or_else(|| E::invalid_value(de::Unexpected::Float(number), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<T, E> {
        let bad = || E::invalid_value(de::Unexpected::Str(text), &self);
        if let Ok(number) = text.parse::<i128>() {
            return T::try_from(number).map_err(|_| bad());
        }
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => self.visit_f64(number),
            Ok(_) | Err(_) => Err(bad()),
        }
    }
}

/// A field that may be left out.
struct Nullable<V>(V);

impl<'de, V: de::Visitor<'de>> de::Visitor<'de> for Nullable<V> {
    type Value = Option<V::Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self.0).map(Some)
    }
}

/// Messages: an object, and not a list of its fields, which what is derived would take, too.
pub(super) mod message {
    use super::Nullable;
    use serde::{Deserialize, Deserializer, de};
    use std::{fmt, marker::PhantomData};

    struct Object<M>(PhantomData<M>);

    impl<'de, M: Deserialize<'de>> de::Visitor<'de> for Object<M> {
        type Value = M;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: de::MapAccess<'de>>(self, fields: A) -> Result<M, A::Error> {
            M::deserialize(de::value::MapAccessDeserializer::new(fields))
        }
    }

    pub(in super::super) fn read<'de, M, D>(deserializer: D) -> Result<M, D::Error>
    where
        M: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        deserializer.deserialize_map(Object(PhantomData))
    }

    pub(in super::super) fn read_optional<'de, M, D>(deserializer: D) -> Result<Option<M>, D::Error>
    where
        M: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        deserializer.deserialize_option(Nullable(Object(PhantomData)))
    }
}

/// Numbers.
pub(super) mod number {
    use super::{Nullable, Number};
    use serde::Deserializer;

    pub(in super::super) fn read<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: Default + TryFrom<i128>,
        D: Deserializer<'de>,
    {
        Ok(read_optional(deserializer)?.unwrap_or_default())
    }

    pub(in super::super) fn read_optional<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: TryFrom<i128>,
        D: Deserializer<'de>,
    {
        deserializer.deserialize_option(Nullable(Number(std::marker::PhantomData)))
    }
}

/// 64-bit numbers: written as strings.
pub(super) mod long {
    pub(in super::super) use super::number::read as deserialize;
    use serde::{Serialize, Serializer};

    pub(in super::super) fn serialize<T: ToString, S: Serializer>(
        number: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        number.to_string().serialize(serializer)
    }
}

/// The same where there may be none.
pub(super) mod optional_long {
    pub(in super::super) use super::number::read_optional as deserialize;
    use serde::{Serialize, Serializer};

    pub(in super::super) fn serialize<T: ToString, S: Serializer>(
        number: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        number.as_ref().map(T::to_string).serialize(serializer)
    }
}

/// Bytes.
pub(super) mod base64 {
    use super::Nullable;
    use base64::{
        Engine,
        alphabet::{STANDARD, URL_SAFE},
        engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
        prelude::BASE64_STANDARD,
    };
    use bytes::Bytes;
    use serde::{Deserializer, Serialize, Serializer, de};
    use std::fmt;

    /// With or without padding, and whatever the bits are that are left over.
    const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);

    struct Base64;

    impl de::Visitor<'_> for Base64 {
        type Value = Bytes;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes in base64")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
            let alphabet = if text.contains(['-', '_']) { &URL_SAFE } else { &STANDARD };
            let decoded = GeneralPurpose::new(alphabet, LENIENT).decode(text);
            decoded.map(Bytes::from).map_err(|error| E::custom(format_args!("no base64: {error}")))
        }
    }

    pub(in super::super) fn deserialize<'de, D>(deserializer: D) -> Result<Option<Bytes>, D::Error>
    where
        D: Deserializer<'de>,
    {
        deserializer.deserialize_option(Nullable(Base64))
    }

    pub(in super::super) fn serialize<S: Serializer>(
        bytes: &Option<Bytes>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        bytes.as_ref().map(|bytes| BASE64_STANDARD.encode(bytes)).serialize(serializer)
    }
}

/// Times.
pub(super) mod timestamp {
    use super::Nullable;
    use prost_types::Timestamp;
    use serde::{Deserializer, Serialize, Serializer, de};
    use std::fmt;

    struct Rfc3339;

    impl de::Visitor<'_> for Rfc3339 {
        type Value = Timestamp;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a time as RFC 3339 has it")
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
            text.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
        }
    }

    pub(in super::super) fn deserialize<'de, D>(deserializer: D) -> Result<Option<Timestamp>, D::Error>
    where
        D: Deserializer<'de>,
    {
        deserializer.deserialize_option(Nullable(Rfc3339))
    }

    pub(in super::super) fn serialize<S: Serializer>(
        time: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        time.as_ref().map(Timestamp::to_string).serialize(serializer)
    }
}

/// An enum of `i32` with names: by its name where it has one, else by its number. A name that nobody knows is 0.
macro_rules! named {
    ($module:ident, $($number:literal => $name:literal),+ $(,)?) => {
        pub(super) mod $module {
            use serde::{Deserializer, Serializer, de};
            use std::fmt;

            struct Named;

            impl de::Visitor<'_> for Named {
                type Value = i32;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a name or a number")
                }

                fn visit_str<E>(self, name: &str) -> Result<i32, E> {
                    Ok(match name {
                        $($name => $number,)+
                        _ => 0,
                    })
                }

                fn visit_u64<E: de::Error>(self, number: u64) -> Result<i32, E> {
                    i32::try_from(number).map_err(|_| E::invalid_value(de::Unexpected::Unsigned(number), &self))
                }

                fn visit_i64<E: de::Error>(self, number: i64) -> Result<i32, E> {
                    i32::try_from(number).map_err(|_| E::invalid_value(de::Unexpected::Signed(number), &self))
                }
            }

            pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
                let read = deserializer.deserialize_option(super::Nullable(Named))?;
                Ok(read.unwrap_or_default())
            }

            pub(in super::super) fn serialize<S: Serializer>(number: &i32, serializer: S) -> Result<S::Ok, S::Error> {
                match *number {
                    $($number => serializer.serialize_str($name),)+
                    number => serializer.serialize_i32(number),
                }
            }
        }
    };
}

named!(signal, 0 => "SIGNAL_UNSPECIFIED", 9 => "SIGNAL_SIGKILL", 15 => "SIGNAL_SIGTERM");
named!(
    file_type,
    0 => "FILE_TYPE_UNSPECIFIED",
    1 => "FILE_TYPE_FILE",
    2 => "FILE_TYPE_DIRECTORY",
    3 => "FILE_TYPE_SYMLINK",
);
named!(
    event_type,
    0 => "EVENT_TYPE_UNSPECIFIED",
    1 => "EVENT_TYPE_CREATE",
    2 => "EVENT_TYPE_WRITE",
    3 => "EVENT_TYPE_REMOVE",
    4 => "EVENT_TYPE_RENAME",
    5 => "EVENT_TYPE_CHMOD",
);
