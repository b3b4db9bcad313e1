//! Who may call at all: by the host that a request names, by the page it comes from, and by the token it carries.
//!
//! A daemon without a token answers whoever reaches it, so it must not be reached by a page: a browser sends a page's
//! requests with their `Origin`, and those are refused; a name that a page's owner points at this machine is no host that
//! is answered to. With a token both are allowed, as a page that has it may call.

use super::{Body, Daemon, answer};
use hyper::{
    Method, Request, Response, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HOST,
        HeaderName, HeaderValue, ORIGIN,
    },
};
use sha2::{Digest, Sha256};
use std::{fmt, net::IpAddr};
use subtle::ConstantTimeEq;

/// The header with the token.
const ACCESS_TOKEN: HeaderName = HeaderName::from_static("x-access-token");

/// The token that requests have to carry.
#[derive(Clone)]
pub struct Token {
    secret: String,
    sha256: [u8; 32],
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

/// Why something cannot be a token.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadToken {
    /// It is empty.
    #[error("it is empty")]
    Empty,
    /// No request could carry it.
    #[error("it has characters other than visible ASCII ones, so no header could carry it")]
    NotVisible,
}

impl Token {
    /// A token: visible ASCII characters, as it is carried by a header.
    ///
    /// # Errors
    ///
    /// What it has to be and is not.
    pub fn new(secret: String) -> Result<Self, BadToken> {
        if secret.is_empty() {
            return Err(BadToken::Empty);
        }
        if !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(BadToken::NotVisible);
        }
        let sha256 = Sha256::digest(&secret).into();
        Ok(Self { secret, sha256 })
    }

    /// Whether this is it. It takes as long whatever is wrong.
    pub(super) fn is(&self, secret: &str) -> bool {
        self.sha256.ct_eq(&Sha256::digest(secret)).into()
    }

    pub(super) fn secret(&self) -> &str {
        &self.secret
    }
}

/// Why somebody may not call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Refusal(pub(super) StatusCode, pub(super) &'static str);

/// Refuses who may not call.
pub(super) fn check<B>(daemon: &Daemon, request: &Request<B>) -> Result<(), Refusal> {
    let token = daemon.settings().token.clone();
    let Some(token) = token else { return check_page(request) };
    if asks_first(request) {
        return Ok(());
    }
    // These have their own ways to tell who calls.
    let is_exempt = matches!(
        (request.method(), request.uri().path()),
        (&Method::GET | &Method::HEAD, "/health" | "/files") | (&Method::POST, "/files" | "/init")
    );
    if is_exempt || carries(request, &token) {
        return Ok(());
    }
    Err(Refusal(
        StatusCode::UNAUTHORIZED,
        "unauthorized access, please provide a valid access token or method signing if supported",
    ))
}

/// Whether a request carries the token.
pub(super) fn carries<B>(request: &Request<B>, token: &Token) -> bool {
    let value = request.headers().get(ACCESS_TOKEN).and_then(|value| value.to_str().ok());
    value.is_some_and(|value| token.is(value))
}

fn check_page<B>(request: &Request<B>) -> Result<(), Refusal> {
    let forbidden = |why| Err(Refusal(StatusCode::FORBIDDEN, why));
    let headers = request.headers();
    if headers.contains_key(ORIGIN) || is_foreign(headers.get("sec-fetch-site")) {
        return forbidden("pages may not call a daemon without a token; HANGAR_ENVD_TOKEN sets one");
    }
    let mut hosts = headers.get_all(HOST).iter();
    let host = request.uri().authority().map(|authority| authority.as_str());
    let host = host.or_else(|| hosts.next().map(|host| host.to_str().unwrap_or_default()));
    match (host, hosts.next()) {
        // HTTP/1.0, which no browser speaks.
        (None, None) => Ok(()),
        (Some(host), None) if is_numeric_or_loopback(host) => Ok(()),
        (_, _) => forbidden(
            "without a token this daemon answers to localhost and to addresses only; HANGAR_ENVD_TOKEN sets one",
        ),
    }
}

/// Whether a browser says that the request is a page's of elsewhere: it says so also where it sends no `Origin`.
fn is_foreign(site: Option<&HeaderValue>) -> bool {
    site.is_some_and(|site| !matches!(site.as_bytes(), b"none" | b"same-origin"))
}

/// `localhost` or an address, with or without a port.
fn is_numeric_or_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty() => name,
        Some(_) | None => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
}

/// The answer to a browser that asks whether it may ask.
pub(super) fn preflight<B>(request: &Request<B>) -> Option<Response<Body>> {
    asks_first(request).then(answer::nothing)
}

/// Whether it is a browser's question of whether it may ask.
fn asks_first<B>(request: &Request<B>) -> bool {
    request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Lets pages read the answer: they carry the token, and no browser adds one by itself.
pub(super) fn allow_pages(response: &mut Response<Body>) {
    let headers = response.headers_mut();
    let any = || HeaderValue::from_static("*");
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, any());
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD, POST"));
    // `*` does not stand for `authorization`.
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("*, authorization"));
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, any());
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("7200"));
}
