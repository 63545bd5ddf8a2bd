"""The cost model: pure, quick, additive, and honest about what it does not know."""

import dataclasses
import re
from pathlib import Path
from typing import cast

import pytest

from mase_hw.catalogue import default_catalogue
from mase_hw.cost import Resources, cost_of, unsupported
from mase_hw.cost.casts import Terms, adder, parameters_of
from mase_hw.cost.fabrics import FABRICS, Fabric, product_luts
from mase_hw.cost.model import STRUCTURES, constants
from mase_hw.cost.primitives import blocks_of, soft
from mase_hw.errors import ConfigError
from mase_hw.opdef import Arithmetic, Request, verilog_params
from mase_hw.ops import linear, requantize
from mase_hw.ops.rows import norms

FAMILIES = tuple(FABRICS)


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
        if p.data_in_0.fmt.width == p.weight.fmt.width == 8:
            # Those of look-up tables take no block; a factor of a group takes one for every output lane, of two halves.
            of = FABRICS[family].multiplier
            blocks = 0 if p.multiplication.logic or of.wide < 8 else facets.multipliers(p)
            whole = 0 if of.wide < 8 else 2 if of.half else 1
            assert found.dsp == blocks + whole * p.weight_factors * p.data_out_0.lanes[0], case.name


@pytest.mark.parametrize(
    ("shape", "lanes", "asked", "family", "blocks"),
    [
        ((4, 16), 1, "", "ecp5", 3),  # a square, one for the root, a scaled element
        ((4, 16), 1, "parallel", "ecp5", 8),  # of 20 by 15 bits two, of 21 by 20 bits four
        ((4, 4), 2, "", "ecp5", 6),  # rows of two beats follow too fast for the root to share
        ((4, 16), 1, "", "", 8),  # for no family as it was
    ],
)
def test_blocks_of_a_norm(shape: tuple[int, ...], lanes: int, asked: str, family: str, blocks: int) -> None:
    facets = next(op.hardware for op in norms.OPS if op.name == "rms_norm")
    assert facets is not None
    a = Arithmetic.read("s16.13 s16.13", ("data_in_0", "data_out_0"), {"normalized_shape": shape[-1:], "eps": 1e-5})
    request = Request(
        "n", a, dict.fromkeys(("data_in_0", "data_out_0"), shape), {"data_in_0": (lanes,)}, implementation=asked,
        family=family,
    )  # fmt: skip
    found = cost_of(facets.module, verilog_params(facets.build(request)), "ecp5")
    assert found.dsp == blocks
    with pytest.raises(ConfigError, match="no such implementation of a norm"):
        facets.build(dataclasses.replace(request, implementation="tree"))


MADE = ("fixed_unrolled", "fixed_unrolled_conv", "fixed_tabled", "fixed_tabled_conv", "fixed_frame")


def test_what_has_a_structure_has_constants_and_the_page_names_what_has_none() -> None:
    """So a module of the package is estimated on every family or on none."""
    for family in FAMILIES:
        assert set(constants(family)) == set(STRUCTURES)
    modules = {op.hardware.module for op in default_catalogue() if op.hardware is not None}
    without = {name for name in modules - set(STRUCTURES) if name.startswith("fixed_") and name not in MADE}
    page = (Path(__file__).parents[2] / "docs" / "area.md").read_text(encoding="utf-8")
    section = page.split("## What is not estimated")[1].split("\n## ")[0]
    assert set(re.findall(r"`(fixed_\w+)`", section)) == without
    for module in without:
        assert cost_of(module, {}, "ecp5", multipliers=2) == Resources(dsp=2, not_estimated=(module,))


@pytest.mark.parametrize(
    ("family", "bits", "results", "lut", "ff"),
    [
        ("ecp5", (5016, 6480, 688, 1143), 80, 8010, 1212),
        ("xc7", (31042, 38985, 2512, 18093), 80, 33813, 18095),
        ("xc7", (2811, 4495, 1504, 2319), 64, 3969, 2331),
    ],
    ids=["16_16_16_5", "16_64_32_32_5", "deep_set"],
)
def test_a_network_as_one_expression_is_estimated(
    family: str, bits: tuple[int, ...], results: int, lut: int, ff: int
) -> None:
    """Beside what Yosys 0.23 made of ``benchmarks/throughput.py`` and ``clocks.py``: within a tenth."""
    names = ("ADDER_BITS", "CARRY_BITS", "CHOSEN_BITS", "REGISTER_BITS")
    shape = {"DATA_OUT_0_PARALLELISM_DIM_0": results, "DATA_OUT_0_PRECISION_0": 1}
    found = cost_of("fixed_frame", {**dict(zip(names, bits, strict=True)), **shape}, family)
    assert not found.not_estimated
    assert found.lut == pytest.approx(lut, rel=0.1) and found.ff == pytest.approx(ff, rel=0.1)


