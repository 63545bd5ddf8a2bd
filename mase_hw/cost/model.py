"""The cost of one module: its structure, and what was fitted to counts of Yosys."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

from mase_hw.cost.casts import Parameters, Structure, Terms
from mase_hw.cost.connectors import (
    beat_turn,
    binary,
    elementwise,
    loop_entry,
    loop_exit,
    relu,
    replay_buffer,
    stream_fifo,
    stream_fork,
    stream_reorder,
    stream_repack,
)
from mase_hw.cost.devices import RESOURCES, Kind, Resources
from mase_hw.cost.fabrics import FABRICS
from mase_hw.cost.functions import embedding, function, pieces, requantize
from mase_hw.cost.matrices import external_cache, matmul
from mase_hw.cost.parameters import (
    external_image,
    external_reader,
    external_source,
    frame_gate,
    parameter_load,
    ram_source,
)
from mase_hw.cost.primitives import blocks_of, logic_product, rom, rom_source
from mase_hw.cost.products import conv2d, linear
from mase_hw.cost.rows import block_round, masked_softmax, normalize, softmax
from mase_hw.cost.windows import (
    avg_pool2d,
    concat,
    cut,
    max_pool2d,
    parallel_window,
    prelu,
    reduce,
    upsample_nearest,
    zero_pad2d,
)
from mase_hw.errors import ConfigError, suggest
from mase_hw.hardware.memories import FAMILIES

STRUCTURES: Mapping[str, Structure] = {
    "fixed_linear": linear,
    "fixed_conv2d": conv2d,
    "fixed_relu": relu,
    "fixed_cast": elementwise,
    "fixed_binary": binary,
    "fixed_pieces": pieces,
    "fixed_function": function,
    "fixed_embedding": embedding,
    "fixed_matmul": matmul,
    "fixed_normalize": normalize,
    "fixed_block_round": block_round,
    "fixed_softmax": softmax,
    "fixed_masked_softmax": masked_softmax,
    "fixed_requantize": requantize,
    "fixed_avg_pool2d": avg_pool2d,
    "fixed_max_pool2d": max_pool2d,
    "fixed_reduce": reduce,
    "fixed_concat": concat,
    "fixed_slice": cut,
    "fixed_prelu": prelu,
    "fixed_zero_pad2d": zero_pad2d,
    "fixed_upsample_nearest": upsample_nearest,
    "beat_turn": beat_turn,
    "external_cache": external_cache,
    "external_image": external_image,
    "external_reader": external_reader,
    "external_source": external_source,
    "frame_gate": frame_gate,
    "parameter_load": parameter_load,
    "ram_source": ram_source,
    "replay_buffer": replay_buffer,
    "loop_entry": loop_entry,
    "loop_exit": loop_exit,
    "stream_fifo": stream_fifo,
    "stream_fork": stream_fork,
    "stream_repack": stream_repack,
    "stream_reorder": stream_reorder,
    "rom_source": rom_source,
}
"""By module; of any other only what it declares is known."""
_CONSTANTS = Path(__file__).parent
_KEPT = 65536
_MADE = {"ADDER_BITS", "LUTS_6"}
"""Parameters of modules that are made for their constants, which say what these take."""
_FOLDER = "MEM_DIR"
"""In a parameter that is the path of a memory file."""


def kind_of(module: str, parameters: Mapping[str, int | str]) -> Kind:
    """The kind of an instance; of modules that are made for their constants the names do not matter."""
    name = "" if _MADE & parameters.keys() else module
    return name, frozenset(each for each in parameters.items() if _FOLDER not in str(each[1]))


def unsupported(family: str) -> str:
    """Why a family has no cost model; empty if it has one."""
    if family in FABRICS:
        return ""
    if family in FAMILIES:
        return f"no cost model was fitted for {family}: nothing is known of what its logic takes"
    return f"there is no family {family!r}"


def find_family(family: str) -> str:
    """The family, if it has a cost model.

    Raises:
        ConfigError: If it has none, with the reason.
    """
    reason = unsupported(family)
    if reason:
        raise ConfigError(
            reason,
            field="family",
            got=family,
            expected=f"one of {', '.join(FABRICS)}",
            remedy=suggest(family, FABRICS) if family not in FAMILIES else "synthesise the design to know its area",
        )
    return family


def structure_of(module: str, parameters: Mapping[str, int | str], family: str) -> Terms:
    """What a module is built of.

    Args:
        module: One of :data:`STRUCTURES`.
        parameters: Its SystemVerilog parameters.
        family: A family with a model.
    """
    terms = Terms(family)
    STRUCTURES[module](terms, cast(Parameters, parameters))
    return terms


def cost_of(
    module: str,
    parameters: Mapping[str, int | str],
    family: str,
    *,
    multipliers: int = 0,
    memories: Iterable[tuple[int, int]] = (),
) -> Resources:
    """What one instance of a module takes.

    Args:
        module: Name of the SystemVerilog module, of an op or of what stands between them.
        parameters: Its parameters as they are instantiated: those of an instance in a netlist or a manifest.
        family: A family with a model; see :func:`unsupported`.
        multipliers: How many the op declares; counted where the module has no structure, a block for each.
        memories: Words and bits of each that the op declares inside; counted in the same case.

    Returns:
        Counts of cells as Yosys maps them. Of a module without a structure, or without a fitted unit for the family,
        they are what is known at least, and it is named among ``not_estimated``.

    Raises:
        ConfigError: If there is no model of the family.
    """
    if module in STRUCTURES or _MADE & set(parameters):
        return _cost(module, tuple(parameters.items()), family)
    find_family(family)
    terms = Terms(family)
    terms.count(dsp=multipliers)
    for words, bits in memories:
        rom(terms, "declared", words, bits, 1)
    return Resources(dsp=round(terms.known["dsp"]), bram=round(terms.known["bram"]), not_estimated=(module,))


@functools.lru_cache(maxsize=_KEPT)
def _cost(module: str, parameters: tuple[tuple[str, int | str], ...], family: str) -> Resources:
    find_family(family)
    if _MADE & dict(parameters).keys():
        return _made(module, cast(Parameters, dict(parameters)), family)
    terms = structure_of(module, dict(parameters), family)
    units = constants(family).get(module)
    if units is None:
        least = {name: max(round(terms.known[name]), 0) for name in RESOURCES}
        return Resources(**least, not_estimated=(module,))
    return _sum(terms, units)


def _sum(terms: Terms, units: Mapping[str, Mapping[str, float]]) -> Resources:
    """What terms of these fitted units come to."""
    sums = {}
    for name in RESOURCES:
        found = units.get(name, {})
        sums[name] = terms.known[name] + sum(found.get(k, 0.0) * v for k, v in getattr(terms, name).items())
    return Resources(**{name: max(round(value), 0) for name, value in sums.items()})


def _made(module: str, p: Parameters, family: str) -> Resources:
    """A module that is made for its constants; what a bit of a result takes is that of some mapped by Yosys."""
    results = p["DATA_OUT_0_PARALLELISM_DIM_0"] * p["DATA_OUT_0_PRECISION_0"]
    if FABRICS[family].gates:
        return Resources(ff=p.get("REGISTER_BITS", 0) + results, not_estimated=(module,))
    xilinx = FABRICS[family].xilinx
    if "LUTS_6" in p:
        made = Resources(p["LUTS_6" if xilinx else "LUTS_4"], results)
        return made + _windows(p, family)
    # Carries alone take look-up tables where these are part of the chain.
    sums, cast = (p["ADDER_BITS"], 2) if xilinx else (p["CARRY_BITS"], 5)
    # Of a whole network the casts are in the expression, and most of them are of few bits.
    chosen = p["CHOSEN_BITS"] * (1 if xilinx else 2) if "CHOSEN_BITS" in p else cast * results
    made = Resources(sums + chosen, p["REGISTER_BITS"] + results)
    return made + _products(p, family) + _windows(p, family)


def _products(p: Parameters, family: str) -> Resources:
    """Products of data, by the bits of their operands: blocks, or look-up tables where there are none for so few."""
    terms = Terms(family)
    for kind in itertools.takewhile(lambda kind: f"PRODUCTS_{kind}" in p, itertools.count()):
        count, first, second = p[f"PRODUCTS_{kind}"], p[f"PRODUCT_BITS_{2 * kind}"], p[f"PRODUCT_BITS_{2 * kind + 1}"]
        blocks = blocks_of(terms, first, second, first + second) if count else 0
        if blocks:
            terms.count(dsp=count * blocks)
        else:
            terms.count(lut=count * logic_product(terms, first, second))
    return Resources(lut=round(terms.known["lut"]), dsp=round(terms.known["dsp"]))


def _windows(p: Parameters, family: str) -> Resources:
    """The line buffer before a module that takes windows, if it has one."""
    if not p.get("LINE_BUFFER_DEPTH", 0):
        return Resources()
    terms = Terms(family)
    parallel_window(terms, p, p["DATA_IN_0_PARALLELISM_DIM_0"] * p["DATA_IN_0_PRECISION_0"], 1, 1, 1)
    return _sum(terms, constants(family)["fixed_conv2d"])


@functools.cache
def constants(name: str) -> dict[str, dict[str, dict[str, float]]]:
    """Fitted units by module, resource and kind of term."""
    text = (_CONSTANTS / f"{name}.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, dict[str, float]]] = json.loads(text)
    return found
