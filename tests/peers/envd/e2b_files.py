"""Files by the Python SDK of E2B."""

import datetime
import gzip
import io
import random

import ways
from checks import check, equal, raises, until
from e2b import FileNotFoundException, FileType, InvalidArgumentException, NotFoundException, SandboxException

TEXT = "zwölf €\n𝄞 ohne Ende"
ALL_BYTES = bytes(range(256)) * 16
LARGE = random.Random(7).randbytes(5_000_000)


def file_checks(way, sandbox, folder, user):
    formats(sandbox.files, folder, user)
    uploads(sandbox.files, folder, user)
    several(sandbox.files, folder, user)
    stored(sandbox.files, folder, user)
    entries(sandbox, folder, user)
    changes(sandbox.files, folder, user)
    lists(sandbox, folder, user)
    watches(sandbox, folder, user)
    urls(way, sandbox, folder, user)


def formats(files, folder, user):
    path = f"{folder}/new/below/text.txt"
    written = files.write(path, TEXT, **user)
    equal("what was written is described", (written.name, written.type, written.path), ("text.txt", FileType.FILE, path))
    equal("text", files.read(path, **user), TEXT)
    equal("text as bytes", bytes(files.read(path, format="bytes", **user)), TEXT.encode())
    files.write(path, "short", **user)
    equal("a file is written over", files.read(path, **user), "short")
    files.write(path, "", **user)
    equal("an empty file", (files.read(path, **user), bytes(files.read(path, format="bytes", **user))), ("", b""))
    path = f"{folder}/every byte"
    files.write(path, ALL_BYTES, **user)
    equal("bytes", bytes(files.read(path, format="bytes", **user)), ALL_BYTES)
    for name in ("späte €.txt", "a b&c=d+e%20f#g?h", 'q"u\'o\\te'):
        files.write(f"{folder}/{name}", name, **user)
        equal(f"the name {name}", files.read(f"{folder}/{name}", **user), name)
    path = f"{folder}/large"
    files.write(path, LARGE, **user)
    with files.read(path, format="stream", **user) as stream:
        pieces = list(stream)
    check("a large file as a stream", b"".join(pieces) == LARGE and len(pieces) > 1, len(pieces))
    with files.read(path, format="stream", **user) as stream:
        check("of which one may read a part", LARGE.startswith(next(stream)))
    check("a large file, packed", bytes(files.read(path, format="bytes", gzip=True, **user)) == LARGE)
    raises("no file", FileNotFoundException, lambda: files.read(f"{folder}/nothing", **user))
    raises("nor as a stream", FileNotFoundException, lambda: files.read(f"{folder}/nothing", format="stream", **user))
    raises("a directory is not read", InvalidArgumentException, lambda: files.read(folder, **user))
    raises("nor written", InvalidArgumentException, lambda: files.write(folder, "x", **user))
    raises("nor is below a file", InvalidArgumentException, lambda: files.write(f"{path}/x", "x", **user))


def uploads(files, folder, user):
    path = f"{folder}/uploaded"
    read = lambda: bytes(files.read(path, format="bytes", **user))
    ways_to_write = [
        ("text as a form", TEXT, TEXT.encode(), {"use_octet_stream": False}),
        ("text as one body", TEXT, TEXT.encode(), {"use_octet_stream": True}),
        ("nothing as one body", b"", b"", {"use_octet_stream": True}),
        ("a large body", LARGE, LARGE, {"use_octet_stream": True}),
        ("a large form", LARGE, LARGE, {"use_octet_stream": False}),
        ("a packed body", LARGE, LARGE, {"gzip": True}),
        ("an empty packed body", b"", b"", {"gzip": True}),
        ("a file", io.BytesIO(LARGE), LARGE, {}),
        ("a file as a form", io.BytesIO(ALL_BYTES), ALL_BYTES, {"use_octet_stream": False}),
        ("a file of text", io.StringIO(TEXT), TEXT.encode(), {}),
        ("pieces", (LARGE[i : i + 50_000] for i in range(0, len(LARGE), 50_000)), LARGE, {}),
        ("packed pieces", iter([ALL_BYTES, b"", ALL_BYTES]), ALL_BYTES * 2, {"gzip": True}),
    ]
    for name, data, expected, options in ways_to_write:
        written = files.write(path, data, **options, **user)
        check(f"{name} is written", written.path == path and read() == expected, written, len(read()))


