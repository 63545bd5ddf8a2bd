"""A network in training: its graph with learned grids, and what becomes of it in the end."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn

from mase_hw.catalogue import Arithmetic
from mase_hw.compiler.float_nodes import FloatNode
from mase_hw.formats import FixedFormat, any_scaled
from mase_hw.formats.attributes import attributes_of
from mase_hw.ir import MaseGraph
from mase_hw.ir.annotate import describe
from mase_hw.ir.copies import copy_graph
from mase_hw.ir.evaluate import Values
from mase_hw.ir.paths import attribute_at
from mase_hw.nn import Quantized, QuantizeInput
from mase_hw.passes.quantize.formats import Decision
from mase_hw.passes.quantize.quantize import DECISIONS, Decisions
from mase_hw.passes.quantize.rewrite import Rewriter
from mase_hw.training.float_op import Trained
from mase_hw.training.freeze import frozen_integers
from mase_hw.training.integers import Function, Grid, LearnedIntegers, grid_of
from mase_hw.training.learned_node import Learned, leaders
from mase_hw.training.learned_step import LearnedScale, LearnedStep
from mase_hw.training.resource import Elements, Resource
from mase_hw.training.resource import learn_widths as give_widths


class TrainingModel(nn.Module):
    """A network whose values are on grids with learned steps; see :func:`mase_hw.training.prepare`.

    It takes and gives what the float model does, and trains in an ordinary loop. With fixed point, call
    :meth:`round_steps` towards the end of the training, then train on for a while: steps are powers of two from there
    on, and what the model computes is what hardware will compute (for ops that are exact in float32). With scaled
    integers there is nothing to round: scales stay real, and are frozen as they are. :meth:`freeze` gives the quantised
    graph.

    Args:
        graph: The quantised graph to begin with.
        floats: The nodes of the float graph by name.
        stored: By node, the nodes that are its parameters, and the name of each.
        functions: Of nodes in whose place another op stands with scaled integers: op and attributes.
        learn_zero_points: Learn the zero points of scaled integers as well.
        learn_widths: Learn the bits of every weight, or of what layers read as well.
    """

    def __init__(
        self,
        graph: MaseGraph,
        floats: Mapping[str, FloatNode],
        stored: Mapping[str, Mapping[str, str]],
        functions: Mapping[str, Function] | None = None,
        *,
        learn_zero_points: bool = False,
        learn_widths: Elements = "",
    ) -> None:
        super().__init__()
        self._graph = [graph]
        self.nodes = nn.ModuleDict()
        """What takes the place of every quantised node, by its name."""
        grids: dict[fx.Node, Grid | None] = {}
        leader, common = leaders(graph), dict[fx.Node, Grid]()
        shared: dict[int, nn.Parameter] = {}
        modules: dict[str, nn.Module] = {}
        copied = fx.Graph()
        places: dict[fx.Node, fx.Node] = {}

        def trained(node: fx.Node, module: Quantized) -> Trained:
            origins = [_origin(arg, floats) for arg in node.args if isinstance(arg, fx.Node)]
            parameters = _trained(module, shared)
            return Trained(module, floats.get(node.name), origins, stored.get(node.name, {}), parameters)

        for node in graph.nodes:
            module = graph.meta_of(node).module
            sources = node.all_input_nodes
            if isinstance(module, QuantizeInput):
                fmt = module.arithmetic.formats["data_out_0"]
                grid = common.get(leader[node]) or grid_of(fmt, learn_zero=learn_zero_points)
                self.nodes[node.name] = grids[node] = common[leader[node]] = grid
            elif isinstance(module, Quantized) and any_scaled(module.arithmetic.formats):
                integers = LearnedIntegers(
                    trained(node, module),
                    before=grids[sources[0]] if sources[0] in grids else _entry(module),
                    enters=sources[0] not in grids,
                    out=common.get(leader[node]),
                    function=(functions or {}).get(node.name),
                    learn_zero=learn_zero_points,
                )
                self.nodes[node.name], grids[node] = integers, integers.grid()
                if integers.out is not None:
                    common[leader[node]] = integers.out
            elif isinstance(module, Quantized):
                before = grids[sources[0]] if sources[0] in grids else _entry(module)
                assert isinstance(before, LearnedStep)  # between the families is a cast
                learned = Learned(trained(node, module), before)
                self.nodes[node.name], grids[node] = learned, learned.grid()
            elif sources and sources[0] in grids and graph.is_implicit(node):
                grids[node] = grids[sources[0]]
            made = copied.node_copy(node, lambda n: places[n])
            places[node] = made
            if node.name in self.nodes:
                made.op, made.target = "call_module", f"nodes.{node.name}"
                modules[f"nodes.{node.name}"] = self.nodes[node.name]
            elif module is not None:
                modules[str(node.target)] = module
        give_widths(graph, dict(self.nodes.items()), learn_widths)
        root = nn.Module()
        root.nodes = self.nodes
        for target, module in modules.items():
            if not target.startswith("nodes."):
                _add(root, target, module)
        for node in graph.nodes:
            if node.op == "get_attr":
                _add(root, str(node.target), attribute_at(graph.model, str(node.target)))
        self.body = fx.GraphModule(root, copied)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """As the float model."""
        return self.body(*args, **kwargs)

    @torch.no_grad()
    def begin(self, inputs: Values) -> None:
        """Start every step from a batch.

        Args:
            inputs: By node of the input.
        """
        steps = [module for module in self.modules() if isinstance(module, LearnedStep)]

        def start(module: nn.Module, given: tuple[Any, ...]) -> None:
            assert isinstance(module, LearnedStep)  # hooks are put on these alone
            module.begin(given[0])

        hooks = [module.register_forward_pre_hook(start) for module in steps]
        names = [node.name for node in self._graph[0].nodes if node.op == "placeholder"]
        training = self.training
        try:
            self.eval()
            self.body(*(inputs[name] for name in names))
        finally:
            self.train(training)
            for hook in hooks:
                hook.remove()

    def steps(self) -> list[nn.Parameter]:
        """The steps that are learned, for an optimiser that gives them a rate of their own."""
        found = [m.step for m in self.modules() if isinstance(m, LearnedStep) and m.learned]
        return found + [p for m in self.modules() if isinstance(m, LearnedScale) for p in m.parameters_learned()]

    def drops(self) -> list[nn.Parameter]:
        """The bits that every element drops, where they are learned, for an optimiser that gives them a rate too."""
        known = [m for m in self.modules() if isinstance(m, LearnedStep | Learned)]
        return [m.drop for m in known if m.drop is not None]

    def resource(self) -> Tensor:
        """What a frame costs: bits times bits of every product of a weight and a number of the data.

        Bits of a weight are those between the first and the last that may be set; a weight that is 0 costs nothing. The
        gradient is that of bits that are dropped; times a factor it is a term of the loss.
        """
        costs = Resource(self.body, self._graph[0])
        costs.run(*[None] * sum(node.op == "placeholder" for node in self._graph[0].nodes))
        return torch.stack([*costs.found.values(), torch.zeros(())]).sum()

    def weights(self) -> list[nn.Parameter]:
        """All other parameters, each once."""
        steps = {id(step) for step in (*self.steps(), *self.drops())}
        return [p for p in self.parameters() if id(p) not in steps and p.requires_grad]

    def round_steps(self) -> None:
        """Round every step to a power of two and stop learning it; train on for the weights to follow.

        Scales of scaled integers stay as they are, and are learned no more.
        """
        for module in self.modules():
            if isinstance(module, LearnedStep):
                module.round_step()
            elif isinstance(module, LearnedScale):
                module.settle()
        for learned in self.nodes.values():
            if isinstance(learned, Learned) and "bias" in learned.steps and "weight" in learned.steps:
                entered = learned.entered[0].format()
                finest = entered.frac_width + learned.step_of("weight").format().frac_width
                learned.step_of("bias").finest = finest

    @torch.no_grad()
    def freeze(self) -> MaseGraph:
        """The quantised graph with the trained parameters, in the formats that were learned.

        Steps that are no powers of two yet are rounded (in a copy: this model is not changed). It goes straight into
        :func:`mase_hw.compile`.

        Raises:
            FormatError: If a step is not positive any more, or a parameter is NaN.
        """
        for module in self.modules():
            if isinstance(module, LearnedStep | LearnedScale):
                module.format()
        old = self._graph[0]
        graph = copy_graph(old)
        known, formats = dict(self.nodes.items()), dict[str, FixedFormat]()
        decided = dict(old.note(DECISIONS, Decisions) or {})
        for node in graph.nodes:
            trained = known.get(node.name)
            sources = node.all_input_nodes
            if isinstance(trained, LearnedStep | LearnedScale):
                formats[node.name] = trained.format()
                name = str(getattr(graph.meta_of(node).module, "input_name", node.name))
                _replace(graph, node, QuantizeInput(formats[node.name], name))
            elif isinstance(trained, Learned | LearnedIntegers):
                given = [formats.get(source.name) for source in sources]
                if isinstance(trained, Learned):
                    module = _frozen(trained, given)
                else:
                    module = frozen_integers(graph, node, trained, given, self._behind(node))
                _replace(graph, node, module)
                formats[node.name] = module.arithmetic.formats["data_out_0"]
                if node.name in decided:
                    decided[node.name] = (_decisions(decided[node.name][0], module), decided[node.name][1])
            elif sources and sources[0].name in formats and graph.is_implicit(node):
                formats[node.name] = formats[sources[0].name]
        for name, trained in known.items():
            if isinstance(trained, Learned | LearnedStep) and trained.drop is not None:
                _drop(graph, name, formats[name], trained.drop)
        graph.meta[DECISIONS] = decided
        graph.fx_graph.lint()
        graph.model.recompile()
        graph.refresh()
        return graph

    def _behind(self, node: fx.Node) -> FixedFormat | None:
        """Format of the requantisation that reads a node alone, unless it is a clamp."""
        users = list(node.users)
        reader = dict(self.nodes.items()).get(users[0].name) if len(users) == 1 else None
        if not isinstance(reader, LearnedIntegers) or reader.ends is not None or reader.out is None:
            return None
        return reader.out.format()


def _entry(module: Quantized) -> Grid:
    """The grid of an input that comes from a node in float."""
    return grid_of(module.arithmetic.formats["data_in_0"])


def _origin(node: fx.Node, floats: Mapping[str, FloatNode]) -> str:
    """The float node whose value a node stands for."""
    while node.name not in floats and node.op == "call_module":
        node = node.all_input_nodes[0]
    return node.name


def _trained(module: Quantized, shared: dict[int, nn.Parameter]) -> dict[str, nn.Parameter]:
    """Copies of a module's parameters; those that several modules share are shared again."""
    found = {}
    for name in module.parameter_names:
        value = getattr(module, name)
        if name == module.op.constant or not value.dtype.is_floating_point:
            continue
        if id(value) not in shared:
            shared[id(value)] = nn.Parameter(value.detach().clone())
        found[name] = shared[id(value)]
    return found


