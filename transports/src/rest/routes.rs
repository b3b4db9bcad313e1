//! Paths and methods to endpoints.

use crate::ApiError;
use hyper::Method;
use matchit::Router;

/// What a request asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Endpoint {
    Health,
    Metrics,
    OpenApi,
    Mcp,
    ProtectedResource,
    ListSandboxes,
    CreateSandbox,
    ShowSandbox,
    DestroySandbox,
    PauseSandbox,
    ResumeSandbox,
    Exec,
    ExecStream,
    Watch,
    ListProcesses,
    StartProcess,
    ShowProcess,
    StopProcess,
    ProcessStream,
    ProcessInput,
    ListProcessesV1,
    StartProcessV1,
    ShowProcessV1,
    StopProcessV1,
    SignalProcess,
    ResizeProcess,
    RestartProcess,
    StreamAccess,
    ProcessSocket,
    ListTokens,
    CreateToken,
    RevokeToken,
}

impl Endpoint {
    /// Whether it begins something, which a server that is ending refuses. What looks at something that is there, or
    /// stops or ends it, is answered.
    pub(super) const fn begins_something(self) -> bool {
        match self {
            Self::CreateSandbox
            | Self::Exec
            | Self::ExecStream
            | Self::Watch
            | Self::StartProcess
            | Self::StartProcessV1
            | Self::RestartProcess
            | Self::ProcessStream
            | Self::StreamAccess
            | Self::ProcessSocket
            | Self::CreateToken => true,
            Self::Health
            | Self::Metrics
            | Self::OpenApi
            | Self::Mcp
            | Self::ProtectedResource
            | Self::ListSandboxes
            | Self::ShowSandbox
            | Self::DestroySandbox
            | Self::PauseSandbox
            | Self::ResumeSandbox
            | Self::ListProcesses
            | Self::ShowProcess
            | Self::StopProcess
            | Self::ProcessInput
            | Self::ListProcessesV1
            | Self::ShowProcessV1
            | Self::StopProcessV1
            | Self::SignalProcess
            | Self::ResizeProcess
            | Self::ListTokens
            | Self::RevokeToken => false,
        }
    }
}

/// Every path with its methods. `{ref}` and `{process}` are an id or a name.
const TABLE: [(&str, &[(Method, Endpoint)]); 26] = [
    ("/healthz", &[(Method::GET, Endpoint::Health), (Method::HEAD, Endpoint::Health)]),
    ("/metrics", &[(Method::GET, Endpoint::Metrics)]),
    ("/api/openapi.json", &[(Method::GET, Endpoint::OpenApi)]),
    (
        super::mcp::PATH,
        &[(Method::POST, Endpoint::Mcp), (Method::GET, Endpoint::Mcp), (Method::DELETE, Endpoint::Mcp)],
    ),
    (super::oauth::PATH, &[(Method::GET, Endpoint::ProtectedResource)]),
    (super::oauth::PATH_OF_MCP, &[(Method::GET, Endpoint::ProtectedResource)]),
    ("/api/sandboxes", &[(Method::GET, Endpoint::ListSandboxes), (Method::POST, Endpoint::CreateSandbox)]),
    (
        "/api/sandboxes/{ref}",
        &[(Method::GET, Endpoint::ShowSandbox), (Method::DELETE, Endpoint::DestroySandbox)],
    ),
    ("/api/sandboxes/{ref}/pause", &[(Method::POST, Endpoint::PauseSandbox)]),
    ("/api/sandboxes/{ref}/resume", &[(Method::POST, Endpoint::ResumeSandbox)]),
    ("/api/sandboxes/{ref}/exec", &[(Method::POST, Endpoint::Exec)]),
    ("/api/sandboxes/{ref}/exec/stream", &[(Method::POST, Endpoint::ExecStream)]),
    ("/api/sandboxes/{ref}/watch", &[(Method::GET, Endpoint::Watch)]),
    (
        "/api/sandboxes/{ref}/processes",
        &[(Method::GET, Endpoint::ListProcesses), (Method::POST, Endpoint::StartProcess)],
    ),
    (
        "/api/sandboxes/{ref}/processes/{process}",
        &[(Method::GET, Endpoint::ShowProcess), (Method::DELETE, Endpoint::StopProcess)],
    ),
    ("/api/sandboxes/{ref}/processes/{process}/stream", &[(Method::GET, Endpoint::ProcessStream)]),
    ("/api/sandboxes/{ref}/processes/{process}/input", &[(Method::POST, Endpoint::ProcessInput)]),
    (
        "/v1/sandboxes/{ref}/processes",
        &[(Method::GET, Endpoint::ListProcessesV1), (Method::POST, Endpoint::StartProcessV1)],
    ),
    (
        "/v1/sandboxes/{ref}/processes/{process}",
        &[(Method::GET, Endpoint::ShowProcessV1), (Method::DELETE, Endpoint::StopProcessV1)],
    ),
    ("/v1/sandboxes/{ref}/processes/{process}/signal", &[(Method::POST, Endpoint::SignalProcess)]),
    ("/v1/sandboxes/{ref}/processes/{process}/resize", &[(Method::POST, Endpoint::ResizeProcess)]),
    ("/v1/sandboxes/{ref}/processes/{process}/restart", &[(Method::POST, Endpoint::RestartProcess)]),
    ("/v1/sandboxes/{ref}/processes/{process}/stream-access", &[(Method::PUT, Endpoint::StreamAccess)]),
    ("/v1/sandbox-process-stream", &[(Method::GET, Endpoint::ProcessSocket)]),
    ("/api/tokens", &[(Method::GET, Endpoint::ListTokens), (Method::POST, Endpoint::CreateToken)]),
    ("/api/tokens/{ref}", &[(Method::DELETE, Endpoint::RevokeToken)]),
];

