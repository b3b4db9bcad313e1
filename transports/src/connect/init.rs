//! What a daemon is told once it runs: who calls, as whom commands run, and with which variables.

use super::{Body, Daemon, ENVD_VERSION, Token, answer, fence, messages};
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{HeaderName, HeaderValue},
};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What can be changed while it runs.
pub(super) struct Settings {
    /// As whom commands run where a request names nobody.
    pub(super) user: Option<String>,
    /// Without it whoever reaches the daemon may call.
    pub(super) token: Option<Token>,
    /// Where commands run that do not say so.
    pub(super) directory: Option<String>,
    /// What every command has in its environment.
    pub(super) variables: BTreeMap<String, String>,
}

/// What `/init` takes. What a sandbox's host is told besides by E2B's control plane (the time, mounts, certificates) is not
/// this daemon's to do, and is passed over.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Init {
    env_vars: Option<BTreeMap<String, String>>,
    access_token: Option<String>,
    default_user: Option<String>,
    default_workdir: Option<String>,
}

/// Takes settings. The first to set a token needs none; after that it has to be the same one.
pub(super) async fn init(daemon: &Daemon, request: &mut Request<Incoming>) -> Response<Body> {
    let carried = |token: &Token| fence::carries(request, token);
    let is_carried = daemon.settings().token.as_ref().is_some_and(carried);
    let body = match messages::whole(daemon, request.body_mut()).await {
        Ok(body) => body,
        Err(error) => {
            return answer::refused(StatusCode::BAD_REQUEST, &format!("the body: {}", error.message));
        }
    };
    let init: Init = match body.is_empty() {
        true => Init::default(),
        false => match messages::object(&body) {
            Ok(init) => init,
            Err(why) => return answer::refused(StatusCode::BAD_REQUEST, &why),
        },
    };
    if let Some(name) = init.env_vars.iter().flatten().find(|(name, value)| !is_variable(name, value)) {
        let message =
            format!("envVars: {:?} cannot be a variable's name, or its value has a NUL in it", name.0);
        return answer::refused(StatusCode::BAD_REQUEST, &message);
    }
    let token = init.access_token.and_then(Token::new);
    let mut settings = daemon.settings();
    match (&settings.token, &token) {
        (None, _) => settings.token = token,
        (Some(known), Some(token)) if known.is(token.secret()) => {}
        (Some(_), None) if is_carried => {}
        (Some(_), Some(_)) => {
            return answer::plain(StatusCode::UNAUTHORIZED, "access token validation failed\n");
        }
        (Some(_), None) => {
            return answer::plain(StatusCode::UNAUTHORIZED, "access token reset not authorized\n");
        }
    }
    if let Some(variables) = init.env_vars {
        settings.variables = variables;
    }
    if let Some(user) = init.default_user.filter(|user| !user.is_empty()) {
        settings.user = Some(user);
    }
    if let Some(directory) = init.default_workdir.filter(|directory| !directory.is_empty()) {
        settings.directory = Some(directory);
    }
    drop(settings);
    let mut response = answer::nothing();
    let version = HeaderValue::from_static(ENVD_VERSION);
    response.headers_mut().insert(HeaderName::from_static("x-envd-version"), version);
    response
}

/// Whether the system takes it.
fn is_variable(name: &str, value: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
}

/// The variables that every command has.
pub(super) fn variables(daemon: &Daemon) -> Response<Body> {
    answer::json(&daemon.settings().variables)
}
