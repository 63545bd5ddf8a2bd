"""A checkpoint may come from anybody: whatever stands in it, loading runs nothing. What cannot be kept is refused."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from mase_hw.errors import CheckpointError, GraphError, UnsupportedError
from mase_hw.ir import MaseGraph
from mase_hw.ir.checkpoint.files import hash_of
from mase_hw.passes import verify_analysis_pass
from tests.ir.checkpoints import Small, batch, forge, graph, quantised
from tests.ir.nets import annotated

MARK = "MASE_HW_TEST_INTRUDER"
PAYLOAD = f"__import__('os').environ.update({MARK}='in')"


@pytest.fixture
def stem(tmp_path: Path) -> Path:
    quantised().export(tmp_path / "net")
    return tmp_path / "net"


def node(document: dict[str, Any], name: str) -> dict[str, Any]:
    return next(n for n in document["nodes"] if n["name"] == name)


def tensor(document: dict[str, Any]) -> Any:
    return document["tensors"]["inner.0.weight"]


def inner(document: dict[str, Any]) -> dict[str, Any]:
    return next(m for m in document["modules"] if m["path"] == "inner.0")


def add_node(document: dict[str, Any], **fields: Any) -> None:
    document["nodes"].insert(1, {"name": "evil", "args": [{"$node": "x"}], "kwargs": {}, **fields})


FORGERIES: dict[str, Callable[[dict[str, Any]], object]] = {
    "method that is code": lambda d: node(d, "flatten").update(target=f"flatten; {PAYLOAD}; x.flatten"),
    "method out of the table": lambda d: node(d, "flatten").update(target="__reduce_ex__"),
    "function by path": lambda d: add_node(d, op="call_function", target="os.system", args=["true"]),
    "function by builtin": lambda d: add_node(d, op="call_function", target="eval:builtins.eval", args=[PAYLOAD]),
    "private attribute": lambda d: add_node(
        d, op="call_function", target="getattr:builtins.getattr", args=[{"$node": "x"}, "__class__"]
    ),
    "input that is code": lambda d: node(d, "x").update(target=f"x={PAYLOAD}"),
    "node name that is code": lambda d: node(d, "flatten").update(name=f"flatten={PAYLOAD};y"),
    "keyword that is code": lambda d: node(d, "flatten").update(kwargs={f"start_dim=1); {PAYLOAD}; (a": 1}),
    "path that is code": lambda d: node(d, "relu").update(target=f'relu"); {PAYLOAD}; ("'),
    "module path that is code": lambda d: inner(d).update(path=f'inner"); {PAYLOAD}; ("'),
    "state name that is code": lambda d: d["state"][0].update(name=f'a"); {PAYLOAD}; ("'),
    "class by path": lambda d: inner(d).update(kind="subprocess.Popen", arguments={"args": ["true"]}),
    "class out of the catalogue": lambda d: inner(d).update(kind="torch.nn.modules.container.Sequential", arguments={}),
    "argument of no constructor": lambda d: inner(d).update(
        kind="torch.nn.modules.linear.Linear", arguments={"in_features": 1, "out_features": 1, "device": "cpu"}
    ),
    "argument of the wrong kind": lambda d: inner(d).update(
        kind="torch.nn.modules.linear.Linear", arguments={"in_features": "12", "out_features": []}
    ),
    "tensor that does not fit its module": lambda d: inner(d).update(
        kind="torch.nn.modules.linear.Linear", arguments={"in_features": 12, "out_features": 10**12}
    ),
    "quantised op of nothing": lambda d: inner(d)["arguments"].update(op="flatten"),
    "formats that are none": lambda d: inner(d)["arguments"].update(formats={"data_out_0": 3}),
    "format too wide": lambda d: inner(d)["arguments"].update(formats={"data_out_0": {"$format": [10**9, 0, True]}}),
    "unknown kind of value": lambda d: node(d, "flatten").update(args=[{"$eval": PAYLOAD}]),
    "two kinds of value": lambda d: node(d, "flatten").update(args=[{"$node": "x", "$tuple": []}]),
    "value that is none": lambda d: node(d, "flatten").update(args=[{"$tuple": 3}]),
    "a later node as argument": lambda d: node(d, "flatten").update(args=[{"$node": "relu"}]),
    "tensor that is not there": lambda d: node(d, "flatten").update(args=[{"$tensor": "nothing"}]),
    "node twice": lambda d: d["nodes"].insert(1, dict(node(d, "x"))),
    "no output": lambda d: d["nodes"].pop(),
    "nothing after the output": lambda d: d["nodes"].insert(0, d["nodes"].pop()),
    "unknown operation": lambda d: node(d, "flatten").update(op="call_anything"),
    "unknown key": lambda d: d.update(extra=1),
    "missing key": lambda d: d.pop("state"),
    "wrong type": lambda d: d.update(nodes={"x": 1}),
    "state that is missing": lambda d: d["state"].pop(0),
    "huge tensor": lambda d: tensor(d).update(shape=[10**9, 10**9], stride=[10**9, 1]),
    "tensor over its record": lambda d: tensor(d).update(stride=[800, 1]),
    "negative strides": lambda d: tensor(d).update(stride=[-8, 1]),
    "record that is not there": lambda d: tensor(d).update(record=999),
    "unknown element type": lambda d: tensor(d).update(dtype="load"),
    "metadata of no node": lambda d: d["metadata"].update(nobody=d["metadata"]["x"]),
    "unknown metadata": lambda d: d["metadata"]["x"]["hardware"].update(anything=1),
    "deep nesting": lambda d: d["cf_args"].update(a=_nested(400)),
}


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"$tuple": [value]}
    return value


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_document(name: str, stem: Path) -> None:
    forge(stem, FORGERIES[name])
    with pytest.raises(CheckpointError) as caught:
        MaseGraph.from_checkpoint(stem)
    assert MARK not in os.environ
    assert str(stem) in str(caught.value)
    assert len(str(caught.value)) < 3000


def test_a_pickle_in_the_tensors_is_not_read(stem: Path) -> None:
    """The file keeps its records, but its pickle would set a mark; everything else is made to fit."""

    class Intruder:
        def __reduce__(self) -> Any:
            return eval, (PAYLOAD,)

    intruder = io.BytesIO()
    torch.save({"weight": Intruder()}, intruder)
    expected = MaseGraph.from_checkpoint(stem).model(batch())
    file, forged = stem.with_name("net.pt"), io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(forged, "w") as new, zipfile.ZipFile(intruder) as evil:
        for info in old.infolist():
            source = evil if info.filename == "archive/data.pkl" else old
            new.writestr(info.filename, source.read(info.filename))
    before = hash_of(file)
    file.write_bytes(forged.getvalue())
    document = stem.with_name("net.mz")
    document.write_text(document.read_text().replace(before, hash_of(file)))
    assert torch.equal(MaseGraph.from_checkpoint(stem).model(batch()), expected)
    assert MARK not in os.environ


def test_a_compressed_record_is_refused(stem: Path) -> None:
    file, forged = stem.with_name("net.pt"), io.BytesIO()
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(forged, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info.filename))
    before = hash_of(file)
    file.write_bytes(forged.getvalue())
    document = stem.with_name("net.mz")
    document.write_text(document.read_text().replace(before, hash_of(file)))
    with pytest.raises(CheckpointError, match="does not fit its record"):
        MaseGraph.from_checkpoint(stem)


def test_missing_metadata_is_made_anew(stem: Path) -> None:
    whole = MaseGraph.from_checkpoint(stem)
    forge(stem, lambda d: [d["metadata"].pop(name) for name in ("inner_0", "flatten", "output")])
    again = MaseGraph.from_checkpoint(stem)
    verify_analysis_pass(again)
    for name in ("inner_0", "flatten", "output"):
        old, new = whole.node(name).meta["mase"].common, again.node(name).meta["mase"].common
        assert (old.mase_op, list(old.args), list(old.results)) == (new.mase_op, list(new.args), list(new.results))
        assert old.results["data_out_0"].shape == new.results["data_out_0"].shape
        assert old.results["data_out_0"].fmt == new.results["data_out_0"].fmt
    # What was there is as it was, values included.
    assert again.node("x").meta["mase"]["common"]["results"]["data_out_0"]["value"] is not None
    bare = MaseGraph.from_checkpoint(stem, propagate_missing_metadata=False)
    assert "mase" not in bare.node("flatten").meta and "mase" in bare.node("x").meta


def test_missing_metadata_without_the_shape_of_an_input(stem: Path) -> None:
    forge(stem, lambda d: d["metadata"].pop("x"))
    with pytest.raises(CheckpointError, match="cannot get any") as caught:
        MaseGraph.from_checkpoint(stem)
    assert "propagate_missing_metadata=False" in str(caught.value.remedy) and "dummy_in" in str(caught.value)
    assert MaseGraph.from_checkpoint(stem, propagate_missing_metadata=False).completed


class Scaled(nn.Linear):
    """Looks like a Linear, computes something else."""

    mase_leaf = True
    mase_op = "linear"

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * 2


def altered() -> nn.Module:
    model = Small()
    model.inner[0].in_features = 11
    return model


def disguised() -> nn.Module:
    layer = nn.Conv2d(3, 4, 3, padding=1)
    layer._reversed_padding_repeated_twice = [0, 0, 0, 0]
    return nn.Sequential(layer)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (altered, r"constructed .*'weight': \[8, 11\]"),
        (disguised, r"twice = .*, constructed with \(1, 1, 1, 1\)"),
    ],
)
def test_models_that_cannot_be_kept(model: Callable[[], nn.Module], message: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=message) as caught:
        MaseGraph(model()).export(tmp_path / "net")
    assert caught.value.node and caught.value.remedy
    assert not list(tmp_path.iterdir())


def test_a_leaf_that_cannot_be_kept_is_left_out(tmp_path: Path) -> None:
    """A custom leaf that cannot be written is left out with a warning that names it."""
    model = nn.Sequential(nn.Linear(12, 12), Scaled(12, 2))
    made = annotated(model, {"input_1": batch().flatten(1)[:, :12]})
    with pytest.warns(UserWarning, match="does not hold module 1 .*class is not in the catalogue"):
        made.export(tmp_path / "net")
    found = MaseGraph.from_checkpoint(tmp_path / "net")
    inputs = torch.randn(3, 12)
    with pytest.raises(GraphError, match="did not hold this module") as caught:
        found.model(inputs)
    assert caught.value.node == "1" and "set_submodule('1', module)" in str(caught.value.remedy)
    assert found.node("_1").meta["mase"] == made.node("_1").meta["mase"]
    mine = Scaled(12, 2)
    mine.load_state_dict(found.modules["1"].state_dict())
    found.model.set_submodule("1", mine)
    found.refresh()
    assert torch.equal(found.model(inputs), model(inputs))
    verify_analysis_pass(found)


def test_what_was_left_out_is_propagated(tmp_path: Path) -> None:
    """A value that cannot be written is left out with a warning, and propagate=True fills what is missing."""
    made = graph()
    before = made.node("linear").meta["mase"]["common"].to_dict()
    made.node("linear").meta["mase"]["common"]["args"]["data_in_0"] = object()
    made.node("linear").meta["mase"]["common"]["mine"] = {"kept": 1, "lost": object()}
    with pytest.warns(UserWarning, match=r"linear: common\.args\.data_in_0 .*linear: common\.mine\.lost"):
        made.export(tmp_path / "net")
    found = MaseGraph.from_checkpoint(tmp_path / "net").node("linear").meta["mase"]["common"]
    assert found["mine"] == {"kept": 1} and list(found["args"]) == list(before["args"])
    del before["args"]["data_in_0"]["value"]
    assert found["args"]["data_in_0"].to_dict() == before["args"]["data_in_0"]
    bare = MaseGraph.from_checkpoint(tmp_path / "net", propagate_missing_metadata=False)
    assert "data_in_0" not in bare.node("linear").meta["mase"]["common"]["args"]


def test_a_module_that_was_patched_in_the_graph(tmp_path: Path) -> None:
    """A patched model is refused before it is a graph; here only its copy is."""
    graph = MaseGraph(Small())
    graph.modules["inner.1"].forward = lambda x: x  # type: ignore[method-assign]
    with pytest.raises(CheckpointError, match="set on the instance"):
        graph.export(tmp_path / "net")
    assert not list(tmp_path.iterdir())


def test_hooks_cannot_be_kept(tmp_path: Path) -> None:
    made = graph()
    made.modules["inner.0"].register_forward_hook(lambda *_: None)
    with pytest.raises(CheckpointError, match="cannot hold hooks") as caught:
        made.export(tmp_path / "net")
    assert caught.value.node == "inner.0" and not list(tmp_path.iterdir())


def test_a_value_that_cannot_be_kept(tmp_path: Path) -> None:
    made = graph()
    made.node("relu").meta["mase"]["software"]["args"]["data_in_0"] = {"seen": [object()]}
    with pytest.warns(UserWarning, match=r"does not hold relu: software.args.data_in_0.seen \(.*object"):
        made.export(tmp_path / "net")
    found = MaseGraph.from_checkpoint(tmp_path / "net").node("relu").meta["mase"]
    assert found["software"]["args"] == {"data_in_0": {}}


def test_an_unknown_op_cannot_be_kept(tmp_path: Path) -> None:
    class Strange(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.linalg.inv(x)

    with pytest.raises(UnsupportedError, match="linalg"):
        MaseGraph(Strange()).export(tmp_path / "net")
    assert not list(tmp_path.iterdir())
