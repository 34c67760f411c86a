"""Files that appear whole or not at all."""

import errno
import os
import secrets
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """Write ``data`` beside ``path`` under a temporary name, then rename it to ``path``.

    Whoever reads ``path``, at any time and whatever fails, finds the old file or the whole new one. After a
    failure or an interrupt the temporary file is gone; folders are never created. A symbolic link at ``path``
    is replaced, not followed. What cannot be renamed onto, a device or a pipe such as ``/dev/stdout``, is
    written to as it stands.

    Raises:
        OSError: With ``path`` as its ``filename``: no such folder, ``path`` is a folder, no permission, no
            space.
    """
    path = Path(path)
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if _is_special(path):
            _write(os.open(path, os.O_WRONLY | os.O_APPEND), data)
        else:
            _write_and_rename(path, data)
    except OSError as error:
        # The user knows the name she gave, not the temporary one.
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def _is_special(path: Path) -> bool:
    if not path.exists():
        return False
    if path.is_symlink():  # /dev/stdout leads to a file when it is redirected to one
        folder = Path(os.path.realpath(path.parent))
        if folder.is_relative_to("/dev") or folder.is_relative_to("/proc"):
            return True
    return not path.is_file()


def _write_and_rename(path: Path, data: bytes) -> None:
    temporary = path.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        # Not `tempfile`, whose files only their owner may read.
        _write(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), data, sync=True)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write(descriptor: int, data: bytes, *, sync: bool = False) -> None:
    with os.fdopen(descriptor, "wb", buffering=0) as file:
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]
        if sync:
            os.fsync(file.fileno())
