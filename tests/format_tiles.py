"""Tiles for pairs of formats that several tests compare, so that each is built once."""

from skiptile.golden.mac_tile import MacTileParams

ARCHITECTURES = {
    "dense": {"lookahead": 0},
    "tensordash": {"lookahead": 2, "interconnect": "tensordash"},
    "tensordash-sim": {"lookahead": 2, "interconnect": "tensordash-sim"},
}
GEOMETRIES = {"1x1": (1, 1, 4), "3x5": (3, 5, 2), "4x4": (4, 4, 2)}  # rows, columns, lanes
PAIRS = [
    ("int8", "int8"),
    ("int16", "int16"),
    ("float8_e4m3fn", "float8_e4m3fn"),
    ("float8_e4m3fn", "float8_e5m2"),
    ("float8_e5m2", "float8_e4m3fn"),
    ("float8_e5m2", "float8_e5m2"),
    ("float16", "float16"),
    ("bfloat16", "bfloat16"),
]
LONGEST = 3000


def tile(pair, architecture, geometry, **options):
    rows, columns, lanes = GEOMETRIES[geometry]
    return MacTileParams(
        rows=rows, columns=columns, lanes=lanes, format=pair[0], format_b=pair[1], max_reduction=LONGEST,
        **ARCHITECTURES[architecture], **options,
    )  # fmt: skip


def tiles(pair):
    """A dense and a sparse tile; over the pairs, each architecture in each geometry."""
    turn = PAIRS.index(pair)
    sparse = ("tensordash", "tensordash-sim")[turn // 3 % 2]
    geometries = [*GEOMETRIES]
    return [tile(pair, "dense", geometries[turn % 3]), tile(pair, sparse, geometries[(turn + 1) % 3])]
