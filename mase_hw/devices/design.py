"""``compile_devices``: a bundle for every device, and one of all of them together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

import msgspec
from torch import nn

from mase_hw.beat_times import Solved
from mase_hw.compiler.common_arguments import CommonArguments, unpacked
from mase_hw.compiler.compile import compile
from mase_hw.compiler.config import CompileConfig, ConfigLike, load_config
from mase_hw.compiler.quantised_graph import quantised_graph
from mase_hw.compiler.stages import hardware_steps
from mase_hw.design.design import Design
from mase_hw.design.simulation import Simulation
from mase_hw.devices.assign import devices_of
from mase_hw.devices.joined import On, join, with_credits
from mase_hw.devices.records import FILE, WHOLE, Device, Devices, Link, read_devices
from mase_hw.devices.render import Within, boundary, render_device, render_whole
from mase_hw.emit.bundle import Bundle, check_target
from mase_hw.emit.manifest import CHECKS, describe_design
from mase_hw.emit.passes import TOP, memory_files
from mase_hw.emit.reference import Inputs, Reference
from mase_hw.emit.schedule import predict
from mase_hw.emit.steady import steady_frame
from mase_hw.errors import EmitError, UnsupportedError, refuse_unknown
from mase_hw.hardware.library import content
from mase_hw.host.disk import refuse_foreign, staged
from mase_hw.host.resources import rtl_root
from mase_hw.ir import MaseGraph
from mase_hw.ir.annotated import INPUT_ORDERS, SOLVED
from mase_hw.ir.parts import Part, joined
from mase_hw.layouts import Layout
from mase_hw.partition.design import reaching
from mase_hw.passes.base import GraphPass, Info, NoArgs
from mase_hw.passes.mapping.args import HardwareArgs
from mase_hw.passes.pipeline import Pipeline, Step

OF_NODES = ("parallelism", "implementation", "adder_levels", "order", "device")
"""Options of the hardware by node."""
OF_TENSORS = ("fifo_depth", "memory", "parameters_at", "ahead")
"""Those by ``node.tensor``."""


class DevicesDesign:
    """A network on several devices.

    Args:
        path: The folder: ``devices.json``, a bundle for every device, and that of the whole.
        record: What is in the file.
        designs: Of the devices, by number; each is complete by itself.
        whole: All devices in one simulation, with their links.
    """

    def __init__(self, path: Path, record: Devices, designs: Mapping[int, Design], whole: Design) -> None:
        self.path, self.record, self.designs, self.whole = path, record, dict(designs), whole

    def __call__(self, *inputs: Any) -> Any:
        """The results of the quantised model."""
        return self.whole.model(*inputs)

    @property
    def timing(self) -> Any:
        """Predicted timing of the whole, as of :attr:`mase_hw.design.design.Design.timing`."""
        return self.whole.timing

    def simulate(self, inputs: Inputs | None = None, **options: Any) -> Simulation:
        """Simulate all devices and their links in one run, against the quantised model of the whole.

        Args:
            inputs: As for :meth:`mase_hw.design.design.Design.simulate`, as is all else.
            options: A failure is not diagnosed node by node: the designs of the devices do that.

        Raises:
            MismatchError: If a bit differs; and whatever else a simulation raises.
        """
        return self.whole.simulate(inputs, **{"diagnose": False, **options})

    def report(self) -> str:
        """Where the rate is lost: cycles per frame of every device and link by itself, and of the whole."""
        rows = [(f"device {d.number}", d.interval, d.bottleneck) for d in self.record.devices]
        rows += [(link.name, link.interval, _of_link(link)) for link in self.record.links]
        timing = self.whole.record.timing
        least = max(interval for _, interval, _ in rows)
        lines = [f"{name:12} {interval:>10,} cycles per frame{_busy(interval, timing.interval)}  {what}"
                 for name, interval, what in rows]  # fmt: skip
        slowest = ", ".join(name for name, interval, _ in rows if interval == least)
        lines.append(
            f"{'the whole':12} {timing.interval:>10,} cycles per frame, the first result after {timing.fill:,}, "
            f"the last after {timing.last:,}{'' if timing.exact else ' (a bound)'}"
        )
        lost = timing.interval - least
        lines.append(f"what limits it: {slowest}" + (f"; {lost:,} cycles are lost between them" if lost > 0 else ""))
        return "\n".join(lines)


def _busy(interval: int, whole: int) -> str:
    return f" ({interval / whole:6.1%})"


def _of_link(link: Link) -> str:
    return (
        f"{link.tensor} from device {link.source} to {link.sink}: {link.words:,} words of {link.bits} bits, one in "
        f"{link.clock_ratio} cycles, {link.latency} cycles on the way, {link.credits} credits"
    )


def compile_devices(
    model: nn.Module | MaseGraph,
    example_inputs: Inputs,
    config: ConfigLike = None,
    *,
    out: Path | str,
    vectors: Inputs | None = None,
    **common: Unpack[CommonArguments],
) -> DevicesDesign:
    """Turn a model into a bundle for every device that ``hardware.device`` names, and one of all of them together.

    Args:
        model: As for :func:`mase_hw.compile`, as are all others that are not said here.
        example_inputs: One frame.
        config: With ``hardware.device``, and with ``links`` for the links between the devices.
        out: Folder of the whole; an older one of this kind is replaced, anything else is refused. It is written whole
            or not at all.
        vectors: Of the whole.
        common: ``calibration`` (test vectors of all bundles are chosen from it too), ``custom_ops`` and ``progress``;
            see :class:`mase_hw.compiler.common_arguments.CommonArguments`.

    Raises:
        ConfigError: If the configuration is wrong, a node is unknown, or a cut goes backwards.
        UnsupportedError: If a stream would have to go to several places, or the network cannot be divided.
        MaseHwError: As :func:`mase_hw.compile`.
    """
    calibration, custom_ops, tell = unpacked(**common)
    settings, place = load_config(config), Path(out).absolute()
    _refuse(settings, place)
    batches = None if calibration is None else list(calibration)
    module = model.model if isinstance(model, MaseGraph) else model
    graph = quantised_graph(module, example_inputs, settings, batches, custom_ops, tell)
    named, parts = devices_of(graph, settings.hardware)
    example = Reference(graph).named(example_inputs)
    data = [Reference(graph).named(batch) for batch in batches or [example_inputs]]
    divided = MaseGraph(joined(graph.model, list(parts.values())), share_weights=True, catalogue=graph.catalogue)
    first, *seen = (reaching(divided, list(parts.values()), batch) for batch in (example, *data))
    graph.meta[SOLVED] = Solved()
    with staged(place) as staging:
        designs: dict[int, Design] = {}
        orders: dict[str, Layout] = {}
        for number, part in parts.items():
            tell(f"device {number}: {', '.join(part.nodes)}")
            own = MaseGraph(part.module, share_weights=True, catalogue=graph.catalogue)
            own.meta |= {INPUT_ORDERS: orders, SOLVED: graph.meta[SOLVED]}
            designs[number] = compile(
                own,
                first[part.name],
                _settings_of(settings, named, number, part),
                out=staging / part.name,
                calibration=[batch[part.name] for batch in seen],
                progress=tell,
            )
            for port in designs[number].record.ports:
                stream = designs[number].streams[port.name]
                if port.direction == "out":
                    orders[port.tensor] = stream.layout or Layout.row_major(stream.tensor_shape)
        record, whole = _whole(graph, designs, parts, settings, example, vectors, staging)
        record.write(staging)
    made = {number: Design(place / parts[number].name, each.graph) for number, each in designs.items()}
    found = DevicesDesign(place, record, made, Design(place / WHOLE, whole))
    for line in found.report().splitlines():
        tell(line)
    tell(f"wrote {place}")
    return found


def load_devices(path: Path | str) -> DevicesDesign:
    """Open what was written earlier; it can be simulated against its own vectors.

    Raises:
        EmitError: If the folder does not hold it, or a bundle is another one than the file says.
    """
    place = Path(path).absolute()
    record = read_devices(place)
    designs = {each.number: Design(place / each.folder) for each in record.devices}
    for each in record.devices:
        if (got := designs[each.number].record.digest) != each.digest:
            raise EmitError(
                f"the bundle of a device is not the one that {FILE} names",
                node=each.folder,
                got=f"digest {got[:16]}...",
                expected=f"digest {each.digest[:16]}...",
                remedy="compile the model again, for all devices together",
            )
    return DevicesDesign(place, record, designs, Design(place / record.whole))


def _refuse(settings: CompileConfig, place: Path) -> None:
    refuse_foreign(place, FILE, "a design on several devices")
    check_target(place / WHOLE) if not place.exists() else None
    hardware = settings.hardware
    for field, given in (
        ("decode", settings.decode.context > 0),
        ("streaming", settings.streaming),
        ("hardware.unroll", bool(hardware.unroll)),
        ("hardware.shared", bool(hardware.shared or settings.target.shared)),
        ("handoff.prefix", bool(settings.handoff.prefix)),
        ("target", settings.target.asked),
    ):
        if given:
            raise UnsupportedError(
                "a design on several devices cannot have this",
                field=field,
                remedy="leave it out, or compile for one device",
            )


def _settings_of(settings: CompileConfig, named: HardwareArgs, number: int, part: Part) -> CompileConfig:
    """The configuration of one device: what is said of its nodes."""
    here = set(part.nodes)
    update: dict[str, Any] = {
        key: {name: value for name, value in getattr(named, key).items() if name in here} for key in OF_NODES
    }
    update |= {
        key: {p: value for p, value in getattr(named, key).items() if p.rpartition(".")[0] in here}
        for key in OF_TENSORS
    }
    if not isinstance(named.positions, int):
        update["positions"] = {name: count for name, count in named.positions.items() if name in here}
    if not isinstance(named.fast_clock, bool):
        update["fast_clock"] = [name for name in named.fast_clock if name in here]
    hardware = named.model_copy(update={**update, "device_id": number})
    return settings.model_copy(update={"hardware": hardware, "top": f"{settings.top}_{number}"})


def _whole(
    graph: MaseGraph,
    designs: Mapping[int, Design],
    parts: Mapping[int, Part],
    settings: CompileConfig,
    example: Mapping[str, Any],
    vectors: Inputs | None,
    out: Path,
) -> tuple[Devices, MaseGraph]:
    """Write the bundle of the whole; what is in the file, and the graph."""
    made: list[Devices] = []

    def emit(graph: MaseGraph, args: NoArgs) -> tuple[MaseGraph, Info]:
        made.append(_emit(graph, designs, parts, settings))
        return graph, {"modified": True}

    gives = (TOP, "emit_internal_rtl_transform_pass", "emit_bram_transform_pass")
    alone = settings.model_copy(update={"hardware": settings.hardware.model_copy(update={"device": {}})})
    steps = {step.name: step for step in hardware_steps(example, alone, out=out / WHOLE, vectors=vectors)}
    join_step = Step("top", GraphPass("emit_devices", emit, NoArgs, needs=(), gives=gives), None)
    order = [steps["verify"], steps["hardware"], join_step, steps["choose"], steps["vectors"]]
    graph = Pipeline(order, "devices").run(graph).graph
    graph.meta["bundle"].write(out / WHOLE)
    return made[0], graph


def _emit(
    graph: MaseGraph, designs: Mapping[int, Design], parts: Mapping[int, Part], settings: CompileConfig
) -> Devices:
    """Put the whole together as a bundle of the graph."""
    reference, solved = Reference(graph), graph.meta[SOLVED]
    nodes = {str(n.target): n.name for n in graph.nodes if n.op == "placeholder"}
    outer = {(nodes[p.name], True): p.port for p in reference.inputs}
    outer |= {(p.name, False): p.port for p in reference.outputs}
    on: list[On] = []
    for number, design in designs.items():
        assert design.graph is not None  # it was compiled here
        ends = {
            port.name: outer[port.tensor, port.direction == "in"]
            for port in design.record.ports
            if (port.tensor, port.direction == "in") in outer
        }
        on.append(On(number, design.graph.meta["netlist"], ends))
    links, least = _links(designs, parts, on, settings)
    links = with_credits(settings.top, on, links, least, graph.catalogue, solved)
    netlist = join(settings.top, on, links)
    devices = [_device(number, designs[number], parts[number]) for number in designs]
    schedule = predict(netlist, graph.catalogue, None, solved)
    steady = steady_frame(netlist, graph.catalogue, schedule, solved)
    bundle = graph.meta["bundle"] = Bundle()
    rtl = [f"rtl/{file}" for file in (*netlist.files, *CHECKS)]
    sent = {link.name: designs[link.source].streams[link.source_port] for link in links}
    named = [Within(d, designs[d.number].record, o.netlist, o.ends) for d, o in zip(devices, on, strict=True)]
    texts = {f"rtl/{each.device.module}.sv": render_device(each, links, sent) for each in named}
    texts[f"rtl/{settings.top}.sv"] = render_whole(settings.top, named, links, netlist.ports)
    edges = [*boundary(named, netlist.ports), *(edge for each in designs.values() for edge in each.record.edges)]
    described = msgspec.structs.replace(
        describe_design(netlist, schedule, reference, graph.catalogue, steady),
        image=None,  # each device takes its own
        devices={each.device.top: each.described for each in named},
        edges=tuple(dict.fromkeys(edges)),
        rtl=(*rtl, *(f"rtl/{d.top}.sv" for d in devices), *texts),
    )
    bundle.manifest |= msgspec.to_builtins(described)
    for path in described.rtl:
        bundle.add(path, texts.get(path) or _file(path, designs.values()))
    bundle.add("rtl/files.f", "".join(f"{path}\n" for path in described.rtl))
    for file in (*(each.file for each in described.memories), *(each.file for each in described.outside)):
        bundle.add(file, _file(file, designs.values()))
    for path, text in memory_files(graph, netlist).items():
        if bundle.read(path) != text.encode():
            raise EmitError("a device keeps a parameter in another order than the whole", node=path)
    graph.meta["netlist"], graph.meta["schedule"] = netlist, schedule
    return Devices(format_version=1, whole=WHOLE, devices=tuple(devices), links=tuple(links))


def _file(path: str, designs: Iterable[Design]) -> bytes:
    """A file of the bundles, which is the same in all that have it; or one of the library."""
    found = {(design.path / path).read_bytes() for design in designs if path in design.record.files}
    if len(found) > 1:
        raise EmitError(
            "two devices have different files of the same name", node=path, remedy="give their layers other names"
        )
    return found.pop() if found else content(rtl_root() / path.removeprefix("rtl/"))


def _device(number: int, design: Design, part: Part) -> Device:
    timing = design.record.timing
    return Device(
        number=number,
        folder=part.name,
        top=design.record.top,
        module=f"{design.record.top}_linked",
        digest=design.record.digest,
        nodes=part.nodes,
        interval=timing.interval,
        bottleneck=timing.bottleneck,
    )


def _links(
    designs: Mapping[int, Design], parts: Mapping[int, Part], on: Sequence[On], settings: CompileConfig
) -> tuple[list[Link], dict[str, int]]:
    """The links, and of each the fewest credits that are wanted."""
    sends = {
        port.tensor: (each.number, port)
        for each in on
        for port in designs[each.number].record.ports
        if port.direction == "out" and port.name not in each.ends
    }
    pairs = {f"{a}-{b}" for a in parts for b in parts if a < b}
    for key in settings.links.between:
        refuse_unknown(key, sorted(pairs), "there is no such link", field=f"links.between.{key}")
    links: list[Link] = []
    least: dict[str, int] = {}
    for each in on:
        for port in designs[each.number].record.ports:
            if port.direction == "out" or port.name in each.ends:
                continue
            source, end = sends[port.tensor]
            options = settings.links.of(source, each.number)
            link = Link(
                name=f"link_{len(links)}",
                tensor=port.tensor,
                source=source,
                source_port=end.name,
                sink=each.number,
                sink_port=port.name,
                bits=options.bits,
                latency=options.latency,
                clock_ratio=options.clock_ratio,
                beats=end.beats,
                width=end.bits,
                credits=1,
            )
            least[link.name] = options.credits or 1
            links.append(link)
    return links, least
