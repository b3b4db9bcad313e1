//! The messages of E2B's envd, in JSON and in protobuf: the services `process.Process` and `filesystem.Filesystem`.
//!
//! Each message is one struct with both forms. A `oneof` of the protocol is a group of optional fields, as it is on the
//! wire, of which a method of the struct picks the one that is set. What hangar adds has field numbers from 101 on.
//!
//! * [`process`], [`filesystem`]: the messages.
//! * [`change`]: what a watch tells, as the events of a stream.
//! * [`event`]: the events of a stream, written without a detour: they are what most bytes are.
//! * `rules`: how protobuf writes values in JSON.

pub mod change;
pub mod event;
pub mod filesystem;
pub mod process;
mod rules;

use super::connect::{Code, Codec, RpcError};
use bytes::{BufMut, BytesMut};
use serde::{Serialize, de::DeserializeOwned};

/// A message in both forms.
pub trait Message: prost::Message + Default + Serialize + DeserializeOwned {}

impl<T: prost::Message + Default + Serialize + DeserializeOwned> Message for T {}

/// Reads a message. The error names the field.
pub fn decode<M: Message>(codec: Codec, data: &[u8]) -> Result<M, RpcError> {
    let bad = |what: &dyn std::fmt::Display| RpcError::new(Code::InvalidArgument, what.to_string());
    match codec {
        Codec::Proto => M::decode(data).map_err(|error| bad(&error)),
        Codec::Json => {
            let mut json = serde_json::Deserializer::from_slice(data);
            let mut track = serde_path_to_error::Track::new();
            let read = rules::message::read(serde_path_to_error::Deserializer::new(&mut json, &mut track));
            let message = read.map_err(|error| match track.path().to_string().as_str() {
                "." => bad(&error),
                path => bad(&format_args!("{path}: {error}")),
            })?;
            json.end().map_err(|error| bad(&error))?;
            Ok(message)
        }
    }
}

/// Appends a message.
pub fn encode<M: Message>(codec: Codec, message: &M, out: &mut BytesMut) {
    match codec {
        // A buffer that grows has room for every message.
        Codec::Proto => message.encode(out).unwrap_or_default(),
        // Strings, numbers and lists of them: this cannot fail.
        Codec::Json => serde_json::to_writer(out.writer(), message).unwrap_or_default(),
    }
}

/// What a `oneof` has to have: one of its fields.
pub fn one_of<T>(name: &'static str, fields: &'static str, set: [Option<T>; 2]) -> Result<T, RpcError> {
    let [first, second] = set;
    match (first, second) {
        (Some(one), None) | (None, Some(one)) => Ok(one),
        (Some(_), Some(_)) => {
            Err(RpcError::new(Code::InvalidArgument, format!("{name}: only one of {fields} may be set")))
        }
        (None, None) => {
            Err(RpcError::new(Code::InvalidArgument, format!("{name}: one of {fields} must be set")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{process::StartRequest, *};

    #[test]
    fn a_message_is_an_object() {
        let read = |json: &str| decode::<StartRequest>(Codec::Json, json.as_bytes());
        let request = read(r#"{"process":{"cmd":"x","unknown":[1]},"pty":null}"#).unwrap();
        assert_eq!((request.process.unwrap().cmd.as_str(), request.pty), ("x", None));
        for (json, says) in [
            ("[]", "expected an object"),
            ("null", "expected an object"),
            ("\"\"", "expected an object"),
            (r#"{"process":["x"]}"#, "process: invalid type: sequence, expected an object"),
            (r#"{"pty":{"size":[1,2]}}"#, "pty.size: invalid type: sequence"),
            (r#"{"process":{"cmd":7}}"#, "process.cmd: invalid type: integer"),
            ("{}{}", "trailing"),
            ("", "EOF"),
        ] {
            let error = read(json).unwrap_err();
            assert_eq!(error.code, Code::InvalidArgument, "{json}");
            assert!(error.message.contains(says), "{json}: {error}");
        }
    }
}
