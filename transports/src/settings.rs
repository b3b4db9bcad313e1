//! The limits that an operator sets, by environment variable or by flag of the same name.

use std::time::Duration;

/// Limits of the plane. No limit can be zero, and none means "unlimited".
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Settings {
    /// `HANGAR_STREAM_MAX_PER_TOKEN` (16): open streams for each token.
    pub stream_max_per_token: usize,
    /// `HANGAR_STREAM_MAX_TOTAL` (512): open streams in all.
    pub stream_max_total: usize,
    /// `HANGAR_STREAM_BYTES_PER_SECOND` (1 MiB): for each stream; each message costs 64 bytes more.
    pub stream_bytes_per_second: u64,
    /// `HANGAR_STREAM_MAX_BYTES` (64 MiB): for each stream; past it nothing more is sent.
    pub stream_max_bytes: u64,
    /// `HANGAR_STREAM_MAX_HOURS` (12): a stream that tells what changes is ended after that long.
    pub stream_max: Duration,
    /// `HANGAR_BACKGROUND_MAX_PER_TOKEN` (16): running background processes for each token.
    pub background_max_per_token: usize,
    /// `HANGAR_WATCH_MAX_PER_TOKEN` (8): watched directories for each token.
    pub watch_max_per_token: usize,
    /// `HANGAR_LOG_MAX_TOTAL` (1 GiB): kept output of all background processes that have ended; past it those that
    /// ended first lose theirs.
    pub log_max_total: u64,
    /// `HANGAR_STREAM_RECHECK_SECONDS` (5): how often open streams check that their token is still valid.
    pub stream_recheck: Duration,
    /// `HANGAR_MCP_SESSION_SECONDS` (3600): a session of an MCP client that nobody uses is ended after that long.
    pub mcp_session: Duration,
    /// `HANGAR_LOCAL_DRAIN_SECONDS` (10): how long a shutdown waits for commands that end with the server.
    pub local_drain: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            stream_max_per_token: 16,
            stream_max_total: 512,
            stream_bytes_per_second: 1024 * 1024,
            stream_max_bytes: 64 * 1024 * 1024,
            stream_max: Duration::from_secs(12 * 3600),
            background_max_per_token: 16,
            watch_max_per_token: 8,
            log_max_total: 1024 * 1024 * 1024,
            stream_recheck: Duration::from_secs(5),
            mcp_session: Duration::from_secs(3600),
            local_drain: Duration::from_secs(10),
        }
    }
}

/// A variable whose value cannot be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{name}={value}: {why}")]
pub struct BadSetting {
    /// The variable.
    pub name: &'static str,
    /// What it was set to.
    pub value: String,
    /// What is wrong with it.
    pub why: &'static str,
}

/// The most that a limit in bytes, or bytes a second, may be: 1 PiB.
pub const MAX_BYTES: u64 = 1 << 50;

/// The most that a limit in seconds may be: ten years.
pub const MAX_SECONDS: u64 = 315_360_000;

/// The most that a limit in hours may be: ten years.
pub const MAX_HOURS: u64 = 87_600;

/// The most that a count may be.
pub const MAX_COUNT: u64 = 1_000_000;

