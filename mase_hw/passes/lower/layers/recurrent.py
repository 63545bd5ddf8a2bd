"""Recurrent layers become linear layers and recurrences, which hardware has.

Cells that a model calls itself, once a step, become operations that hardware has.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from mase_hw.errors import UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.ir.annotate import annotate_node
from mase_hw.ir.module_paths import put_inside
from mase_hw.ir.paths import called
from mase_hw.nn.recurrence import GATES, Recurrence
from mase_hw.ops.arithmetic.stored_result import stored_result
from mase_hw.passes.lower.fold_constants import compute, fold_constants
from mase_hw.passes.lower.layers.call import traced_body
from mase_hw.passes.quantize.paths import attribute

RECURRENT = (nn.RNN, nn.GRU, nn.LSTM)


def kind_of(module: nn.RNNBase) -> str:
    """The kind of a layer's recurrences, a key of :data:`~mase_hw.nn.recurrence.GATES`."""
    return str(module.mode).lower()


Results = tuple[Tensor, list[Tensor], list[Tensor | None]]
"""The states of the last layer after every step, the last ones of all, and their cell states, of those wanted."""


class Layers(nn.Module):
    """All layers and directions of a recurrent module, written out; its sequences begin with zeros.

    Args:
        module: The module; its tensors are copied, rows as a :class:`~mase_hw.nn.recurrence.Recurrence` has them.
        batched: Its input has a dimension of sequences.
        cells: Layers and directions, by number, whose last cell states are wanted.
        stored: What sequences begin with and is known, ``h`` and ``c``, as the module takes it.
        sequence: The sequence, if it is known and the same in every frame, where states are data.

    Shapes:
        As the module; the result is ``(output, states, cells)`` with states ``(N, H)``.
    """

    def __init__(
        self,
        module: nn.RNNBase,
        batched: bool = True,
        cells: Collection[int] = (),
        stored: Mapping[str, Tensor] | None = None,
        sequence: Tensor | None = None,
    ) -> None:
        super().__init__()
        self.batched, self.swapped = batched, batched and not module.batch_first
        self.directions = 2 if module.bidirectional else 1
        self.begins = tuple(stored or ())
        self.inputs, self.cells, self.projections = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for layer in range(module.num_layers):
            for direction in range(self.directions):
                suffix = f"l{layer}{'_reverse' if direction else ''}"
                linear, cell = _parts(module, suffix)
                cell.cells = len(self.cells) in cells
                for name, value in (stored or {}).items():
                    begin = value[len(self.cells)].detach().reshape(-1, 1, module.hidden_size)
                    self.register_buffer(f"{name}{len(self.cells)}", begin.clone())
                if sequence is not None and not layer:
                    x = self._in_order(sequence.detach())
                    self.register_buffer(f"x{direction}", linear(torch.flip(x, (1,)) if direction else x).detach())
                self.inputs.append(linear)
                self.cells.append(cell)
                if module.proj_size:
                    self.projections.append(_projection(module, suffix))

    def forward(self, x: Tensor, *begins: Tensor) -> Results:
        """The whole sequence.

        Args:
            x: The input of the module.
            begins: What its sequences begin with, ``h`` before ``c``, beside what is stored.
        """
        x = self._in_order(x)
        given = dict(zip((name for name in "hc" if name not in self.begins), begins, strict=False))
        states, cells = list[Tensor](), list[Tensor | None]()
        for layer in range(len(self.cells) // self.directions):
            found = []
            for direction in range(self.directions):
                at = layer * self.directions + direction
                steps = torch.flip(x, (1,)) if direction else x
                begin = [self._begin(name, at, x, given) for name in "hc" if name in self.begins or name in given]
                known = self._buffers.get(f"x{at}")  # added to zeros of the state, of which there is one in every frame
                sums = self.inputs[at](steps) if known is None else begin[0][..., :1] * 0 + self.get_buffer(f"x{at}")
                h = self.cells[at](sums, *begin)
                wanted = self.cells[at].cells
                cells.append(h[:, -1][:, 1::2] if wanted else None)
                h = h[:, :, 0::2] if wanted else h
                h = self.projections[at](h) if len(self.projections) else h
                states.append(h[:, -1])
                found.append(torch.flip(h, (1,)) if direction else h)
            x = torch.cat(found, -1) if self.directions > 1 else found[0]
        if self.swapped:
            x = x.transpose(0, 1)
        if self.batched:
            return x, states, cells
        alone = [None if c is None else c.squeeze(0) for c in cells]
        return x.squeeze(0), [h.squeeze(0) for h in states], alone

    def _in_order(self, x: Tensor) -> Tensor:
        """A sequence as ``(N, T, I)``."""
        if self.swapped:
            x = x.transpose(0, 1)
        return x if self.batched else x.unsqueeze(0)

    def _begin(self, name: str, at: int, x: Tensor, given: Mapping[str, Tensor]) -> Tensor:
        """What sequences of a layer and direction begin with, ``(N, 1, H)``."""
        if name in given:
            if len(self.cells) == 1:  # of one layer the index would not say which of two dimensions are the frames
                return given[name].reshape(-1, 1, given[name].shape[-1])
            begin = given[name][at]
            return begin.unsqueeze(1) if self.batched else begin.unsqueeze(0).unsqueeze(0)
        return stored_result(x, self.get_buffer(f"{name}{at}"))


def _parts(module: nn.RNNBase, suffix: str) -> tuple[nn.Linear, Recurrence]:
    """Input part and recurrence of one layer and direction."""
    kind, units = kind_of(module), module.hidden_size

    def by_unit(tensor: Tensor) -> Tensor:
        return tensor.detach().reshape(GATES[kind], units, -1).transpose(0, 1).reshape(tensor.shape).clone()

    weight = by_unit(module.get_parameter(f"weight_ih_{suffix}"))
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=module.bias, dtype=weight.dtype, device=weight.device)
    linear.weight = nn.Parameter(weight)
    state: Tensor = module.get_parameter(f"weight_hh_{suffix}")
    if module.proj_size:  # what multiplies the projected state multiplies the state itself
        state = state @ module.get_parameter(f"weight_hr_{suffix}")
    late = None
    if module.bias:
        first, second = (module.get_parameter(f"bias_{part}_{suffix}").detach() for part in ("ih", "hh"))
        if kind == "gru":  # the last third is multiplied by the reset gate, together with the state's part
            late, second = second[-units:].clone(), torch.cat([second[:-units], torch.zeros_like(second[-units:])])
        linear.bias = nn.Parameter(by_unit(first + second))
    return linear, Recurrence(kind, by_unit(state), late)


