"""The cost model: pure, quick, additive, and honest about what it does not know."""

import pytest

from mase_hw.cost import Resources, cost_of, unsupported
from mase_hw.errors import ConfigError
from mase_hw.opdef import verilog_params
from mase_hw.ops import linear

FAMILIES = ("xc7", "xcup", "ecp5")


def test_resources_add_up_and_fit() -> None:
    both = Resources(1, 2, 3, 4) + Resources(10, 20, 30, 40)
    assert both == Resources(11, 22, 33, 44)
    assert both.fits({"lut": 11, "dsp": 33}) and not both.fits({"lut": 10})


@pytest.mark.parametrize("family", FAMILIES)
def test_every_case_of_a_layer_has_a_cost_with_its_multipliers(family: str) -> None:
    facets = linear.OPS[0].hardware
    assert facets is not None
    for case in facets.cases():
        p = case.params
        found = cost_of(facets.module, verilog_params(p), family)
        assert found.lut > 0 and found.ff > 0
        if p.DATA_IN_0_PRECISION_0 == p.WEIGHT_PRECISION_0 == 8:
            assert found.dsp == facets.multipliers(p), case.name


def test_a_family_without_a_model_is_refused_with_the_reason() -> None:
    assert not unsupported("ecp5")
    assert "no cost model" in unsupported("ice40")
    with pytest.raises(ConfigError, match="no cost model was fitted for ice40"):
        cost_of("stream_fork", {"WIDTH": 8, "N": 2}, "ice40")
    with pytest.raises(ConfigError, match="no family 'xc8'"):
        cost_of("stream_fork", {"WIDTH": 8, "N": 2}, "xc8")