/// What a path and a method ask for.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) endpoint: Endpoint,
    pub(super) reference: String,
    pub(super) process: String,
}

/// The table as it is searched.
#[derive(Debug)]
pub(super) struct Routes {
    router: Router<&'static [(Method, Endpoint)]>,
}

impl Routes {
    pub(super) fn new() -> Self {
        let mut router = Router::new();
        for (path, methods) in TABLE {
            // A test walks the whole table: a path that cannot be entered would be missing there.
            if let Err(error) = router.insert(path, methods) {
                tracing::error!(path, %error, "a path is left out");
            }
        }
        Self { router }
    }

    /// The endpoint, and what stands for `{ref}` and `{process}` in the path.
    pub(super) fn find(&self, path: &str, method: &Method) -> Result<Found, ApiError> {
        let found = self.router.at(path).map_err(|_| ApiError::not_found("path"))?;
        let endpoint = found.value.iter().find(|(known, _)| known == method).map(|(_, endpoint)| *endpoint);
        let endpoint = endpoint.ok_or_else(|| {
            let allowed: Vec<Method> = found.value.iter().map(|(method, _)| method.clone()).collect();
            ApiError::method_not_allowed(&allowed)
        })?;
        let named = |name| found.params.get(name).unwrap_or_default().to_owned();
        Ok(Found { endpoint, reference: named("ref"), process: named("process") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_path_of_the_table_is_found() {
        let routes = Routes::new();
        for (path, methods) in TABLE {
            for (method, endpoint) in methods {
                let found = path.replace("{ref}", "a-name").replace("{process}", "another");
                let found = routes.find(&found, method).unwrap();
                assert_eq!(found.endpoint, *endpoint, "{method} {path}");
                assert_eq!(found.reference, if path.contains("{ref}") { "a-name" } else { "" });
                assert_eq!(found.process, if path.contains("{process}") { "another" } else { "" });
            }
        }
    }

    #[test]
    fn the_description_has_every_path_and_method_and_no_other() {
        let described: serde_json::Value = serde_json::from_str(super::super::OPENAPI).unwrap();
        let described = described["paths"].as_object().unwrap().iter().flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys().filter(|key| *key != "parameters");
            methods.map(move |method| (path.clone(), method.to_uppercase()))
        });
        let routes = TABLE.iter().flat_map(|(path, methods)| {
            let named = if path.starts_with("/api/tokens") { "{token}" } else { "{sandbox}" };
            methods.iter().map(move |(method, _)| (path.replace("{ref}", named), method.to_string()))
        });
        let (described, routes): (BTreeSet<_>, BTreeSet<_>) = (described.collect(), routes.collect());
        assert_eq!(described, routes);
    }

    #[test]
    fn other_paths_and_methods_are_refused() {
        let routes = Routes::new();
        for path in ["/", "/api", "/api/sandboxes/", "/api/sandboxes/a/b", "/api/sandboxes//exec"] {
            assert_eq!(routes.find(path, &Method::GET).unwrap_err().status(), 404, "{path}");
        }
        assert_eq!(routes.find("/healthz", &Method::POST).unwrap_err().status(), 405);
    }
}