@pytest.mark.parametrize(
    ("family", "lut", "dsp"),
    [
        ("xc7", 2 * 20, 3 * 1 + 2),
        ("ecp5", 0, 3 + 2 * 2 + 2),
        ("ice40", 2 * 56, 3 + 2 * 4),
        ("gatemate", 3 * 92 + 2 * 410 + 2 * 56, 0),
    ],
)
def test_products_of_data_are_counted_by_their_bits(family: str, lut: int, dsp: int) -> None:
    """3 of 8 by 6 bits, 2 of 25 by 18 and 2 of 4 by 4: blocks, several parts of one, and look-up tables."""
    names = ("ADDER_BITS", "CARRY_BITS", "CHOSEN_BITS", "REGISTER_BITS", "PRODUCTS_3")
    zeros = dict.fromkeys((*names, "PRODUCT_BITS_6", "PRODUCT_BITS_7"), 0)
    kinds = {"PRODUCTS_0": 3, "PRODUCT_BITS_0": 8, "PRODUCT_BITS_1": 6, "PRODUCTS_1": 2, "PRODUCT_BITS_2": 25}
    kinds |= {"PRODUCT_BITS_3": 18, "PRODUCTS_2": 2, "PRODUCT_BITS_4": 4, "PRODUCT_BITS_5": 4}
    shape = {"DATA_OUT_0_PARALLELISM_DIM_0": 1, "DATA_OUT_0_PRECISION_0": 1}
    found = cost_of("fixed_frame", {**zeros, **kinds, **shape}, family)
    assert (found.lut, found.dsp) == (lut, dsp) and found.ff == 1


def test_a_family_without_a_model_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(cast(dict[str, Fabric], FABRICS), "gowin")
    assert not unsupported("ecp5")
    assert "no cost model" in unsupported("gowin")
    with pytest.raises(ConfigError, match="no cost model was fitted for gowin"):
        cost_of("stream_fork", {"WIDTH": 8, "N": 2}, "gowin")
    with pytest.raises(ConfigError, match="no family 'xc8'"):
        cost_of("stream_fork", {"WIDTH": 8, "N": 2}, "xc8")


@pytest.mark.parametrize(
    ("family", "first", "second", "out", "blocks"),
    [
        ("xc7", 25, 18, 43, 1),
        ("xc7", 18, 25, 43, 1),
        ("xc7", 26, 18, 44, 2),  # 17 bits with a zero above, and 9
        ("xc7", 25, 19, 44, 2),
        ("xc7", 42, 18, 60, 2),
        ("xc7", 43, 18, 61, 3),
        ("xc7", 27, 27, 54, 4),
        ("xc7", 4, 4, 8, 0),
        ("xc7", 5, 4, 9, 1),
        ("xc7", 30, 30, 16, 1),  # what is not read is not multiplied
        ("xc7", 9, 1, 10, 0),
        ("xcup", 27, 18, 45, 1),
        ("xcup", 28, 18, 46, 2),
        ("xcup", 4, 4, 8, 0),
        ("ecp5", 18, 18, 36, 1),
        ("ecp5", 19, 18, 37, 1),  # the bit above is in logic
        ("ecp5", 20, 18, 38, 2),
        ("ecp5", 36, 36, 72, 4),
        ("ecp5", 2, 2, 4, 1),
        ("ecp5", 9, 1, 10, 0),
        ("nexus", 9, 9, 18, 1),  # a half of a block
        ("nexus", 10, 9, 19, 2),
        ("nexus", 18, 18, 36, 2),
        ("nexus", 20, 9, 29, 3),  # 18 bits, which are a block, and 2
        ("nexus", 36, 36, 72, 8),
        ("nexus", 9, 1, 10, 0),
        ("ice40", 16, 16, 32, 1),
        ("ice40", 17, 16, 33, 1),  # the bit above is in logic
        ("ice40", 18, 17, 35, 2),
        ("ice40", 32, 32, 64, 4),
        ("ice40", 5, 5, 10, 0),  # a product of less than 11 bits is in logic
        ("ice40", 6, 5, 11, 1),
        ("ice40", 22, 18, 39, 3),  # of the parts the one of 6 by 2 bits is in logic
        ("ice40", 16, 1, 17, 0),
        ("gowin", 9, 9, 18, 1),
        ("gowin", 9, 3, 12, 0),
        ("gowin", 18, 10, 28, 2),
        ("gowin", 25, 18, 43, 4),  # of 18 and of 7 bits by 18, both in blocks of 18
        ("gowin", 22, 22, 44, 8),  # one of 36 by 36 bits
        ("gatemate", 16, 16, 32, 0),
        ("asic", 16, 16, 32, 0),
    ],
)
def test_blocks_of_a_product_are_those_of_the_techmap(
    family: str, first: int, second: int, out: int, blocks: int
) -> None:
    """By hand from Yosys's mul2dsp.v with the widths of ``synth_xilinx`` (25 by 18, signed) and ``synth_ecp5`` (18).

    On Nexus a product of 9 bits and less takes a half of a block, and counts as one.
    """
    assert blocks_of(Terms(family), first, second, out) == blocks