def _frozen(trained: Learned, inputs: list[FixedFormat | None]) -> Quantized:
    """The quantised module with what was learned."""
    old = trained.quantised[0]
    formats = dict(old.arithmetic.formats)
    for index, fmt in enumerate(inputs):
        formats[f"data_in_{index}"] = fmt if fmt is not None else formats[f"data_in_{index}"]
    parameters: dict[str, Tensor] = {name: getattr(old, name).detach().clone() for name in old.parameter_names}
    for name in trained.trained:
        formats[name] = trained.step_of(name).format()
        parameters[name] = nn.Parameter(trained.settled(name))
    if "bias" in trained.trained and "weight" in trained.trained and not trained.step_of("bias").learned:
        finest = formats["data_in_0"].frac_width + formats["weight"].frac_width
        if formats["bias"].frac_width > finest:
            formats["bias"] = dataclasses.replace(formats["bias"], frac_width=finest)
    formats["data_out_0"] = trained.out_format()
    a = old.arithmetic
    made = Quantized(old.op, Arithmetic(formats, a.rounding, a.overflow, a.attributes), parameters)
    made.label = old.label
    made.check_parameters()
    return made


def _drop(graph: MaseGraph, name: str, fmt: FixedFormat, drop: Tensor) -> None:
    """Put behind a node what drops bits of its elements."""
    drops = tuple(int(bits) for bits in drop.detach().round().reshape(-1).tolist())
    if any(drops):
        arithmetic = Arithmetic({"data_in_0": fmt, "data_out_0": fmt}, attributes=attributes_of({"drops": drops}))
        made = Quantized(graph.catalogue["cast"], arithmetic)
        made.label = Rewriter(graph).requantize(graph.node(name), made, "drops")


