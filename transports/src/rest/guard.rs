//! Which hosts and origins are answered: the fence against pages of other sites that reach for this server, by its
//! address or by a name that they point at it.

use crate::{ApiError, body::Body};
use hyper::{
    Method, Request, Response, StatusCode, Uri, Version,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HOST,
        HeaderValue, ORIGIN, VARY,
    },
};
use std::collections::BTreeSet;

/// The hosts and origins that are answered: loopback names on any port, and what the operator named.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Guard {
    hosts: BTreeSet<String>,
    origins: BTreeSet<String>,
    public_url: Option<String>,
}

/// An origin or a public URL that cannot be one.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` is no origin: it must be like https://hangar.example or http://10.0.0.1:8484")]
pub struct BadOrigin(String);

impl Guard {
    /// Answers to loopback names, to the host of `public_url`, and to pages of `origins` (and of `public_url`).
    pub fn new(public_url: Option<&str>, origins: &[String]) -> Result<Self, BadOrigin> {
        let mut guard = Self::default();
        if let Some(url) = public_url {
            let (origin, host) = parse(url)?;
            guard.hosts.insert(host);
            guard.public_url = Some(origin.clone());
            guard.origins.insert(origin);
        }
        for url in origins {
            guard.origins.insert(parse(url)?.0);
        }
        Ok(guard)
    }

    /// The URL that the operator named, without a slash at its end.
    pub(super) fn public_url(&self) -> Option<&str> {
        self.public_url.as_deref()
    }

    /// Gives back the origin of the page that asks, if it is a page and may.
    pub(super) fn check<B>(&self, request: &Request<B>) -> Result<Option<HeaderValue>, ApiError> {
        if request.uri().path() != "/healthz" {
            self.check_host(request)?;
        }
        let mut origins = request.headers().get_all(ORIGIN).iter();
        let Some(origin) = origins.next() else { return Ok(None) };
        let text = origin.to_str().unwrap_or_default();
        let allowed = origins.next().is_none()
            && (self.origins.contains(text) || parse(text).is_ok_and(|(_, host)| is_loopback(&host)));
        if allowed {
            return Ok(Some(origin.clone()));
        }
        Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "forbidden_origin",
            "pages of this origin may not call this server; HANGAR_ALLOWED_ORIGINS names those that may",
        ))
    }

    fn check_host<B>(&self, request: &Request<B>) -> Result<(), ApiError> {
        let mut hosts = request.headers().get_all(HOST).iter();
        let host = match (request.uri().authority(), hosts.next(), hosts.next()) {
            (_, _, Some(_)) => None,
            (Some(authority), _, None) => Some(authority.as_str().to_owned()),
            (None, Some(host), None) => host.to_str().ok().map(str::to_owned),
            (None, None, None) if request.version() == Version::HTTP_10 => return Ok(()),
            (None, None, None) => None,
        };
        let host = host.ok_or_else(|| {
            ApiError::new(StatusCode::BAD_REQUEST, "bad_host", "a request needs exactly one Host header")
        })?;
        let host = host.to_ascii_lowercase();
        if is_loopback(&host) || self.hosts.contains(&host) {
            return Ok(());
        }
        Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "forbidden_host",
            "this server does not answer to this Host; HANGAR_PUBLIC_URL names the one it has",
        ))
    }

    /// The answer to a browser that asks whether it may ask.
    pub(super) fn preflight<B>(request: &Request<B>) -> Option<Response<Body>> {
        let headers = request.headers();
        if request.method() != Method::OPTIONS || !headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD) {
            return None;
        }
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, PUT, DELETE"));
        headers.insert(
            ACCESS_CONTROL_ALLOW_HEADERS,
            HeaderValue::from_static(
                "authorization, content-type, last-event-id, mcp-protocol-version, mcp-method, mcp-name, \
                 mcp-session-id",
            ),
        );
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
        Some(response)
    }

    /// Lets the page that asked read the answer.
    pub(super) fn allow(response: &mut Response<Body>, origin: HeaderValue) {
        response.headers_mut().insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        // A page needs these, and is not shown them otherwise.
        let exposed = HeaderValue::from_static("mcp-session-id, www-authenticate");
        response.headers_mut().insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
        response.headers_mut().append(VARY, HeaderValue::from_static("origin"));
    }
}