def several(files, folder, user):
    entries = [{"path": f"{folder}/several/{i}/file", "data": f"of {i}"} for i in range(20)]
    for name, options in [("a form", {}), ("bodies", {"use_octet_stream": True}), ("packed bodies", {"gzip": True})]:
        written = files.write_files(entries, **options, **user)
        equal(f"several as {name}", [one.path for one in written], [entry["path"] for entry in entries])
        contents = [files.read(entry["path"], **user) for entry in entries]
        equal(f"each of them as {name}", contents, [entry["data"] for entry in entries])
    equal("none", files.write_files([], **user), [])
    data = [b"bytes", io.BytesIO(b"a file"), "text"]
    entries = [{"path": f"{folder}/mixed/{i}", "data": one} for i, one in enumerate(data)]
    files.write_files(entries, use_octet_stream=False, **user)
    contents = [files.read(entry["path"], **user) for entry in entries]
    equal("several of each kind", contents, ["bytes", "a file", "text"])


def stored(files, folder, user):
    path, metadata = f"{folder}/described", {"Author": "me", "purpose": "a = b; c"}
    expected = {"author": "me", "purpose": "a = b; c"}
    try:
        written = files.write(path, "x", metadata=metadata, **user)
    except SandboxException as error:
        check("metadata is refused where the file system has none", "metadata" in str(error), error)
        return
    equal("metadata is stored", written.metadata, expected)
    equal("and shown", files.get_info(path, **user).metadata, expected)
    (listed,) = [entry for entry in files.list(folder, **user) if entry.path == path]
    equal("and listed", listed.metadata, expected)
    equal("and moved", files.rename(path, f"{path}-2", **user).metadata, expected)
    written = files.write(path, "x", metadata=metadata, use_octet_stream=True, **user)
    equal("also of one body", written.metadata, expected)
    equal("and none is none", files.write(f"{path}-3", "x", **user).metadata, None)


def entries(sandbox, folder, user):
    files = sandbox.files
    place = f"{folder}/entries"
    files.write(f"{place}/file", "12345", **user)
    files.make_dir(f"{place}/directory", **user)
    command = "chmod 640 file; chmod 750 directory; ln -s file link; ln -s directory way; ln -s gone broken; mkfifo pipe"
    sandbox.commands.run(command, cwd=place, **user)
    me = sandbox.commands.run("id -un; id -gn", **user).stdout.split()
    info = lambda name: files.get_info(f"{place}/{name}", **user)
    entry = info("file")
    seen = (entry.name, entry.type, entry.path, entry.size, entry.mode, entry.permissions)
    equal("a file is described", seen, ("file", FileType.FILE, f"{place}/file", 5, 0o640, "-rw-r-----"))
    equal("and whose it is", [entry.owner, entry.group], me)
    equal("and that it is no link", (entry.symlink_target, entry.metadata), (None, None))
    age = datetime.datetime.now(datetime.UTC) - entry.modified_time.astimezone(datetime.UTC)
    check("and how old", abs(age) < datetime.timedelta(minutes=10), entry.modified_time)
    entry = info("directory")
    equal("a directory", (entry.type, entry.mode, entry.permissions), (FileType.DIR, 0o750, "drwxr-x---"))
    entry = info("link")
    seen = (entry.name, entry.path, entry.type, entry.mode, entry.permissions, entry.symlink_target)
    equal("a link", seen, ("link", f"{place}/link", FileType.FILE, 0o640, "Lrwxrwxrwx", f"{place}/file"))
    entry = info("way")
    equal("a link to a directory", (entry.type, entry.symlink_target), (FileType.DIR, f"{place}/directory"))
    entry = info("broken")
    equal("a broken link", (entry.type, entry.symlink_target), (None, f"{place}/broken"))
    entry = info("pipe")
    equal("a pipe", (entry.name, entry.type, entry.permissions[0]), ("pipe", None, "p"))
    raises("nothing is not described", FileNotFoundException, lambda: info("nothing"))
    found = {name: files.exists(f"{place}/{name}", **user) for name in ("file", "directory", "link", "nothing", "file/x")}
    equal("what exists", found, {"file": True, "directory": True, "link": True, "nothing": False, "file/x": False})
    listed = [entry.name for entry in files.list(place, **user)]
    equal("a list, without what has no type", listed, ["directory", "file", "link", "way"])


