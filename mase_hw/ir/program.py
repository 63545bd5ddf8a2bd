"""A quantised graph as a list of prepared steps: the same bits without what only a single module has to ask.

A module on its own cannot know that its input is on the grid, that the next one clamps what it gives, or that nobody
looks at what is between them. A graph does. Called on ordinary float32 tensors on the CPU without gradients, in
evaluation mode and with nobody listening, it runs these steps; in every other case, and whenever a step cannot vouch
for its bits, the generated ``forward`` runs as it would without this file. That its result is the same is tested
against the golden.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn.modules import module as torch_modules
from torch.utils._python_dispatch import _get_current_dispatch_mode

from mase_hw.errors import MaseHwError
from mase_hw.formats import FixedFormat
from mase_hw.ir.annotated import AnnotatedGraph
from mase_hw.ir.evaluate import Values
from mase_hw.ir.paths import module_at
from mase_hw.nn.quantized import Quantized, QuantizeInput, Snapshot, plain
from mase_hw.nn.values import OnValues, enter

Watched = tuple[Quantized | QuantizeInput, Snapshot]


@dataclass
class _Step:
    """One call of a node."""

    node: fx.Node
    source: fx.Node | None
    """The one argument of ``run``; None if the arguments are those of the node."""
    run: Callable[..., Any]
    result: FixedFormat | None = None
    """The format in which the result is known to be."""
    on_values: OnValues | None = None
    """What ``run`` computes, if it is that alone."""
    drop: list[fx.Node] = field(default_factory=list)
    """Values that nobody reads after this step."""


class Program:
    """The steps of one quantised graph.

    Args:
        graph: The graph; its modules are followed, but changes of its nodes need a new program.

    Raises:
        NotStraight: If a node is anything but a quantised module or a renaming of a shape.
    """

    def __init__(self, graph: AnnotatedGraph) -> None:
        self.nodes = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
        self.inputs = [node for node in graph.nodes if node.op == "placeholder"]
        (output,) = [node for node in graph.nodes if node.op == "output"]
        self.result = output.args[0]
        self.modules: dict[str, nn.Module] = {}
        for node in self.nodes:
            _check(graph, node)
            if node.op == "call_module":
                self.modules[str(node.target)] = module_at(graph.model, str(node.target))
        if not any(isinstance(module, Quantized) for module in self.modules.values()):
            raise NotStraight
        self._places = _places(graph.model, self.modules)
        self._kinds = [(module, type(module)) for module in self.modules.values()]
        self._prepared: tuple[list[Watched], list[_Step], list[Callable[[], bool]]] | None = None

    def __call__(self, model: nn.Module, args: tuple[Any, ...], kwargs: Values) -> Any:
        """The result of the graph; None if it must be computed in another way."""
        given = args if not kwargs else self._positional(args, kwargs)
        if given is None or len(given) != len(self.inputs) or not all(map(plain, given)):
            return None
        if model.training or not self._untouched() or _watched():
            return None
        prepared = self._steps()
        if prepared is None:
            return None
        steps, asked = prepared
        for allowed in asked:
            if not allowed():
                return None
        if torch.is_inference_mode_enabled():
            return self._run(steps, given)
        # What is only in between needs no record for gradients; the result is one's own, as outside of this mode.
        with torch.inference_mode():
            found = self._run(steps, given)
        return _ordinary(found) if isinstance(found, Tensor) else fx.node.map_aggregate(found, _ordinary)

    def forget(self) -> None:
        """Look at all parameters again in the next call."""
        self._prepared = None

    def _positional(self, args: tuple[Any, ...], kwargs: Values) -> tuple[Any, ...] | None:
        names = [str(node.target) for node in self.inputs[len(args) :]]
        return (*args, *(kwargs[name] for name in names)) if set(names) == set(kwargs) else None

    def _untouched(self) -> bool:
        """Whether every module is still where it was, does what its class does, and nobody listens."""
        for table, name, module in self._places:
            if table.get(name) is not module:
                return False
        for module, kind in self._kinds:
            if module.__class__ is not kind or module._forward_hooks or module._forward_pre_hooks:
                return False
            if "forward" in module.__dict__ or (module.training and not isinstance(module, Quantized | QuantizeInput)):
                return False
        return True

    def _steps(self) -> tuple[list[_Step], list[Callable[[], bool]]] | None:
        """The steps for the parameters and formats there are now, made anew if they have changed."""
        kept = self._prepared
        if kept is not None and all(snapshot.fits(module) for module, snapshot in kept[0]):
            return kept[1], kept[2]
        try:
            snapshots, steps = self._prepare()
        except MaseHwError:  # the modules one by one say it better
            return None
        asked = {
            s.on_values.allowed: None for s in steps if s.on_values is not None and s.on_values.allowed is not None
        }
        self._prepared = (snapshots, steps, list(asked))
        return steps, list(asked)

    def _prepare(self) -> tuple[list[Watched], list[_Step]]:
        snapshots: list[Watched] = []
        made: dict[fx.Node, _Step] = {}
        for node in self.nodes:
            known = [made[n].result if n in made else None for n in node.all_input_nodes if not _is_number(n)]
            module = self.modules.get(str(node.target)) if node.op == "call_module" else None
            if isinstance(module, Quantized):
                wanted = [module.arithmetic.formats[f"data_in_{i}"] for i in range(len(node.args))]
                run = module.on_values()
                # A module that computes in mantissas looks at its parameters itself.
                snapshots.append((module, Snapshot(module, parameters=run is not None)))
                made[node] = _quantised(node, module, known, wanted, run)
                _merge(made, node)
            elif isinstance(module, QuantizeInput):
                fmt = module.arithmetic.formats["data_out_0"]
                snapshots.append((module, Snapshot(module)))
                made[node] = _Step(node, _only(node), module.forward, fmt)
            else:
                call = _callable(node, module)
                made[node] = _Step(node, _only(node), call, known[0] if len(known) == 1 else None)
        steps = list(made.values())
        _free_early(steps, self.result)
        return snapshots, steps

    def _run(self, steps: list[_Step], given: tuple[Tensor, ...]) -> Any:
        values: dict[fx.Node, Any] = dict(zip(self.inputs, given, strict=True))
        for step in steps:
            if step.source is not None:
                result = step.run(values[step.source])
            else:
                args, kwargs = fx.node.map_arg((step.node.args, step.node.kwargs), values.__getitem__)
                result = step.run(*args, **kwargs)
            if result is None:
                return None
            values[step.node] = result
            for done in step.drop:
                del values[done]
        return values[self.result] if isinstance(self.result, fx.Node) else self._results(values)

    def _results(self, values: Mapping[fx.Node, Any]) -> Any:
        """Several results, as the model returns them."""
        return fx.node.map_arg(self.result, values.__getitem__)


class NotStraight(Exception):
    """A graph has no program; never leaves this file."""


def use_program(graph: AnnotatedGraph) -> None:
    """Let a graph's model run its program where it can; nothing happens to a graph that has none.

    The generated ``forward`` is wrapped, as fx makes it: in the class that every ``GraphModule`` has of its own. So
    ``recompile`` and copies go back to the plain one, and nothing is in the model's state.
    """
    cls = type(graph.model)
    generated = vars(cls).get("forward")
    if generated is None or cls is fx.GraphModule:
        return
    generated = getattr(generated, "__wrapped__", generated)
    cls.forward = generated
    try:
        program = Program(graph)
    except NotStraight:
        return

    @functools.wraps(generated)
    def forward(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled() and not torch.compiler.is_compiling():
            result = program(self, args, kwargs)
            if result is not None:
                return result
        return generated(self, *args, **kwargs)

    forward.mase_program = program  # type: ignore[attr-defined]
    cls.forward = forward


def _check(graph: AnnotatedGraph, node: fx.Node) -> None:
    """Refuse what could write to a tensor, or give other numbers than it is given."""
    if node.op == "call_module":
        module = module_at(graph.model, str(node.target))
        if type(module) in (Quantized, QuantizeInput):
            if node.kwargs or not all(isinstance(arg, fx.Node) for arg in node.args):
                raise NotStraight
            return
    op = graph.op_of(node)
    if op is not None and op.implicit:
        try:
            if op.check is not None:
                op.check(node.name, graph.meta_of(node).common.args.attributes)
        except MaseHwError:
            raise NotStraight from None
        return
    if not _is_number(node):
        raise NotStraight


def _is_number(node: fx.Node) -> bool:
    """Whether a node is about a shape: its sizes and the arithmetic of them, as in ``x.view(x.size(0), -1)``."""
    if node.op == "call_method":
        return node.target == "size"
    if node.op != "call_function":
        return False
    of_shapes = bool(node.all_input_nodes) and all(map(_is_number, node.all_input_nodes))
    return of_shapes or (node.target is getattr and node.args[1] == "shape")


def _only(node: fx.Node) -> fx.Node | None:
    """The argument of a node that has just one."""
    one = node.args[0] if len(node.args) == 1 and not node.kwargs else None
    return one if isinstance(one, fx.Node) else None


def _places(
    model: nn.Module, modules: Mapping[str, nn.Module]
) -> list[tuple[dict[str, nn.Module | None], str, nn.Module]]:
    """Where every module, and every container on the way to it, is looked up."""
    found: dict[tuple[int, str], tuple[dict[str, nn.Module | None], str, nn.Module]] = {}
    for path in modules:
        owner = model
        for name in path.split("."):
            inner = owner._modules[name]
            assert inner is not None  # get_submodule found it
            found[id(owner), name] = (owner._modules, name, inner)
            owner = inner
    return list(found.values())


def _quantised(
    node: fx.Node, module: Quantized, known: list[FixedFormat | None], wanted: list[FixedFormat], run: OnValues | None
) -> _Step:
    result = module.arithmetic.formats["data_out_0"]
    inputs = dict(zip(node.all_input_nodes, known, strict=True))
    given = [inputs[arg] for arg in node.args if isinstance(arg, fx.Node)]
    on_grid = all(fmt == want for fmt, want in zip(given, wanted, strict=True))
    if run is None:
        return _Step(node, None, lambda *tensors: module.in_mantissas(tensors, on_grid), result)
    if on_grid:
        return _Step(node, _only(node), run.compute, result, run)

    def entered(*given: Tensor) -> Tensor | None:
        values = [enter(x, fmt) for x, fmt in zip(given, wanted, strict=True)]
        return None if any(x is None for x in values) else run.compute(*values)

    # Its permission is asked with that of the others.
    return _Step(node, _only(node), entered, result, OnValues(entered, None, run.allowed))


def _merge(made: dict[fx.Node, _Step], node: fx.Node) -> None:
    """Let the step before a ReLU do its work, if nobody else reads that step."""
    before = node.args[0]
    first, after = made.get(before) if isinstance(before, fx.Node) else None, made[node].on_values
    if first is None or len(first.node.users) != 1 or first.on_values is None or after is None:
        return
    both = first.on_values.then(after)
    if both is not None:
        made[first.node] = _Step(first.node, first.source, both.compute, None, both)
        made[node] = _Step(node, first.node, lambda x: x, made[node].result)


def _free_early(steps: list[_Step], result: Any) -> None:
    """Note after which step a value is not needed any more."""
    left = Counter(n for step in steps for n in step.node.all_input_nodes)
    fx.node.map_arg(result, lambda n: left.update([n]))
    for step in steps:
        for node in step.node.all_input_nodes:
            left[node] -= 1
            if not left[node]:
                step.drop.append(node)


def _callable(node: fx.Node, module: nn.Module | None) -> Callable[..., Any]:
    if module is not None:
        return module
    if callable(node.target):
        return node.target
    name = str(node.target)
    return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)


def _watched() -> bool:
    """Whether a hook sees every call of a module or of an operation."""
    if torch_modules._global_forward_hooks or torch_modules._global_forward_pre_hooks:
        return True
    return torch._C._get_tracing_state() is not None or _get_current_dispatch_mode() is not None


def _ordinary(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) and value.is_inference() else value
