"""Text from templates that lie beside this file."""

from pathlib import Path

import jinja2


def template(name: str) -> jinja2.Template:
    """The template ``name``; what it uses must be given."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(name)
