"""The unmodified Python SDK of E2B against a daemon that speaks the protocol of E2B's envd.

e2b_client.py WAY URL FOLDER [TOKEN] [USER]: prints a line for each check, and how many they were. WAY is one of those of ways.py;
FOLDER is empty, and USER may write there. What runs has HANGAR_TEST_MARK in its environment where it is in this one's.
"""

import asyncio
import os
import sys

import ways
from checks import check, equal, raises, run

name, url, folder, token, name_of_user = (sys.argv[1:] + ["", ""])[:5]
way = ways.Way(name, url, token or None)
user = {"user": name_of_user} if name_of_user else {}
mark = {name: value for name, value in os.environ.items() if name == "HANGAR_TEST_MARK"}
settings = {"envVars": {"HOME": "/nonexistent", "SHARED": "shared", **mark}}


def initialized():
    """Settings, and in the third way the token, which nothing had before."""
    with ways.plain() as http:
        if name != "constructor":
            reply = way.initialize(**settings)
            equal("settings are taken", (reply.status_code, reply.headers["x-envd-version"]), (204, ways.VERSION))
            return
        other = {"X-Access-Token": "other"}
        equal("there is no token yet", http.get(f"{url}/envs").status_code, 200)
        reply = http.post(f"{url}/init", json={**settings, "accessToken": token, "defaultWorkdir": folder})
        equal("the first to set one may", (reply.status_code, reply.headers["x-envd-version"]), (204, ways.VERSION))
        equal("from then on it is asked for", http.get(f"{url}/envs").status_code, 401)
        equal("another one is refused", http.get(f"{url}/envs", headers=other).status_code, 401)
        equal("nobody sets another one", http.post(f"{url}/init", json={"accessToken": "other"}).status_code, 401)
        equal("nor takes it away", http.post(f"{url}/init", json={}, headers=other).status_code, 401)
        equal("the same one is none", http.post(f"{url}/init", json={"accessToken": token}).status_code, 204)
        reply = http.get(f"{url}/envs", headers={"X-Access-Token": token})
        equal("variables are as they were set", reply.json(), settings["envVars"])
        equal("whether it is there needs none", http.get(f"{url}/health").status_code, 204)


def allowed(sandbox):
    """With another token, or none, nothing is."""
    from e2b import AuthenticationException

    for wrong in ("other", token + "x", token[:-1]):
        other = way.with_token(wrong)
        for what, call in [
            ("run", lambda: other.commands.run("true")),
            ("list", lambda: other.commands.list()),
            ("follow", lambda: other.commands.connect(1)),
            ("look", lambda: other.files.exists("/")),
            ("read", lambda: other.files.read("/etc/hostname")),
            ("write", lambda: other.files.write(f"{folder}/refused", "x")),
        ]:
            raises(f"a wrong token may not {what}", AuthenticationException, call)
        check("but see that it runs", other.is_running())
    check("nothing was written", not sandbox.files.exists(f"{folder}/refused", **user))


def users(sandbox):
    """Whoever is named is who acts; the daemon runs as root, and its own user is this one."""
    who = lambda **named: sandbox.commands.run("id -un", **named).stdout.strip()
    equal("who acts", (who(), who(**user), who(user="root")), (name_of_user, name_of_user, "root"))
    for named, expected in [({}, name_of_user), (user, name_of_user), ({"user": "root"}, "root")]:
        path = f"{folder}/of {expected} {len(named)}"
        sandbox.files.write(path, "x", **named)
        equal("whose a file is", sandbox.files.get_info(path).owner, expected)
        equal("whose a file is that is one body", written_by(sandbox, path, named), expected)
    sandbox.files.write(f"{folder}/secret", "x", user="root")
    sandbox.commands.run(f"chmod 600 {folder}/secret", user="root")
    raises("not everybody may read", Exception, lambda: refused(lambda: sandbox.files.read(f"{folder}/secret")), "refused")
    raises("nor write", Exception, lambda: refused(lambda: sandbox.files.write("/etc/hangar-refused", "x")), "refused")
    raises("nor move", Exception, lambda: refused(lambda: sandbox.files.rename("/etc/hostname", f"{folder}/x")), "refused")


def written_by(sandbox, path, named):
    sandbox.files.write(f"{path}-2", "x", use_octet_stream=True, **named)
    return sandbox.files.get_info(f"{path}-2").owner


def refused(call):
    from e2b import SandboxException

    try:
        call()
    except SandboxException as error:
        raise Exception(f"refused: {error}") from error


def main():
    from e2b_commands import command_checks
    from e2b_files import file_checks
    from e2b_later import later_checks
    from e2b_terminals import terminal_checks

    initialized()
    sandbox = way.sandbox()
    check("it runs", sandbox.is_running())
    check("also for who comes back to it", way.again(sandbox).is_running())
    command_checks(way, sandbox, folder, user)
    file_checks(way, sandbox, folder, user)
    terminal_checks(way, sandbox, folder, user)
    asyncio.run(later_checks(way, folder, user))
    if token:
        allowed(sandbox)
    if name_of_user:
        users(sandbox)
    if name == "control-plane":
        check("its end is the control plane's", sandbox.kill() is True)
        asked = ways.ControlPlane.asked
        check("which was asked for each of them", asked[0].startswith("POST ") and asked[-1].startswith("DELETE "), asked)
    equal("nothing runs on", sandbox.commands.list(), [])


run(main)