/// The origin of a URL, as browsers write it, and its host with its port as clients send it.
fn parse(url: &str) -> Result<(String, String), BadOrigin> {
    let bad = || BadOrigin(url.to_owned());
    let uri: Uri = url.trim_end_matches('/').parse().map_err(|_| bad())?;
    let (scheme, authority) = uri.scheme_str().zip(uri.authority()).ok_or_else(bad)?;
    let plain = uri.path() == "/" && uri.query().is_none() && !authority.as_str().contains('@');
    if !plain || !matches!(scheme, "http" | "https") {
        return Err(bad());
    }
    let host = authority.as_str().to_ascii_lowercase();
    // Neither browsers nor clients write the port that the scheme has anyway.
    let port = if scheme == "https" { ":443" } else { ":80" };
    let host = host.strip_suffix(port).unwrap_or(&host).to_owned();
    Ok((format!("{scheme}://{host}"), host))
}

/// `localhost`, `127.0.0.1` or `[::1]`, with or without a port.
fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty() => name,
        Some(_) | None => host,
    };
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(guard: &Guard, host: &str, origin: Option<&str>) -> Result<Option<HeaderValue>, &'static str> {
        let mut request = Request::builder().uri("/api/sandboxes").header(HOST, host);
        if let Some(origin) = origin {
            request = request.header(ORIGIN, origin);
        }
        guard.check(&request.body(()).unwrap()).map_err(|error| error.code())
    }

    #[test]
    fn loopback_names_are_answered_and_others_are_not() {
        let guard = Guard::default();
        for host in ["localhost", "localhost:8484", "127.0.0.1:1", "[::1]:8484", "LOCALHOST"] {
            assert_eq!(asked(&guard, host, None), Ok(None), "{host}");
        }
        for host in
            ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "10.0.0.1", ":1", ""]
        {
            assert_eq!(asked(&guard, host, None), Err("forbidden_host"), "{host}");
        }
    }

    #[test]
    fn a_public_url_and_allowed_origins_are_answered_too() {
        let origins = ["https://app.example:8443/".to_owned()];
        let guard = Guard::new(Some("https://hangar.example"), &origins).unwrap();
        assert_eq!(asked(&guard, "hangar.example", None), Ok(None));
        for origin in ["https://hangar.example", "https://app.example:8443", "http://localhost:3000"] {
            assert!(matches!(asked(&guard, "hangar.example", Some(origin)), Ok(Some(_))), "{origin}");
        }
        for origin in ["http://hangar.example", "https://app.example", "null", "https://evil.example", ""] {
            assert_eq!(asked(&guard, "localhost", Some(origin)), Err("forbidden_origin"), "{origin}");
        }
    }

    #[test]
    fn a_request_names_one_host() {
        let two = Request::builder().uri("/").header(HOST, "localhost").header(HOST, "evil.example");
        assert_eq!(Guard::default().check(&two.body(()).unwrap()).unwrap_err().code(), "bad_host");
        let none = Request::builder().uri("/").body(()).unwrap();
        assert_eq!(Guard::default().check(&none).unwrap_err().code(), "bad_host");
        let probe = Request::builder().uri("/healthz").header(HOST, "10.0.0.7:8484").body(()).unwrap();
        assert_eq!(Guard::default().check(&probe), Ok(None));
    }

    #[test]
    fn what_is_no_origin_is_refused_at_the_start() {
        for bad in ["hangar.example", "ftp://x", "https://a/b", "https://u@x", "https://x?y", "*", ""] {
            assert_eq!(Guard::new(None, &[bad.to_owned()]), Err(BadOrigin(bad.to_owned())), "{bad}");
        }
    }
}
