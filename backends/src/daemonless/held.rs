//! Output that is kept until its command has ended.

use bytes::{Buf, Bytes, BytesMut};
use hangar_core::log::Channel;
use std::collections::VecDeque;

/// Bytes that are kept of each output.
pub const MAX_HELD: usize = 4 * 1024 * 1024;

/// Changes from one output to the other that are remembered: of more, what was printed long ago is told apart by its output
/// alone.
const MAX_RUNS: usize = 64 * 1024;

/// The end of what a command printed: the last [`MAX_HELD`] bytes of each output, in the order in which they were read.
#[derive(Debug, Default)]
pub struct Held {
    outputs: [BytesMut; 2],
    /// Which output was read, and how many bytes.
    runs: VecDeque<(Channel, usize)>,
    lost: u64,
}

impl Held {
    /// Adds what was printed next.
    pub fn push(&mut self, channel: Channel, data: &[u8]) {
        match self.runs.back_mut() {
            Some((last, len)) if *last == channel => *len += data.len(),
            Some(_) | None => self.runs.push_back((channel, data.len())),
        }
        let output = &mut self.outputs[side(channel)];
        output.extend_from_slice(data);
        // Not at each byte: what is moved to the front then is as much as what is dropped.
        if output.len() > 2 * MAX_HELD {
            self.trim(channel);
        }
        if self.runs.len() > MAX_RUNS {
            self.merge();
        }
    }

    /// Drops what is not the end of an output.
    fn trim(&mut self, channel: Channel) {
        let output = &mut self.outputs[side(channel)];
        let mut more = output.len().saturating_sub(MAX_HELD);
        self.lost += more as u64;
        *output = BytesMut::from(&output[more..]);
        for (_, len) in self.runs.iter_mut().filter(|(of, _)| *of == channel) {
            let dropped = more.min(*len);
            (*len, more) = (*len - dropped, more - dropped);
            if more == 0 {
                break;
            }
        }
        // Two that follow each other are never of one output.
        let mut runs: VecDeque<(Channel, usize)> = VecDeque::new();
        for (of, len) in self.runs.drain(..).filter(|(_, len)| *len > 0) {
            match runs.back_mut() {
                Some((last, all)) if *last == of => *all += len,
                Some(_) | None => runs.push_back((of, len)),
            }
        }
        self.runs = runs;
    }

    /// The oldest four runs become two, one of each output.
    fn merge(&mut self) {
        for _ in 0..2 {
            // The one after the next is of the same output.
            let Some((channel, len)) = self.runs.pop_front() else { return };
            if let Some((_, later)) = self.runs.get_mut(1) {
                *later += len;
            } else {
                return self.runs.push_front((channel, len));
            }
        }
    }

    /// Nothing more comes.
    pub fn finish(&mut self) {
        for channel in [Channel::Stdout, Channel::Stderr] {
            if self.outputs[side(channel)].len() > MAX_HELD {
                self.trim(channel);
            }
        }
    }

    /// How many bytes were dropped.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// What is kept, in its order.
    pub fn into_pieces(mut self) -> impl Iterator<Item = (Channel, Bytes)> {
        self.finish();
        let Self { outputs: [mut stdout, mut stderr], runs, .. } = self;
        runs.into_iter().map(move |(channel, len)| {
            let output = if channel == Channel::Stderr { &mut stderr } else { &mut stdout };
            (channel, output.copy_to_bytes(len))
        })
    }

    /// All that is kept of one output.
    pub fn bytes(&self, wanted: Channel) -> Bytes {
        Bytes::copy_from_slice(&self.outputs[side(wanted)])
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
        for _ in 0..9 {
            held.push(Channel::Stdout, &vec![b'x'; MAX_HELD / 4]);
        }
        held.push(Channel::Stderr, b"!");
        held.push(Channel::Stdout, b"last words");
        held.finish();
        assert_eq!(held.lost(), 10 + 5 * MAX_HELD as u64 / 4);
        assert_eq!(held.bytes(Channel::Stderr), "first words!");
        let pieces: Vec<_> = held.into_pieces().collect();
        let lens: Vec<_> = pieces.iter().map(|(channel, data)| (*channel, data.len())).collect();
        let (out, err) = (Channel::Stdout, Channel::Stderr);
        assert_eq!(lens, [(err, 11), (out, MAX_HELD - 10), (err, 1), (out, 10)]);
        assert_eq!(pieces[3].1, "last words");
    }

    #[test]
    fn what_alternates_is_bounded_too() {
        let mut held = Held::default();
        for _ in 0..2 * MAX_RUNS {
            held.push(Channel::Stdout, b"o");
            held.push(Channel::Stderr, b"e");
        }
        assert_eq!(held.runs.len(), MAX_RUNS);
        let mut outputs = [Vec::new(), Vec::new()];
        held.into_pieces().for_each(|(channel, data)| outputs[side(channel)].extend(data));
        assert_eq!(outputs, [vec![b'o'; 2 * MAX_RUNS], vec![b'e'; 2 * MAX_RUNS]]);
    }

    #[test]
    fn an_output_that_is_cut_is_cut_at_its_beginning() {
        let mut held = Held::default();
        held.push(Channel::Stdout, b"begin");
        held.push(Channel::Stderr, b"one ");
        held.push(Channel::Stdout, &vec![b'x'; 2 * MAX_HELD]);
        held.push(Channel::Stderr, b"two");
        let pieces: Vec<_> = held.into_pieces().collect();
        let lens: Vec<_> = pieces.iter().map(|(channel, data)| (*channel, data.len())).collect();
        assert_eq!(lens, [(Channel::Stderr, 4), (Channel::Stdout, MAX_HELD), (Channel::Stderr, 3)]);
    }
}
