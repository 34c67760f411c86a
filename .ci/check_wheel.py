"""Build the wheel and check that it holds every committed file of the package, and nothing else."""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("golden", "hw", "gen", "sim")


def wanted_files() -> set[str]:
    """Paths in the wheel of all committed files of the rooms and the front door."""
    listed = subprocess.run(
        ["git", "ls-files", "src/skiptile", *ROOMS], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split()
    links = {f"src/skiptile/{room}" for room in ROOMS}
    return {f"skiptile/{path.removeprefix('src/skiptile/')}" for path in listed if path not in links}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [sys.executable, "-m", "build", "--wheel", "--outdir", folder],
            cwd=ROOT,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            found = {name for name in archive.namelist() if name.startswith("skiptile/")}
    wanted = wanted_files()
    for name in sorted(wanted - found):
        print(f"missing in the wheel: {name}")
    for name in sorted(found - wanted):
        print(f"in the wheel, but not committed: {name}")
    if wanted != found:
        sys.exit(1)
    print(f"the wheel holds all {len(found)} files")


main()