@pytest.mark.parametrize(("bits", "blocks"), [(31, 2), (24, 1), (7, 1)])
@pytest.mark.parametrize("family", FAMILIES)
def test_products_of_a_requantisation_are_counted(family: str, bits: int, blocks: int) -> None:
    """A multiplier of 31 bits, with a sign, is cut in two; ECP5 has 18 bits a part, so that 25 are two as well."""
    facets = requantize.OPS[0].hardware
    assert facets is not None
    plain = verilog_params(facets.cases()[0].params)
    lanes = plain["DATA_OUT_0_PARALLELISM_DIM_0"]
    case = plain | {"DATA_IN_0_PRECISION_0": 8, "DATA_IN_0_SIGNED": 1, "MULTIPLIER_PRECISION_0": bits}
    of = FABRICS[family].multiplier
    expected = 0 if of.wide < 8 else 2 if of.wide < 25 and bits == 24 else blocks
    if of.half:
        expected = 2 * expected - (bits < 31)  # of 7 and of 18 + 7 bits, the last part by 8 bits is half a block
    assert cost_of(facets.module, case, family).dsp == lanes * expected


@pytest.mark.parametrize(
    ("words", "bits", "family", "expected"),
    [
        ([5, 5, 5], 3, "xc7", (0, 0)),  # always the same
        ([0, 1, 2, 3], 2, "xc7", (2, 0)),  # the address
        ([3, 2, 1, 0], 2, "xc7", (2, 2)),  # the address inverted
        ([0, 3, 0, 0], 2, "ecp5", (1, 1)),  # twice the same bit, of two of the address
        ([0, 0, 0, 1], 1, "xc7", (1, 1)),
        ([n == 63 for n in range(64)], 1, "xc7", (1, 1)),  # six inputs are one look-up table
        ([n == 63 for n in range(64)], 1, "ecp5", (1, 4)),  # and four with the multiplexers beside them
        ([n == 127 for n in range(128)], 1, "xc7", (1, 2)),
        ([n == 255 for n in range(256)], 1, "ecp5", (1, 9)),  # a half that is zero, the other of seven inputs, a choice
        ([n & 1 for n in range(256)], 1, "ecp5", (1, 0)),
        ([n & 1 for n in range(16)], 1, "gatemate", (1, 0)),
        ([n == 3 for n in range(16)], 1, "gatemate", (1, 2)),  # a multiplexer of two in front of a function of three
        ([n.bit_count() & 1 for n in range(16)], 1, "gatemate", (1, 3)),  # and of two functions
        (  # two bits that choose among the same two functions
            [((n & 7 == 7) << (n > 7)) | (((n & 7).bit_count() & 1) << (n < 8)) for n in range(16)],
            2,
            "gatemate",
            (2, 4),
        ),
        ([0, 1, 1], 1, "xc7", (1, 1)),  # what is above the last word is anything: 0, 1, 1, 1 is an or
    ],
)
def test_what_is_known_of_a_table(words: list[int], bits: int, family: str, expected: tuple[int, int]) -> None:
    """By hand: look-up tables have six inputs on Xilinx, four on ECP5, and multiplexers beside them up to 8 and 7.

    Those of GateMate are trees, with functions of three bits of the address at the leaves, which are there once.
    """
    found = parameters_of([int(word) for word in words], bits, family)
    assert (found["DISTINCT"], found["TABLE_LUTS"]) == expected


