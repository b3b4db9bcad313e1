//! Sandboxes behind a daemon, as a plane has them.

use super::sandboxes::Made;
use crate::ApiError;
use hangar_backends::{
    Runtime,
    envd::{Config, EnvdSandbox},
    net::url::Url,
};
use hyper::header::HeaderValue;
use std::{fmt, sync::Arc};

/// A sandbox behind a daemon that is to be made known.
#[derive(Clone)]
pub struct NewEnvd {
    /// Where its daemon is: `http://HOST[:PORT][/PATH]`.
    pub url: String,
    /// The token that its daemon asks for.
    pub token: Option<String>,
    /// Where its commands run that do not say so: absolute, or in the home of the user from `~` on.
    pub workdir: Option<String>,
}

impl fmt::Debug for NewEnvd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewEnvd")
            .field("url", &self.url)
            .field("workdir", &self.workdir)
            .finish_non_exhaustive()
    }
}

impl NewEnvd {
    /// The sandbox. Its daemon is not asked: it may come later.
    pub(super) fn make(self, runtime: &Arc<dyn Runtime>) -> Result<Made, ApiError> {
        let Self { url, token, workdir } = self;
        let url: Url =
            url.parse().map_err(|error| ApiError::bad_field("url", "bad_url", format!("url: {error}")))?;
        let token = token.map(|token| {
            let visible = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
            let header = HeaderValue::from_str(&token).ok().filter(|_| visible);
            let message = "token: it must be of visible ASCII characters, at least one";
            header.ok_or_else(|| ApiError::bad_field("token", "bad_token", message))
        });
        if let Some(workdir) = &workdir
            && (!workdir.starts_with(['/', '~']) || workdir.contains('\0'))
        {
            let message = format!("workdir: {workdir:?} is no absolute path, and none that begins with ~");
            return Err(ApiError::bad_field("workdir", "bad_workdir", message));
        }
        let shown = url.to_string();
        let config = Config { url, token: token.transpose()?, workdir: workdir.clone() };
        Ok(Made {
            sandbox: Arc::new(EnvdSandbox::new(Arc::clone(runtime), config)),
            provider: "envd",
            url: Some(shown),
            workdir,
            daemon: true,
            is_remembered: true,
            open_to_users: true,
        })
    }
}
