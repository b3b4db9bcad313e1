//! Text in pieces against the text of the whole.

use super::draw;
use crate::{
    log::{Channel, Item, Log, Reader, Retention},
    text::{Decoder, Text},
};
use arbitrary::{Arbitrary, Result, Unstructured};
use bytes::Bytes;

/// Output, and where a reader comes to it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// How many pieces are there when the reader comes.
    pub before: usize,
    /// The byte, of those, at which it comes.
    pub cut: usize,
    /// The output.
    pub pieces: Vec<Piece>,
}

/// A piece of output.
#[derive(Arbitrary, Clone, Debug)]
pub struct Piece {
    /// Where it is printed.
    #[arbitrary(with = draw::channel)]
    pub channel: Channel,
    /// What is printed.
    #[arbitrary(with = draw::output)]
    pub bytes: Vec<u8>,
    /// Whether another reader takes it at once, which ends the frame.
    pub taken: bool,
}

const CHANNELS: [Channel; 3] = [Channel::Stdout, Channel::Stderr, Channel::Tty];

impl<'a> Arbitrary<'a> for Scenario {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(Self {
            before: u.int_in_range(0..=12u8)?.into(),
            cut: draw::size(u)?,
            pieces: draw::steps(u, 16)?,
        })
    }
}

/// Runs a scenario: however the output is cut, its text is that of the whole.
pub fn run(scenario: &Scenario) {
    let pieces: Vec<&[u8]> = scenario.pieces.iter().map(|piece| &piece.bytes[..]).collect();
    check_pieces(&pieces);
    let mut short = pieces.concat();
    short.truncate(12);
    for at in 0..=short.len() {
        let (left, right) = short.split_at(at);
        check_pieces(&[left, right]);
        check_resumed(left, right);
        check_cuts(left, right);
    }
    check_reader(scenario);
}

fn push(decoder: &mut Decoder, bytes: &[u8]) -> Text {
    decoder.push(Bytes::copy_from_slice(bytes))
}

fn string(text: &Text) -> String {
    text.pieces().collect()
}

/// The pieces of text are the text of the pieces, and their bytes are the same bytes.
fn check_pieces(pieces: &[&[u8]]) {
    let all = pieces.concat();
    let mut decoder = Decoder::default();
    let (mut decoded, mut bytes) = (String::new(), Vec::new());
    let mut pushed = 0;
    for piece in pieces {
        let text = push(&mut decoder, piece);
        pushed += piece.len();
        decoded += &string(&text);
        bytes.extend_from_slice(&text.bytes().concat());
        assert_eq!(
            (text.len(), text.is_empty()),
            (text.bytes().concat().len(), text.bytes().concat().is_empty())
        );
        let held = &all[bytes.len()..pushed];
        assert_eq!(decoder.is_empty(), held.is_empty(), "held back: {held:?}");
        let unfinished =
            std::str::from_utf8(held).map_or_else(|error| error.error_len().is_none(), str::is_empty);
        assert!(unfinished && held.len() < 4, "held back without a reason: {held:?}");
    }
    let last = decoder.finish();
    decoded += &string(&last);
    bytes.extend_from_slice(&last.bytes().concat());
    assert!(decoder.is_empty());
    assert_eq!(bytes, all);
    assert_eq!(decoded, String::from_utf8_lossy(&all));
}

/// A decoder that begins after `left` goes on as one that decoded it.
fn check_resumed(left: &[u8], right: &[u8]) {
    let mut uncut = Decoder::default();
    push(&mut uncut, left);
    let mut resumed = Decoder::after(left);
    assert_eq!(resumed.is_empty(), uncut.is_empty());
    assert_eq!(string(&push(&mut resumed, right)), string(&push(&mut uncut, right)));
    assert_eq!(string(&resumed.finish()), string(&uncut.finish()));
}

/// A cut piece begins as the whole one, at most as long as asked, and no shorter than a character needs.
fn check_cuts(left: &[u8], right: &[u8]) {
    let mut decoder = Decoder::after(left);
    let whole = push(&mut decoder, right);
    for max in 0..=whole.len() + 2 {
        let mut cut = whole.clone();
        cut.truncate_bytes(max);
        assert_eq!(cut.len(), max.min(whole.len()));
        assert!(whole.bytes().concat().starts_with(&cut.bytes().concat()));
        let mut cut = whole.clone();
        cut.truncate(max);
        assert!(cut.len() <= max && cut.len() + 4 > max.min(whole.len()), "cut to {} for {max}", cut.len());
        assert!(max < whole.len() || cut == whole);
        assert!(whole.bytes().concat().starts_with(&cut.bytes().concat()));
        assert!(string(&whole).starts_with(&string(&cut)), "cut inside a character");
    }
    let raw = Text::from(Bytes::copy_from_slice(right));
    assert_eq!(raw.bytes().concat(), right);
}

/// A reader that comes in the middle decodes what one that was there from the start decodes from there on.
fn check_reader(scenario: &Scenario) {
    let mut log = Log::new(Retention::Ring { bytes: 1 << 24 });
    let mut other = Reader::oldest(&mut log);
    let (before, after) = scenario.pieces.split_at(scenario.before.min(scenario.pieces.len()));
    let mut append = |log: &mut Log, piece: &Piece| {
        assert_eq!(log.append(piece.channel, 0, &piece.bytes), piece.bytes.len());
        if piece.taken {
            other.take(log);
        }
    };
    before.iter().for_each(|piece| append(&mut log, piece));
    let printed: usize = before.iter().map(|piece| piece.bytes.len()).sum();
    let cut = scenario.cut % (printed + 1);
    let mut reader = Reader::at_offset(&mut log, cut as u64).expect("the cursor is not ahead");
    let mut decoders = CHANNELS.map(|channel| reader.decoder(&log, channel));
    after.iter().for_each(|piece| append(&mut log, piece));
    let mut resumed = CHANNELS.map(|_| String::new());
    while let Some(item) = reader.take(&mut log) {
        let Item::Frame(frame) = item else { panic!("{item:?} where everything is kept") };
        let index = frame.channel as usize - 1;
        resumed[index] += &string(&decoders[index].push(frame.data));
    }
    for (index, channel) in CHANNELS.into_iter().enumerate() {
        resumed[index] += &string(&decoders[index].finish());
        let (mut left, mut all, mut offset) = (Vec::new(), Vec::new(), 0);
        for piece in &scenario.pieces {
            if piece.channel == channel {
                left.extend_from_slice(&piece.bytes[..cut.saturating_sub(offset).min(piece.bytes.len())]);
                all.extend_from_slice(&piece.bytes);
            }
            offset += piece.bytes.len();
        }
        let first = string(&push(&mut Decoder::default(), &left));
        assert_eq!(first + &resumed[index], String::from_utf8_lossy(&all), "{channel:?} cut at {cut}");
    }
}
