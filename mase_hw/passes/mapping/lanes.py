"""The lanes of every stream of a node: those that were asked for, or as many as there may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mase_hw.errors import ConfigError, UnsupportedError
from mase_hw.passes.mapping.args import KERNEL, Lanes, lane_dims
from mase_hw.streams import Stream


def chosen_lanes(
    node: str,
    chosen: Mapping[str, Lanes],
    shapes: Mapping[str, tuple[int, ...]],
    most: int,
    follows: Sequence[int] | None,
) -> dict[str, tuple[int, ...]]:
    """The lanes of the data of a node, and of the weights of a window that is unrolled.

    Args:
        node: Its name.
        chosen: What was asked for, by tensor.
        shapes: Sizes of the tensors, in the order in which the module streams them.
        most: Lanes where nothing was asked for.
        follows: Lanes of what comes before, if the op has as many on every side; else None.

    Raises:
        ConfigError: If what was asked for contradicts itself.
    """
    lanes: dict[str, tuple[int, ...]] = {}
    streams = {name: shape for name, shape in shapes.items() if name.startswith("data_")}
    same = None if follows is None else _following(node, chosen, streams, most, follows)
    if KERNEL in chosen:
        window = chosen[KERNEL]
        height, width = window if isinstance(window, list) and len(window) == 2 else (1, window)
        if isinstance(width, list):
            raise ConfigError(
                "a window has a height and a width",
                field=f"hardware.parallelism.{node}.{KERNEL}",
                got=window,
                expected="[height, width], or one number in one dimension",
            )
        lanes["weight"] = (1, width, height, 1)
    for name, shape in streams.items():
        if same is not None:
            lanes[name] = same if chosen else (min(same[0], shape[-1] if shape else 1),)
        elif name in chosen:
            lanes[name] = lane_dims(chosen[name], f"parallelism.{node}.{name}")
        else:
            lanes[name] = (min(most, shape[-1] if shape else 1),)
    return lanes


def fewer_lanes(lanes: int, size: int, gap: int) -> int:
    """The fewest lanes with which a beat takes no longer than the next one needs to come.

    Args:
        lanes: Of a beat.
        size: Elements along the innermost dimension; a beat with lanes left over is kept as it is.
        gap: Cycles between two beats.
    """
    if size % lanes:
        return lanes
    return next(few for few in range(1, lanes + 1) if lanes % few == 0 and lanes // few <= gap)


def _following(
    node: str,
    chosen: Mapping[str, Lanes],
    streams: Mapping[str, tuple[int, ...]],
    most: int,
    follows: Sequence[int],
) -> tuple[int, ...]:
    """The lanes of an op that has as many on every side."""
    given = {name: lane_dims(lanes, f"parallelism.{node}.{name}") for name, lanes in chosen.items()}
    if len(set(given.values())) > 1:
        raise ConfigError(
            "this op has as many lanes out as in",
            node=node,
            field=f"hardware.parallelism.{node}",
            got={k: list(v) for k, v in given.items()},
            remedy="set only one of them, or all to the same number",
        )
    if given:
        return next(iter(given.values()))
    sizes = [shape[-1] if shape else 1 for shape in streams.values()]
    # A single input with a longer row than the result may come with a whole row in a beat.
    size = max(sizes) if len(sizes) == 2 else min(sizes)
    return (min(max(follows, default=most), size),)


def check_given(node: str, chosen: Mapping[str, Lanes], ports: Sequence[Stream]) -> None:
    """Refuse lanes that were asked for and could not be given.

    Raises:
        UnsupportedError: Names the first port that has others.
    """
    for port in ports:
        given = port.lane_dims[0] // port.positions
        if port.name in chosen and lane_dims(chosen[port.name], f"parallelism.{node}")[0] != given:
            raise UnsupportedError(
                "these lanes are not possible here",
                node=node,
                field=f"hardware.parallelism.{node}.{port.name}",
                got=chosen[port.name],
                expected=f"{given} or another number that divides what the op works on",
            )
