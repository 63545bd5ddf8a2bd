"""Verification after every pass: whatever test runs a pass also checks the invariants of the graph it leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

from mase_hw.ir import MaseGraph
from mase_hw.ir.graph import COMMON_PASS
from mase_hw.passes import GraphPass, verify_analysis_pass
from mase_hw.passes.base import Info


@contextmanager
def verified_passes() -> Iterator[list[str]]:
    """While it is active, every pass is followed by ``verify_analysis_pass`` as soon as there is common metadata.

    What a pass reports must be JSON. The graph's record of passes is that of the passes called.

    Yields:
        Names of the passes after which the graph was verified, in order.
    """
    run = GraphPass.__call__
    checked: list[str] = []

    def call(self: GraphPass[Any], graph: MaseGraph, args: Mapping[str, Any] | Any = None) -> tuple[MaseGraph, Info]:
        graph, info = run(self, graph, args)
        json.dumps(info)
        if COMMON_PASS in graph.completed and self is not verify_analysis_pass:
            verify_analysis_pass.body(graph, verify_analysis_pass.args())
            checked.append(self.name)
        return graph, info

    with mock.patch.object(GraphPass, "__call__", call):
        yield checked
