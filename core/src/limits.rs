//! How many of a thing may be open, for each token and in all.

use std::collections::BTreeMap;

/// Counts what is open. `Id` is what the first limit is kept for: a token's id.
///
/// A [`Lease`] stands for one open thing. It cannot be copied and giving it back consumes it, so it is given back at
/// most once; the shell keeps it in a guard that gives it back when dropped, so it is given back at least once.
#[derive(Debug)]
pub struct Limits<Id> {
    max_per_token: usize,
    max_total: usize,
    total: usize,
    per_token: BTreeMap<Id, usize>,
}

/// The right to one open thing, to be given to [`Limits::give_back`].
#[derive(Debug, Eq, PartialEq)]
#[must_use = "a lease that is not given back is lost for good"]
pub struct Lease<Id> {
    token: Id,
}

/// The limit that refused a lease.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Exceeded {
    /// The token has as many open as one token may.
    #[error("this token has {0} open streams, as many as one token may have")]
    Token(usize),
    /// There are as many open as there may be in all.
    #[error("{0} streams are open, as many as there may be in all")]
    Total(usize),
}

impl Exceeded {
    /// `token` or `total`: which limit it was.
    pub const fn scope(self) -> &'static str {
        match self {
            Self::Token(_) => "token",
            Self::Total(_) => "total",
        }
    }
}

impl<Id: Clone + Ord> Limits<Id> {
    /// At most `max_per_token` for each token and `max_total` in all.
    pub const fn new(max_per_token: usize, max_total: usize) -> Self {
        Self { max_per_token, max_total, total: 0, per_token: BTreeMap::new() }
    }

    /// One more for `token`, if there may be. The token's own limit is named first when both are reached: it is
    /// the one the caller can do something about.
    pub fn acquire(&mut self, token: Id) -> Result<Lease<Id>, Exceeded> {
        let held = self.held_by(&token);
        if held >= self.max_per_token {
            return Err(Exceeded::Token(held));
        }
        if self.total >= self.max_total {
            return Err(Exceeded::Total(self.total));
        }
        self.total += 1;
        self.per_token.insert(token.clone(), held + 1);
        Ok(Lease { token })
    }

    /// Takes a lease back.
    pub fn give_back(&mut self, lease: Lease<Id>) {
        self.total = self.total.saturating_sub(1);
        let held = self.held_by(&lease.token);
        if held > 1 {
            self.per_token.insert(lease.token, held - 1);
        } else {
            // A token that holds nothing costs nothing: the map is no longer than what is open.
            self.per_token.remove(&lease.token);
        }
    }

    /// Open for `token`.
    pub fn held_by(&self, token: &Id) -> usize {
        self.per_token.get(token).copied().unwrap_or(0)
    }

    /// Open in all.
    pub const fn total(&self) -> usize {
        self.total
    }

    /// Tokens that hold at least one: what is kept in memory.
    pub fn tokens(&self) -> usize {
        self.per_token.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_the_token_is_named_first() {
        let mut limits = Limits::new(1, 2);
        let first = limits.acquire("a").unwrap();
        let refused = limits.acquire("a").unwrap_err();
        assert_eq!((refused, refused.scope()), (Exceeded::Token(1), "token"));
        assert_eq!(refused.to_string(), "this token has 1 open streams, as many as one token may have");
        let second = limits.acquire("b").unwrap();
        assert_eq!(limits.acquire("a"), Err(Exceeded::Token(1)));
        let refused = limits.acquire("c").unwrap_err();
        assert_eq!((refused, refused.scope()), (Exceeded::Total(2), "total"));
        assert_eq!(refused.to_string(), "2 streams are open, as many as there may be in all");
        limits.give_back(first);
        limits.give_back(second);
        assert_eq!((limits.total(), limits.tokens()), (0, 0));
    }
}
