"""From a PyTorch module to an fx graph, with errors that point at the line of the user's model."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.proxy import TraceError
from torch.utils import _pytree as pytree

from mase_hw.catalogue import Catalogue, default_catalogue
from mase_hw.errors import ConfigError, GraphError, MaseHwError, refuse_unknown
from mase_hw.host.user_code import first_line, place, user_code
from mase_hw.host.user_code import reason as reason_of
from mase_hw.ir.custom.ops import custom_targets
from mase_hw.ir.custom.spec import CustomOps
from mase_hw.ir.evaluate import Values
from mase_hw.ir.trace import huggingface
from mase_hw.ir.trace.containers import open_results, open_states
from mase_hw.ir.trace.derived import computes_as
from mase_hw.ir.trace.inplace import follow_writes
from mase_hw.ir.trace.nested import NAMES
from mase_hw.ir.trace.root import as_call, is_opaque
from mase_hw.ir.trace.shapes import SPECIALISED, ShapeAware, drop_questions, recorded, stem


class MaseTracer(fx.Tracer):
    """The fx tracer that stops at ``torch.nn`` layers and at every other module the catalogue has as one op.

    A module is a leaf if it is a ``torch.nn`` layer, if its class says ``mase_leaf = True``, if it is an
    instance of ``custom_leaf_layers``, or if it computes as one of ``leaf_types`` does (a subclass that overrides the
    forward, or what that calls, computes something else, so it is traced).

    Args:
        custom_leaf_modules: Python modules whose functions are not traced into.
        custom_leaf_layers: Module classes that are not traced into.
        custom_leaf_functions: Functions that are not traced into.
        param_shapes_constant: Evaluate shapes of parameters while tracing.
        leaf_types: Module classes of the catalogue.
    """

    unasking: tuple[str, ...] = ("finfo", "iinfo", "tensor")
    """Functions of torch that fail on what is being traced, since they do not ask it for ``__torch_function__``."""

    def __init__(
        self,
        custom_leaf_modules: Sequence[ModuleType] = (),
        custom_leaf_layers: Sequence[type[nn.Module]] = (),
        custom_leaf_functions: Sequence[Callable[..., Any]] = (),
        param_shapes_constant: bool = False,
        leaf_types: Sequence[type[nn.Module]] = (),
    ) -> None:
        self.custom_leaf_modules = tuple(dict.fromkeys(custom_leaf_modules))
        self.custom_leaf_layers = tuple(dict.fromkeys(custom_leaf_layers))
        self.custom_leaf_functions = tuple(dict.fromkeys(custom_leaf_functions))
        self.leaf_types = tuple(dict.fromkeys(leaf_types))
        modules: Any = (
            *self.custom_leaf_modules,
            math,
        )  # fx annotates a one-element tuple, and takes any number
        constant = {"param_shapes_constant": True} if param_shapes_constant else {}  # not every base knows it
        super().__init__(autowrap_modules=modules, autowrap_functions=self.custom_leaf_functions, **constant)

    def trace(self, root: Any, concrete_args: dict[str, object] | None = None) -> fx.Graph:
        """The graph of a model."""
        with recorded(self, torch, *self.unasking):
            return super().trace(root, concrete_args)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether the tracer records a call of the module instead of its inside."""
        return (
            super().is_leaf_module(m, module_qualified_name)
            or bool(getattr(type(m), "mase_leaf", False))
            or isinstance(m, self.custom_leaf_layers)
            or any(computes_as(type(m), t) for t in self.leaf_types)
        )


class ShapeTracer(ShapeAware, MaseTracer):
    """The same, with an example of the inputs whose shapes may steer Python code."""

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> tuple[Any, list[Any]]:
        """The inputs of a model whose tensors are held in containers are those tensors, by name."""
        names = getattr(type(self.root), NAMES, None)
        if names is None:
            return super().create_args_for_root(root_fn, is_module, concrete_args)
        return root_fn, [self.root, *(self.create_proxy("placeholder", name, (), {}) for name in names)]


