//! What stands behind the `?` of a request.

use crate::ApiError;
use std::time::Duration;

/// The parameters of a query, all of them known. Most of their values are numbers and words of ours, in which nothing has
/// to be decoded; the others are [texts](Query::text).
pub(crate) struct Query<'a> {
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Query<'a> {
    /// The parameters, each of which has to be one of `known`, and there once.
    pub(crate) fn of(query: Option<&'a str>, known: &[&str]) -> Result<Self, ApiError> {
        let mut pairs: Vec<(&str, &str)> = Vec::new();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            if !known.contains(&name) {
                let message = format!("{name}: there is no such parameter; there is {}", known.join(", "));
                return Err(ApiError::bad_field(name, "unknown_field", message));
            }
            if pairs.iter().any(|(other, _)| *other == name) {
                return Err(ApiError::bad_field(
                    name,
                    "duplicate_field",
                    format!("{name}: it is there twice"),
                ));
            }
            pairs.push((name, value));
        }
        Ok(Self { pairs })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a str> {
        self.pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// A text, decoded as forms encode it: `%` and two digits for a byte, `+` for a space. It has to be UTF-8.
    pub(crate) fn text(&self, name: &'static str) -> Result<Option<String>, ApiError> {
        let Some(value) = self.get(name) else { return Ok(None) };
        let text = decoded(value).and_then(|bytes| String::from_utf8(bytes).ok());
        let bad = || format!("{name}: it must be UTF-8, with % and two hexadecimal digits for a byte");
        text.map(Some).ok_or_else(|| ApiError::bad_field(name, "bad_encoding", bad()))
    }

    /// Whether it is `true`; `false` where it is not there.
    pub(crate) fn flag(&self, name: &'static str) -> Result<bool, ApiError> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => {
                Err(ApiError::bad_field(name, "wrong_type", format!("{name}: it must be true or false")))
            }
        }
    }

    /// A cursor: a whole number below 2^64, in digits.
    pub(crate) fn cursor(&self, name: &'static str) -> Result<Option<u64>, ApiError> {
        self.get(name).map(|value| cursor(name, value)).transpose()
    }

    /// Seconds, from 0 to `max`.
    pub(crate) fn seconds(&self, name: &'static str, max: f64) -> Result<Duration, ApiError> {
        let Some(value) = self.get(name) else { return Ok(Duration::ZERO) };
        match value.parse::<f64>() {
            Ok(seconds) if (0.0..=max).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
            Ok(_) | Err(_) => Err(ApiError::bad_field(
                name,
                "out_of_range",
                format!("{name}: it must be a number of seconds from 0 to {max}"),
            )),
        }
    }
}

/// The bytes that a value stands for.
fn decoded(value: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            plain => plain,
        });
    }
    Some(bytes)
}

/// A cursor, by the name of where it was.
pub(crate) fn cursor(name: &str, value: &str) -> Result<u64, ApiError> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    value.parse().ok().filter(|_| digits).ok_or_else(|| {
        let message = format!("{name}: a cursor is a whole number from 0 to 2^64-1, as it was given out");
        ApiError::bad_field(name, "bad_cursor", message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_digits_below_2_to_the_64() {
        for (value, expected) in
            [("0", Some(0)), ("18446744073709551615", Some(u64::MAX)), ("007", Some(7)), ("1", Some(1))]
        {
            assert_eq!(cursor("since", value).ok(), expected, "{value}");
        }
        for bad in ["", "-1", "+1", "1.5", "abc", "18446744073709551616", "0x1", " 1", "1%00", "\u{661}"] {
            let error = cursor("since", bad).unwrap_err();
            assert_eq!((error.code(), error.field()), ("bad_cursor", Some("since")), "{bad}");
        }
    }

    #[test]
    fn texts_are_decoded_and_flags_are_words() {
        let one = |value: &str| {
            let query = format!("path={value}");
            Query::of(Some(&query), &["path"]).ok().unwrap().text("path").map_err(|error| error.code())
        };
        for (value, expected) in [
            ("/srv/a", "/srv/a"),
            ("a%2Fb%20c+d%2b%25", "a/b c d+%"),
            ("%C3%A4\u{e4}", "\u{e4}\u{e4}"),
            ("", ""),
            ("%00", "\0"),
        ] {
            assert_eq!(one(value), Ok(Some(expected.to_owned())), "{value}");
        }
        for bad in ["%", "%2", "%zz", "%+1", "%ff", "a%C3"] {
            assert_eq!(one(bad), Err("bad_encoding"), "{bad}");
        }
        let query = Query::of(Some("a=true&b=false&c=1&d="), &["a", "b", "c", "d"]).ok().unwrap();
        assert_eq!([query.flag("a"), query.flag("b"), query.flag("e")], [Ok(true), Ok(false), Ok(false)]);
        for bad in ["c", "d"] {
            let error = query.flag(bad).unwrap_err();
            assert_eq!((error.code(), error.field()), ("wrong_type", Some(bad)));
        }
        assert_eq!(query.text("path"), Ok(None));
    }

    #[test]
    fn parameters_are_known_and_there_once() {
        let query = Query::of(Some("since=4&wait_seconds=1.5&"), &["since", "wait_seconds"]).ok().unwrap();
        assert_eq!((query.get("since"), query.get("tail")), (Some("4"), None));
        assert_eq!(query.seconds("wait_seconds", 600.0), Ok(Duration::from_millis(1500)));
        for (query, code) in [("x=1", "unknown_field"), ("since=1&since=2", "duplicate_field")] {
            let error = Query::of(Some(query), &["since"]).err().unwrap();
            assert_eq!(error.code(), code);
        }
        for bad in ["-1", "601", "nan", "", "1s"] {
            let text = format!("wait_seconds={bad}");
            let query = Query::of(Some(&text), &["wait_seconds"]).ok().unwrap();
            assert_eq!(query.seconds("wait_seconds", 600.0).unwrap_err().code(), "out_of_range", "{bad}");
        }
    }
}
