"""Keys and values of the products of a netlist, moved to external memory."""

from __future__ import annotations

import dataclasses

from mase_hw.catalogue import Catalogue, verilog_params
from mase_hw.emit.netlist import Instance, Net, Netlist, Pin
from mase_hw.errors import ConfigError, UnsupportedError
from mase_hw.hardware.external import ExternalMemory
from mase_hw.ops.products._cache import AHEAD, CACHE, Cache, delay_of, parameters, smallest_block
from mase_hw.ops.products.matmul import MatmulParams

PRODUCT = "grouped_matmul"
FILES = ("lib/external_cache.sv", "lib/cache_reader.sv", "lib/cache_writer.sv", "lib/external_memory.sv")
ACKNOWLEDGED = 8
"""Cycles between two blocks that are written, besides the latency of the memory."""


def move_caches(netlist: Netlist, catalogue: Catalogue, context: int, memory: ExternalMemory) -> None:
    """Let the rows of every causal product go through external memory.

    FIFOs have been inserted before: a token waits for none behind it, so what is deep enough for tokens that come one
    at a time is so here.

    Args:
        netlist: Of a design that decodes; changed only if nothing is refused.
        catalogue: Where its modules are described.
        context: Tokens of a sequence.
        memory: Where rows are kept.

    Raises:
        ConfigError: If there is nothing to keep there, the context is too short, or the memory too slow.
        UnsupportedError: With sequences in turn, or parameters that are loaded.
    """
    products = [(at, i) for at, i in enumerate(netlist.instances) if i.op == PRODUCT and i.parameters["CAUSAL"]]
    if not products:
        raise ConfigError(
            "nothing of this model keeps keys and values",
            field="decode.cache",
            got="external",
            expected="a model with causal attention",
            remedy="leave decode.cache out",
        )
    other = "decode.slots" if netlist.slot is not None else "hardware.parameters" if _loads(netlist) else ""
    if other:
        raise _inside(
            "keys and values are in external memory for one sequence at a time, and with parameters in ROM",
            got=f"external, with {other}",
            remedy=f"leave {other} or decode.cache out",
        )
    records = [_record(catalogue, instance) for _, instance in products]
    caches = _arranged(records, context, memory)
    delay = delay_of(caches, memory)
    for (at, instance), record, cache in reversed(list(zip(products, records, caches, strict=True))):
        net = netlist.net_into(instance.name, "data_in_1")
        taken = record.streaming()
        given, tied = tuple(taken.streams()), taken.tied()
        streamed = dataclasses.replace(instance, parameters=verilog_params(taken), ports=given, tied=tied)
        words = next(port for port in streamed.ports if port.name == "data_in_1")
        rows = next(port for port in instance.ports if port.name == "data_in_1")
        name = netlist.free(f"{instance.name}_cache")
        ports = (
            dataclasses.replace(rows, name="in_data", valid="in_valid", ready="in_ready"),
            dataclasses.replace(words, name="out_data", valid="out_valid", ready="out_ready", direction="out"),
        )
        moved = Instance(name, CACHE, parameters(cache, delay), ports, instance.node, CACHE)
        netlist.instances[at : at + 1] = [moved, streamed]
        place = netlist.nets.index(net)
        behind = Net(netlist.free(f"{net.name}_cached"), Pin(name, "out_data"), net.sink, ports[1])
        netlist.nets[place : place + 1] = [dataclasses.replace(net, sink=Pin(name, "in_data")), behind]
    netlist.cached = memory
    netlist.add_files(*FILES)
    netlist.verify()


def _loads(netlist: Netlist) -> bool:
    return bool(netlist.loaded) or netlist.outside is not None


def _inside(
    message: str, got: str, node: str | None = None, remedy: str = "leave decode.cache out"
) -> UnsupportedError:
    """The refusal of keys and values that stay on the chip."""
    return UnsupportedError(message, node=node, field="decode.cache", got=got, remedy=remedy)


def _record(catalogue: Catalogue, instance: Instance) -> MatmulParams:
    facets = catalogue[instance.op].hardware
    assert facets is not None  # it is an instance
    record = facets.record(instance.parameters)
    assert isinstance(record, MatmulParams)
    if record.matrices > 1 or record.tokens != record.rows or record.beside != (1, 1):
        raise _inside(
            "keys and values in external memory are those of one sequence per frame, a row for each token",
            node=instance.node,
            got=f"{record.tokens} tokens by {record.rows} rows, {record.matrices} times, {record.beside[0]} in a beat",
        )
    return record


def _arranged(records: list[MatmulParams], context: int, memory: ExternalMemory) -> list[Cache]:
    """The caches with the smallest blocks that are written in time, one behind the other in memory.

    A block is written while a product meets the tokens of the next one, but for two: a step in each cycle at most, and
    they see a block of rows at least. All caches may have a block at the same time.
    """
    rows = smallest_block([record.schedule for record in records])
    while 2 * rows < context:
        caches: list[Cache] = []
        base = 0
        for record in records:
            schedule = dataclasses.replace(record.schedule, capacity=0)
            width = record.data_in_1.lanes[0] * record.data_in_1.fmt.width
            caches.append(Cache(schedule, width, rows // schedule.banks, memory.bits, base))
            base += caches[-1].size
        least = min(each.schedule.heads * each.schedule.words * each.block for each in caches)
        if (rows - AHEAD + 1) * least >= sum(each.written + memory.latency + ACKNOWLEDGED for each in caches):
            return caches
        rows *= 2
    raise ConfigError(
        "keys and values of this context stay on the chip: two blocks of rows are kept there, so long that each is "
        "written while the next one comes",
        field="decode.cache",
        got=f"external, with a context of {context}",
        expected=f"more than {2 * rows} tokens, or faster memory",
        remedy="leave decode.cache out, take a longer context, or a wider word (hardware.external_bytes)",
    )
