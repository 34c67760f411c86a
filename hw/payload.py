"""Payload fields as Amaranth layouts."""

from collections.abc import Sequence

from amaranth.hdl import ShapeLike, signed, unsigned
from amaranth.lib import data

from skiptile.golden.payload import Field


def payload_layout(fields: Sequence[Field]) -> data.StructLayout:
    """The layout of a payload that consists of ``fields``, packed least significant first."""
    return data.StructLayout({field.name: _field_shape(field) for field in fields})


def _field_shape(field: Field) -> ShapeLike:
    shape: ShapeLike = signed(field.width) if field.signed else unsigned(field.width)
    for length in reversed(field.shape):
        shape = data.ArrayLayout(shape, length)
    return shape
