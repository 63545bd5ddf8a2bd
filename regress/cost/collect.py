"""Measures modules for the cost model: random layers, in both families, into the tables beside this file.

    python regress/cost/collect.py --work build/cost --kinds linear,conv --seeds 0:40    # new draws
    python regress/cost/collect.py --work build/cost --stale                             # rows whose RTL has changed
    python regress/cost/collect.py --work build/cost --confirm                           # the same, by a sample

A row holds a digest of the sources of its module, without comments and white space. ``--stale`` draws again what has
rows with another digest, and measures those modules anew. ``--confirm`` measures a few of each such module: where all
have the counts of their rows, the other rows of the module are taken to be as they were, and get the new digest; where
one has not, nothing is changed and ``--stale`` has to be run. After either, run ``regress/fit_cost.py --update``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from draws import KINDS, items_of
from measure import COLUMNS, Item, measure
from sources import digest_of

from mase_hw.cost import cost_of
from mase_hw.cost.fabrics import FABRICS
from mase_hw.cost.model import STRUCTURES
from mase_hw.errors import ToolError

FOLDER = Path(__file__).parent
FAMILIES = tuple(sorted(FABRICS))
BATCH = 24
ENOUGH = 120
"""Rows of a module after which no more are taken, for what every draw has several of."""
COMMON = ("rom_source", "fixed_relu", "fixed_cast")
SAMPLE = 6
"""Rows of a module that ``--confirm`` measures: so many that are spread over all, and as many that are least as the
model says, as a row of a module that has changed probably is."""
LARGEST = 2500
"""Look-up tables, by estimate, of the largest module that is taken: what is larger has more of the same."""
Tables = dict[str, dict[str, Any]]


def read(path: Path) -> Tables:
    """The table of a family: by module, names of parameters and rows."""
    found: Tables = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return found


def write(path: Path, tables: Tables) -> None:
    """Write it, a row a line, in an order that does not depend on that of the measurements."""
    parts = []
    for module, table in sorted(tables.items()):
        rows = sorted(table["rows"], key=lambda row: (row[0].split()[0], int(row[0].split()[1]), str(row[3])))
        lines = ",".join(f"\n   {json.dumps(row, separators=(',', ':'))}" for row in rows)
        parts.append(f'\n "{module}": {{"parameters": {json.dumps(table["parameters"])},\n  "rows": [{lines}]}}')
    path.write_text(f"{{{','.join(parts)}\n}}\n", encoding="utf-8")


def parameters_of(item: Item, family: str) -> dict[str, Any]:
    """Those of the instance, and of a ROM what its words are like."""
    return {**item.parameters, **item.contents(family)}


def values_of(table: Mapping[str, Any], parameters: Mapping[str, Any]) -> list[Any]:
    """Parameters in the order of a table, which gets names that it has not."""
    table["parameters"].extend(name for name in parameters if name not in table["parameters"])
    return [parameters.get(name) for name in table["parameters"]]


def add(tables: Tables, item: Item, family: str, draw: str, counts: Mapping[str, int]) -> None:
    """Add a row, in place of one of the same module."""
    table = tables.setdefault(item.instance.module, {"parameters": [], "rows": []})
    values = values_of(table, parameters_of(item, family))
    rows = table["rows"]
    for row in rows:
        row[3] += [None] * (len(values) - len(row[3]))
    rows[:] = [row for row in rows if row[3] != values]
    rows.append([draw, digest_of(item.instance.module), [counts[column] for column in COLUMNS], values])


def known(tables: Tables) -> set[tuple[str, str]]:
    """What has a row that is not stale."""
    found = set()
    for module, table in tables.items():
        for _, digest, _, values in table["rows"]:
            if digest == digest_of(module):
                named = {n: v for n, v in zip(table["parameters"], values, strict=False) if v is not None}
                found.add((module, json.dumps(named, sort_keys=True)))
    return found


def stale(tables: Tables) -> set[str]:
    """Draws with rows whose sources have changed."""
    return {row[0] for module, table in tables.items() for row in table["rows"] if row[1] != digest_of(module)}


def wanted(
    tables: Tables, family: str, draws: Iterable[str], again: bool, only: frozenset[str]
) -> Iterator[tuple[Item, str]]:
    """What is to be measured, a module once; of those named, if any are."""
    have = known(tables)
    of_stale = {module for module, table in tables.items() if any(r[1] != digest_of(module) for r in table["rows"])}
    number = {module: len(table["rows"]) for module, table in tables.items()}
    for draw in draws:
        kind, seed = draw.split()
        for item in items_of(kind, int(seed), family):
            module = item.instance.module
            if item.generated is not None or (again and module not in of_stale) or (only and module not in only):
                continue
            identity = (module, json.dumps(parameters_of(item, family), sort_keys=True))
            if identity in have or cost_of(module, item.parameters, family).lut > LARGEST:
                continue
            if not again and module in COMMON and number.get(module, 0) >= ENOUGH:
                continue
            have.add(identity)
            number[module] = number.get(module, 0) + 1
            yield item, draw


def named_of(table: Mapping[str, Any], row: Sequence[Any]) -> dict[str, Any]:
    """The parameters of a row, by name."""
    return {n: v for n, v in zip(table["parameters"], row[3], strict=False) if v is not None}


def far_off(module: str, table: Mapping[str, Any], row: Sequence[Any], family: str) -> float:
    """How far the look-up tables and flip-flops of a row are from what is estimated, as a share of them."""
    if module not in STRUCTURES:
        return 0.0
    estimate = cost_of(module, named_of(table, row), family)
    lut, ff = row[2][:2]
    return max(abs(estimate.lut - lut) / max(lut, 1), abs(estimate.ff - ff) / max(ff, 1))


def confirm(tables: Tables, family: str, work: Path, path: Path) -> None:
    """Measure some rows of each module that has others' sources; all the same, and all of them are as they were."""
    for module, table in tables.items():
        old = [row for row in table["rows"] if row[1] != digest_of(module)]
        sample: list[tuple[Item, Any]] = []
        spread = old[:: max(1, len(old) // SAMPLE)]
        others = sorted((row for row in old if row not in spread), key=lambda row: far_off(module, table, row, family))
        for row in spread + others[-SAMPLE:]:
            kind, seed = row[0].split()
            named = named_of(table, row)
            for item in items_of(kind, int(seed), family):
                found = parameters_of(item, family)
                if item.instance.module == module and all(found.get(name) == value for name, value in named.items()):
                    sample.append((item, row))
                    break
        if not sample:
            if old:
                print(f"{family}: no draw has {module} as it was", flush=True)
            continue
        counts = measure([item for item, _ in sample], family, work)
        other = [
            f"{row[0]}: {row[2]}, now {[found[column] for column in COLUMNS]}"
            for (_, row), found in zip(sample, counts, strict=True)
            if row[2] != [found[column] for column in COLUMNS]
        ]
        if other:
            print(f"{family}: {module} is not as it was: {'; '.join(other)}", flush=True)
            continue
        for row in old:
            row[1] = digest_of(module)
        write(path, tables)
        print(f"{family}: {len(sample)} of {len(old)} rows of {module} are as they were", flush=True)


def forget(tables: Tables, only: frozenset[str]) -> None:
    """Take out rows of modules that no draw has any more; of those named, if any are."""
    for module, table in tables.items():
        if not only or module in only:
            table["rows"] = [row for row in table["rows"] if row[1] == digest_of(module)]


def run(batch: list[tuple[Item, str]], family: str, tables: Tables, work: Path, path: Path) -> None:
    """Measure a batch; one that fails is halved until it is known which module it was."""
    if not batch:
        return
    try:
        counts = measure([item for item, _ in batch], family, work)
    except ToolError as error:
        if len(batch) == 1:
            print(f"{family} {batch[0][1]}: {batch[0][0].instance.module} cannot be mapped: {error}", flush=True)
            return
        half = len(batch) // 2
        run(batch[:half], family, tables, work, path)
        run(batch[half:], family, tables, work, path)
        return
    for (item, draw), found in zip(batch, counts, strict=True):
        add(tables, item, family, draw, found)
    write(path, tables)
    print(f"{family}: {len(batch)} modules, {sum(len(t['rows']) for t in tables.values())} rows", flush=True)


def main() -> int:
    """Draw, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="where Yosys works")
    parser.add_argument("--out", type=Path, default=FOLDER, help="where the tables are")
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seeds", default="0:1", help="first and last + 1")
    parser.add_argument("--modules", default="", help="only these (all)")
    parser.add_argument("--stale", action="store_true", help="only what has rows of other sources")
    parser.add_argument("--confirm", action="store_true", help="whether such rows are as they were, by a sample")
    arguments = parser.parse_args()
    first, last = (int(number) for number in arguments.seeds.split(":"))
    kinds, families = arguments.kinds.split(","), arguments.families.split(",")
    only = frozenset(filter(None, arguments.modules.split(",")))
    paths = {family: arguments.out / f"{family}.json" for family in families}
    tables = {family: read(paths[family]) for family in families}
    if arguments.confirm:
        for family in families:
            confirm(tables[family], family, arguments.work / family, paths[family])
        return 0
    pending: dict[str, list[tuple[Item, str]]] = defaultdict(list)
    streams = {
        family: wanted(
            tables[family],
            family,
            sorted(stale(tables[family]))
            if arguments.stale
            else [f"{k} {s}" for s in range(first, last) for k in kinds],
            arguments.stale,
            only,
        )
        for family in families
    }
    while streams:
        for family in list(streams):
            for found in streams[family]:
                pending[family].append(found)
                if len(pending[family]) == BATCH:
                    break
            else:
                del streams[family]
            run(pending.pop(family, []), family, tables[family], arguments.work / family, paths[family])
    if arguments.stale:
        for family in families:
            forget(tables[family], only)
            write(paths[family], tables[family])
    return 0


if __name__ == "__main__":
    sys.exit(main())