def _decisions(before: Mapping[str, Decision], module: Quantized) -> dict[str, Decision]:
    """The reasons anew: every format is what training made of it."""
    formats = module.arithmetic.formats
    return {name: Decision(formats[name], "learned in training") for name in before if name in formats}


def _replace(graph: MaseGraph, node: fx.Node, module: nn.Module) -> None:
    graph.model.add_submodule(str(node.target), module)
    if not isinstance(module, Quantized):
        return
    args = graph.meta_of(node).common.args
    if "bias" in args.tensors and "bias" in module.op.parameters and "bias" not in module.parameter_names:
        del args["bias"]  # it only took off what a zero point added
    for name in module.parameter_names:
        if name not in args:
            args[name] = describe(getattr(module, name).detach()).as_parameter()
        if name in args.tensors and name in module.arithmetic.formats:
            args.tensors[name].fmt = module.arithmetic.formats[name]
            args.tensors[name].value = None


def _add(root: nn.Module, path: str, value: Any) -> None:
    *parents, name = path.split(".")
    for parent in parents:
        if not isinstance(getattr(root, parent, None), nn.Module):
            root.add_module(parent, nn.Module())
        root = getattr(root, parent)
    if isinstance(value, nn.Module):
        root.add_module(name, value)
    elif isinstance(value, nn.Parameter):
        root.register_parameter(name, value)
    elif isinstance(value, Tensor):
        root.register_buffer(name, value)
    else:
        setattr(root, name, value)
