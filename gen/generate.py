"""A design's files: Verilog, testbench, manifest."""

import errno
import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from skiptile.gen.design import Design
from skiptile.gen.manifest import manifest
from skiptile.gen.naming import NAMINGS
from skiptile.gen.testbench import make_testbench
from skiptile.gen.verilog import generate
from skiptile.golden.checks import check_choice
from skiptile.golden.files import write_atomically


def generate_files(
    design: Design, folder: Path, *, testbench: int = 0, seed: int = 0, naming: str = "amaranth"
) -> list[Path]:
    """Write what `make_files` makes into ``folder``, as `write_files` does.

    Returns:
        The files, in the order in which they were written.

    Raises:
        OSError: with the path as its ``filename``: not a folder, no permission, no space.
        ValueError: an unknown naming.
    """
    return write_files(folder, make_files(design, testbench=testbench, seed=seed, naming=naming))


def make_files(
    design: Design, *, testbench: int = 0, seed: int = 0, naming: str = "amaranth"
) -> dict[str, bytes]:
    """Contents by file name: ``<name>.v``, on request its testbench, and last ``<name>.json``, the manifest.

    Args:
        design: what to generate.
        testbench: number of its random jobs; 0 for no testbench.
        seed: of the testbench's jobs and pauses.
        naming: of the streams' ports, one of `skiptile.gen.naming.NAMINGS`.

    Raises:
        ValueError: an unknown naming.
    """
    check_choice("naming", naming, NAMINGS)
    text = generate(design, NAMINGS[naming])
    facts = manifest(design, text, NAMINGS[naming])
    bench = make_testbench(design, facts, jobs=testbench, seed=seed) if testbench else {}
    facts["testbench"] = {name: hashlib.sha256(data).hexdigest() for name, data in bench.items()}
    return {
        f"{design.name}.v": text.encode(),
        **bench,
        f"{design.name}.json": (json.dumps(facts, indent=2, allow_nan=False) + "\n").encode(),
    }


def write_files(folder: Path, contents: dict[str, bytes]) -> list[Path]:
    """Write files into ``folder``, in the order of ``contents``.

    Each file appears whole or not at all, and what else is in ``folder`` is left alone. A folder that was not
    there is made; after a failure it is gone again.

    Args:
        folder: where to.
        contents: of the files, by name.

    Returns:
        The files' paths, in the same order.

    Raises:
        OSError: with the path as its ``filename``: not a folder, no permission, no space.
    """
    paths = []
    with _folder_for(folder, contents):
        for name, data in contents.items():
            paths.append(folder / name)
            write_atomically(paths[-1], data)
    return paths


@contextmanager
def _folder_for(folder: Path, names: Iterable[str]) -> Iterator[None]:
    """Make ``folder`` and those above it where they are missing; without a trace if what follows fails."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "is a file, not a folder to write to", str(folder))
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        with suppress(OSError):
            for name in names if folder in missing else ():
                (folder / name).unlink(missing_ok=True)
            for path in missing:
                path.rmdir()
        raise
