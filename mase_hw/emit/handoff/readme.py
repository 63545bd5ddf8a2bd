"""What the README of a bundle says, from its manifest."""

from __future__ import annotations

from mase_hw.cost.devices import missing
from mase_hw.emit.estimate import basis, counted, estimate
from mase_hw.emit.handoff.ports import HandoffPort
from mase_hw.emit.port_entry import format_of
from mase_hw.hardware.manifest import Fixed, Manifest, Scaled
from mase_hw.host.documents import Json


def readme_context(manifest: Manifest, ports: list[HandoffPort]) -> Json:
    """Tables of the README: ports, figures, instances, memories."""
    timing = manifest.timing
    memories = manifest.memories
    compute = [i for i in manifest.instances if i.multipliers]
    return {
        "timing": timing,
        "port_rows": [_row(p) for p in ports],
        "compute": compute,
        "multipliers": sum(i.multipliers for i in compute),
        "work": sum(i.work for i in compute),
        "memory_rows": memories,
        "memory_bits": sum(m.words * m.bits for m in memories),
        "fifo_bits": sum(f.depth * f.bits for f in manifest.fifos),
        "frames": 0 if manifest.vectors is None else manifest.vectors.frames,
        "estimate": estimate(manifest),
        "basis": basis(),
        "counted": counted,
        "missing": missing,
    }


def _row(port: HandoffPort) -> Json:
    entry = port.entry
    fmt = entry.format
    known = format_of(fmt)
    low, high = known.min_mantissa, known.max_mantissa
    return {
        "name": port.name,
        "direction": "input" if port.into else "output",
        "tensor": f"{entry.tensor}, `{entry.source}` in the file" if entry.source else entry.tensor,
        "shape": " x ".join(map(str, entry.shape)) or "scalar",
        "streamed": " x ".join(map(str, entry.streamed)),
        "permuted": entry.layout is not None,
        "lanes": entry.lanes,
        "beats": port.beats,
        "bits": port.bits,
        "tdata": port.tdata,
        "bus": port.bus,
        "width": known.width,
        "kind": "signed" if fmt.signed else "unsigned",
        "low": low,
        "high": high,
        "rule": f"integer * {fmt.scale}** (2^{-known.frac_width})" if isinstance(fmt, Fixed) else f"{known.rule}**",
        "range": f"{known.min_value:g} to {known.max_value:g}",
        "ties": f"integer = value / {fmt.scale} + {fmt.zero_point}" if isinstance(fmt, Scaled) and fmt.odd_ties else "",
    }
