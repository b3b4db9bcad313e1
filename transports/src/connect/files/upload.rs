//! Files that are sent: as the body of a request, or as parts of a form.

use super::{
    super::Body,
    Daemon, Parameters, Refusal,
    incoming::{HEAD, Held, Uploaded},
};
use bytes::{Bytes, BytesMut};
use flate2::write::MultiGzDecoder;
use hangar_backends::local::{
    User,
    files::{Entry, FileError, Files, Writing},
};
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use multer::Multipart;
use serde::Serialize;
use std::{collections::BTreeMap, path::PathBuf};

/// Bytes that are gathered before they are written.
const WRITE: usize = 256 * 1024;

/// The mode of a new file, before the umask.
const MODE: u32 = 0o666;

/// The prefix of headers that are stored with a file.
const METADATA: &str = "x-metadata-";

/// A file that was written, as envd says it.
#[derive(Serialize)]
pub(super) struct Written {
    name: String,
    path: String,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
}

impl Written {
    pub(super) fn of(entry: &Entry) -> Self {
        Self {
            name: entry.name.clone(),
            path: entry.path.clone(),
            kind: "file",
            metadata: entry.metadata.clone(),
        }
    }
}

/// Writes what is sent.
pub(super) async fn upload(
    daemon: &Daemon,
    request: &mut Request<Incoming>,
    user: User,
    parameters: &Parameters,
) -> Result<Response<Body>, Refusal> {
    let metadata = metadata(request.headers())?;
    let header = |name| request.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let compressed = match header(CONTENT_ENCODING) {
        None | Some("identity") => false,
        Some("gzip") => true,
        Some(other) => {
            let message = format!("content-encoding: {other} is not taken; gzip and identity are");
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
        }
    };
    let kind = header(CONTENT_TYPE).unwrap_or_default().to_owned();
    let to = Destination { daemon, user, metadata };
    let unzip = compressed.then(|| MultiGzDecoder::new(Vec::new()));
    let mut bytes = Uploaded::new(daemon, request.body_mut(), unzip);
    let essence = kind.split(';').next().unwrap_or_default().trim();
    let written = if essence.eq_ignore_ascii_case("multipart/form-data") {
        let boundary = multer::parse_boundary(&kind).map_err(|error| bad_form(&error))?;
        let held = Held::default();
        let stream = futures_lite::stream::poll_fn(|cx| held.poll(cx, &mut bytes));
        form(&to, parameters, &held, Multipart::new(stream, boundary)).await?
    } else if essence.eq_ignore_ascii_case("application/octet-stream") {
        let mut file = to.file(parameters.path()?)?;
        while let Some(piece) = std::future::poll_fn(|cx| bytes.poll(cx)).await {
            file =
                file.push(daemon, piece.map_err(|error| Refusal::bad(format!("the body: {error}")))?).await?;
        }
        vec![file.finish(daemon).await?]
    } else {
        return Err(Refusal::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "content-type: must be multipart/form-data or application/octet-stream",
        ));
    };
    let written: Vec<Written> = written.iter().map(Written::of).collect();
    let mut response = super::answer::json(&written);
    // So envd says it, and its clients read the body whatever it is.
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    Ok(response)
}

/// Writes the parts of a form that are named `file`. One goes where the query says; several where each of them says.
async fn form(
    to: &Destination<'_>,
    parameters: &Parameters,
    held: &Held,
    mut parts: Multipart<'_>,
) -> Result<Vec<Entry>, Refusal> {
    let mut written = Vec::new();
    while let Some(mut part) = parts.next_field().await.map_err(|error| bad_form(&error))? {
        held.given(HEAD);
        if part.name() != Some("file") {
            while let Some(piece) = part.chunk().await.map_err(|error| bad_form(&error))? {
                held.given(piece.len());
            }
            continue;
        }
        let path = match (parameters.path.as_deref().filter(|path| !path.is_empty()), part.file_name()) {
            (Some(_), _) if !written.is_empty() => {
                return Err(Refusal::bad("path: must not be set where several files are sent"));
            }
            (Some(path), _) => path.to_owned(),
            (None, Some(name)) if !name.is_empty() => name.to_owned(),
            (None, _) => return Err(Refusal::bad("path: must be set, or the part's filename")),
        };
        let mut file = to.file(&path)?;
        while let Some(piece) = part.chunk().await.map_err(|error| bad_form(&error))? {
            held.given(piece.len());
            file = file.push(to.daemon, piece).await?;
        }
        written.push(file.finish(to.daemon).await?);
    }
    if written.is_empty() {
        return Err(Refusal::bad("file: the form has no part of this name"));
    }
    Ok(written)
}

fn bad_form(error: &multer::Error) -> Refusal {
    Refusal::bad(format!("the form: {error}"))
}

/// Where files go.
struct Destination<'a> {
    daemon: &'a Daemon,
    user: User,
    metadata: BTreeMap<String, String>,
}

impl Destination<'_> {
    fn file(&self, path: &str) -> Result<Sent, Refusal> {
        let path = self.daemon.path("path", path, &self.user)?;
        let place = Place::Named { path, user: self.user.clone(), metadata: self.metadata.clone() };
        Ok(Sent { place, waiting: BytesMut::new() })
    }
}

/// A file that is being sent, and what waits to be written to it.
struct Sent {
    place: Place,
    waiting: BytesMut,
}

/// Where a file goes.
enum Place {
    /// What is there is as it was: a body that is cut or broken from the start loses nothing.
    Named {
        path: PathBuf,
        user: User,
        metadata: BTreeMap<String, String>,
    },
    Open(Writing),
}

impl Sent {
    async fn push(mut self, daemon: &Daemon, piece: Bytes) -> Result<Self, Refusal> {
        self.waiting.extend_from_slice(&piece);
        if self.waiting.len() < WRITE {
            return Ok(self);
        }
        let writing = daemon.with_files(move |files| {
            let Self { place, mut waiting } = self;
            let file = place.write(files, &waiting)?;
            waiting.clear();
            Ok(Self { place: Place::Open(file), waiting })
        });
        Ok(writing.await?)
    }

    async fn finish(self, daemon: &Daemon) -> Result<Entry, Refusal> {
        let Self { place, waiting } = self;
        Ok(daemon.with_files(move |files| place.write(files, &waiting)?.finish()).await?)
    }
}

impl Place {
    fn write(self, files: &Files, bytes: &[u8]) -> Result<Writing, FileError> {
        let mut file = match self {
            Self::Named { path, user, metadata } => files.create_with(&user, &path, MODE, &metadata)?,
            Self::Open(file) => file,
        };
        file.write(bytes)?;
        Ok(file)
    }
}

/// What is to be stored with each file.
fn metadata(headers: &HeaderMap) -> Result<BTreeMap<String, String>, Refusal> {
    let found =
        headers.iter().filter_map(|(name, value)| Some((name.as_str().strip_prefix(METADATA)?, value)));
    found
        .map(|(name, value)| {
            let text =
                value.to_str().map_err(|_| Refusal::bad(format!("{METADATA}{name}: must be ASCII")))?;
            Ok((name.to_owned(), text.to_owned()))
        })
        .collect()
}
