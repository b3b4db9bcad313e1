//! Where a server is, as people write it.

use hyper::Uri;
use std::{fmt, str::FromStr};

/// The base URL of a server: `http://HOST[:PORT][/PATH]`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Url {
    authority: String,
    host: String,
    port: u16,
    path: String,
}

/// What is no base URL of a server.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` is no URL of a server: it must be like http://127.0.0.1:8484 (https is not spoken yet)")]
pub struct BadUrl(String);

impl Url {
    /// The host and port as a request names them.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The host and port to connect to.
    pub fn host_and_port(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    /// The path before those of the interface, without a slash at its end.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl FromStr for Url {
    type Err = BadUrl;

    fn from_str(text: &str) -> Result<Self, BadUrl> {
        let bad = || BadUrl(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| bad())?;
        let authority = uri.authority().ok_or_else(bad)?;
        if uri.scheme_str() != Some("http") || authority.as_str().contains('@') || uri.query().is_some() {
            return Err(bad());
        }
        Ok(Self {
            authority: authority.as_str().to_owned(),
            host: authority.host().trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: authority.port_u16().unwrap_or(80),
            path: uri.path().trim_end_matches('/').to_owned(),
        })
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}{}", self.authority, self.path)
    }
}

/// A segment of a path: everything that means something in a URL is escaped.
pub fn segment(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let url: Url = "http://127.0.0.1:8484/".parse().unwrap();
        assert_eq!(
            (url.authority(), url.host_and_port(), url.path()),
            ("127.0.0.1:8484", ("127.0.0.1", 8484), "")
        );
        let url: Url = "http://[::1]/hangar/".parse().unwrap();
        assert_eq!((url.authority(), url.host_and_port(), url.path()), ("[::1]", ("::1", 80), "/hangar"));
        assert_eq!(url.to_string(), "http://[::1]/hangar");
    }

    #[test]
    fn what_is_none() {
        for bad in
            ["", "127.0.0.1:8484", "https://x", "http://", "http://u@x", "http://x/?y", "/x", "http://x y"]
        {
            assert_eq!(bad.parse::<Url>(), Err(BadUrl(bad.to_owned())), "{bad}");
        }
    }

    #[test]
    fn a_name_stays_one_segment() {
        assert_eq!(segment("a-b.c_d"), "a-b.c_d");
        assert_eq!(segment("a/../b?c€"), "a%2F..%2Fb%3Fc%E2%82%AC");
    }
}