def _projection(module: nn.RNNBase, suffix: str) -> nn.Linear:
    """What an LSTM of ``proj_size`` makes of its states."""
    weight = module.get_parameter(f"weight_hr_{suffix}").detach().clone()
    made = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=weight.dtype, device=weight.device)
    made.weight = nn.Parameter(weight)
    return made


def lower_recurrent(graph: MaseGraph, node: fx.Node, module: nn.RNNBase) -> None:
    """Write ``nn.RNN``, ``nn.GRU`` or ``nn.LSTM`` as linear layers and recurrences.

    Of every layer and direction the part that depends on the input alone is a linear layer over the whole sequence;
    what is left multiplies the state (:class:`mase_hw.nn.recurrence.Recurrence`). A backward direction flips the
    sequence before and behind, two directions are concatenated, and ``h_n`` are the last states. What nobody reads is
    left out. The two biases of a gate become one. A projection (``proj_size``) is a linear layer behind the states, and
    its product with the weights of the state. Initial states that are stored come from a memory, others are inputs
    of the recurrences, and the last cell states (``c_n``) stand beside the states in the result of those of which they
    are read.

    Args:
        graph: A float graph with common metadata.
        node: A call of the layer.
        module: The layer.

    Raises:
        UnsupportedError: For a state that a layer with a projection begins with, or if the whole result is read at
            once.
    """
    source, begins = _inputs(node)
    names = "hc"[: len(begins)]
    known = {name: _known(graph, begin) for name, begin in zip(names, begins, strict=True)}
    held = {name: value for name, value in known.items() if value is not None}
    if len(held) == len(begins) and not any(bool(value.any()) for value in held.values()):
        held, begins = {}, []  # as without them
    elif module.proj_size and ("h" not in held or bool(held["h"].any())):  # of which state is it the projection?
        got = f"h_0 beside proj_size = {module.proj_size}"
        raise refused(node, "a projected state begins the sequences", got, "h_0 of zeros")
    elif module.proj_size:
        held["h"] = held["h"].new_zeros((*held["h"].shape[:-1], module.hidden_size))
    data = [begin for name, begin in zip(names, begins, strict=False) if name not in held]
    batched = len(graph.tensor(source, "data_out_0").shape) == 3
    count = module.num_layers * (2 if module.bidirectional else 1)
    same = _known(graph, source) if data else None
    wanted = _wanted_cells(node, module, count)
    made = Layers(module, batched, wanted, held, same)
    output, states, cells = inlined(graph, node, [source, *data], made)
    _connect(node, output, states, cells, isinstance(module, nn.LSTM))
    _drop(graph, node)
    annotated(graph, [source, *data])


