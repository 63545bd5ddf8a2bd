"""Tracing Hugging Face models with their own fx tracer, which follows control flow on shapes.

The last transformers with that tracer is 4.57. There it fails on decoders; the differences to it are in
:class:`_Shims`, each with its reason. Nothing of transformers is imported before a model of it is traced.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.func import functional_call

from mase_hw.errors import ConfigError, ToolError, UnsupportedError, refuse_unknown
from mase_hw.ir.evaluate import Values
from mase_hw.ir.trace.inplace import follow_writes, written
from mase_hw.nn.recurrence import linear_recurrence

INSTALL = "pip install 'transformers>=4.57,<5'"


def is_model(model: nn.Module) -> bool:
    """Whether a module is a model of transformers; does not import it."""
    return any(
        c.__name__ == "PreTrainedModel" and c.__module__.startswith("transformers.") for c in type(model).__mro__
    )


@dataclass(frozen=True)
class Call:
    """How ``forward`` is called while tracing.

    Args:
        inputs: Arguments that become inputs of the graph, in the order of the signature.
        fixed: Arguments with a fixed value; all others have their default.
    """

    inputs: tuple[str, ...]
    fixed: Values


def plan(model: nn.Module, names: Sequence[str] | None, fixed: Values) -> Call:
    """Decide which arguments are inputs.

    Without names it is the model's main input. A cache of keys and values is never used: it is no tensor, and an
    accelerator computes whole sequences.

    Raises:
        ConfigError: If a name is no argument of ``forward``, or is fixed as well.
        UnsupportedError: If an input is a cache.
    """
    known = [n for n, p in inspect.signature(model.forward).parameters.items() if p.kind is not p.VAR_KEYWORD]
    wanted = [str(getattr(model, "main_input_name", known[0]))] if names is None else list(dict.fromkeys(names))
    for name in wanted:
        message = "hf_input_names has a name that the model's forward does not have"
        refuse_unknown(name, known, message, field="hf_input_names")
        if name in fixed:
            raise ConfigError("an input of the graph cannot be fixed as well", field=f"cf_args.{name}")
        if name in ("past_key_values", "past_key_value", "cache_params"):
            raise UnsupportedError(
                "a cache of earlier keys and values is no tensor, so it cannot be an input",
                field="hf_input_names",
                got=name,
                remedy="leave it out; the graph then computes the whole sequence",
            )
    if not wanted:
        raise ConfigError("the graph needs at least one input", field="hf_input_names", expected=", ".join(known))
    values = dict(fixed)
    if "use_cache" in known:
        values.setdefault("use_cache", False)
    return Call(tuple(n for n in known if n in wanted), values)


def tracer_class(base: type[fx.Tracer], call: Call) -> type[Any]:
    """The transformers tracer with the leaves of ``base``, tracing one call.

    Raises:
        ToolError: If transformers is missing, or has no fx tracer any more.
    """
    try:
        theirs = importlib.import_module("transformers.utils.fx")
    except ImportError as error:
        try:
            found = f"transformers {importlib.import_module('transformers').__version__}"
        except ImportError:
            found = "no transformers"
        raise ToolError(
            "tracing a Hugging Face model needs the fx tracer of transformers, which version 5 removed",
            node="transformers.utils.fx",
            got=f"{found} ({error})",
            expected="transformers 4.57",
            remedy=f"give an example of the inputs, so that torch.export takes it (any version); or {INSTALL}",
        ) from error
    return type("HuggingFaceTracer", (_Shims, base, theirs.HFTracer), {"call": call, "theirs": theirs})


class _Shims(fx.Tracer):
    """What the transformers tracer lacks; comes before it in the order of methods."""

    call: Call
    theirs: Any
    unasking = ()  # theirs records these itself
    _TORCH_METHODS_TO_PATCH: Sequence[str]

    def trace(self, root: Any, concrete_args: Any = None) -> fx.Graph:
        """Trace ``root``; only the inputs of the call get dummy values."""
        others = inspect.signature(root.forward).parameters.keys() - set(self.call.inputs)
        with replaced(self.theirs, {"_generate_random_int": _sizes(root), "is_fx_tracing": lambda: True}):
            graph = super().trace(root, dict.fromkeys(others))
        follow_writes(graph, root)  # before it, a write looks as if nobody read it
        for node in reversed(graph.nodes):  # left over from decisions that were made while tracing
            if not node.users and node.op not in ("placeholder", "output") and written(node, root) is None:
                graph.erase_node(node)
        return graph

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> tuple[Any, list[Any]]:
        """Call ``forward`` by keywords; its decorators do not stand the positional ``**kwargs`` of fx."""
        proxies = [self.create_proxy("placeholder", name, (), {}) for name in self.call.inputs]

        def forward(root: Any, *inputs: Any) -> Any:
            return root_fn(root, **dict(zip(self.call.inputs, inputs, strict=True)), **self.call.fixed)

        return forward, [self.root, *proxies]

    def create_proxy(
        self,
        kind: str,
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, object],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Any = None,
    ) -> Any:
        """A proxy that knows its shape also where the rules of transformers have none."""
        proxy = super().create_proxy(kind, target, args, kwargs, name, type_expr, proxy_factory_fn)
        if not hasattr(proxy, "_metadata") and kind.startswith("call_"):
            self._disable_module_getattr = self._disable_call_module = True
            with contextlib.suppress(Exception):  # without, only code that asks for the shape fails
                proxy.install_metadata(self._on_meta(kind, target, args, kwargs))
            self._disable_module_getattr = self._disable_call_module = False
        return proxy

    def _on_meta(self, kind: str, target: Any, args: Any, kwargs: Any) -> Any:
        """The result of a call on the meta device."""
        args, kwargs = fx.node.map_aggregate((args, kwargs), self.theirs._proxies_to_metas)
        if kind == "call_function":
            return target(*args, **kwargs)
        if kind == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        layer = self.root.get_submodule(target)
        state = {n: t.to("meta") for n, t in itertools.chain(layer.named_parameters(), layer.named_buffers())}
        return functional_call(layer, state, args, kwargs)

    def iter(self, obj: Any) -> Iterator[Any]:
        """A shape has as many sizes as its tensor has dimensions, so ``(*x.shape[:-1], -1)`` can be unrolled."""
        meta = getattr(obj, "_metadata", None)
        return iter([obj[i] for i in range(len(meta))]) if isinstance(meta, torch.Size) else super().iter(obj)

    @contextlib.contextmanager
    def patch_for_tracing(self, root: Any) -> Iterator[None]:
        """Record constructors of tensors, and undo that whatever happens, which transformers does not after an error.

        Masks are computed by broadcasting, since ``torch.vmap`` takes no proxies; states by one op.
        """
        masks = importlib.import_module("transformers.masking_utils")
        homes = {type(m).__module__ for m in root.modules()} | {masks.__name__, "transformers.modeling_attn_mask_utils"}
        names = self._TORCH_METHODS_TO_PATCH
        wrapped = {name: self.theirs.gen_constructor_wrapper(getattr(torch, name)) for name in names}
        self.patched_torch_methods, self.orig_fns = wrapped, {original for _, original in wrapped.values()}
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(replaced(torch, {name: wrapper for name, (wrapper, _) in wrapped.items()}))
                stack.enter_context(
                    replaced(masks, {"_vmap_for_bhqkv": broadcast, "TransformGetItemToIndex": contextlib.nullcontext})
                )
                stack.enter_context(states_at_once())
                for home in homes:
                    if home in sys.modules and home.split(".")[0] != "torch":
                        stack.enter_context(replaced(sys.modules[home], {"isinstance": _isinstance}))
                yield
        finally:
            self.patched_torch_methods, self.orig_fns = {}, set()


def _sizes(model: Any) -> Callable[..., int]:
    """Sizes of dummy inputs, all different: the same model always gives the same graph."""
    count = itertools.count()

    def size(low: int = 10, high: int = 20, forbidden_values: Sequence[int] | None = None) -> int:
        most = max(1, min(high, int(getattr(model.config, "max_position_embeddings", high))))
        low = min(low, most)
        return most - next(count) % (most - low + 1)

    return size


def _isinstance(value: Any, kinds: Any) -> bool:
    """``isinstance`` as models see it: a proxy of a tensor is a tensor (``isinstance(mask, torch.Tensor)``)."""
    return isinstance(value, kinds) or (
        issubclass(type(value), fx.Proxy)
        and isinstance(getattr(value, "_metadata", None), Tensor)
        and torch.Tensor in (kinds if isinstance(kinds, tuple) else (kinds,))
    )


def broadcast(mask_function: Callable[..., Any], bh_indices: bool = True) -> Callable[..., Any]:
    """A function of single indices as one of index vectors, over all their combinations."""

    def over_all(batch: Any, head: Any, query: Any, key: Any) -> Any:
        sizes = [vector.shape[0] for vector in (batch, head, query, key) if vector is not None]
        query, key = query[:, None], key[None, :]
        if bh_indices:
            batch, head = batch[:, None, None, None], head[None, :, None, None]
        return mask_function(batch, head, query, key).expand(*sizes)

    return over_all


@contextlib.contextmanager
def states_at_once() -> Iterator[None]:
    """Let mixers of Mamba, FalconMamba and Mamba-2 compute their states in one op, and not in a loop over tokens."""
    with contextlib.ExitStack() as stack:
        for name, (kind, method, mixer) in _MIXERS.items():
            module = sys.modules.get(f"transformers.models.{name}.modeling_{name}")
            if module is not None:
                mixers = getattr(module, kind)
                stack.callback(setattr, mixers, method, getattr(mixers, method))
                setattr(mixers, method, mixer)
        yield


def mamba_mixer(self: Any, hidden: Tensor, *_: Any) -> Tensor:
    """``slow_forward`` of Mamba without caches, its loop over tokens as one op; the tensors and the result are its.

    Args:
        self: The mixer; that of FalconMamba has norms besides.
        hidden: Shape ``(N, T, width)``, as the result.
    """
    x, gate = self.in_proj(hidden).chunk(2, -1)
    x = self.act(self.conv1d(x.transpose(1, 2))[..., : hidden.shape[1]]).transpose(1, 2)
    size = self.ssm_state_size
    parts = torch.split(self.x_proj(x), [self.time_step_rank, size, size], -1)
    epsilon = getattr(self, "rms_eps", None)
    ranks, b, c = parts if epsilon is None else (nn.functional.rms_norm(p, p.shape[-1:], eps=epsilon) for p in parts)
    step = nn.functional.softplus(self.dt_proj(ranks))
    decay = torch.exp(step.unsqueeze(-1) * -torch.exp(self.A_log))
    state = linear_recurrence((step * x).unsqueeze(-1) * b.unsqueeze(2), decay)
    y = (state * c.unsqueeze(2)).sum(-1) + x * self.D
    result: Tensor = self.out_proj(y * self.act(gate))
    return result


def mamba2_mixer(self: Any, hidden: Tensor, *_: Any) -> Tensor:
    """``torch_forward`` of Mamba-2 without caches, token by token and not chunk by chunk; the result is its.

    Args:
        self: The mixer.
        hidden: Shape ``(N, T, width)``, as the result.
    """
    heads, groups, size = self.num_heads, self.n_groups, self.ssm_state_size
    gate, x, steps = self.in_proj(hidden).split([self.intermediate_size, self.conv_dim, heads], -1)
    x = self.act(self.conv1d(x.transpose(1, 2))[..., : hidden.shape[1]]).transpose(1, 2)
    x, b, c = x.split([self.intermediate_size, groups * size, groups * size], -1)
    x = x.unflatten(-1, (heads, self.head_dim))
    b, c = (each.unflatten(-1, (groups, size)).repeat_interleave(heads // groups, 2) for each in (b, c))
    step = torch.clamp(nn.functional.softplus(steps + self.dt_bias), *self.time_step_limit)
    decay = torch.exp(step * -torch.exp(self.A_log))
    new = (step.unsqueeze(-1) * x).unsqueeze(-1) * b.unsqueeze(3)
    state = linear_recurrence(new, decay[..., None, None])
    y = (state * c.unsqueeze(3)).sum(-1) + x * self.D.unsqueeze(-1)
    result: Tensor = self.out_proj(self.norm(y.flatten(2), gate))
    return result


_MIXERS: dict[str, tuple[str, str, Callable[..., Tensor]]] = {
    "mamba": ("MambaMixer", "slow_forward", mamba_mixer),
    "falcon_mamba": ("FalconMambaMixer", "slow_forward", mamba_mixer),
    "mamba2": ("Mamba2Mixer", "torch_forward", mamba2_mixer),
}
"""Of models of Hugging Face: the class, its method with a loop over tokens, and what computes the same."""


@contextlib.contextmanager
def replaced(module: Any, values: Values) -> Iterator[None]:
    """Set attributes of a module for a while."""
    before = {name: vars(module)[name] for name in values if name in vars(module)}
    try:
        vars(module).update(values)
        yield
    finally:
        for name in values:
            del vars(module)[name]
        vars(module).update(before)
