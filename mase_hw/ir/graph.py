"""MaseGraph: a traced model whose nodes carry metadata."""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Mapping, Sequence
from typing import Any

from torch import fx, nn
from torch.export import ExportedProgram

from mase_hw.catalogue import Catalogue
from mase_hw.errors import ConfigError, suggest
from mase_hw.ir import annotate, propagate
from mase_hw.ir.annotated import INIT_PASS, AnnotatedGraph
from mase_hw.ir.checkpoint import export, load
from mase_hw.ir.custom.ops import with_custom_ops
from mase_hw.ir.custom.spec import CustomOps
from mase_hw.ir.draw import draw
from mase_hw.ir.evaluate import Values
from mase_hw.ir.export import is_program
from mase_hw.ir.export.by_export import followed, traced_by_export
from mase_hw.ir.export.convert import import_program
from mase_hw.ir.faithful.models import check_model
from mase_hw.ir.faithful.replaced import refuse_hooks, refuse_replaced
from mase_hw.ir.program import use_program
from mase_hw.ir.trace import huggingface
from mase_hw.ir.trace.inplace import follow_writes
from mase_hw.ir.trace.keywords import in_order
from mase_hw.ir.trace.nested import NestedModel
from mase_hw.ir.trace.tracer import private_copy, trace_torch_module

COMMON_PASS = "add_common_metadata_analysis_pass"


