//! The sandboxes behind daemons that a server is told of at its start.

use super::{Failure, serve::usable};
use clap::Args;
use hangar_backends::Runtime;
use hangar_transports::{
    client::Url,
    data::Folder,
    plane::{envd::NewEnvd, memory::Key, sandboxes::check_name},
};
use std::{collections::BTreeSet, fmt, path::PathBuf};

#[derive(Args, Debug)]
#[command(next_help_heading = "Sandboxes behind a daemon")]
pub(super) struct Remotes {
    /// Offer the sandbox NAME, behind the hangar-envd (or E2B's envd) at URL; once for each
    #[arg(long = "sandbox", env = "HANGAR_SANDBOXES", value_name = "NAME=URL", value_delimiter = ',')]
    sandboxes: Vec<String>,
    /// The token that their daemons ask for
    #[arg(
        long,
        env = "HANGAR_SANDBOX_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true,
        conflicts_with = "sandbox_token_file"
    )]
    sandbox_token: Option<String>,
    /// A file that holds it
    #[arg(long, env = "HANGAR_SANDBOX_TOKEN_FILE", value_name = "FILE")]
    sandbox_token_file: Option<PathBuf>,
    /// The key by which processes there are known again after a restart, of at least 32 characters [default: one that is
    /// made, and kept in the data folder]
    #[arg(long, env = "HANGAR_KEY", value_name = "KEY", hide_env_values = true, conflicts_with = "key_file")]
    key: Option<String>,
    /// A file that holds it
    #[arg(long, env = "HANGAR_KEY_FILE", value_name = "FILE")]
    key_file: Option<PathBuf>,
}

impl Remotes {
    /// Them, by name. `own` is the name that the server's own sandbox has, if it offers one.
    pub(super) fn given(&self, own: Option<&str>) -> Result<Vec<(String, NewEnvd)>, Failure> {
        let token = self.token()?;
        let mut names: BTreeSet<&str> = own.into_iter().collect();
        let one = |sandbox| {
            let bad = |why: &dyn fmt::Display| Failure::usage(format!("--sandbox {sandbox}: {why}"));
            let like = "it must be like name=http://127.0.0.1:49983";
            let (name, url) = str::split_once(sandbox, '=').ok_or_else(|| bad(&like))?;
            check_name(name).map_err(|error| bad(&error))?;
            let url: Url = url.parse().map_err(|error| bad(&error))?;
            if !names.insert(name) {
                return Err(bad(&format_args!("there is a sandbox named {name} already")));
            }
            let new = NewEnvd { url: url.to_string(), token: token.clone(), workdir: None };
            Ok((name.to_owned(), new))
        };
        self.sandboxes.iter().map(String::as_str).map(one).collect()
    }

    /// The token, which is looked at where somebody is to be told it.
    fn token(&self) -> Result<Option<String>, Failure> {
        let (given, file) = (self.sandbox_token.as_ref(), self.sandbox_token_file.as_ref());
        let token = secret(given, file, "HANGAR_SANDBOX_TOKEN_FILE")?;
        let check = |token: String| match self.sandboxes.is_empty() {
            true => Ok(token),
            false => usable(&token, "HANGAR_SANDBOX_TOKEN"),
        };
        token.map(check).transpose()
    }

    /// The key that was given, or the server's own.
    pub(super) fn key(&self, folder: &Folder, runtime: &dyn Runtime) -> Result<Key, Failure> {
        let given = secret(self.key.as_ref(), self.key_file.as_ref(), "HANGAR_KEY_FILE")?;
        let key = given.map_or_else(|| folder.own_key(runtime).map_err(Failure::new), Ok)?;
        Key::new(key.as_bytes()).ok_or_else(|| {
            Failure::usage("HANGAR_KEY: a key has at least 32 characters, which nobody can guess")
        })
    }
}

/// What was given, or what is in the file that was.
fn secret(given: Option<&String>, file: Option<&PathBuf>, variable: &str) -> Result<Option<String>, Failure> {
    let Some(file) = file else { return Ok(given.cloned()) };
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::usage(format!("{variable}={}: {error}", file.display())))?;
    Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
}
