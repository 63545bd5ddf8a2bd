"""Which lines and branches of the RTL the cases of the catalogue reach: a table, and a reason for every gap.

    python regress/coverage.py --out build/coverage            # every op in hardware
    python regress/coverage.py --out build/coverage relu pad   # some of them

The exit code is 1 for a gap without a reason. Reasons stand in ``coverage.toml`` beside this file. Modules that
several ops share may be covered by one and not by another, so a run of some ops may show gaps that the whole does not
have. The whole also has a network with a fork; a module of the library that no design had is a gap as well.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from mase_hw.catalogue import default_catalogue
from mase_hw.regress.coverage import cover, cover_network, gaps, idle, read_reasons, table
from mase_hw.simulate.coverage import Coverage

REASONS = Path(__file__).with_suffix(".toml")
NETWORK = "fork"
"""For what the netlist places around ops: forks, joins, sources of weights, checks of the streams."""


def main() -> int:
    """Cover, write ``coverage.md``, and say what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("ops", nargs="*", help="names of ops (all in hardware)")
    arguments = parser.parse_args()
    reasons = read_reasons(REASONS)
    every = [op.name for op in default_catalogue() if op.hardware is not None]
    whole = not arguments.ops
    coverage = cover(arguments.ops or every, arguments.out, lambda case: print(f"==> {case}", flush=True))
    if whole:
        print(f"==> {NETWORK}", flush=True)
        network = cover_network(f"{REASONS.with_name('networks.py')}:{NETWORK}", arguments.out / "network")
        counts = Counter(coverage.counts)
        counts.update(network.counts)
        coverage = Coverage(dict(counts))
    found = gaps(coverage, reasons, whole=whole)
    text = table(coverage, found)
    (arguments.out / "coverage.md").write_text(text, encoding="utf-8")
    print(text)
    unexplained = [gap for gap in found if not gap.reason]
    useless = idle(coverage, reasons, whole=True) if whole else []
    for module, line in useless:
        print(f"{REASONS.name} has a reason for {module} `{line}`, which is reached or not there", file=sys.stderr)
    for gap in unexplained:
        print(f"not reached: {gap}", file=sys.stderr)
    return 1 if unexplained or useless else 0


if __name__ == "__main__":
    sys.exit(main())
