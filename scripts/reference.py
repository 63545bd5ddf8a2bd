"""Write the generated parts of the documentation: ``python -m scripts.reference``, or ``--check`` to compare only.

A page marks a part with a comment, ``<!-- generated: KIND WORDS -->`` to ``<!-- end -->``. What stands between them is
made from the code: options from the models that check them, facets from the definitions of the catalogue, modules from
the headers of the RTL. The tests of the documentation compare every part.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

from mase_hw.catalogue import default_catalogue
from mase_hw.cli import coverage
from mase_hw.cli.commands.ops import LIST, listed
from mase_hw.compiler.config import schema
from mase_hw.hardware import manifest
from scripts import (
    reference_claims,
    reference_cli,
    reference_code,
    reference_cost,
    reference_coverage,
    reference_names,
    reference_options,
    reference_rtl,
)

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("**/*.md"))]
SCHEMA = ROOT / "docs" / "configuration.schema.json"
MANIFEST_SCHEMA = ROOT / "docs" / "manifest.schema.json"
FILES = [*PAGES, SCHEMA, MANIFEST_SCHEMA, LIST, coverage.LIST]
"""Everything that is generated or has generated parts."""

KINDS: dict[str, Callable[..., str]] = {
    "options": reference_options.options,
    "passes": reference_options.passes,
    "statistics": reference_options.statistics,
    "facets": reference_code.facets,
    "arguments": reference_code.arguments,
    "hardware_branch": reference_code.hardware_branch,
    "commands": reference_cli.commands,
    "command": reference_cli.command,
    "claims": reference_claims.claims,
    "exports": reference_code.exports,
    "coverage": reference_coverage.table_of,
    "rooms": reference_code.rooms,
    "modules": reference_rtl.modules,
    "ops": reference_rtl.ops,
    "area_errors": reference_cost.errors,
    "area_unseen": reference_cost.unseen,
    "devices": reference_cost.devices,
    "not_estimated": reference_cost.not_estimated,
    "names": reference_names.names,
    "plugins": reference_code.plugins,
}
"""What can be generated: each gets the words behind it and returns Markdown."""

REGION = re.compile(r"^<!-- generated: (?P<words>[^\n]+) -->\n(?P<text>.*?)^<!-- end -->$", re.MULTILINE | re.DOTALL)


def generated(words: str) -> str:
    """The text of one part.

    Raises:
        KeyError: If there is no such kind, class or module.
    """
    kind, *rest = words.split()
    return KINDS[kind](*rest).rstrip() + "\n"


def renewed(page: str) -> str:
    """A page with every generated part as it should be."""
    return REGION.sub(
        lambda match: f"<!-- generated: {match['words']} -->\n\n{generated(match['words'])}\n<!-- end -->", page
    )


def expected(file: Path) -> str:
    """A page, the schema or a list of the command ``ops``, as it should be."""
    if file == LIST:
        return listed(default_catalogue())
    if file == coverage.LIST:
        return reference_coverage.coverage()
    if file == SCHEMA:
        return json.dumps(schema(), indent=2) + "\n"
    if file == MANIFEST_SCHEMA:
        return json.dumps(manifest.schema(), indent=2) + "\n"
    return renewed(file.read_text(encoding="utf-8"))


def main(arguments: list[str]) -> int:
    """Write the parts that changed, or with ``--check`` name their pages and fail."""
    check = arguments == ["--check"]
    if arguments and not check:
        print("usage: python -m scripts.reference [--check]", file=sys.stderr)
        return 2
    outdated = []
    for file in FILES:
        text = expected(file)
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            outdated.append(file)
            if not check:
                file.write_text(text, encoding="utf-8")
    for file in outdated:
        print(f"{file.relative_to(ROOT)}: {'differs from the code' if check else 'written'}")
    return 1 if check and outdated else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
