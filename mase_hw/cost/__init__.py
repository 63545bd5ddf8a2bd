"""What modules cost on a family of devices, before any tool has seen them.

The *structure* of a module (adders of which widths, registers, memories of which shape) follows from its parameters;
what a unit of each kind costs was fitted to counts of Yosys. ``regress/fit_cost.py`` does that, from the rows in
``regress/cost``; the constants are the JSON files of this folder, one a family.
"""

from mase_hw.cost.devices import RESOURCES, Resources
from mase_hw.cost.model import cost_of, find_family, unsupported

__all__ = ["RESOURCES", "Resources", "cost_of", "find_family", "unsupported"]
