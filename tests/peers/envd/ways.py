"""The ways in which the Python SDK of E2B comes to a sandbox, none of which changes it.

debug: it asks no control plane, and has no token. control-plane: it asks one, which is here and knows one sandbox.
constructor: it is told all of it.
"""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

SANDBOX = "local"
VERSION = "0.6.13"


def plain():
    """A client of plain HTTP."""
    return httpx.Client(trust_env=False, timeout=60)


class ControlPlane(BaseHTTPRequestHandler):
    """It knows one sandbox, and gives out the token of that."""

    protocol_version = "HTTP/1.1"
    token = None
    asked = []

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.split("?")[0]
        self.asked.append(f"{self.command} {path}")
        if self.headers.get("X-API-KEY") != os.environ["E2B_API_KEY"]:
            return self.send(401, {"code": 401, "message": "no such key"})
        known = {
            "templateID": "base",
            "sandboxID": SANDBOX,
            "clientID": "here",
            "envdVersion": VERSION,
            "envdAccessToken": self.token,
            "domain": None,
        }
        answers = {
            ("POST", "/v2/sandboxes"): (201, known),
            ("POST", "/sandboxes"): (201, known),
            ("POST", f"/v2/sandboxes/{SANDBOX}/connect"): (200, known),
            ("POST", f"/sandboxes/{SANDBOX}/connect"): (200, known),
            ("DELETE", f"/sandboxes/{SANDBOX}"): (204, None),
        }
        self.send(*answers.get((self.command, path), (404, {"code": 404, "message": "no such sandbox"})))

    def send(self, status, body):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = answer

    def log_message(self, *_):
        pass


def start_control_plane(token):
    ControlPlane.token = token
    server = ThreadingHTTPServer(("127.0.0.1", 0), ControlPlane)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


class Way:
    """How sandbox objects are made: as many as are asked for, of the one sandbox that there is."""

    def __init__(self, name, url, token):
        self.name, self.url, self.token = name, url, token
        os.environ["E2B_SANDBOX_URL"] = url
        os.environ["E2B_DEBUG"] = str(name == "debug").lower()
        os.environ["E2B_API_KEY"] = "e2b_" + "0" * 40
        if name == "control-plane":
            os.environ["E2B_API_URL"] = start_control_plane(token)

    def initialize(self, **settings):
        """Tells the daemon settings."""
        headers = {"X-Access-Token": self.token} if self.token else {}
        with plain() as http:
            return http.post(f"{self.url}/init", json=settings, headers=headers)

    def fields(self, token):
        from e2b.connection_config import ConnectionConfig
        from packaging.version import Version

        config = ConnectionConfig(sandbox_url=self.url, extra_sandbox_headers={"X-Access-Token": token})
        return {
            "sandbox_id": SANDBOX,
            "sandbox_domain": None,
            "envd_version": Version(VERSION),
            "envd_access_token": token,
            "traffic_access_token": None,
            "connection_config": config,
        }

    def sandbox(self):
        from e2b import Sandbox

        return Sandbox(**self.fields(self.token)) if self.name == "constructor" else Sandbox.create()

    def again(self, sandbox):
        """Another object for the sandbox of this one."""
        from e2b import Sandbox

        return self.sandbox() if self.name == "constructor" else Sandbox.connect(sandbox.sandbox_id)

    def with_token(self, token):
        """One that has this token, whichever is right."""
        from e2b import Sandbox

        return Sandbox(**self.fields(token))

    async def later(self):
        """One that is awaited."""
        from e2b import AsyncSandbox

        if self.name == "constructor":
            return AsyncSandbox(**self.fields(self.token))
        return await AsyncSandbox.create()
