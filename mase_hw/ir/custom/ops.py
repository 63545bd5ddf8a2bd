"""A user's own op: a module class or function with its own SystemVerilog and golden, without editing the package.

``MaseGraph(model, custom_ops={"modules": {MyModule: {...}}})`` turns every entry into an :class:`OpDef` that stands
beside the package's own. An entry either says which op of the catalogue it is ``like`` (same streams and timing, one
SystemVerilog parameter more for every ``config`` argument), or brings all hardware facets itself.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec
from torch import nn

from mase_hw.catalogue import Arithmetic, Catalogue, Hardware, OpDef, Request, default_catalogue
from mase_hw.errors import CatalogueError, ConfigError, UnsupportedError, refuse_unknown, suggest
from mase_hw.formats.attributes import Attributes, attributes_of
from mase_hw.hardware.params import Params, parameter_names
from mase_hw.host.resources import Generated
from mase_hw.ir.custom.files import locate_files
from mase_hw.ir.custom.hls import WRAPPER
from mase_hw.ir.custom.hls_files import hls_op
from mase_hw.ir.custom.spec import CustomOp, CustomOps, Facet, read_entry
from mase_hw.plugins import plugins

_FACETS = ("params", "build", "ports", "arithmetic", "latency")
_IMPLIED = ("ports", "arithmetic")
_OPTIONAL = ("cases", "work", "multipliers", "follows_input", "static", "tied")
Target = type[nn.Module] | Callable[..., Any]


def with_custom_ops(catalogue: Catalogue | None, custom_ops: CustomOps | None) -> Catalogue:
    """A catalogue with a user's ops.

    Args:
        catalogue: What to extend; that of the package, with the ops of plug-ins, if None.
        custom_ops: ``{"modules": {class: entry}, "functions": {function: entry}}``; an entry is a dict of the keys of
            :class:`mase_hw.ir.custom.spec.CustomOp`, or a whole :class:`OpDef`.

    Raises:
        ConfigError: If an entry is incomplete or wrong, or a file is missing.
        CatalogueError: If a name, class, function or SystemVerilog module is taken.
    """
    known = _installed() if catalogue is None else catalogue
    for kind, target, entry in custom_targets(custom_ops):
        where = f"custom_ops.{kind}.{target.__name__}"
        op = entry if isinstance(entry, OpDef) else custom_op(target, entry, known, where)
        known = _added(known, op)
    return known


@functools.cache
def _installed() -> Catalogue:
    """The package's own ops and those of plug-ins."""
    known = default_catalogue()
    for custom_ops in plugins("ops").values():
        known = with_custom_ops(known, custom_ops)
    return known


def custom_targets(custom_ops: CustomOps | None) -> list[tuple[str, Any, Any]]:
    """The modules and functions that ``custom_ops`` names, with their entries: ``(kind, target, entry)``.

    Raises:
        ConfigError: If it is no dict, or a key is wrong.
    """
    found: list[tuple[str, Any, Any]] = []
    if not custom_ops:
        return found
    if not isinstance(custom_ops, Mapping):
        raise ConfigError("custom_ops is not a dict", field="custom_ops", got=type(custom_ops).__name__)
    for key in custom_ops:
        refuse_unknown(key, ("modules", "functions"), "unknown key in custom_ops", field=f"custom_ops.{key}")
    for kind in ("modules", "functions"):
        for target, entry in (custom_ops.get(kind) or {}).items():
            where = f"custom_ops.{kind}.{getattr(target, '__name__', target)}"
            if not callable(target) or (isinstance(target, type) and issubclass(target, nn.Module)) != (
                kind == "modules"
            ):
                expected = "a class derived from torch.nn.Module" if kind == "modules" else "a function"
                raise ConfigError(
                    "custom_ops has the wrong kind of key", field=where, got=repr(target), expected=expected
                )
            found.append((kind, target, entry))
    return found


def _added(known: Catalogue, op: OpDef) -> Catalogue:
    """The catalogue with one more op; two modules of the same name cannot be in one design."""
    if op.hardware is not None and op.hardware.toolchain in ("EXTERNAL", "HLS"):
        for other in known:
            if other.hardware is not None and other.hardware.module == op.hardware.module:
                raise CatalogueError(
                    f"ops {other.name!r} and {op.name!r} both use a SystemVerilog module {op.hardware.module!r}",
                    node=op.name,
                    remedy="rename the module",
                )
    return known.extended([op])


def custom_op(
    target: Target, entry: Mapping[str, object], catalogue: Catalogue | None = None, where: str = ""
) -> OpDef:
    """Make an op of an entry of ``custom_ops``.

    Args:
        target: The module class or function.
        entry: Keys of :class:`CustomOp`.
        catalogue: Where ``like`` is looked up; the package's own if None.
        where: What the entry is called in errors.

    Raises:
        ConfigError: If the entry is incomplete or wrong, or a file is missing.
        CatalogueError: If the SystemVerilog module's name is one of the package's.
    """
    where = where or f"custom_ops.{target.__name__}"
    spec = read_entry(entry, where)
    known = default_catalogue() if catalogue is None else catalogue
    is_module = isinstance(target, type)
    args = _arguments(target, spec, where)
    config = tuple(name for name, kind in args.items() if kind == "config")
    parameters = tuple(name for name, kind in args.items() if kind == "parameter")
    inputs = tuple(f"data_in_{i}" for i, _ in enumerate(k for k in args.values() if k == "data_in"))
    like = _like(spec, known, where)
    op = OpDef(
        name=spec.name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", target.__name__).lower(),
        mase_type="module_related_func" if is_module else "builtin_func",
        modules=(target,) if is_module else (),  # type: ignore[arg-type]
        functions=() if is_module else (target,),
        attributes=config if is_module else (),
        parameters=parameters,
        golden=spec.golden,
        formats=(*inputs, *parameters, "data_out_0"),
        default_out=spec.default_out,
        rounds=spec.default_out is not None,
        finest=like.finest if like is not None else None,
        check=_check(config, spec.check),
        hardware=_hardware(spec, like, config, where),
    )
    return op


