//! Small ranges of values, so that the interesting ones meet.

use crate::{
    Close,
    exec::Encoding,
    log::{Channel, FRAME_MAX, Retention},
    process::{Exit, Signal, Target},
};
use arbitrary::{Arbitrary, Result, Unstructured};
use std::time::Duration;

/// Steps of a scenario until the bytes are used up, at most `max`.
pub(super) fn steps<'a, T: Arbitrary<'a>>(u: &mut Unstructured<'a>, max: usize) -> Result<Vec<T>> {
    let mut steps = Vec::new();
    while !u.is_empty() && steps.len() < max {
        steps.push(u.arbitrary()?);
    }
    Ok(steps)
}

/// None to three polls, or until `Wait`.
pub(super) fn polls(u: &mut Unstructured<'_>) -> Result<usize> {
    Ok(*u.choose(&[100, 0, 1, 100, 2, 100, 3, 100])?)
}

/// None, or around the settings in use: 1 ns, 1 ms, and half a second to three.
pub(super) fn duration(u: &mut Unstructured<'_>) -> Result<Duration> {
    const MS: u64 = 1_000_000;
    let base = *u.choose(&[0, 1, MS, 100 * MS, 500 * MS, 1_000 * MS, 2_000 * MS, 3_000 * MS])?;
    Ok(Duration::from_nanos(base.saturating_add_signed(i64::from(nudge(u)?))))
}

/// Mostly 0, else -1 or 1.
pub(super) fn nudge(u: &mut Unstructured<'_>) -> Result<i8> {
    Ok(*u.choose(&[0, 0, -1, 1])?)
}

/// A number of bytes: a few, or around the limits that the machines have.
pub(super) fn size(u: &mut Unstructured<'_>) -> Result<usize> {
    let base = *u.choose(&[0, 0, 0, 0, 0, 0, 0, 4, 16, 64, 64, 512, 1024, 4096, FRAME_MAX, 2 * FRAME_MAX])?;
    Ok((base + usize::from(u.int_in_range(0..=12u8)?)).saturating_sub(3))
}

/// A limit: as a size, but at least 1.
pub(super) fn limit(u: &mut Unstructured<'_>) -> Result<usize> {
    Ok(size(u)?.max(1))
}

pub(super) fn retention(u: &mut Unstructured<'_>) -> Result<Retention> {
    Ok(if u.arbitrary()? {
        Retention::UntilRead { bytes: limit(u)? }
    } else {
        Retention::Ring { bytes: size(u)? }
    })
}

pub(super) fn channel(u: &mut Unstructured<'_>) -> Result<Channel> {
    Ok(*u.choose(&[Channel::Stdout, Channel::Stderr, Channel::Stdout, Channel::Tty])?)
}

pub(super) fn exit(u: &mut Unstructured<'_>) -> Result<Exit> {
    Ok(*u.choose(&[Exit::Code(0), Exit::Code(3), Exit::Signal(9), Exit::Code(-1), Exit::Signal(15)])?)
}

pub(super) fn signal(u: &mut Unstructured<'_>) -> Result<Signal> {
    Ok(*u.choose(&Signal::STANDARD)?)
}

pub(super) fn target(u: &mut Unstructured<'_>) -> Result<Target> {
    Ok(*u.choose(&[Target::Group, Target::Leader])?)
}

pub(super) fn close(u: &mut Unstructured<'_>) -> Result<Close> {
    Ok(*u.choose(&Close::ALL)?)
}

pub(super) fn encoding(u: &mut Unstructured<'_>) -> Result<Encoding> {
    Ok(*u.choose(&[Encoding::Text, Encoding::Base64])?)
}

/// Output with what is hard about text in it: characters of every length, cut anywhere, and bytes that are none.
pub(super) fn output(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    const PIECES: [&[u8]; 20] = [
        b"a",
        b"\n",
        b"\r",
        "é".as_bytes(),
        "€".as_bytes(),
        "😀".as_bytes(),
        b"\xe2",
        b"\xe2\x82",
        b"\xac",
        b"\xf0\x9f",
        b"\xf0",
        b"\x98\x80",
        b"\x80",
        b"\xff",
        b"\xc0\x80",
        b"\xed\xa0",
        b"\xf4\x90",
        b"\0",
        b"line of text\n",
        b"\"\\",
    ];
    let mut bytes = Vec::new();
    for _ in 0..u.int_in_range(0..=5u8)? {
        bytes.extend_from_slice(u.choose(&PIECES)?);
    }
    // Now and then more than one read, or one frame.
    if u.ratio(1, 12u8)? {
        let times = size(u)? / bytes.len().max(1);
        bytes = bytes.repeat(times.max(1));
    }
    Ok(bytes)
}
