"""A user's own tensors from files. Files are data: nothing in them is run."""

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from skiptile.golden.lowering import Convolution
from skiptile.golden.workloads import Workload, tensors_workload


class TensorError(ValueError):
    """A file of tensors, or what is said of it, is not as it must be."""


def read_workload(path: Path, convolutions: Sequence[str] = ()) -> Workload:
    """The workload that a .npz or .safetensors file holds, named after the file.

    Args:
        path: the file, with arrays named as in `skiptile.golden.workloads.tensors_workload`.
        convolutions: for each convolution ``layer=stride,padding[,dilation[,groups]]``.

    Raises:
        TensorError: one sentence that names the file or array and what is allowed.
        OSError: the file cannot be read.
    """
    settings: dict[str, Convolution] = {}
    for text in convolutions:
        layer, setting = _convolution(text)
        if layer in settings:
            raise TensorError(f"--conv must be given once for layer {layer!r}, not again as {text!r}")
        settings[layer] = setting
    arrays = _read_arrays(path)
    try:
        return tensors_workload(arrays, settings, name=path.stem)
    except (TypeError, ValueError) as error:
        raise TensorError(f"{path}: {error}") from error


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    if path.suffix not in (".npz", ".safetensors"):
        raise TensorError(f"{path}: tensors must be a .npz or .safetensors file, not {path.suffix or 'that'}")
    data = path.read_bytes()  # an unreadable file is the system's error, a broken one ours
    try:
        if path.suffix == ".npz":
            if not zipfile.is_zipfile(io.BytesIO(data)):
                raise ValueError("not a zip archive")
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        from safetensors.numpy import load

        return dict(sorted(load(data).items()))  # the format knows no order of its own
    except MemoryError:
        raise
    except Exception as error:  # each format's reader raises what it likes on a broken file
        raise TensorError(f"{path}: not a readable {path.suffix} file of plain arrays ({error})") from error


def _convolution(text: str) -> tuple[str, Convolution]:
    layer, equals, numbers = text.rpartition("=")
    wanted = f"--conv must be layer=stride,padding[,dilation[,groups]], not {text!r}"
    try:
        values = [int(number) for number in numbers.split(",")]
    except ValueError as error:
        raise TensorError(wanted) from error
    if not equals or not layer or not 2 <= len(values) <= 4:
        raise TensorError(wanted)
    names = ("stride", "padding", "dilation", "groups")
    try:
        return layer, Convolution(**dict(zip(names, values, strict=False)))
    except (TypeError, ValueError) as error:
        raise TensorError(f"--conv {text}: {error}") from error
