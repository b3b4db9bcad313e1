//! What a program has switched in the terminal: undone where it cannot do so itself, as nobody shows its output any more.

/// The modes that a program may leave behind, and whether a terminal begins with them: application keys, the cursor, the
/// other screen by its three names, the mouse, focus, pastes in brackets.
const KNOWN: [(u16, bool); 11] = [
    (1, false),
    (25, true),
    (1000, false),
    (1002, false),
    (1003, false),
    (1004, false),
    (1006, false),
    (2004, false),
    (47, false),
    (1047, false),
    // The last: it brings the cursor back to where it was.
    (1049, false),
];

/// The modes as far as output has changed them.
#[derive(Debug, Default)]
pub(super) struct Modes {
    changed: [bool; KNOWN.len()],
    place: Place,
    /// The numbers of a sequence that has not ended.
    numbers: Vec<u16>,
}

/// Where in a sequence the output is: it may come in any pieces.
#[derive(Clone, Copy, Debug, Default)]
enum Place {
    #[default]
    Text,
    Escape,
    Bracket,
    Number(u16),
}

/// More numbers than that are in no sequence that means something here.
const MAX_NUMBERS: usize = 16;

impl Modes {
    /// Looks at output.
    pub(super) fn look(&mut self, output: &[u8]) {
        for byte in output {
            self.place = match (self.place, byte) {
                (_, 0x1b) => Place::Escape,
                (Place::Escape, b'[') => Place::Bracket,
                (Place::Bracket, b'?') => {
                    self.numbers.clear();
                    Place::Number(0)
                }
                (Place::Number(number), b'0'..=b'9') => {
                    Place::Number(number.saturating_mul(10).saturating_add(u16::from(byte - b'0')))
                }
                (Place::Number(number), b';') if self.numbers.len() < MAX_NUMBERS => {
                    self.numbers.push(number);
                    Place::Number(0)
                }
                (Place::Number(number), b'h' | b'l') => {
                    self.numbers.push(number);
                    self.switch(*byte == b'h');
                    Place::Text
                }
                _ => Place::Text,
            };
        }
    }

    fn switch(&mut self, on: bool) {
        for ((mode, at_first), changed) in KNOWN.iter().zip(&mut self.changed) {
            if self.numbers.contains(mode) {
                *changed = on != *at_first;
            }
        }
    }

    /// What undoes it.
    pub(super) fn undo(&self) -> String {
        let changed = KNOWN.iter().zip(&self.changed).filter(|(_, changed)| **changed);
        changed
            .map(|((mode, at_first), _)| format!("\x1b[?{mode}{}", if *at_first { 'h' } else { 'l' }))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_switched_is_undone() {
        let after = |pieces: &[&str]| {
            let mut modes = Modes::default();
            pieces.iter().for_each(|piece| modes.look(piece.as_bytes()));
            modes.undo()
        };
        assert_eq!(after(&["text \x1b[31mred\x1b[m"]), "");
        assert_eq!(after(&["\x1b[?1049h\x1b[?25l"]), "\x1b[?25h\x1b[?1049l");
        assert_eq!(after(&["\x1b[?10", "49;1;25", "l\x1b", "[?1049h"]), "\x1b[?25h\x1b[?1049l");
        assert_eq!(after(&["\x1b[?1049h\x1b[?25l\x1b[?25h\x1b[?1049l"]), "");
        assert_eq!(after(&["\x1b[1049h\x1b[?1049$p\x1b[?99999h"]), "");
    }
}
