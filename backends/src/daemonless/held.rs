//! Output that is kept until its command has ended.

use bytes::{Bytes, BytesMut};
use hangar_core::log::Channel;
use std::collections::VecDeque;

/// Bytes that are kept of each output.
pub const MAX_HELD: usize = 4 * 1024 * 1024;

/// What was printed by one output without the other comes in pieces of this many bytes.
const PIECE: usize = 64 * 1024;

/// The end of what a command printed, in the order in which it was read: the last [`MAX_HELD`] bytes of each output, and what
/// else is in their first piece.
#[derive(Debug, Default)]
pub struct Held {
    pieces: VecDeque<(Channel, BytesMut)>,
    lens: [usize; 2],
    lost: u64,
}

impl Held {
    /// Adds what was printed next.
    pub fn push(&mut self, channel: Channel, data: &[u8]) {
        let side = side(channel);
        self.lens[side] += data.len();
        match self.pieces.back_mut() {
            Some((last, piece)) if *last == channel && piece.len() < PIECE => piece.extend_from_slice(data),
            Some(_) | None => self.pieces.push_back((channel, BytesMut::from(data))),
        }
        while let Some(at) = self.oldest_of(side)
            && self.lens[side] - self.pieces[at].1.len() >= MAX_HELD
            && let Some((_, oldest)) = self.pieces.remove(at)
        {
            self.lens[side] -= oldest.len();
            self.lost += oldest.len() as u64;
        }
    }

    fn oldest_of(&self, wanted: usize) -> Option<usize> {
        self.pieces.iter().position(|(channel, _)| side(*channel) == wanted)
    }

    /// How many bytes were dropped.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// What is kept.
    pub fn pieces(&self) -> impl Iterator<Item = (Channel, &[u8])> {
        self.pieces.iter().map(|(channel, data)| (*channel, &data[..]))
    }

    /// All that is kept of one output.
    pub fn bytes(&self, wanted: Channel) -> Bytes {
        let pieces = self.pieces().filter(|(channel, _)| *channel == wanted);
        pieces.flat_map(|(_, data)| data).copied().collect()
    }
}

fn side(channel: Channel) -> usize {
    usize::from(channel == Channel::Stderr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_each_output_is_kept_in_its_order() {
        let mut held = Held::default();
        held.push(Channel::Stderr, b"first ");
        held.push(Channel::Stderr, b"words");
        for _ in 0..5 {
            held.push(Channel::Stdout, &vec![b'x'; MAX_HELD / 4]);
        }
        assert_eq!((held.lens, held.lost()), ([MAX_HELD, 11], MAX_HELD as u64 / 4));
        held.push(Channel::Stdout, b"last words");
        held.push(Channel::Stderr, b"!");
        assert_eq!(held.lens, [MAX_HELD + 10, 12]);
        let lens: Vec<_> = held.pieces().map(|(channel, data)| (channel, data.len())).collect();
        assert_eq!((lens[0], lens.len()), ((Channel::Stderr, 11), 7));
        assert_eq!(held.bytes(Channel::Stderr), "first words!");
        assert!(held.bytes(Channel::Stdout).ends_with(b"xlast words"));
    }
}