impl Settings {
    /// Reads the variables by `read`; those that are not set keep their defaults.
    pub fn from_variables(read: impl Fn(&str) -> Option<String>) -> Result<Self, BadSetting> {
        let mut settings = Self::default();
        let number = |name: &'static str, max: u64| -> Result<Option<u64>, BadSetting> {
            read(name)
                .map(|value| parse(&value, max).map_err(|why| BadSetting { name, value, why }))
                .transpose()
        };
        let count = |name| Ok(number(name, MAX_COUNT)?.and_then(|count| usize::try_from(count).ok()));
        let seconds = |name| Ok(number(name, MAX_SECONDS)?.map(Duration::from_secs));
        set(&mut settings.stream_max_per_token, count("HANGAR_STREAM_MAX_PER_TOKEN")?);
        set(&mut settings.stream_max_total, count("HANGAR_STREAM_MAX_TOTAL")?);
        set(&mut settings.stream_bytes_per_second, number("HANGAR_STREAM_BYTES_PER_SECOND", MAX_BYTES)?);
        set(&mut settings.stream_max_bytes, number("HANGAR_STREAM_MAX_BYTES", MAX_BYTES)?);
        let hours = number("HANGAR_STREAM_MAX_HOURS", MAX_HOURS)?;
        set(&mut settings.stream_max, hours.map(|hours| Duration::from_secs(3600 * hours)));
        set(&mut settings.background_max_per_token, count("HANGAR_BACKGROUND_MAX_PER_TOKEN")?);
        set(&mut settings.watch_max_per_token, count("HANGAR_WATCH_MAX_PER_TOKEN")?);
        set(&mut settings.log_max_total, number("HANGAR_LOG_MAX_TOTAL", MAX_BYTES)?);
        set(&mut settings.stream_recheck, seconds("HANGAR_STREAM_RECHECK_SECONDS")?);
        set(&mut settings.mcp_session, seconds("HANGAR_MCP_SESSION_SECONDS")?);
        set(&mut settings.local_drain, seconds("HANGAR_LOCAL_DRAIN_SECONDS")?);
        Ok(settings)
    }
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

fn parse(value: &str, max: u64) -> Result<u64, &'static str> {
    let digits = value.trim();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err("it is not a whole number");
    }
    match digits.parse() {
        Ok(0) => Err("it must be at least 1; leave it unset for the default"),
        Ok(number) if number <= max => Ok(number),
        Ok(_) | Err(_) => Err("it is too large"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &'static str, value: &'static str) -> Result<Settings, BadSetting> {
        Settings::from_variables(|asked| (asked == name).then(|| value.to_owned()))
    }

    #[test]
    fn nothing_set_is_the_table_of_the_documentation() {
        assert_eq!(Settings::from_variables(|_| None), Ok(Settings::default()));
    }

    #[test]
    fn each_is_read() {
        assert_eq!(one("HANGAR_STREAM_MAX_PER_TOKEN", "3").unwrap().stream_max_per_token, 3);
        assert_eq!(one("HANGAR_STREAM_MAX_TOTAL", "4").unwrap().stream_max_total, 4);
        assert_eq!(one("HANGAR_STREAM_BYTES_PER_SECOND", "5").unwrap().stream_bytes_per_second, 5);
        assert_eq!(one("HANGAR_STREAM_MAX_BYTES", " 6 ").unwrap().stream_max_bytes, 6);
        assert_eq!(one("HANGAR_BACKGROUND_MAX_PER_TOKEN", "9").unwrap().background_max_per_token, 9);
        assert_eq!(one("HANGAR_WATCH_MAX_PER_TOKEN", "11").unwrap().watch_max_per_token, 11);
        assert_eq!(one("HANGAR_LOG_MAX_TOTAL", "10").unwrap().log_max_total, 10);
        assert_eq!(one("HANGAR_STREAM_RECHECK_SECONDS", "7").unwrap().stream_recheck, Duration::from_secs(7));
        assert_eq!(one("HANGAR_LOCAL_DRAIN_SECONDS", "8").unwrap().local_drain, Duration::from_secs(8));
    }

    #[test]
    fn a_bad_value_names_its_variable() {
        for (value, why) in [
            ("0", "it must be at least 1; leave it unset for the default"),
            ("-1", "it is not a whole number"),
            ("", "it is not a whole number"),
            ("1.5", "it is not a whole number"),
            ("1k", "it is not a whole number"),
            ("99999999999999999999", "it is too large"),
            ("1000001", "it is too large"),
        ] {
            let error = one("HANGAR_STREAM_MAX_TOTAL", value).unwrap_err();
            assert_eq!(
                (error.name, error.value.as_str(), error.why),
                ("HANGAR_STREAM_MAX_TOTAL", value, why)
            );
        }
    }
}