MADE = frozenset({"zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full"})
"""Functions and methods of which the result does not depend on the numbers of a tensor."""


def _known(graph: MaseGraph, node: fx.Node) -> Tensor | None:
    """What a sequence begins with, if it depends on stored tensors, numbers and the number of sequences alone."""
    values: dict[fx.Node, Any] = {}

    def found(each: fx.Node) -> bool:
        results = graph.meta_of(each).common.results
        if each.op == "get_attr":
            values[each] = attribute(graph.model, str(each.target))
        elif not results.tensors and "data_out_0" in results:
            values[each] = results["data_out_0"].value  # a size
        elif each.op not in ("call_function", "call_method"):
            return False
        else:
            made = getattr(each.target, "__name__", each.target) in MADE
            for source in each.all_input_nodes:
                if not found(source) and not made:
                    return False
                if source not in values:
                    values[source] = torch.zeros(graph.tensor(source, "data_out_0").shape)
            values[each] = compute(graph, each, values)
        return values[each] is not None

    return values[node] if found(node) else None


def _drop(graph: MaseGraph, node: fx.Node) -> None:
    """Erase a node that nobody reads, and what was there for it alone."""
    if node.users or node.op == "placeholder":
        return
    sources = node.all_input_nodes
    graph.fx_graph.erase_node(node)
    for source in sources:
        _drop(graph, source)


def _inputs(node: fx.Node) -> tuple[fx.Node, list[fx.Node]]:
    """The sequence, and what it begins with."""
    source, given = [*node.args, *node.kwargs.values(), None][:2]
    if "input" in node.kwargs:
        source, given = node.kwargs["input"], node.kwargs.get("hx", node.args[0] if node.args else None)
    assert isinstance(source, fx.Node)  # PyTorch takes nothing else
    begins = given if isinstance(given, list | tuple) else [given]
    return source, [each for each in begins if isinstance(each, fx.Node)]


def _wanted_cells(node: fx.Node, module: nn.RNNBase, count: int) -> set[int]:
    """Layers and directions of which the last cell state is read, by number."""
    if not isinstance(module, nn.LSTM):
        return set()
    found: set[int] = set()
    everything = set(range(count))
    for pair in node.users:
        if indexed(pair, node) not in (1, -1):
            found |= everything if indexed(pair, node) is None else set()
            continue
        for part in pair.users:
            index = indexed(part, pair)
            places = [indexed(user, part) for user in part.users] if index in (1, -1) else [None]
            numbers = [place % count for place in places if isinstance(place, int) and -count <= place < count]
            if index not in (0, -2):
                found |= set(numbers) if len(numbers) == len(places) else everything
    return found


def inlined(graph: MaseGraph, node: fx.Node, sources: Sequence[fx.Node], made: nn.Module) -> Any:
    """Put the operations of a module before a node.

    Args:
        graph: A float graph.
        node: The node; the module takes the place of its own, unless others call that as well.
        sources: What the module is called with.
        made: The module, written in layers and functions.

    Returns:
        Its result, with nodes in place of tensors.
    """
    path = str(node.target)
    if [n for n in graph.nodes if n is not node and n.target == path]:
        path = node.name
        while path in graph.modules or hasattr(graph.model, path):
            path += "_"
    graph.model.add_submodule(path, made)
    traced = traced_body(graph, made, len(sources))
    new = dict(zip((n for n in traced.nodes if n.op == "placeholder"), sources, strict=True))
    for each in traced.nodes:
        if each.op == "output":
            return fx.node.map_arg(each.args[0], lambda n: new[n])
        if each.op != "placeholder":
            target = f"{path}.{each.target}" if each.op in ("call_module", "get_attr") else each.target
            args, kwargs = fx.node.map_arg((each.args, each.kwargs), lambda n: new[n])
            with graph.fx_graph.inserting_before(node):
                new[each] = graph.fx_graph.create_node(each.op, target, args, kwargs, name=f"{node.name}_{each.name}")
            put_inside(new[each], node, path, each)
    return None


