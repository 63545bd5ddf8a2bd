"""Models of transformers where the tracer for them is missing; transformers itself is not needed for this test."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
from torch import Tensor, nn

from mase_hw.errors import ToolError
from mase_hw.ir import MaseGraph


class PreTrainedModel(nn.Module):
    __module__ = "transformers.modeling_utils"


class Model(PreTrainedModel):
    __module__ = "somewhere"

    def forward(self, input_ids: Tensor) -> Tensor:
        return input_ids


@pytest.mark.parametrize(("version", "found"), [("5.3.0", "got: transformers 5.3.0"), (None, "got: no transformers")])
def test_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, version: str | None, found: str) -> None:
    package = None if version is None else ModuleType("transformers")
    if package is not None:
        package.__version__ = version
    monkeypatch.setitem(sys.modules, "transformers", package)
    monkeypatch.setitem(sys.modules, "transformers.utils.fx", None)
    with pytest.raises(ToolError) as error:
        MaseGraph(Model(), hf_input_names=["input_ids"])
    message = str(error.value)
    assert found in message and "pip install 'transformers>=4.57,<5'" in message and "give an example" in message
