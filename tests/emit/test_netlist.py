"""The netlist's own checks: a small design by hand, and every way of breaking it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from mase_hw.emit.netlist import TOP, Instance, Net, Netlist, Pin
from mase_hw.errors import EmitError
from mase_hw.formats import FixedFormat
from mase_hw.streams import Direction, Stream

S8, BIT = FixedFormat(8, 4), FixedFormat(1, 0, signed=False)


def port(
    name: str, direction: Direction, fmt: FixedFormat = S8, shape: tuple[int, ...] = (1, 6), lanes: int = 2
) -> Stream:
    return Stream(name, direction, shape, fmt, (lanes,))


def word(direction: Direction, bits: int = 16, beats: int = 3) -> Stream:
    """A port of a primitive, which knows bits only."""
    return Stream(
        f"{direction}_data", direction, (beats, bits), BIT, (bits,), f"{direction}_valid", f"{direction}_ready"
    )


def relu(name: str, **changes: Stream) -> Instance:
    ports = {"data_in_0": port("data_in_0", "in"), "data_out_0": port("data_out_0", "out")} | changes
    return Instance(f"u_{name}", "fixed_relu", {}, tuple(ports.values()), name, "relu")


def good() -> Netlist:
    """data_in_0 -> a -> fork -> (b -> data_out_0, data_out_1)."""
    fork = Instance("u_fork", "stream_fork", {"WIDTH": 16, "N": 2}, (word("in"), word("out")), "a", "fork", branches=2)
    source = port("data_in_0", "in")
    return Netlist(
        "top",
        inputs=[source],
        outputs=[port("data_out_0", "out"), port("data_out_1", "out")],
        instances=[relu("a"), fork, relu("b")],
        nets=[
            Net("s_in", Pin(TOP, "data_in_0"), Pin("u_a", "data_in_0"), source),
            Net("s_a", Pin("u_a", "data_out_0"), Pin("u_fork", "in_data"), source),
            Net("s_0", Pin("u_fork", "out_data", 0), Pin("u_b", "data_in_0"), source),
            Net("s_1", Pin("u_fork", "out_data", 1), Pin(TOP, "data_out_1"), source),
            Net("s_b", Pin("u_b", "data_out_0"), Pin(TOP, "data_out_0"), source),
        ],
    )


def test_a_good_one() -> None:
    netlist = good()
    netlist.verify()
    assert netlist.instance("u_b").node == "b" and netlist.net_into("u_b", "data_in_0").name == "s_0"
    assert [str(n.source) for n in netlist.nets] == [
        "data_in_0", "u_a.data_out_0", "u_fork.out_data[0]", "u_fork.out_data[1]", "u_b.data_out_0",
    ]  # fmt: skip


def change_net(netlist: Netlist, net: str, /, **changes: object) -> None:
    at = [n.name for n in netlist.nets].index(net)
    netlist.nets[at] = dataclasses.replace(netlist.nets[at], **changes)  # type: ignore[arg-type]


def replace(netlist: Netlist, name: str, instance: Instance) -> None:
    netlist.instances[[i.name for i in netlist.instances].index(name)] = instance


def double_driver(n: Netlist) -> None:
    """The second input of the same net."""
    n.nets.append(Net("s_more", Pin("u_b", "data_out_0"), Pin("u_a", "data_in_0"), n.inputs[0]))


def two_readers(n: Netlist) -> None:
    change_net(n, "s_1", source=Pin("u_a", "data_out_0"))


def removed_net(n: Netlist) -> None:
    del n.nets[2]


def unconnected_output(n: Netlist) -> None:
    n.outputs.append(port("data_out_2", "out"))


def unused_input(n: Netlist) -> None:
    n.inputs.append(port("data_in_1", "in"))


def unused_branch(n: Netlist) -> None:
    replace(n, "u_fork", dataclasses.replace(n.instance("u_fork"), branches=3))


def no_such_source(n: Netlist) -> None:
    change_net(n, "s_a", source=Pin("u_a", "data_out_1"))


def no_such_branch(n: Netlist) -> None:
    change_net(n, "s_1", source=Pin("u_fork", "out_data"))


def no_such_sink(n: Netlist) -> None:
    change_net(n, "s_b", sink=Pin(TOP, "data_out_7"))


def backwards(n: Netlist) -> None:
    change_net(n, "s_in", source=Pin("u_a", "data_in_0"), sink=Pin(TOP, "data_in_0"))


def width(n: Netlist) -> None:
    replace(n, "u_b", relu("b", data_out_0=port("data_out_0", "out", FixedFormat(9, 4))))


def width_of_a_primitive(n: Netlist) -> None:
    fork = n.instance("u_fork")
    replace(n, "u_fork", dataclasses.replace(fork, ports=(word("in", 15), word("out", 15))))


def fraction(n: Netlist) -> None:
    """The same bits, another meaning."""
    n.outputs[0] = port("data_out_0", "out", FixedFormat(8, 5))


def sign(n: Netlist) -> None:
    n.outputs[0] = port("data_out_0", "out", FixedFormat(8, 4, signed=False))


def beats(n: Netlist) -> None:
    """Rows of 3 with two lanes are padded where rows of 6 are not."""
    n.outputs[0] = port("data_out_0", "out", shape=(2, 3))


def count_of_beats(n: Netlist) -> None:
    n.outputs[0] = port("data_out_0", "out", shape=(1, 8))


def instance_twice(n: Netlist) -> None:
    replace(n, "u_b", dataclasses.replace(n.instance("u_b"), name="u_a"))


def net_twice(n: Netlist) -> None:
    change_net(n, "s_b", name="s_a")


def port_twice(n: Netlist) -> None:
    n.outputs[1] = dataclasses.replace(n.outputs[1], name="data_out_0", valid="", ready="")


@pytest.mark.parametrize(
    ("damage", "texts"),
    [
        (double_driver, ["port has 2 nets", "exactly one net"]),
        (two_readers, ["source port", "u_a.data_out_0", "exactly one net"]),
        (removed_net, ["is not connected", "u_fork.out_data[0]"]),
        (unconnected_output, ["sink port is not connected", "data_out_2"]),
        (unused_input, ["source port is not connected", "data_in_1"]),
        (unused_branch, ["source port is not connected", "u_fork.out_data[2]"]),
        (no_such_source, ["source that does not exist", "u_a.data_out_1"]),
        (no_such_branch, ["source that does not exist", "u_fork.out_data"]),
        (no_such_sink, ["sink that does not exist", "data_out_7"]),
        (backwards, ["source that does not exist", "u_a.data_in_0"]),
        (width, ["different widths", "s_b", "u_b.data_out_0: 18 bits", "data_out_0: 16 bits"]),
        (width_of_a_primitive, ["different widths", "u_fork.in_data: 15 bits"]),
        (fraction, ["different formats", "s_b", "s8.4", "s8.5", "quantize_transform_pass"]),
        (sign, ["different formats", "s_b", "s8.4", "u8.4"]),
        (beats, ["different beats", "s_b", "[2, 3]", "[1, 6]", "2 lanes"]),
        (count_of_beats, ["different beats", "s_b", "[1, 8]"]),
        (instance_twice, ["two instances have the same name", "u_a"]),
        (net_twice, ["two nets have the same name", "s_a"]),
        (port_twice, ["two ports have the same name", "data_out_0"]),
    ],
)
def test_faults(damage: Callable[[Netlist], None], texts: list[str]) -> None:
    netlist = good()
    damage(netlist)
    with pytest.raises(EmitError) as caught:
        netlist.verify()
    for text in texts:
        assert text in str(caught.value), str(caught.value)


def test_a_file_brings_what_it_instantiates() -> None:
    """Also where no other module of the design has it; each once, in the order of compilation."""
    netlist = Netlist("top")
    before = [*netlist.files]
    for _ in range(2):
        netlist.add_files("lib/beat_turn.sv")
        assert netlist.files == [*before, "lib/register_slice.sv", "lib/beat_turn.sv"]
