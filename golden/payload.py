"""Payloads of streams: named fields, packed least significant first, and arrays to bits and back.

The same list of fields makes the RTL's ports, the manifest and the packing here, so that they agree.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Field:
    """One field of a payload: an array of ``shape`` (last index fastest) of ``width``-bit elements."""

    name: str
    width: int
    shape: tuple[int, ...] = ()
    signed: bool = False

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bits(self) -> int:
        """Bits of the whole field."""
        return self.size * self.width


def payload_bits(fields: Sequence[Field]) -> int:
    """Bits of a payload that consists of ``fields``."""
    return sum(field.bits for field in fields)


def payload_words(fields: Sequence[Field]) -> int:
    """32-bit words that a packed payload takes."""
    return -(-payload_bits(fields) // 32)


def pack(fields: Sequence[Field], values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Pack ``values`` into payloads.

    Args:
        fields: the payload's fields.
        values: per field an integer array (beats, *field.shape); what exceeds a field's width is cut.

    Returns:
        uint32 (beats, words), word 0 least significant.
    """
    beats = len(next(iter(values.values())))
    packed = np.zeros((beats, payload_words(fields) * 4), np.uint8)
    offset = 0
    for field in fields:
        elements = np.asarray(values[field.name]).reshape(beats, field.size)
        if offset % 8 == 0 and field.width in (8, 16, 32, 64) and elements.dtype != object:
            raw = np.ascontiguousarray(elements).astype(f"<i{field.width // 8}", casting="unsafe")
            packed[:, offset // 8 : offset // 8 + field.bits // 8] = raw.view(np.uint8)
        else:
            _or_bits(packed, offset, _to_bits(elements, field.width))
        offset += field.bits
    return packed.view("<u4")


def _to_bits(elements: np.ndarray, width: int) -> np.ndarray:
    """(beats, size) integers to (beats, size * width) bits, least significant first."""
    columns = [(elements >> bit) & 1 for bit in range(width)]
    return np.stack(columns, axis=-1).astype(np.uint8).reshape(len(elements), -1)


def _or_bits(packed: np.ndarray, offset: int, bits: np.ndarray) -> None:
    """Or ``bits`` (beats, n) into ``packed`` (beats, bytes) from bit ``offset`` on."""
    lead = offset % 8
    padded = np.pad(bits, ((0, 0), (lead, 0)))
    chunk = np.packbits(padded, axis=1, bitorder="little")
    packed[:, offset // 8 : offset // 8 + chunk.shape[1]] |= chunk


def unpack(fields: Sequence[Field], words: np.ndarray) -> dict[str, np.ndarray]:
    """Split packed payloads into fields.

    Args:
        fields: the payload's fields.
        words: uint32 (beats, words).

    Returns:
        Per field int64 (beats, *field.shape), object arrays of Python integers above 63 bits.
    """
    raw = np.ascontiguousarray(words, dtype="<u4").view(np.uint8).reshape(len(words), 4 * words.shape[1])
    values = {}
    offset = 0
    for field in fields:
        first, last = offset // 8, -(-(offset + field.bits) // 8)
        if offset % 8 == 0 and field.width in (8, 16, 32):
            kind = f"<{'i' if field.signed else 'u'}{field.width // 8}"
            elements = np.ascontiguousarray(raw[:, first:last]).view(kind)
            values[field.name] = elements.astype(np.int64).reshape(len(words), *field.shape)
            offset += field.bits
            continue
        bits = np.unpackbits(raw[:, first:last], axis=1, bitorder="little")
        bits = bits[:, offset % 8 : offset % 8 + field.bits].reshape(len(words), *field.shape, field.width)
        values[field.name] = _from_bits(bits, field)
        offset += field.bits
    return values


def pack_integers(fields: Sequence[Field], values: Mapping[str, np.ndarray]) -> list[int]:
    """`pack` to one integer per beat, as simulators in Python take a port's value."""
    return [int.from_bytes(row.tobytes(), "little") for row in pack(fields, values)]


def unpack_integers(fields: Sequence[Field], payloads: Sequence[int]) -> dict[str, np.ndarray]:
    """`unpack` of one integer per beat."""
    words = payload_words(fields)
    data = b"".join(payload.to_bytes(4 * words, "little") for payload in payloads)
    return unpack(fields, np.frombuffer(data, "<u4").reshape(len(payloads), words))


def _from_bits(bits: np.ndarray, field: Field) -> np.ndarray:
    wide = field.width > (64 if field.signed else 63)
    weights = [1 << bit for bit in range(field.width)]
    if field.signed:
        weights[-1] = -weights[-1]
    if wide:
        return bits.astype(object) @ np.array(weights, dtype=object)
    return bits.astype(np.int64) @ np.array(weights, dtype=np.int64)
