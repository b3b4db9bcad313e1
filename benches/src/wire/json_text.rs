//! The text in `{"data": text}`, unescaped piece by piece.

use memchr::memchr3;

use crate::Result;

/// Everything before the text, without white space.
const OPENING: &[u8] = b"{\"data\":\"";

/// Reads one line `{"data": text}`.
#[derive(Debug, Default)]
pub struct JsonText {
    state: State,
    /// The first half of a surrogate pair, until the second comes.
    high: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// That many bytes of [`OPENING`] have come.
    Opening(usize),
    /// In the text.
    Text,
    /// After a backslash.
    Escape,
    /// In the four digits after `\u`.
    Unicode { value: u32, digits: u32 },
    /// After the text.
    Closing,
    /// After the line.
    Ended,
}

impl Default for State {
    fn default() -> Self {
        Self::Opening(0)
    }
}

impl JsonText {
    /// Appends the text in `bytes` to `text`, and returns how many of them belong to the line, its line break
    /// included.
    pub fn feed(&mut self, bytes: &[u8], text: &mut Vec<u8>) -> Result<usize> {
        let mut used = 0;
        while !self.ended() && used < bytes.len() {
            if matches!(self.state, State::Text) {
                let rest = &bytes[used..];
                let plain = memchr3(b'\\', b'"', b'\n', rest).unwrap_or(rest.len());
                if plain > 0 {
                    self.paired()?;
                    text.extend_from_slice(&rest[..plain]);
                    used += plain;
                }
                // What the state machine would do, only faster: every line of output has one of these.
                match rest.get(plain..plain + 2) {
                    Some([b'\\', escaped @ (b'n' | b'"')]) if self.high.is_none() => {
                        text.push(if *escaped == b'n' { b'\n' } else { b'"' });
                        used += 2;
                        continue;
                    }
                    None if plain == rest.len() => break,
                    Some(_) | None => {}
                }
            }
            self.state = self.after(bytes[used], text)?;
            used += 1;
        }
        Ok(used)
    }

    /// Whether the line is over.
    pub const fn ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    fn after(&mut self, byte: u8, text: &mut Vec<u8>) -> Result<State> {
        match (self.state, byte) {
            (State::Opening(_) | State::Closing, b' ' | b'\t') => Ok(self.state),
            (State::Opening(matched), _) if byte == OPENING[matched] => {
                Ok(if matched + 1 == OPENING.len() { State::Text } else { State::Opening(matched + 1) })
            }
            (State::Text, b'\\') => Ok(State::Escape),
            (State::Text, b'"') => self.paired().map(|()| State::Closing),
            (State::Escape, b'u') => Ok(State::Unicode { value: 0, digits: 0 }),
            (State::Escape, _) => {
                self.paired()?;
                text.push(unescaped(byte)?);
                Ok(State::Text)
            }
            (State::Unicode { value, digits }, _) => {
                let digit = (byte as char).to_digit(16).ok_or("a \\u without four digits")?;
                let value = value * 16 + digit;
                if digits < 3 {
                    return Ok(State::Unicode { value, digits: digits + 1 });
                }
                self.unit(value, text)?;
                Ok(State::Text)
            }
            (State::Closing, b'}' | b'\r') => Ok(State::Closing),
            (State::Closing, b'\n') => Ok(State::Ended),
            (State::Opening(_) | State::Text | State::Closing | State::Ended, _) => {
                Err(format!("not an event with text: {:?} in its frame", byte as char).into())
            }
        }
    }

    /// One UTF-16 code unit, as `\u` names them.
    fn unit(&mut self, unit: u32, text: &mut Vec<u8>) -> Result<()> {
        let character = match (self.high.take(), unit) {
            (None, 0xD800..=0xDBFF) => {
                self.high = Some(unit);
                return Ok(());
            }
            (Some(high), 0xDC00..=0xDFFF) => 0x1_0000 + ((high - 0xD800) << 10) + (unit - 0xDC00),
            (Some(_), _) => return Err("half a surrogate pair".into()),
            (None, _) => unit,
        };
        let character = char::from_u32(character).ok_or("half a surrogate pair")?;
        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    fn paired(&self) -> Result<()> {
        self.high.map_or(Ok(()), |_| Err("half a surrogate pair".into()))
    }
}

fn unescaped(byte: u8) -> Result<u8> {
    match byte {
        b'n' => Ok(b'\n'),
        b'"' | b'\\' | b'/' => Ok(byte),
        b't' => Ok(b'\t'),
        b'r' => Ok(b'\r'),
        b'b' => Ok(8),
        b'f' => Ok(12),
        _ => Err(format!("no such escape: \\{}", byte as char).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(pieces: &[&[u8]]) -> Result<Vec<u8>> {
        let (mut decoder, mut out) = (JsonText::default(), Vec::new());
        for piece in pieces {
            let used = decoder.feed(piece, &mut out)?;
            assert_eq!(used, piece.len());
        }
        assert!(decoder.ended());
        Ok(out)
    }

    const TEXTS: [&str; 5] =
        ["", "plain\n", "q\"b\\s/t\tr\r\u{8}\u{c}\u{1}\n", "é ✓ 𝄞 \u{7f}\u{2028}", "\\\\n\\u0041"];

    #[test]
    fn every_text_comes_back_however_it_is_cut() {
        for expected in TEXTS {
            let line = format!("{}\n", serde_json::json!({ "data": expected }));
            for cut in 0..=line.len() {
                let (head, tail) = line.as_bytes().split_at(cut);
                assert_eq!(decode(&[head, tail]).unwrap(), expected.as_bytes(), "{line} cut at {cut}");
            }
        }
    }

    #[test]
    fn escapes_that_our_servers_do_not_need() {
        let line = b" { \"data\" : \"\\u0041\\uD834\\udd1e\\/\" } \r\n";
        for cut in 0..=line.len() {
            assert_eq!(decode(&[&line[..cut], &line[cut..]]).unwrap(), "A𝄞/".as_bytes());
        }
    }

    #[test]
    fn what_follows_the_line_is_left() {
        let mut decoder = JsonText::default();
        assert_eq!(decoder.feed(b"{\"data\":\"a\"}\n\nevent", &mut Vec::new()).unwrap(), 13);
        assert!(decoder.ended());
    }

    #[test]
    fn what_is_no_text_is_an_error() {
        for line in [
            "{\"base64\":\"aGk=\"}\n",
            "{\"data\":\"cut\n",
            "{\"data\":\"\\x\"}\n",
            "{\"data\":\"\\u12g4\"}\n",
            "{\"data\":\"\\ud834\"}\n",
            "{\"data\":\"\\ud834x\"}\n",
            "{\"data\":\"\\udd1e\"}\n",
            "{\"data\":\"a\",\"b\":1}\n",
        ] {
            assert!(decode(&[line.as_bytes()]).is_err(), "{line}");
        }
    }
}
