//! The sandboxes behind daemons that a server is told of at its start.

use super::Failure;
use clap::Args;
use hangar_transports::{
    Plane,
    plane::{envd::NewEnvd, sandboxes::NewSandbox},
};
use std::path::PathBuf;

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
}

impl Remotes {
    /// Offers them. Their daemons are not asked: they may come later.
    pub(super) fn offer(&self, plane: &Plane) -> Result<(), Failure> {
        let token = self.token()?;
        for sandbox in &self.sandboxes {
            let bad = |why: &dyn std::fmt::Display| Failure::usage(format!("--sandbox {sandbox}: {why}"));
            let (name, url) =
                sandbox.split_once('=').ok_or_else(|| bad(&"it must be like name=http://127.0.0.1:49983"))?;
            let new = NewEnvd { url: url.to_owned(), token: token.clone(), workdir: None };
            plane.create_sandbox(Some(name), NewSandbox::Envd(new)).map_err(|error| bad(&error))?;
        }
        Ok(())
    }

    fn token(&self) -> Result<Option<String>, Failure> {
        let Some(file) = &self.sandbox_token_file else { return Ok(self.sandbox_token.clone()) };
        let text = std::fs::read_to_string(file).map_err(|error| {
            Failure::usage(format!("HANGAR_SANDBOX_TOKEN_FILE={}: {error}", file.display()))
        })?;
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned()))
    }
}
