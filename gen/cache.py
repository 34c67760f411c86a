"""The build cache: folders keyed by everything that went into them.

A build happens in a folder beside its place and is renamed at the end, under a lock: whoever builds at
the same time waits and finds it, and a killed build leaves no entry.
"""

import errno
import hashlib
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout
from platformdirs import user_cache_path

from skiptile.gen.processes import ToolError

_PATIENCE = 0.2  # seconds between looks at whether to go on waiting


def folder() -> Path:
    """Where builds are: ``$SKIPTILE_CACHE``, or the user's cache folder."""
    chosen = os.environ.get("SKIPTILE_CACHE")
    return Path(chosen) if chosen else user_cache_path("skiptile")


def key(parts: Iterable[str]) -> str:
    """The key of a build that depends on ``parts`` and nothing else."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(f"{len(part)}:{part}".encode())
    return digest.hexdigest()[:32]


def built(
    name: str,
    build: Callable[[Path], None],
    *,
    timeout: float | None = None,
    stop: threading.Event | None = None,
) -> Path:
    """The folder of the build ``name``, made by ``build(folder)`` if it is not there.

    Args:
        timeout: seconds to wait for another process that is making it.
        stop: ends waiting early, from another thread.

    Raises:
        ToolError: another process took too long to make it.
        OSError: the cache cannot be written.
        Exception: whatever ``build`` raises; nothing is kept then.
    """
    place = folder() / name
    if place.is_dir():
        return place
    if folder().exists() and not folder().is_dir():
        raise NotADirectoryError(
            errno.ENOTDIR, "the cache is to be a folder, which this is not", str(folder())
        )
    folder().mkdir(parents=True, exist_ok=True)
    with _locked(name, timeout, stop):
        if place.is_dir():  # another process was faster
            return place
        for stale in folder().glob(f"{name}.*.tmp"):  # of a killed build: we hold its lock
            shutil.rmtree(stale, ignore_errors=True)
        temporary = Path(tempfile.mkdtemp(prefix=f"{name}.", suffix=".tmp", dir=folder()))
        try:
            build(temporary)
            temporary.rename(place)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    return place


@contextmanager
def _locked(name: str, timeout: float | None, stop: threading.Event | None) -> Iterator[None]:
    """Hold the lock of the build ``name``, looking now and then whether to go on waiting for it."""
    lock, start = FileLock(folder() / f"{name}.lock"), time.monotonic()
    while True:
        try:
            lock.acquire(timeout=_PATIENCE)
        except Timeout:
            if timeout is not None and time.monotonic() - start >= timeout:
                kind = name.partition("-")[0]
                raise ToolError(
                    f"another process is making this {kind} and was not done after {timeout:g} seconds"
                ) from None
            if stop is not None and stop.is_set():
                raise ToolError("stopped") from None
        else:
            break
    try:
        yield
    finally:
        lock.release()


def size() -> int:
    """Bytes in the cache."""
    total = 0
    for path in folder().rglob("*"):
        with suppress(FileNotFoundError):  # a build that is under way comes and goes
            total += path.lstat().st_size if path.is_file() else 0
    return total


def clean() -> None:
    """Remove every build, and what killed ones have left; a build that is under way is not disturbed."""
    for place in sorted(folder().iterdir()) if folder().is_dir() else []:
        if not place.is_dir():
            continue
        name = place.name.split(".")[0]
        with suppress(Timeout), FileLock(folder() / f"{name}.lock", timeout=0):
            # Under another name first: whoever stops in the middle leaves nothing that looks whole.
            leaving = place.with_name(f"{name}.{secrets.token_hex(4)}.tmp")
            place.rename(leaving)
            shutil.rmtree(leaving)


def remove(path: Path) -> None:
    """Remove a file or a folder."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