@pytest.mark.parametrize(
    ("words", "family", "expected"),
    [
        ([0, 0, 0, 1], "ecp5", (1, 0)),  # the upper bit of the address resets the register, the lower one goes into it
        ([1, 1, 0, 1], "ecp5", (1, 0)),  # and sets it here
        ([0, 1, 1, 0], "ecp5", (1, 1)),
        ([n < 16 and n % 3 == 0 for n in range(32)], "ecp5", (2, 1)),
        ([n == 3 for n in range(32)], "ecp5", (2, 0)),  # of every half in turn, to the same value
        ([(n ^ 5) * 37 % 64 > 30 if n < 48 else 0 for n in range(64)], "nexus", (5, 5)),
    ],
)
def test_what_the_reset_of_a_register_says_of_a_table(words: list[int], family: str, expected: tuple[int, int]) -> None:
    """By hand: look-up tables without and with a register behind them; Nexus has multiplexers of five inputs."""
    found = parameters_of([int(word) for word in words], 1, family)
    assert (found["TABLE_LUTS"], found.get("TABLE_HELD", found["TABLE_LUTS"])) == expected
    rom = {"WIDTH": 1, "DEPTH": len(words)}
    costs = [cost_of("rom_source", {**rom, **found, "REGISTERS": registers}, family).lut for registers in (0, 1)]
    plain = [cost_of("rom_source", {**rom, "TABLE_LUTS": n, "REGISTERS": 1}, family).lut for n in expected]
    assert costs == plain


@pytest.mark.parametrize(("first", "second", "cpes"), [(8, 4, 36), (12, 8, 68), (17, 17, 161), (8, 8, 56)])
def test_look_up_tables_of_a_product(first: int, second: int, cpes: int) -> None:
    """As many CPEs as nextpnr 0.11.1 prints that it made, of two look-up tables; what is known has no fitted term."""
    assert product_luts(first, second) == 2 * cpes
    found = Terms("gatemate")
    soft(found, "soft", 3, (second, first), first * second)
    assert found.known["lut"] == 6 * cpes and not found.lut
    other = Terms("ice40")
    soft(other, "soft", 3, (second, first), first * second)
    assert other.lut == {"soft": 3 * first * second} and not other.known["lut"]


def test_flip_flops_of_data_have_no_reset() -> None:
    """On GateMate others may have one, as a gate in front of them; where gates are counted all have an enable."""
    for family, held in (("gatemate", 3), ("asic", 10), ("ecp5", 0)):
        terms = Terms(family)
        terms.count(ff=3)
        terms.data(7)
        assert (terms.known["ff"], terms.lut.get("held", 0)) == (10, held)


def test_carries_of_nexus_are_fed_in() -> None:
    """By hand: two look-up tables more for an adder than on ECP5, where it has more than four bits."""
    for bits, more in ((4, 0), (5, 2), (16, 2)):
        assert adder(Terms("nexus"), bits) - adder(Terms("ecp5"), bits) == more


def test_a_long_table_is_in_blocks_and_its_look_up_tables_are_not_counted() -> None:
    assert "TABLE_LUTS" not in parameters_of([n & 255 for n in range(2048)], 8, "xc7")


def test_contents_change_the_cost_of_a_table() -> None:
    rom = {"WIDTH": 16, "DEPTH": 64, "REGISTERS": 2}
    same = cost_of("rom_source", rom | {"DISTINCT": 1, "TABLE_LUTS": 1}, "xc7")
    assert same.lut < cost_of("rom_source", rom, "xc7").lut and same.ff < cost_of("rom_source", rom, "xc7").ff


@pytest.mark.parametrize("family", FAMILIES)
def test_a_memory_that_is_loaded_costs_more_than_a_rom(family: str) -> None:
    """What puts words in their places and reads them back, and as many banks; a design has the loader beside it."""
    rom = {"WIDTH": 512, "DEPTH": 64, "REGISTERS": 1, "STYLE": '"block"'}
    kept, loaded, two = (
        cost_of(module, {**rom, **more}, family)
        for module, more in (("rom_source", {}), ("ram_source", {"BANKS": 1}), ("ram_source", {"BANKS": 2}))
    )
    assert not loaded.not_estimated and loaded.lut > kept.lut + 100 and loaded.ff > kept.ff
    deep = cost_of("ram_source", {**rom, "DEPTH": 512, "BANKS": 2}, family)
    if family == "asic":  # bits
        assert (kept.bram, loaded.bram, two.bram, deep.bram) == (2**15, 2**15, 2**16, 2**19)
    elif family == "ice40":  # of 16 bits, each written alone
        assert (kept.bram, loaded.bram, two.bram, deep.bram) == (32, 32, 32, 128)
    elif family == "gatemate":  # of 40 bits, or of 20 with twice the words, each written alone
        assert (kept.bram, loaded.bram, two.bram, deep.bram) == (13, 13, 13, 26)
    else:
        # Sixteen words of 32 bits, which have a block each to be written alone; 14.2 would hold the bits.
        assert (kept.bram, loaded.bram, two.bram, deep.bram) == (15, 16, 16, 32)
