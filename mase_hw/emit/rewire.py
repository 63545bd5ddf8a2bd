"""Netlists in which inputs read a stream from another branch of a fork, behind modules that are moved or copied."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from mase_hw.emit.netlist import Instance, Net, Netlist, Pin


def delayed(
    netlist: Netlist, fork: str, pins: Sequence[Pin], held: Collection[Pin] = ()
) -> tuple[Netlist, Pin, dict[Pin, Pin]] | None:
    """A netlist in which one branch of a fork, divided once more, leads to inputs that others led to before.

    What lies in between is copied. Where nothing else reads the original, the copy takes its place and its name. The
    netlist is not verified, as several of these may follow each other.

    Args:
        netlist: A design without FIFOs; it stays as it is.
        fork: The fork.
        pins: Data inputs that depend on it through modules of one data input each.
        held: Data inputs of which the caller has to know what became of them.

    Returns:
        The netlist, the input to which that branch leads, and the inputs that those of ``held`` are now, as far as they
        are left; None if the fork is gone or has no other branch then.
    """
    if not any(instance.name == fork for instance in netlist.instances):
        return None
    made = dataclasses.replace(
        netlist, instances=list(netlist.instances), nets=list(netlist.nets), memories=dict(netlist.memories)
    )
    copies = _Copies(made, fork)
    for pin in pins:
        index, net = next((i, n) for i, n in enumerate(made.nets) if n.sink == pin)
        made.nets[index] = dataclasses.replace(net, source=copies.source(net.source))
    _prune(made)
    moved: dict[Pin, Pin] = {}
    left: dict[str, list[int]] = {}
    for net in made.nets:
        if net.source.branch is not None:
            left.setdefault(net.source.instance, []).append(net.source.branch)
    for instance in [i for i in made.instances if i.branches]:
        # Most forks are as they were.
        if instance.parameters["N"] != instance.branches or sorted(left[instance.name]) != [*range(instance.branches)]:
            moved |= _close_ranks(made, instance)
    divided = next((i for i in made.instances if i.name == fork), None)
    if divided is None:
        return None
    there = {instance.name for instance in made.instances}
    gone = {name: twin for name, twin in copies.of.items() if name not in there}
    ends = {pin: _followed(pin, moved, gone) for pin in held}
    names = copies.take_places()
    sinks = {net.sink for net in made.nets}
    now = {pin: dataclasses.replace(end, instance=names.get(end.instance, end.instance)) for pin, end in ends.items()}
    there_now = {pin: end for pin, end in now.items() if end in sinks}
    return made, _reader(made, Pin(fork, "out_data", divided.branches - 1)).sink, there_now


class _Copies:
    """Copies of everything from a fork on, made as they are asked for."""

    def __init__(self, netlist: Netlist, fork: str) -> None:
        self.netlist, self.fork = netlist, fork
        self.before = {net.sink: net for net in netlist.nets}
        self.taken = netlist.signals()
        self.order = {instance.name: index for index, instance in enumerate(netlist.instances)}
        self.of: dict[str, str] = {}
        """Name of the copy, by instance."""
        self.nets: dict[str, str] = {}
        """The same for nets."""

    def source(self, source: Pin) -> Pin:
        """What drives the delayed twin of what this pin drives."""
        twin = self._instance(source.instance)
        if source.branch is None:
            return dataclasses.replace(source, instance=twin)
        return self._branch(twin)

    def _branch(self, name: str) -> Pin:
        """One more branch of a fork."""
        index, fork = next((i, x) for i, x in enumerate(self.netlist.instances) if x.name == name)
        more = dataclasses.replace(fork, branches=fork.branches + 1)
        self.netlist.instances[index] = more
        return Pin(name, "out_data", fork.branches)

    def _instance(self, name: str) -> str:
        if name in self.of:
            return self.of[name]
        instance = self.netlist.instance(name)
        twin = self.of[name] = self.netlist.free(f"{name}_late", self.taken)
        # A fork has as many branches as are asked for.
        self.netlist.instances.append(dataclasses.replace(instance, name=twin, branches=0))
        if name in self.netlist.memories:
            self.netlist.memories[twin] = self.netlist.memories[name]
        for port in instance.ports:
            if port.direction == "in":
                net = self.before[Pin(name, port.name)]
                source = self._branch(name) if name == self.fork else self.source(net.source)
                self.nets[net.name] = self.netlist.free(f"{net.name}_late", self.taken)
                self.netlist.nets.append(Net(self.nets[net.name], source, Pin(twin, port.name), net.stream))
        return twin

    def take_places(self) -> dict[str, str]:
        """Give copies whose originals are gone their names, and put all instances in topological order.

        Returns:
            The new name of every copy that has one.
        """
        netlist = self.netlist
        instances, nets = {i.name for i in netlist.instances}, {n.name for n in netlist.nets}
        name = {twin: old for old, twin in self.of.items() if old not in instances}
        signal = {twin: old for old, twin in self.nets.items() if old not in nets}
        place = self.order | {twin: self.order[old] for old, twin in self.of.items()}
        netlist.instances[:] = sorted(
            (dataclasses.replace(i, name=name[i.name]) if i.name in name else i for i in netlist.instances),
            key=lambda i: place[i.name],
        )
        netlist.memories = {name.get(i, i): file for i, file in netlist.memories.items()}

        def named(pin: Pin) -> Pin:
            return dataclasses.replace(pin, instance=name[pin.instance]) if pin.instance in name else pin

        netlist.nets[:] = [
            Net(signal.get(n.name, n.name), named(n.source), named(n.sink), n.stream) for n in netlist.nets
        ]
        return name


def _prune(netlist: Netlist) -> None:
    """Take out what drives nothing."""
    while True:
        driving = {net.source.instance for net in netlist.nets}
        gone = {instance.name for instance in netlist.instances} - driving
        if not gone:
            return
        netlist.instances[:] = [i for i in netlist.instances if i.name not in gone]
        netlist.nets[:] = [n for n in netlist.nets if n.sink.instance not in gone]
        netlist.memories = {name: file for name, file in netlist.memories.items() if name not in gone}


def _followed(pin: Pin, moved: Mapping[Pin, Pin], gone: Mapping[str, str]) -> Pin:
    """The input that takes now what an input took: that of a copy, or one behind a fork that is gone."""
    if pin not in moved:
        pin = dataclasses.replace(pin, instance=gone.get(pin.instance, pin.instance))
    while pin in moved:
        pin = moved[pin]
    return pin


def _close_ranks(netlist: Netlist, fork: Instance) -> dict[Pin, Pin]:
    """Number the branches that are left; a fork with a single one goes, and its reader takes what it took."""
    left = sorted((n for n in netlist.nets if n.source.instance == fork.name), key=lambda n: n.source.branch or 0)
    where = {net.name: index for index, net in enumerate(netlist.nets)}
    if len(left) > 1:
        for branch, net in enumerate(left):
            netlist.nets[where[net.name]] = dataclasses.replace(net, source=Pin(fork.name, "out_data", branch))
        parameters = {**fork.parameters, "N": len(left)}
        index = netlist.instances.index(fork)
        netlist.instances[index] = dataclasses.replace(fork, branches=len(left), parameters=parameters)
        return {}
    driver = _before(netlist, Pin(fork.name, "in_data"))
    netlist.nets[where[driver.name]] = dataclasses.replace(driver, sink=left[0].sink)
    netlist.nets.remove(left[0])
    netlist.instances.remove(fork)
    return {driver.sink: left[0].sink}


def _before(netlist: Netlist, sink: Pin) -> Net:
    return next(n for n in netlist.nets if n.sink == sink)


def _reader(netlist: Netlist, source: Pin) -> Net:
    return next(n for n in netlist.nets if n.source == source)
