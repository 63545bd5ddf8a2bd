"""Which lines and branches of the RTL the cases of the catalogue reach: a table, and a reason for every gap.

    python regress/coverage.py --out build/coverage            # every op in hardware
    python regress/coverage.py --out build/coverage relu pad   # some of them

The exit code is 1 for a gap without a reason. Reasons stand in ``coverage.toml`` beside this file. Modules that
several ops share may be covered by one and not by another, so a run of some ops may show gaps that the whole does not
have.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from mase_hw.catalogue import default_catalogue
from mase_hw.regress.coverage import cover, gaps, idle, read_reasons, table

REASONS = Path(__file__).with_suffix(".toml")


def main() -> int:
    """Cover, write ``coverage.md``, and say what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("ops", nargs="*", help="names of ops (all in hardware)")
    arguments = parser.parse_args()
    reasons = read_reasons(REASONS)
    every = [op.name for op in default_catalogue() if op.hardware is not None]
    coverage = cover(arguments.ops or every, arguments.out, lambda case: print(f"==> {case}", flush=True))
    found = gaps(coverage, reasons)
    text = table(coverage, found)
    (arguments.out / "coverage.md").write_text(text, encoding="utf-8")
    print(text)
    unexplained = [gap for gap in found if not gap.reason]
    useless = [] if arguments.ops else idle(coverage, reasons)
    for module, line in useless:
        print(f"{REASONS.name} has a reason for {module} `{line}`, which is reached or not there", file=sys.stderr)
    for gap in unexplained:
        print(f"not reached: {gap}", file=sys.stderr)
    return 1 if unexplained or useless else 0


if __name__ == "__main__":
    sys.exit(main())
