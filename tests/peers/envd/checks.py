"""What the programs of this folder share: a line for each check, and an end that says what was seen where one fails."""

import os
import sys
import time
import traceback

# What has to happen may take this long: the machine may be slow, but not that slow.
PATIENCE = 60

passed = 0


def check(name, holds, *seen):
    global passed
    if not holds:
        raise AssertionError(f"{name}: {seen!r}")
    passed += 1
    print(name, flush=True)


def equal(name, found, expected):
    check(name, found == expected, found, "and not", expected)


def describe(error, kind, says):
    """Whether an error is exactly of this kind, and says this."""
    return type(error) is kind and says in str(error)


def raises(name, kind, call, says=""):
    """What is raised, which has to be exactly of this kind."""
    try:
        result = call()
    except Exception as error:
        check(name, describe(error, kind, says), error)
        return error
    raise AssertionError(f"{name}: nothing was raised, and it gave {result!r}")


async def raises_later(name, kind, call, says=""):
    """The same of what is awaited."""
    try:
        result = await call
    except Exception as error:
        check(name, describe(error, kind, says), error)
        return error
    raise AssertionError(f"{name}: nothing was raised, and it gave {result!r}")


def until(name, condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"it did not come to this: {name}")
        time.sleep(0.02)


def run(main):
    """Runs a program, to an end that no thread of it holds up."""
    try:
        main()
        print(f"done {passed}", flush=True)
        code = 0
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
