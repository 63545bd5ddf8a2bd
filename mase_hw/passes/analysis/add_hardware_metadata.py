"""Hardware metadata: for every node the RTL module, its parameters, its files and its lanes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, StrictInt
from torch import fx

from mase_hw.catalogue import Arithmetic, Hardware, OpDef, Request, verilog_params
from mase_hw.errors import ConfigError, UnsupportedError, suggest
from mase_hw.formats import FixedFormat
from mase_hw.ir import MaseGraph, TensorMetadata
from mase_hw.passes.base import graph_pass

Lanes = StrictInt | list[StrictInt]


class HardwareArgs(BaseModel):
    """Arguments of ``add_hardware_metadata_analysis_pass``.

    Args:
        max_parallelism: Most lanes along the innermost dimension of any stream (a list names the dimensions,
            innermost first; outer ones must be 1). Each tensor takes the smaller of this and its size.
        parallelism: Lanes by node and tensor, for example ``{"fc1": {"data_in_0": 8, "data_out_0": 4}}``; may
            exceed the maximum.
        device_id: Device the design is for, -1 for the default one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_parallelism: Lanes = 4
    parallelism: dict[str, dict[str, Lanes]] = Field(default_factory=dict)
    device_id: int = -1


def _tuple(lanes: Lanes, field: str) -> tuple[int, ...]:
    values = tuple(lanes) if isinstance(lanes, list) else (lanes,)
    if not values or any(v < 1 for v in values):
        raise ConfigError("parallelism must be at least 1", field=f"hardware.{field}", got=lanes, expected="1 or more")
    if any(v != 1 for v in values[1:]):
        raise ConfigError(
            "only the innermost dimension can be parallel",
            field=f"hardware.{field}",
            got=lanes,
            expected="1 for every value after the first",
        )
    return values


class _Mapper:
    def __init__(self, graph: MaseGraph, args: HardwareArgs) -> None:
        self.graph = graph
        self.args = args
        self.most = _tuple(args.max_parallelism, "max_parallelism")[0]
        self.lanes: dict[str, tuple[int, ...]] = {}
        """Lanes of every node's result, by node name."""
        self.found: dict[str, dict[str, Any]] = {}

    def run(self) -> None:
        self._check_names()
        for node in self.graph.nodes:
            op = self.graph.op_of(node)
            shape_only = not self.graph.meta_of(node).common.results.tensors
            if op is None or self.graph.is_implicit(node) or shape_only:
                self._implicit(node)
            else:
                self._hardware(node, op)
        for node in self.graph.nodes:
            if self.graph.meta_of(node).common.mase_op == "quantize":
                self._boundary(node)
            elif node.op == "placeholder" and not node.users and self.graph.meta_of(node).common.results.tensors:
                raise UnsupportedError(
                    "an input of the model is not used",
                    node=node.name,
                    remedy="remove it from the model's forward, or give its default instead of a tensor",
                )

    def _check_names(self) -> None:
        mapped = {n.name: n for n in self.graph.nodes if (op := self.graph.op_of(n)) is not None and op.hardware}
        for name, tensors in self.args.parallelism.items():
            if name not in mapped:
                raise ConfigError(
                    "parallelism for a node that is not in hardware",
                    field=f"hardware.parallelism.{name}",
                    remedy=suggest(name, mapped),
                )
            common = self.graph.meta_of(mapped[name]).common
            known = {t for t in (*common.args.tensors, *common.results.tensors) if t.startswith("data_")}
            for tensor in tensors:
                if tensor not in known:
                    raise ConfigError(
                        "parallelism for a tensor the node does not have",
                        field=f"hardware.parallelism.{name}.{tensor}",
                        remedy=suggest(tensor, known),
                    )

    def _implicit(self, node: fx.Node) -> None:
        self.found[node.name] = {"is_implicit": True, "device_id": self.args.device_id}
        for producer in node.all_input_nodes:
            if producer.name in self.lanes:
                self.lanes[node.name] = self.lanes[producer.name]
                return

    def _hardware(self, node: fx.Node, op: OpDef) -> None:
        common = self.graph.meta_of(node).common
        tensors = {**common.args.tensors, **common.results.tensors}
        if op.hardware is None:
            raise UnsupportedError(
                f"op {op.name!r} is known but not in hardware",
                node=node.name,
                expected="one of: " + ", ".join(o.name for o in self.graph.catalogue if o.hardware and o.mase_type),
                remedy="replace it in the model, or compile only the part of the model before or after it",
            )
        formats = {name: _format(node, name, tensor) for name, tensor in tensors.items()}
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        parallelism = self._parallelism(node, op.hardware, shapes)
        module = self.graph.meta_of(node).module
        arithmetic = getattr(module, "arithmetic", Arithmetic(formats))
        params = op.hardware.build(Request(node.name, arithmetic, shapes, parallelism))
        latency = op.hardware.latency(params)
        self.lanes[node.name] = parallelism["data_out_0"]
        self.found[node.name] = {
            "is_implicit": False,
            "interface": _interface(common.args, op.hardware),
            "toolchain": op.hardware.toolchain,
            "module": op.hardware.module,
            "device_id": self.args.device_id,
            "dependence_files": list(op.hardware.files),
            "verilog_param": verilog_params(params),
            "max_parallelism": self.args.max_parallelism,
            "parallelism": {s.name: list(s.lane_dims) for s in op.hardware.ports(params)},
            "latency": {"fill": latency.fill, "interval": latency.interval},
        }

    def _parallelism(
        self, node: fx.Node, hardware: Hardware, shapes: Mapping[str, tuple[int, ...]]
    ) -> dict[str, tuple[int, ...]]:
        chosen = self.args.parallelism.get(node.name, {})
        lanes: dict[str, tuple[int, ...]] = {}
        for name, shape in shapes.items():
            if not name.startswith("data_"):
                continue
            size = shape[-1] if shape else 1
            if name in chosen:
                lanes[name] = _tuple(chosen[name], f"parallelism.{node.name}.{name}")
            elif hardware.follows_input and name.startswith("data_out"):
                lanes[name] = lanes["data_in_0"]
            elif hardware.follows_input:
                producers = [self.lanes[n.name] for n in node.all_input_nodes if n.name in self.lanes]
                wanted = chosen.get("data_out_0")
                if wanted is not None:
                    lanes[name] = _tuple(wanted, f"parallelism.{node.name}.data_out_0")
                else:
                    lanes[name] = (min(producers[0][0] if producers else self.most, size),)
            else:
                lanes[name] = (min(self.most, size),)
        if hardware.follows_input and lanes["data_in_0"] != lanes["data_out_0"]:
            raise ConfigError(
                "this op has as many lanes out as in",
                node=node.name,
                field=f"hardware.parallelism.{node.name}",
                got={k: list(v) for k, v in lanes.items()},
                remedy="set only one of data_in_0 and data_out_0, or both to the same number",
            )
        return lanes

    def _boundary(self, node: fx.Node) -> None:
        """An input of the design has the lanes of the first module that reads it."""
        readers, at, leaves = [node], 0, False
        size = (self.graph.tensor(node, "data_out_0").shape[-1:] or [1])[0]
        lanes = self.most
        while at < len(readers):
            found = self.found[readers[at].name]
            if not found["is_implicit"]:
                lanes = next(v for k, v in found["parallelism"].items() if k.startswith("data_in"))[0]
                break
            for user in readers[at].users:
                # Questions about the shape read no data.
                if user.op == "output":
                    leaves = True
                elif user not in readers and self.graph.meta_of(user).common.results.tensors:
                    readers.append(user)
            at += 1
        if at == len(readers) and not leaves:
            raise UnsupportedError(
                "an input goes nowhere in hardware",
                node=node.name,
                remedy="remove the unused input, or quantise what reads it",
            )
        self.found[node.name]["parallelism"] = {"data_out_0": [min(lanes, size)]}


