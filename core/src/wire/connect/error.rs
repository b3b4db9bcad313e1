//! Error codes, the HTTP statuses they are sent with, and the end of a stream.

use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Why a call failed.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Code {
    /// The caller went away.
    Canceled,
    /// Nobody knows.
    Unknown,
    /// What was asked for can never be done.
    InvalidArgument,
    /// The time for it was over.
    DeadlineExceeded,
    /// It is not there.
    NotFound,
    /// It is there already.
    AlreadyExists,
    /// The caller may not.
    PermissionDenied,
    /// Something ran out: space, or the patience with a slow reader.
    ResourceExhausted,
    /// Not in the state that it is in.
    FailedPrecondition,
    /// Somebody else was faster.
    Aborted,
    /// Past the end of what there is.
    OutOfRange,
    /// Not served here.
    Unimplemented,
    /// A fault of the server's own.
    Internal,
    /// Not now.
    Unavailable,
    /// Lost for good.
    DataLoss,
    /// Who calls is not known.
    Unauthenticated,
}

impl Code {
    /// All of them, in the order of their numbers in gRPC.
    pub const ALL: [Self; 16] = [
        Self::Canceled,
        Self::Unknown,
        Self::InvalidArgument,
        Self::DeadlineExceeded,
        Self::NotFound,
        Self::AlreadyExists,
        Self::PermissionDenied,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::Aborted,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
        Self::Unavailable,
        Self::DataLoss,
        Self::Unauthenticated,
    ];

    /// Its name, and the HTTP status of a unary call that fails with it.
    const fn row(self) -> (&'static str, u16) {
        match self {
            Self::Canceled => ("canceled", 499),
            Self::Unknown => ("unknown", 500),
            Self::InvalidArgument => ("invalid_argument", 400),
            Self::DeadlineExceeded => ("deadline_exceeded", 504),
            Self::NotFound => ("not_found", 404),
            Self::AlreadyExists => ("already_exists", 409),
            Self::PermissionDenied => ("permission_denied", 403),
            Self::ResourceExhausted => ("resource_exhausted", 429),
            Self::FailedPrecondition => ("failed_precondition", 400),
            Self::Aborted => ("aborted", 409),
            Self::OutOfRange => ("out_of_range", 400),
            Self::Unimplemented => ("unimplemented", 501),
            Self::Internal => ("internal", 500),
            Self::Unavailable => ("unavailable", 503),
            Self::DataLoss => ("data_loss", 500),
            Self::Unauthenticated => ("unauthenticated", 401),
        }
    }

    /// `not_found` and so on.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// The HTTP status of a unary call that fails with it. A stream's is 200.
    pub const fn http_status(self) -> u16 {
        self.row().1
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.name() == name)
    }

    /// What an HTTP status without an error of the protocol's own means: a proxy's answer, or a refusal before the call
    /// was reached. One to one where there is a code for it, as E2B's clients read it.
    pub const fn of_http(status: u16) -> Self {
        match status {
            400 => Self::InvalidArgument,
            401 => Self::Unauthenticated,
            403 => Self::PermissionDenied,
            404 => Self::NotFound,
            409 => Self::AlreadyExists,
            429 => Self::ResourceExhausted,
            499 => Self::Canceled,
            501 => Self::Unimplemented,
            502 | 503 => Self::Unavailable,
            504 => Self::DeadlineExceeded,
            _ => Self::Unknown,
        }
    }
}

/// Why a call failed, for a program and for a person.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{}: {message}", code.name())]
pub struct RpcError {
    /// For a program.
    pub code: Code,
    /// For a person: what is wrong, and with which field.
    pub message: Cow<'static, str>,
}

#[derive(Deserialize, Serialize)]
struct Raw<'a> {
    #[serde(borrow)]
    code: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "str::is_empty", borrow)]
    message: Cow<'a, str>,
}

impl RpcError {
    /// An error.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into() }
    }

    /// The body of a unary call that fails: JSON, whatever the codec.
    pub fn to_json(&self) -> String {
        // Strings only: this cannot fail.
        serde_json::to_string(&self.raw()).unwrap_or_default()
    }

    /// What the body of an HTTP answer with an error says. Where that is no error of the protocol's (a proxy's page, a
    /// refusal whose `code` is a number) the status says what it is.
    pub fn of_http(status: u16, body: &[u8]) -> Self {
        Self::parse(body).unwrap_or_else(|| Self::new(Code::of_http(status), format!("HTTP status {status}")))
    }

    /// An error of the protocol's own, if that is what a body is.
    pub fn parse(body: &[u8]) -> Option<Self> {
        let raw = serde_json::from_slice::<Raw<'_>>(body).ok()?;
        Some(Self::new(Code::named(&raw.code)?, raw.message.into_owned()))
    }

    fn raw(&self) -> Raw<'_> {
        Raw { code: self.code.name().into(), message: Cow::Borrowed(&self.message) }
    }
}

/// The end of a stream: that all is well, or why not.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct End {
    /// None where all is well.
    pub error: Option<RpcError>,
}

#[derive(Deserialize, Serialize)]
struct RawEnd<'a> {
    #[serde(skip_serializing_if = "Option::is_none", borrow)]
    error: Option<Raw<'a>>,
}

/// The last message of a stream that is no end.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the end of the stream is not the JSON object that it must be")]
pub struct BadEnd;

impl End {
    /// The message that ends a stream: JSON, whatever the codec.
    pub fn to_json(&self) -> String {
        let raw = RawEnd { error: self.error.as_ref().map(RpcError::raw) };
        // Strings only: this cannot fail.
        serde_json::to_string(&raw).unwrap_or_default()
    }

    /// Reads the message that ends a stream. A code that nobody knows is [`Code::Unknown`].
    pub fn parse(data: &[u8]) -> Result<Self, BadEnd> {
        let raw: RawEnd<'_> = serde_json::from_slice(data).map_err(|_| BadEnd)?;
        let error = raw.error.map(|raw| {
            RpcError::new(Code::named(&raw.code).unwrap_or(Code::Unknown), raw.message.into_owned())
        });
        Ok(Self { error })
    }
}
