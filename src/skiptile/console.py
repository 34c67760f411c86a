"""What commands share: consoles, progress, and files, checked before the work and written after it."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from skiptile.golden.files import write_atomically
from skiptile.report import plain

stderr = Console(stderr=True)
stdout = Console()


@contextmanager
def progress_lines() -> Iterator[Callable[[str, str], Callable[[float, int, str], None]]]:
    """Gives a function that adds a line of progress and returns the callback that moves it."""
    columns = (
        TextColumn("{task.description:10}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} {task.fields[unit]}"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[what]}", markup=False),
    )
    with Progress(*columns, console=stderr) as progress:

        def add(description: str, unit: str) -> Callable[[float, int, str], None]:
            tasks: list[TaskID] = []

            def move(done: float, total: int, what: str) -> None:
                if not tasks:  # what never begins shows no line
                    tasks.append(progress.add_task(description, total=total, unit=unit, what=""))
                progress.update(tasks[0], completed=done, total=total, what=plain(what))

            return move

        yield add


@contextmanager
def mistakes(option: str) -> Iterator[None]:
    """Turns what a golden function refuses into a user's mistake."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise click.UsageError(f"{option}: {error}") from error


def check_writable(*paths: Path | None, sources: Iterable[Path] = ()) -> None:
    """Find out before the work, not after it, that a result could not be written or replaces a source."""
    given = [path.resolve() for path in paths if path is not None]
    for path in sources:
        if path.resolve() in given:
            raise click.ClickException(f"{path} is to be read, so no result can be written there")
    for path in given:
        if given.count(path) > 1:
            raise click.ClickException(f"{path} is to hold two different results")
    for path in paths:
        if path is None:
            continue
        if path.is_dir():
            raise click.ClickException(f"{path} is a folder; a file is wanted")
        if not path.parent.is_dir():
            raise click.ClickException(f"{path}: there is no folder {path.parent}")
        if not os.access(path.parent, os.W_OK):
            raise click.ClickException(f"{path}: no permission to write in {path.parent}")


def write(path: Path, text: str) -> None:
    write_atomically(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    write(path, json.dumps(value, indent=2, allow_nan=False) + "\n")