def trace_torch_module(
    model: nn.Module,
    cf_args: Values | None = None,
    custom_ops: CustomOps | None = None,
    hf_input_names: Sequence[str] | None = None,
    catalogue: Catalogue | None = None,
    share_weights: bool = False,
    example: Values | Sequence[Any] | None = None,
) -> fx.GraphModule:
    """Trace a module into a GraphModule.

    The model is copied once, here: later passes change the copy, never the caller's modules. It is traced in
    evaluation mode, so ``self.training`` is false in the graph; the training flags of its modules are kept.

    Args:
        model: The model; it is not changed.
        cf_args: Arguments of ``forward`` to fix to a value, by name; they are no inputs of the graph any
            more.
        custom_ops: Modules and functions that are leaves, ``{"modules": {MyModule: {...}}}``; what an entry says of
            the op is of no matter to the tracer.
        hf_input_names: Inputs of a Hugging Face model, such as ``["input_ids", "attention_mask"]``; its main
            input if None. All other arguments have their default, without a cache.
        catalogue: Ops whose modules and functions are leaves; the package's own if None.
        share_weights: Copy only the modules and share the tensors of parameters and buffers with ``model``.
        example: Inputs, by name or in order, whose shapes may steer Python code; without it none can.

    Raises:
        GraphError: If the model cannot be copied or traced; names the file and line.
        ConfigError: If ``cf_args`` or ``hf_input_names`` names an argument that ``forward`` does not have, or
            a key of ``custom_ops`` is wrong.
        ToolError: If the model is one of Hugging Face and the fx tracer of transformers is missing.
        UnsupportedError: If ``hf_input_names`` has a cache of keys and values.
    """
    fixed = dict(cf_args or {})
    known = list(inspect.signature(model.forward).parameters)
    for name in fixed:
        message = "cf_args names an argument that the model's forward does not have"
        refuse_unknown(name, known, message, field=f"cf_args.{name}")
    ops = default_catalogue() if catalogue is None else catalogue
    own = custom_targets(custom_ops)
    tracer_type: type[Any] = MaseTracer
    if huggingface.is_model(model):
        tracer_type = huggingface.tracer_class(MaseTracer, huggingface.plan(model, hf_input_names, fixed))
    elif hf_input_names is not None:
        raise ConfigError(
            "hf_input_names is for models of Hugging Face transformers",
            field="hf_input_names",
            got=f"a {type(model).__name__}",
            remedy="leave it out, and fix arguments of forward that are no inputs with cf_args",
        )
    elif example is not None:
        tracer_type = ShapeTracer
    root = private_copy(model, share_weights)
    functions = [f for op in ops for f in op.functions if inspect.isfunction(f) and not _is_torch(f)]
    tracer = tracer_type(
        custom_leaf_layers=[target for kind, target, _ in own if kind == "modules"],
        custom_leaf_functions=[*functions, *(target for kind, target, _ in own if kind == "functions")],
        leaf_types=tuple(m for op in ops for m in op.modules),
    )
    if isinstance(tracer, ShapeAware) and example is not None:
        free = [name for name in known if name not in fixed]
        given = example if isinstance(example, Mapping) else dict(zip(free, example, strict=False))
        tracer.use({**fixed, **given})
    training = [(module, module.training) for module in root.modules()]
    root.eval()
    try:
        if is_opaque(root):
            root, graph = as_call(root, fixed, example)
        else:
            graph = tracer.trace(root, fixed or None)
    except (KeyboardInterrupt, GeneratorExit, MaseHwError):
        raise
    except BaseException as error:  # the model's own code runs here, so anything may come out of it
        raise _untraceable(model, error, huggingface.is_model(model)) from error
    finally:
        for module, flag in training:
            module.training = flag
    _drop_specialised(graph, fixed)
    if isinstance(tracer, ShapeAware):
        drop_questions(graph)
    open_results(graph)
    open_states(graph, root)
    follow_writes(graph, root)
    traced = fx.GraphModule(root, graph, type(model).__name__)
    traced.training = model.training
    if isinstance(tracer, ShapeAware) and tracer.specialised:
        traced.meta[SPECIALISED] = True
    return traced


