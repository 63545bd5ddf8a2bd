"""From a graph with hardware metadata to a bundle: netlist, schedule, rendering, files."""

from mase_hw.deprecation import former_modules

MOVED = {
    "handoff_options": "emit.handoff.options",
    "handoff_ports": "emit.handoff.ports",
    "handoff_readme": "emit.handoff.readme",
}
"""Former name in this package -> present name in ``mase_hw``."""

former_modules(__name__, MOVED)