def _connect(node: fx.Node, output: fx.Node, states: Sequence[fx.Node], cells: Sequence[fx.Node], pairs: bool) -> None:
    """Let everything that read a part of the layer's result read the nodes that stand for it."""
    for user in list(node.users):
        index = indexed(user, node)
        if index == 0:
            user.replace_all_uses_with(output)
        elif index in (1, -1) and not pairs:
            _connect_states(user, states)
            continue
        elif index in (1, -1):
            _connect_pair(user, states, cells)
        else:
            last = tuple(_whole(node, each) for each in ((states, cells) if pairs else (states,)))
            _put(user, node, (output, last if pairs else last[0]))
            continue
        user.graph.erase_node(user)


def _put(user: fx.Node, node: fx.Node, parts: tuple[Any, ...]) -> None:
    """Let the output of the model, or a layer that begins with it, read the parts of a result that is several tensors.

    Raises:
        UnsupportedError: If anything else reads it.
    """
    if user.op not in ("output", "call_module"):
        raise refused(
            node, "several tensors are read at once", user.name, "output, states = layer(x), and one of them used"
        )
    user.args, user.kwargs = fx.node.map_arg((user.args, user.kwargs), lambda each: parts if each is node else each)


def _connect_pair(node: fx.Node, states: Sequence[fx.Node], cells: Sequence[fx.Node]) -> None:
    """The same for ``(h_n, c_n)``; a layer that begins with both reads two tensors then."""
    for user in list(node.users):
        index = indexed(user, node)
        if index in (0, -2):
            _connect_states(user, states)
        elif index in (1, -1):
            _connect_states(user, cells)
        else:
            _put(user, node, tuple(_whole(node, each) for each in (states, cells)))


def _connect_states(node: fx.Node, states: Sequence[fx.Node]) -> None:
    """The same for ``h_n`` or ``c_n``: one state by its number, or all of them."""
    for user in list(node.users):
        index = indexed(user, node)
        if isinstance(index, int) and -len(states) <= index < len(states):
            user.replace_all_uses_with(states[index])
            node.graph.erase_node(user)
    if node.users:
        node.replace_all_uses_with(_whole(node, states))
    node.graph.erase_node(node)


def _whole(node: fx.Node, states: Sequence[fx.Node]) -> fx.Node:
    """All states as one tensor, before a node."""
    with node.graph.inserting_before(node):
        rows = [node.graph.call_function(torch.unsqueeze, (state, 0)) for state in states]
        return rows[0] if len(rows) == 1 else node.graph.call_function(torch.cat, (rows, 0))


def indexed(user: fx.Node, node: fx.Node) -> Any:
    """The index with which a node is read, if that is all."""
    return user.args[1] if user.target is operator.getitem and user.args[0] is node else None


def annotated(graph: MaseGraph, sources: Sequence[fx.Node]) -> None:
    """Leave out new nodes that nobody reads, and give the others common metadata, from running them once."""
    new = [n for n in graph.nodes if n.meta.get("mase") is None]
    for node in reversed(new):
        if not node.users:
            graph.fx_graph.erase_node(node)
    values: dict[fx.Node, Any] = {}
    for source in sources:
        example = graph.meta_of(source).common.results["data_out_0"]
        values[source] = torch.zeros(example.shape, dtype=example.torch_dtype)
    with torch.no_grad():
        for node in [n for n in graph.nodes if n in new]:
            if node.op == "get_attr":
                values[node] = attribute(graph.model, str(node.target))
            else:
                values[node] = called(graph.model, node, lambda n: values[n])
            annotate_node(graph, node, values[node])


def refused(node: fx.Node, problem: str, got: str, expected: str = "a layer without it") -> UnsupportedError:
    """An error that names the layer."""
    return UnsupportedError(
        problem,
        node=node.name,
        got=got,
        expected=expected,
        remedy="change the layer in the model, or compile only the part of the model before or after it",
    )


CELLS = (nn.RNNCell, nn.GRUCell, nn.LSTMCell)