def changes(files, folder, user):
    place = f"{folder}/changes"
    check("a directory is made", files.make_dir(f"{place}/a/b", **user) is True)
    check("and not again", files.make_dir(f"{place}/a/b", **user) is False)
    files.write(f"{place}/a/b/file", "x", **user)
    raises("nor over a file", InvalidArgumentException, lambda: files.make_dir(f"{place}/a/b/file", **user))
    entry = files.rename(f"{place}/a/b/file", f"{place}/moved", **user)
    equal("a file is moved", (entry.name, entry.path, entry.type), ("moved", f"{place}/moved", FileType.FILE))
    check("and no longer where it was", not files.exists(f"{place}/a/b/file", **user))
    entry = files.rename(f"{place}/a", f"{place}/new/parents/a", **user)
    check("a directory is moved, with parents", entry.type == FileType.DIR and files.exists(f"{entry.path}/b", **user))
    files.write(f"{place}/other", "other", **user)
    files.rename(f"{place}/moved", f"{place}/other", **user)
    equal("a file takes the place of one", files.read(f"{place}/other", **user), "x")
    raises("nothing is not moved", FileNotFoundException, lambda: files.rename(f"{place}/no", f"{place}/yes", **user))
    files.remove(f"{place}/other", **user)
    check("a file is removed", not files.exists(f"{place}/other", **user))
    files.remove(place, **user)
    check("a directory with all in it", not files.exists(place, **user))
    equal("and nothing likewise", files.remove(place, **user), None)


def lists(sandbox, folder, user):
    files = sandbox.files
    place = f"{folder}/lists"
    names = ["a", "a/1", "a/1/x", "a/1/x/deep", "b", "c"]
    files.write(f"{place}/a/1/x/deep", "", **user)
    files.write(f"{place}/b", "", **user)
    files.make_dir(f"{place}/c", **user)
    for depth, expected in [(1, ["a", "b", "c"]), (2, ["a", "a/1", "b", "c"]), (4, names), (99, names), (None, ["a", "b", "c"])]:
        found = [entry.path.removeprefix(f"{place}/") for entry in files.list(place, depth=depth, **user)]
        equal(f"a list of depth {depth}", found, expected)
    equal("an empty list", files.list(f"{place}/c", **user), [])
    sandbox.commands.run(f"ln -s {place} link; ln -s {place} lists/c/again", cwd=folder, **user)
    found = [entry.path for entry in files.list(f"{folder}/link", **user)]
    equal("a list by a link", found, [f"{folder}/link/{name}" for name in ("a", "b", "c")])
    found = [entry.name for entry in files.list(f"{place}/c", depth=9, **user)]
    equal("links below are not followed", found, ["again"])
    raises("a list of nothing", FileNotFoundException, lambda: files.list(f"{place}/no", **user))
    raises("a list of a file", InvalidArgumentException, lambda: files.list(f"{place}/b", **user))
    raises("a depth that is none", InvalidArgumentException, lambda: files.list(place, depth=0, **user))
    sandbox.commands.run("for i in $(seq 3000); do : > $i; done", cwd=f"{place}/c", **user)
    equal("a long list", len(files.list(f"{place}/c", **user)), 3001)


# What changes, and what is told of it: what is told twice in a row counts once. What is below a new directory is found by
# looking, meanwhile the rest is told.
CHANGES = "echo 1 > f; chmod 600 f; mv f g; rm g; mkdir -p new/deep; echo x > sub/z"
CHANGED = [
    *[("create", "f"), ("write", "f"), ("chmod", "f"), ("rename", "f"), ("create", "g"), ("remove", "g")],
    *[("create", "new"), ("create", "new/deep"), ("create", "sub/z"), ("write", "sub/z")],
]


def told(events):
    seen = [(event.type.value, event.name) for event in events]
    return [one for one, before in zip(seen, [None, *seen]) if one != before]


