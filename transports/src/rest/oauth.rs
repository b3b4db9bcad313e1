//! Where a client gets a token that is not hangar's own: the metadata of a protected resource (RFC 9728).
//!
//! Without an issuer there is none: nothing is served at its paths, and a 401 does not name it.

use crate::{ApiError, body::Body};
use hyper::{
    Response, StatusCode, Uri,
    header::{HeaderValue, WWW_AUTHENTICATE},
};
use serde_json::json;

/// Where the metadata is, for who knows the host alone.
pub(super) const PATH: &str = "/.well-known/oauth-protected-resource";

/// The same for the resource `/mcp`.
pub(super) const PATH_OF_MCP: &str = "/.well-known/oauth-protected-resource/mcp";

/// What a server says of itself as a protected resource.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProtectedResource {
    origin: String,
    issuers: Vec<String>,
}

/// A URL that cannot be what it is to be.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{url}: {why}")]
pub struct BadUrl {
    /// What it is.
    pub url: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl ProtectedResource {
    /// The server that clients reach at `origin` (`https://host[:port]`), for tokens of these issuers: one at the least.
    pub fn new(origin: &str, issuers: &[&str]) -> Result<Self, BadUrl> {
        let bad = |why| BadUrl { url: origin.to_owned(), why };
        let uri = checked(origin)?;
        if uri.path() != "/" || uri.query().is_some() {
            return Err(bad("it must have no path: https://host or https://host:port"));
        }
        if issuers.is_empty() {
            return Err(bad("it needs the URL of an issuer of tokens"));
        }
        for issuer in issuers {
            checked(issuer)?;
        }
        let issuers = issuers.iter().map(|issuer| (*issuer).to_owned()).collect();
        Ok(Self { origin: origin.trim_end_matches('/').to_owned(), issuers })
    }

    /// The document.
    pub(super) fn document(&self) -> Result<Response<Body>, ApiError> {
        super::json(
            StatusCode::OK,
            &json!({
                "resource": format!("{}{}", self.origin, super::mcp::PATH),
                "authorization_servers": self.issuers,
                "bearer_methods_supported": ["header"],
                "scopes_supported": ["mcp"],
                "resource_name": "hangar",
            }),
        )
    }

    /// Tells a client whose token does not do where it gets one that does.
    pub(super) fn challenge(&self, response: &mut Response<Body>) {
        let lacks = match response.status() {
            StatusCode::UNAUTHORIZED => "",
            StatusCode::FORBIDDEN => ", error=\"insufficient_scope\", scope=\"mcp\"",
            _ => return,
        };
        let challenge =
            format!("Bearer realm=\"hangar\", resource_metadata=\"{}{PATH_OF_MCP}\"{lacks}", self.origin);
        if let Ok(challenge) = HeaderValue::from_str(&challenge) {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
    }
}

/// A URL of a host: by https, or by http on this machine.
fn checked(url: &str) -> Result<Uri, BadUrl> {
    let bad = |why| BadUrl { url: url.to_owned(), why };
    let uri: Uri = url.parse().map_err(|_| bad("it is not a URL"))?;
    let host = uri.host().ok_or_else(|| bad("it names no host"))?;
    match uri.scheme_str() {
        Some("https") => Ok(uri),
        Some("http") if matches!(host, "localhost" | "127.0.0.1" | "[::1]") => Ok(uri),
        _ => Err(bad("it must begin with https://")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let new = ProtectedResource::new;
        assert_eq!(
            new("https://a.example/", &["https://issuer.example/x"]).unwrap().origin,
            "https://a.example"
        );
        assert!(new("http://127.0.0.1:8484", &["http://localhost:9"]).is_ok());
        for (origin, issuers) in [
            ("https://a.example/x", &["https://i"][..]),
            ("https://a.example?x", &["https://i"]),
            ("http://a.example", &["https://i"]),
            ("a.example", &["https://i"]),
            ("", &["https://i"]),
            ("https://a.example", &[]),
            ("https://a.example", &["http://i.example"]),
            ("https://a.example", &["https://i", "x y"]),
        ] {
            assert!(new(origin, issuers).is_err(), "{origin} {issuers:?}");
        }
    }
}