class _Step(nn.Module):
    """One step of a cell. The gates' inputs and states are multiplied together: one exact sum, and one cast of it.

    Args:
        cell: The cell; its tensors are copied.
        states: States it is given: without any they are zeros.
    """

    def __init__(self, cell: nn.RNNCellBase, states: int) -> None:
        super().__init__()
        kinds = zip(CELLS, ("rnn", "gru", "lstm"), strict=True)
        self.kind = next(name for kind, name in kinds if isinstance(cell, kind))
        self.relu = getattr(cell, "nonlinearity", "") == "relu"
        late = isinstance(cell, nn.GRUCell)
        gates = cell.weight_ih.shape[0] - (cell.hidden_size if late else 0)
        weights = [cell.weight_ih, *([cell.weight_hh] if states else [])]
        bias = cell.bias_ih + cell.bias_hh if cell.bias else None
        self.gates = _linear(torch.cat([w[:gates] for w in weights], 1), None if bias is None else bias[:gates])
        if late:
            given, kept = (cell.bias_ih[gates:], cell.bias_hh[gates:]) if cell.bias else (None, None)
            self.new = _linear(cell.weight_ih[gates:], given)
            if states:
                self.kept = _linear(cell.weight_hh[gates:], kept)
            elif kept is not None:
                self.bias = nn.Parameter(kept.detach().clone())

    def forward(self, *data: Tensor) -> Any:
        """The input and the states that are given."""
        return getattr(self, self.kind)(*data)

    def sums(self, x: Tensor, h: Tensor | None) -> Tensor:
        """What goes into the gates."""
        result: Tensor = self.gates(x if h is None else torch.cat((x, h), -1))
        return result

    def rnn(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        """``nn.RNNCell``."""
        return torch.relu(self.sums(x, h)) if self.relu else torch.tanh(self.sums(x, h))

    def gru(self, x: Tensor, h: Tensor | None = None) -> Tensor:
        """``nn.GRUCell``."""
        r, z = torch.sigmoid(self.sums(x, h)).chunk(2, -1)
        new = self.new(x)
        if h is not None:
            new = new + r * self.kept(h)
        elif hasattr(self, "bias"):
            new = new + r * self.bias
        n = torch.tanh(new)
        return n - z * n if h is None else n + z * (h - n)

    def lstm(self, x: Tensor, h: Tensor | None = None, c: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """``nn.LSTMCell``."""
        i, f, g, o = self.sums(x, h).chunk(4, -1)
        new = torch.sigmoid(i) * torch.tanh(g)
        c = new if c is None else torch.sigmoid(f) * c + new
        return torch.sigmoid(o) * torch.tanh(c), c


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    made = nn.Linear(weight.shape[1], weight.shape[0], bias is not None, dtype=weight.dtype, device=weight.device)
    made.weight = nn.Parameter(weight.detach().clone())
    if bias is not None:
        made.bias = nn.Parameter(bias.detach().clone())
    return made


def lower_cell(graph: MaseGraph, node: fx.Node, module: nn.RNNCellBase) -> None:
    """Write a call of ``nn.RNNCell``, ``nn.GRUCell`` or ``nn.LSTMCell`` as linear layers, functions and products.

    Every call has hardware of its own: a sequence belongs into ``nn.RNN`` and its relatives.

    Args:
        graph: A float graph with common metadata.
        node: The call.
        module: The cell.

    Raises:
        UnsupportedError: If the result of an LSTM cell is read in another way than by its two parts.
    """
    source, states = _inputs(node)
    if all(state.op == "get_attr" and not attribute(graph.model, str(state.target)).any() for state in states):
        states = []  # as without them
    sources = [source, *states]
    made = _Step(module, len(states)).train(module.training)
    result = inlined(graph, node, sources, made)
    if isinstance(result, fx.Node):
        node.replace_all_uses_with(result)
    else:
        for user in list(node.users):
            index = indexed(user, node)
            if index not in (0, 1, -1, -2):
                raise refused(node, "the whole result is read at once", user.name, "h, c = cell(...)")
            user.replace_all_uses_with(result[index])
            graph.fx_graph.erase_node(user)
    _drop(graph, node)
    annotated(graph, sources)
    if any(each.op == "get_attr" for each in sources):
        fold_constants(graph)
