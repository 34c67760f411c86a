"""A self-checking testbench in plain Verilog: golden vectors and random pauses, no Python needed."""

import math
from typing import Any

import numpy as np

from skiptile.gen.design import Design
from skiptile.gen.kinds import KINDS
from skiptile.gen.templates import template
from skiptile.golden.payload import pack, payload_bits


def make_testbench(design: Design, interface: dict[str, Any], *, jobs: int, seed: int) -> dict[str, bytes]:
    """Files of a testbench that gives ``design`` random jobs and compares what comes out.

    Args:
        design: what to test.
        interface: its manifest, which says how its ports are called and what is in them.
        jobs: number of random jobs, at least 1.
        seed: of the jobs and of the pauses.

    Returns:
        Contents by file name: ``<name>_tb.v``, and the vectors that it reads from the folder it runs in,
        ``<name>_tb_i.hex`` and ``<name>_tb_o.hex``. Output fields that the kind's golden cases do not
        tell are not compared.
    """
    params = design.params
    inputs, outputs = KINDS[design.kind].random_case(params, jobs, seed)
    unchecked = {
        field.name: np.zeros((len(outputs["last"]), *field.shape), np.int64)
        for field in params.output_fields
        if field.name not in outputs
    }
    input_words = pack(params.input_fields, inputs)
    output_words = pack(params.output_fields, {**outputs, **unchecked})
    ports = {port["name"]: port for port in interface["ports"]}
    sending, receiving = (
        next(stream for stream in interface["streams"] if stream["direction"] == direction)
        for direction in ("input", "output")
    )
    fields = [{**field, "size": math.prod(field["shape"])} for field in ports[receiving["payload"]]["fields"]]
    text = template("testbench.v.jinja").render(
        top=design.name,
        seed=1 + seed % (2**32 - 1),
        input={**sending, "width": ports[sending["payload"]]["width"]},
        output={**receiving, "width": ports[receiving["payload"]]["width"]},
        input_beats=len(input_words),
        output_beats=len(output_words),
        reset_cycles=interface["reset"]["cycles"],
        checked=[field for field in fields if field["path"] not in unchecked],
        unchecked=[field for field in fields if field["path"] in unchecked],
    )
    return {
        f"{design.name}_tb.v": text.encode(),
        f"{design.name}_tb_i.hex": _hex_lines(input_words, payload_bits(params.input_fields)),
        f"{design.name}_tb_o.hex": _hex_lines(output_words, payload_bits(params.output_fields)),
    }


def _hex_lines(words: np.ndarray, bits: int) -> bytes:
    """Payloads of ``bits`` bits, uint32 (beats, words), as lines for $readmemh."""
    digits = -(-bits // 4)
    big_endian = np.ascontiguousarray(words[:, ::-1]).astype(">u4")
    return b"".join(row.tobytes().hex()[-digits:].encode() + b"\n" for row in big_endian)
