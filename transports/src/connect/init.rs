//! What a daemon is told once it runs: who calls, as whom commands run, and with which variables.

use super::{Body, Daemon, ENVD_VERSION, Token, answer, fence, messages};
use hangar_backends::local::{User, files};
use hyper::{
    Request, Response, StatusCode,
    body::Incoming,
    header::{HeaderName, HeaderValue},
};
use serde::Deserialize;
use std::{collections::BTreeMap, fmt};

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

/// The longest body.
const MAX_BODY: u32 = 1024 * 1024;

/// Takes settings. The first to set a token needs none; after that it has to be the same one.
pub(super) async fn init(daemon: &Daemon, request: &mut Request<Incoming>) -> Response<Body> {
    let carried = |token: &Token| fence::carries(request, token);
    let is_carried = daemon.settings().token.as_ref().is_some_and(carried);
    match take(daemon, is_carried, request.body_mut()).await {
        Ok(()) => {
            let mut response = answer::nothing();
            let version = HeaderValue::from_static(ENVD_VERSION);
            response.headers_mut().insert(HeaderName::from_static("x-envd-version"), version);
            response
        }
        Err(Refusal::Bad(message)) => answer::refused(StatusCode::BAD_REQUEST, &message),
        Err(Refusal::Unauthorized(why)) => answer::plain(StatusCode::UNAUTHORIZED, why),
    }
}

/// Why nothing is taken.
enum Refusal {
    /// The body, or the field that the message begins with.
    Bad(String),
    /// The token is another one, or is missing.
    Unauthorized(&'static str),
}

async fn take(daemon: &Daemon, is_carried: bool, body: &mut Incoming) -> Result<(), Refusal> {
    let body = messages::whole_within(daemon, body, MAX_BODY).await;
    let body = body.map_err(|error| Refusal::Bad(format!("the body: {}", error.message)))?;
    let mut init: Init = match body.is_empty() {
        true => Init::default(),
        false => messages::object(&body).map_err(Refusal::Bad)?,
    };
    for text in [&mut init.access_token, &mut init.default_user, &mut init.default_workdir] {
        text.take_if(|text| text.is_empty());
    }
    // Who may not call is not told who is a user here.
    check_caller(daemon.settings().token.as_ref(), init.access_token.as_deref(), is_carried)?;
    let token = check(daemon, &init).await?;
    let mut settings = daemon.settings();
    // Somebody else may have been faster.
    check_caller(settings.token.as_ref(), init.access_token.as_deref(), is_carried)?;
    settings.token = settings.token.take().or(token);
    if let Some(variables) = init.env_vars {
        settings.variables = variables;
    }
    settings.user = init.default_user.or_else(|| settings.user.take());
    settings.directory = init.default_workdir.or_else(|| settings.directory.take());
    Ok(())
}

fn check_caller(known: Option<&Token>, named: Option<&str>, is_carried: bool) -> Result<(), Refusal> {
    let why = match (known, named) {
        (None, _) => return Ok(()),
        (Some(known), Some(named)) if known.is(named) => return Ok(()),
        (Some(_), None) if is_carried => return Ok(()),
        (Some(_), Some(_)) => "access token validation failed\n",
        (Some(_), None) => "access token reset not authorized\n",
    };
    Err(Refusal::Unauthorized(why))
}

/// Checks that everything in it can be used; gives its token.
async fn check(daemon: &Daemon, init: &Init) -> Result<Option<Token>, Refusal> {
    if let Some(name) = init.env_vars.iter().flatten().find(|(name, value)| !is_variable(name, value)) {
        let message =
            format!("envVars: {:?} cannot be a variable's name, or its value has a NUL in it", name.0);
        return Err(Refusal::Bad(message));
    }
    let token = init.access_token.clone().map(Token::new).transpose();
    let token = token.map_err(|error| Refusal::Bad(format!("accessToken: {error}")))?;
    if let Some(name) = &init.default_user {
        let refused = |why: &dyn fmt::Display| Refusal::Bad(format!("defaultUser: {why}"));
        let user = User::named(name).map_err(|error| refused(&error))?;
        let checked = daemon.with_files(move |files| files.check_user(&user)).await;
        checked.map_err(|error| refused(&error))?;
    }
    if let Some(directory) = &init.default_workdir {
        check_directory(directory).map_err(|why| Refusal::Bad(format!("defaultWorkdir: {why}")))?;
    }
    Ok(token)
}

/// It need not be there yet.
fn check_directory(directory: &str) -> Result<(), String> {
    if !directory.starts_with(['/', '~']) {
        return Err(format!("{directory:?} is neither absolute nor begins with ~"));
    }
    // Whose home it is in makes no difference to whether it is a path.
    files::resolve(directory, &User::current(), None).map(drop).map_err(|error| error.to_string())
}

/// Whether the system takes it.
fn is_variable(name: &str, value: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0']) && !value.contains('\0')
}

/// The variables that every command has.
pub(super) fn variables(daemon: &Daemon) -> Response<Body> {
    answer::json(&daemon.settings().variables)
}
