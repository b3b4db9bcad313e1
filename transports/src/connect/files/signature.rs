//! A signature: what may be done with which file, as whom and until when, by whoever shows it.

use base64::prelude::{BASE64_STANDARD_NO_PAD, Engine as _};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What may be done.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Operation {
    Read,
    Write,
}

/// What is signed, exactly as it stands in the query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signed<'a> {
    pub(super) operation: Operation,
    pub(super) path: &'a str,
    pub(super) user: &'a str,
    pub(super) expiration: Option<&'a str>,
}

impl Signed<'_> {
    /// Checks a signature; `now` in seconds since 1970.
    pub(super) fn check(self, signature: Option<&str>, token: &str, now: i64) -> Result<(), &'static str> {
        let signature = signature.ok_or("must be set, or the header X-Access-Token")?;
        if !bool::from(self.by(token).as_bytes().ct_eq(signature.as_bytes())) {
            return Err("does not match");
        }
        match self.expiration.map(str::parse::<i64>) {
            None => Ok(()),
            Some(Ok(until)) if until >= now => Ok(()),
            Some(Ok(_)) => Err("its time is over"),
            Some(Err(_)) => Err("signature_expiration must be a number of seconds since 1970"),
        }
    }

    /// The signature by a token.
    fn by(self, token: &str) -> String {
        let operation = match self.operation {
            Operation::Read => "read",
            Operation::Write => "write",
        };
        let Self { path, user, .. } = self;
        let mut text = format!("{path}:{operation}:{user}:{token}");
        if let Some(expiration) = self.expiration {
            text.push(':');
            text.push_str(expiration);
        }
        format!("v1_{}", BASE64_STANDARD_NO_PAD.encode(Sha256::digest(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNED: Signed<'_> =
        Signed { operation: Operation::Read, path: "/a b", user: "", expiration: None };

    #[test]
    fn a_signature_is_for_one_thing() {
        let signature = SIGNED.by("secret");
        assert_eq!(signature, "v1_JZ4oARkfyJlGHoJfXYdpTgwbCZQ649Z7s3Tvk4Fy+3U");
        let check = |signed: Signed<'_>, token: &str| signed.check(Some(&signature), token, 0);
        assert_eq!(check(SIGNED, "secret"), Ok(()));
        for other in [
            Signed { operation: Operation::Write, ..SIGNED },
            Signed { path: "/a", ..SIGNED },
            Signed { user: "root", ..SIGNED },
            Signed { expiration: Some("99"), ..SIGNED },
        ] {
            assert_eq!(check(other, "secret"), Err("does not match"), "{other:?}");
        }
        assert_eq!(check(SIGNED, "other"), Err("does not match"));
        assert!(SIGNED.check(None, "secret", 0).is_err());
    }

    #[test]
    fn its_time_ends() {
        let signed = Signed { expiration: Some("100"), ..SIGNED };
        let signature = signed.by("secret");
        assert_eq!(signed.check(Some(&signature), "secret", 100), Ok(()));
        assert_eq!(signed.check(Some(&signature), "secret", 101), Err("its time is over"));
        let never = Signed { expiration: Some("soon"), ..SIGNED };
        assert!(never.check(Some(&never.by("secret")), "secret", 0).is_err());
    }
}