def _arguments(target: Target, spec: CustomOp, where: str) -> Mapping[str, str | None]:
    """The kind of every argument, ``data_in`` in the order of the signature."""
    is_module = isinstance(target, type)
    called: Any = target
    signature = inspect.signature(called.forward if is_module else called)
    known = [name for name in signature.parameters if name != "self" or not is_module]
    if spec.args is None:
        required = [n for n in known if signature.parameters[n].default is inspect.Parameter.empty]
        return dict.fromkeys(required, "data_in")
    for name, kind in spec.args.items():
        # Attributes and parameters of a module are not arguments of its forward.
        if kind in ("data_in", None) or not is_module:
            message = "args names an argument that the op does not have"
            refuse_unknown(name, known, message, field=f"{where}.args.{name}")
    first = {name: spec.args[name] for name in known if name in spec.args}
    return first | dict(spec.args)


def _like(spec: CustomOp, known: Catalogue, where: str) -> OpDef | None:
    if spec.like is None:
        # The streams and the arithmetic follow from a record of parameters.
        implied = _IMPLIED if isinstance(spec.params, type) and issubclass(spec.params, Params) else ()
        missing = [facet for facet in _FACETS if facet not in implied and getattr(spec, facet) is None]
        if missing:
            raise ConfigError(
                "hardware facets are missing",
                field=", ".join(f"{where}.{facet}" for facet in missing),
                remedy="give them, or say with 'like' which op of the catalogue has the same streams and timing",
            )
        return None
    op = known.get(spec.like)
    if op is None or op.hardware is None:
        names = [o.name for o in known if o.hardware is not None and o.mase_type]
        raise ConfigError(
            "'like' names no op in hardware", field=f"{where}.like", got=spec.like, remedy=suggest(spec.like, names)
        )
    return op


def _hardware(spec: CustomOp, like: OpDef | None, config: tuple[str, ...], where: str) -> Hardware:
    hls = hls_op(spec, where) if spec.toolchain == "HLS" else None
    if hls is None:
        file, dependence_files = locate_files(
            where, spec.module, spec.toolchain, spec.root, spec.file or f"{spec.module}.sv", spec.dependence_files
        )
    else:
        file, dependence_files = WRAPPER, ()
    own: dict[str, Any] = {
        "module": spec.module,
        "file": file,
        "dependence_files": dependence_files,
        "toolchain": spec.toolchain,
        "root": spec.root.resolve() if spec.root is not None else None,
        # The cases of another op have its parameters, which are not ours.
        "cases": lambda: (),
    }
    if like is not None and like.hardware is not None:
        own |= _with_config(like.hardware, config, where)
    own |= {name: getattr(spec, name) for name in (*_FACETS, *_OPTIONAL) if getattr(spec, name) is not None}
    made = dataclasses.replace(like.hardware, **own) if like is not None and like.hardware else Hardware(**own)
    if hls is None:
        return made

    def generated(node: str, params: Any, a: Arithmetic) -> Generated:
        return hls.generated(node, params, a, made.ports(params))

    return dataclasses.replace(made, generated=generated)


def _with_config(base: Hardware, config: tuple[str, ...], where: str) -> dict[str, Any]:
    """Parameters, their making and their reading, with one more for every ``config`` argument."""
    if not config:
        return {}
    of_record = issubclass(base.params, Params)
    known = parameter_names(cast("type[Params]", base.params)) if of_record else tuple(base.params.__dataclass_fields__)
    for name in config:
        if name.upper() in known:
            raise ConfigError(
                "a config argument is a parameter already", field=f"{where}.args.{name}", got=name.upper()
            )
    title, fields = f"{base.params.__name__}With{len(config)}", [(name.upper(), int) for name in config]
    if of_record:
        params = msgspec.defstruct(title, fields, bases=(base.params,), frozen=True)
    else:
        params = dataclasses.make_dataclass(title, fields, bases=(base.params,), frozen=True)

    def build(request: Request) -> Any:
        plain = base.build(request)
        given: Mapping[str, Any] = request.arithmetic.attributes
        values = {f: getattr(plain, f) for f in (plain.__struct_fields__ if of_record else known)}
        return params(**values, **{name.upper(): int(given[name]) for name in config})

    def arithmetic(p: Any) -> Arithmetic:
        read = base.arithmetic(p)
        own = {n: getattr(p, n.upper()) for n in config}
        return dataclasses.replace(read, attributes=attributes_of({**read.attributes, **own}))

    return {"params": params, "build": build, "arithmetic": arithmetic}


def _check(config: tuple[str, ...], check: Facet) -> Callable[[str, Attributes], None]:
    """A SystemVerilog parameter is a whole number, so every ``config`` argument must be one."""

    def refuse(node: str, attributes: Attributes) -> None:
        for name in config:
            if not isinstance(attributes.get(name), int):
                raise UnsupportedError(
                    "a config argument of a custom op is not a whole number",
                    node=node,
                    field=name,
                    got=repr(attributes.get(name)),
                    expected="an int, which becomes a parameter of the SystemVerilog module",
                )
        if check is not None:
            check(node, attributes)

    return refuse
