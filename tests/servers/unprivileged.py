"""Database servers refuse to run as root: then they run as somebody else."""

import os
import pwd


def as_somebody_else(name: str) -> list[str]:
    """What a command begins with: nothing, unless this process is root's. `name` is the preferred user."""
    if os.geteuid() != 0:
        return []
    user = other_user(name)
    group = pwd.getpwnam(user).pw_gid
    return ["setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups"]


def other_user(name: str) -> str:
    there = {entry.pw_name for entry in pwd.getpwall()}
    return next(each for each in (name, "nobody") if each in there)


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