def in_order(events):
    """Where each of the changes is told once, the order of those that are not below a new directory."""
    found = told(events)
    return [one for one in found if one[1] != "new/deep"] if sorted(found) == sorted(CHANGED) else found


IN_ORDER = [one for one in CHANGED if one[1] != "new/deep"]


def watches(sandbox, folder, user):
    files = sandbox.files
    place = f"{folder}/watched"
    files.make_dir(f"{place}/sub", **user)
    watch = files.watch_dir(place, recursive=True, **user)
    described = files.watch_dir(place, include_entry=True, **user)
    equal("nothing has changed", watch.get_new_events(), [])
    sandbox.commands.run(CHANGES, cwd=place, **user)
    events, entries = [], []

    def is_told():
        events.extend(watch.get_new_events())
        return set(told(events)) >= set(CHANGED)

    until("what changed is told", is_told)
    equal("each change in its order", in_order(events), IN_ORDER)
    equal("once", watch.get_new_events(), [])
    files.write(f"{place}/last", "12345", **user)

    def is_described():
        entries.extend(described.get_new_events())
        return any(event.name == "last" for event in entries)

    until("what changed is told with what is there", is_described)
    check("nothing of what is below", not any("/" in event.name for event in entries), entries)
    last = next(event.entry for event in entries if event.name == "last")
    equal("what is there", (last.name, last.path, last.type), ("last", f"{place}/last", FileType.FILE))
    gone = next(event for event in entries if (event.type.value, event.name) == ("remove", "g"))
    equal("nothing of what is gone", gone.entry, None)
    files.remove(place, **user)
    until("the end of the directory is told", lambda: ("remove", ".") in told(watch.get_new_events()))
    equal("and nothing after it", watch.get_new_events(), [])
    for one in (watch, described):
        one.stop()
        raises("what is stopped is not asked", SandboxException, one.get_new_events)
        raises("nor stopped again", NotFoundException, one.stop)
    raises("nothing to watch", FileNotFoundException, lambda: files.watch_dir(place, **user))
    raises("no directory to watch", InvalidArgumentException, lambda: files.watch_dir("/etc/passwd", **user))


def urls(way, sandbox, folder, user):
    path = f"{folder}/by a link &+€"
    name = user.get("user")
    form = {"file": ("name", TEXT.encode())}
    with ways.plain() as http:
        status = lambda url: http.get(url).status_code
        for lasts in [None, 600] if way.token else [None]:
            upload = sandbox.upload_url(path, user=name, use_signature_expiration=lasts)
            download = sandbox.download_url(path, user=name, use_signature_expiration=lasts)
            reply = http.post(upload, files=form)
            check(f"a form to a URL that lasts {lasts}", reply.status_code == 200 and reply.json()[0]["path"] == path, reply.text)
            equal("and from one", http.get(download).content, TEXT.encode())
            octets = {"Content-Type": "application/octet-stream"}
            equal("a body to it", http.post(upload, content=b"octets", headers=octets).status_code, 200)
            equal("and from it", http.get(download).content, b"octets")
        part = http.get(download, headers={"Range": "bytes=1-3"})
        equal("a part", (part.status_code, part.content, part.headers["content-range"]), (206, b"cte", "bytes 1-3/6"))
        packed = http.post(upload, content=gzip.compress(LARGE), headers={**octets, "Content-Encoding": "gzip"})
        check("a packed body to it", packed.status_code == 200 and http.get(download).content == LARGE)
        if not way.token:
            expires = lambda: sandbox.download_url(path, use_signature_expiration=600)
            raises("without a token nothing expires", InvalidArgumentException, expires)
            return
        equal("not once its time is over", status(sandbox.download_url(path, user=name, use_signature_expiration=-5)), 401)
        equal("not without a signature", status(download.split("&signature")[0]), 401)
        equal("not for another file", status(download.replace("link", "l%69nks")), 401)
        equal("not as another user", status(sandbox.download_url(path, user="root") + "&username=nobody"), 400)
        equal("not to write by one to read", http.post(download, files=form).status_code, 401)
        equal("nor the reverse", status(upload), 401)
        equal("not longer than it says", status(download.replace("signature_expiration=", "signature_expiration=9")), 401)
        equal("but with the token", http.get(download.split("&signature")[0], headers={"X-Access-Token": way.token}).status_code, 200)