def _format(node: fx.Node, name: str, tensor: TensorMetadata) -> FixedFormat:
    fmt = tensor.fmt
    if fmt is None:
        raise UnsupportedError(
            "the node is in float; hardware needs fixed point",
            node=node.name,
            field=name,
            got=f"{tensor.type} {tensor.precision}",
            expected="type fixed",
            remedy="run quantize_transform_pass with a rule that covers this node",
        )
    return fmt


def _interface(args: Mapping[str, Any], hardware: Hardware) -> dict[str, dict[str, Any]]:
    """What feeds every argument that is not an activation, as MASE lists it."""
    storage = {"storage": "BRAM", "transpose": False}
    return {name: dict(storage) if name in hardware.static else {} for name in args if not name.startswith("data_in_")}


@graph_pass(
    "add_hardware_metadata_analysis_pass",
    args=HardwareArgs,
    needs=("add_common_metadata_analysis_pass", "quantize_transform_pass"),
)
def add_hardware_metadata_analysis_pass(graph: MaseGraph, args: HardwareArgs) -> tuple[MaseGraph, dict[str, Any]]:
    """Choose module, parameters and lanes for every node.

    Returns:
        The same graph, and per node its module, multipliers, cycles a frame and lanes.

    Raises:
        UnsupportedError: A node in float, an op that is not in hardware, an impossible parallelism.
        ConfigError: A parallelism for a node or tensor that does not exist.
    """
    mapper = _Mapper(graph, args)
    mapper.run()
    sources: list[str] = []
    for node in graph.nodes:
        hardware = graph.meta_of(node).hardware
        for key, value in mapper.found[node.name].items():
            setattr(hardware, key, value)
        sources += [file for file in hardware.dependence_files if file not in sources]
    nodes = {name: found for name, found in mapper.found.items() if not found["is_implicit"]}
    return graph, {"nodes": nodes, "verilog_sources": sources}