class MaseGraph(AnnotatedGraph):
    """A model as a dataflow graph with metadata.

    The model is copied once, on construction; passes change the copy (``graph.model``), never the caller's
    model.

    Args:
        model: An ``nn.Module``, which is traced, an fx ``GraphModule``, an fx ``Graph``, or what ``torch.export``
            makes: an ``ExportedProgram``, or its ``module()``.
        cf_args: Arguments of ``forward`` to fix to a value while tracing.
        custom_ops: A user's own ops, ``{"modules": {MyModule: {...}}}``; see
            :func:`mase_hw.ir.custom.ops.with_custom_ops`.
        hf_input_names: Inputs of a Hugging Face model; its main input if None.
        skip_init_metadata: Construct the graph without metadata, even if ``add_metadata_args`` is given; else every
            node has it, as after ``init_metadata_analysis_pass``.
        add_metadata_args: Arguments of ``add_common_metadata_analysis_pass`` (``dummy_in``, ...); if given,
            the graph is constructed with common metadata as well.
        catalogue: The known ops; the package's own if None.
        share_weights: Copy modules only; parameters and buffers stay the caller's tensors, which saves memory
            as long as nothing trains or writes them.
        example: Inputs by name or in order, whose shapes may steer Python code of the model (``if x.shape[1] == 4``).
            A Hugging Face model is then exported with ``torch.export`` for them, and the example names its inputs.
        root: Of an fx ``Graph``, the module whose layers and parameters it names; its owner if None.

    Raises:
        GraphError: (a ValueError) If ``model`` is none of these, or cannot be traced.
        UnsupportedError: If hooks, or replaced methods of a module, change what it computes.
        ConfigError: If ``custom_ops`` is incomplete or wrong, or one of its files is missing; or ``add_metadata_args``
            lacks an input, or has an unknown key.
    """

    def __init__(
        self,
        model: nn.Module | fx.GraphModule | fx.Graph | ExportedProgram,
        cf_args: Values | None = None,
        custom_ops: CustomOps | None = None,
        hf_input_names: Sequence[str] | None = None,
        skip_init_metadata: bool = False,
        add_metadata_args: Mapping[str, Any] | None = None,
        catalogue: Catalogue | None = None,
        share_weights: bool = False,
        example: Values | Sequence[Any] | None = None,
        root: nn.Module | None = None,
    ) -> None:
        known = with_custom_ops(catalogue, custom_ops)
        if isinstance(model, fx.Graph):
            owner = model.owning_module if root is None else root
            # A copy, so that the caller's graph keeps its owner.
            model = model if owner is None else fx.GraphModule(owner, copy.deepcopy(model))
        elif root is not None:
            raise ConfigError("a root belongs to an fx.Graph", field="root", got=f"a {type(model).__name__}")
        if is_program(model):
            model = import_program(model, known)
        check_model(model)
        assert isinstance(model, nn.Module)  # any other has been refused
        refuse_hooks(model)
        if isinstance(model, fx.GraphModule) and not (cf_args or hf_input_names):
            traced = private_copy(model, share_weights)
            follow_writes(traced.graph, traced)
            traced.recompile()
        elif huggingface.is_model(model) and example is not None:
            traced = traced_by_export(model, cf_args or {}, hf_input_names, known, example, share_weights)
        elif example is not None and not custom_ops and hf_input_names is None:
            traced = followed(model, cf_args or {}, known, example, share_weights)
        else:
            traced = trace_torch_module(model, cf_args, None, hf_input_names, known, share_weights, example)
        in_order(traced)
        refuse_replaced(model, traced.graph)
        super().__init__(traced, known, cf_args)
        self.example = example
        if skip_init_metadata:
            return
        self.init_metadata()
        self.meta["passes"].append(INIT_PASS)
        if add_metadata_args is not None:
            keys = list(inspect.signature(self.add_common_metadata).parameters)
            for key in add_metadata_args.keys() - set(keys):
                raise ConfigError(
                    "an unknown argument of the metadata", field=f"add_metadata_args.{key}", remedy=suggest(key, keys)
                )
            self.add_common_metadata(**add_metadata_args)
            self.meta["passes"].append(COMMON_PASS)

    @property
    def called(self) -> nn.Module:
        """The model as it is called: :attr:`model`, or what takes its inputs in their containers."""
        return self.model if self.nested is None else NestedModel(self.model, self.nested)

    @classmethod
    def from_module(
        cls,
        model: nn.Module,
        cf_args: Values | None = None,
        custom_ops: CustomOps | None = None,
        catalogue: Catalogue | None = None,
        hf_input_names: Sequence[str] | None = None,
    ) -> MaseGraph:
        """Trace a module; the same as the constructor."""
        return cls(model, cf_args, custom_ops, hf_input_names, catalogue=catalogue)

    @classmethod
    def from_checkpoint(
        cls,
        checkpoint: str | os.PathLike[str],
        propagate_missing_metadata: bool = True,
        custom_ops: CustomOps | None = None,
        catalogue: Catalogue | None = None,
    ) -> MaseGraph:
        """Read a graph that :meth:`export` wrote; nothing in the files is executed.

        Args:
            checkpoint: Path of the checkpoint, with or without ``.pt`` or ``.mz``.
            propagate_missing_metadata: Give nodes that have no metadata in the checkpoint, though others have, new
                metadata; else they stay without.
            custom_ops: The custom ops with which the graph was made.
            catalogue: The catalogue with which it was made; the package's own if None.

        Returns:
            The graph, on the CPU, with the metadata and the passes it had.

        Raises:
            CheckpointError: If a file is missing, cut off or changed, the two do not belong together, the version is
                another one, or the graph needs an op or module that is not known here.
        """
        known = with_custom_ops(catalogue, custom_ops)

        def empty() -> MaseGraph:
            return cls(fx.GraphModule({}, fx.Graph()), skip_init_metadata=True, catalogue=known)

        graph = load(empty, checkpoint, propagate_missing_metadata)
        use_program(graph)
        return graph

    def export(self, fname: str | os.PathLike[str] = "masegraph") -> None:
        """Write the graph to ``{fname}.pt`` (tensors) and ``{fname}.mz`` (graph, modules and metadata as JSON).

        Both are replaced at once: an export that dies leaves the older pair, or the newer one, whole. What emission
        made (netlist, bundle) is not part of it. The same graph gives the same bytes.

        Raises:
            CheckpointError: If the graph holds what a checkpoint cannot (hooks, changed modules, unknown kinds of
                values), or the files cannot be written.
            UnsupportedError: If a node is no op of the catalogue.
        """
        export(self, fname)

    def draw(self, file: str | os.PathLike[str] = "mase_graph.svg") -> None:
        """Draw the graph as an SVG: op, shapes, formats, lanes and timing of every node, as far as metadata tells.

        Needs no other program. The same graph gives the same bytes.

        Raises:
            ConfigError: If the name does not end in ``.svg``.
            EmitError: If the file cannot be written.
        """
        draw(self, file)

    def add_common_metadata(
        self,
        dummy_in: Values | None = None,
        add_value: bool | None = None,
        force_device_meta: bool = False,
    ) -> None:
        """Fill the common metadata of every node and of the graph; see the pass of that name."""
        annotate.add_common_metadata(self, dummy_in, add_value, force_device_meta)

    def refresh(self) -> None:
        """Bring metadata in line with the graph after a transform replaced modules.

        Formats are read from modules that have them (``module.arithmetic.formats``) and carried along edges
        and through implicit nodes; first and last nodes of the graph are found anew; the model gets the
        program of its steps (:mod:`mase_hw.ir.program`).
        """
        propagate.carry_formats(self)
        propagate.add_boundary(self)
        use_program(self)