def private_copy(model: nn.Module, share_weights: bool = False) -> Any:
    """A deep copy of a model; with ``share_weights`` the parameters and buffers stay the caller's tensors."""
    shared = {id(t): t for t in [*model.parameters(), *model.buffers()]} if share_weights else {}
    # What a hook or an earlier call has computed from parameters cannot be copied with its history.
    held = [value for module in model.modules() for value in pytree.tree_leaves(dict(vars(module)))]
    shared |= {id(t): t.detach().clone() for t in held if isinstance(t, Tensor) and not t.is_leaf}
    problem = "the model cannot be copied"
    remedy = "keep only parameters, buffers and plain values as attributes of the modules"
    with user_code(problem, node=type(model).__name__, remedy=remedy):
        made = copy.deepcopy(model, shared)
    _check_copy(model, made, share_weights)
    return made


def _check_copy(model: nn.Module, made: Any, share_weights: bool) -> None:
    """Refuse what a ``__deepcopy__`` of the user's own gives if it is the model itself, or another one."""
    problem = None
    if type(made) is not type(model) and not isinstance(model, fx.GraphModule):
        problem = f"a {type(made).__name__}"
    elif {id(m) for m in model.modules()} & {id(m) for m in made.modules()}:
        problem = "one that shares modules with it"
    elif not share_weights and {id(t) for t in model.parameters()} & {id(t) for t in made.parameters()}:
        problem = "one that shares parameters with it"
    if problem is not None:
        raise GraphError(
            "a copy of the model is no copy",
            node=type(model).__name__,
            got=problem,
            expected=f"an independent {type(model).__name__}",
            remedy="look at __deepcopy__ and __reduce__ of its classes",
        )


def _is_torch(function: Callable[..., Any]) -> bool:
    return (getattr(function, "__module__", None) or "torch").split(".")[0] in (
        "torch",
        "_operator",
        "builtins",
    )


def _untraceable(model: nn.Module, error: BaseException, theirs: bool) -> GraphError:
    """Say where in the user's code tracing stopped, and what to do about it."""
    reason = reason_of(error) if isinstance(error, SystemExit) else first_line(error) or type(error).__name__
    if "__bool__ should return bool" in reason:  # what the tracer of transformers says
        reason = "the value of a tensor decides which way to go"
    symbolic = isinstance(error, TraceError) or "Proxy" in reason or "value of a tensor" in reason
    remedy = (
        "a tensor's value cannot steer Python code, only its shape can: fix an argument of forward with cf_args={...}, "
        "use tensor operations (torch.where), or move the line into a module whose class says mase_leaf = True"
        if symbolic
        else "run the model once with real inputs; if that works, move the line into a module whose class "
        "says mase_leaf = True"
    )
    if theirs:
        remedy += "; other hf_input_names, or attn_implementation='eager' or 'sdpa' in the configuration, may help"
    return GraphError(
        f"the model cannot be traced: {reason}",
        node=place(error) or type(model).__name__,
        got=type(error).__name__,
        expected="a forward that does the same tensor operations for every input",
        remedy=remedy,
    )


def _drop_specialised(graph: fx.Graph, fixed: Values) -> None:
    """Remove what fx leaves of an argument fixed by ``cf_args``: its placeholder and value check."""
    for name in fixed:
        for node in list(graph.nodes):
            if node.op == "placeholder" and stem(str(node.target)) == name:
                _erase_users(graph, node)
                graph.erase_node(node)


def _erase_users(graph: fx.Graph, node: fx.Node) -> None:
    for user in list(node.users):
        _erase_users(graph, user)
        if user in node.users:
            graph.erase_node(user)
