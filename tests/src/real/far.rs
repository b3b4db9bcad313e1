//! A sandbox whose daemon is behind something that can be cut.

use super::{Call, Client, Envd, Gate, On, Reply, Server, proxy::Proxy, wait_until};
use hangar_core::exec::ExecResult;
use serde_json::{Value, json};

/// Its background processes.
pub const PROCESSES: &str = "/api/sandboxes/far/processes";

/// A server, and the sandbox `far`.
#[derive(Debug)]
pub struct Far {
    /// The server.
    pub server: Server,
    /// The way to the daemon.
    pub proxy: Proxy,
    /// The daemon.
    pub envd: Envd,
}

impl Far {
    /// Behind a daemon of hangar's.
    pub fn new(on: On) -> Self {
        Self::made(on, false)
    }

    /// Behind what looks like a daemon of E2B's.
    pub fn plain(on: On) -> Self {
        Self::made(on, true)
    }

    fn made(on: On, plain: bool) -> Self {
        let (server, envd) = (on.start(), on.envd());
        let proxy = Proxy::start(envd.address());
        if plain {
            proxy.hide_hangar();
        }
        let far = Self { server, proxy, envd };
        let reply = far.make(&json!({}));
        assert_eq!(reply.status, 201, "{reply:?}");
        far
    }

    /// Asks for a sandbox behind the daemon.
    pub fn make(&self, more: &Value) -> Reply {
        let url = format!("http://{}", self.proxy.address());
        let mut request = json!({ "name": "far", "provider": "envd", "url": url });
        for (name, value) in more.as_object().into_iter().flatten() {
            request[name] = value.clone();
        }
        self.client().post("/api/sandboxes", &request)
    }

    /// A client of the server.
    pub const fn client(&self) -> &Client {
        self.server.client()
    }

    /// Runs a command as a stream, to its result.
    pub fn exec(&self, call: &Call) -> ExecResult {
        self.client().stream_in("far", call).collect().result
    }

    /// From here on nobody reaches the daemon.
    pub fn leave(&self) {
        self.proxy.refuse(true);
        self.proxy.cut();
    }

    /// Until here.
    pub fn come_back(&self) {
        self.proxy.refuse(false);
    }

    /// Starts a background process, and gives its id.
    pub fn start(&self, request: &Value) -> String {
        self.client().start_in("far", request)
    }

    /// The id of a process that ended, with these last words of its command, while nobody reached the daemon.
    pub fn start_and_miss_end(&self, last: &str) -> String {
        let gate = Gate::new();
        let process = self.start(&json!({ "command": format!("{}; {last}", gate.wait()) }));
        self.leave();
        gate.open();
        wait_until("it has ended", || self.envd.json().list().is_empty());
        self.come_back();
        process
    }

    /// How a process is, and what is asked for of its output.
    pub fn show(&self, process: &str, query: &str) -> Value {
        self.client().get(&format!("{PROCESSES}/{process}{query}")).json()
    }

    /// Waits for the end of a process.
    pub fn wait_until_ended(&self, process: &str) -> Value {
        wait_until("it has ended", || self.show(process, "")["state"] == "exited");
        self.show(process, "")
    }

    /// What it printed, as far as it is kept.
    pub fn output(&self, process: &str) -> String {
        self.show(process, "?since=0")["output"].as_str().unwrap().to_owned()
    }
}
