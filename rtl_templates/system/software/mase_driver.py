# SPDX-License-Identifier: Apache-2.0
"""Driver of a system made by mase_hw, for Python: NumPy arrays in and out.

The calls are those of mase_driver.h. The folder of the system is all it reads: numbers and digest from the manifest,
registers, codes and their texts from the C sources beside it.

    device = Device(Model())                     # the Verilated model, or Overlay("system.bit", "accelerator")
    (result,) = device.run(images)               # real numbers
    (result,) = device.run(codes, integers=True)
    print(device.selftest())
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent


def _constants(file, prefix):
    found = re.findall(rf"^#define {prefix}(\w+) (0x\w+?)u$", (HERE / file).read_text(), re.MULTILINE)
    return {name: int(value, 16) for name, value in found}


REG = _constants("mase_registers.h", "MASE_")
CODES = re.findall(r"^    MASE_(\w+)(?: = 0)?,$", (HERE / "mase_driver.h").read_text(), re.MULTILINE)
_TEXTS = (HERE / "mase_driver.c").read_text().partition("texts[MASE_CODES]")[2]
TEXTS = dict(zip(CODES, re.findall(r'^        "(.*)",$', _TEXTS, re.MULTILINE), strict=True))


class MaseError(RuntimeError):
    """What went wrong: ``code`` is the name in mase_driver.h without its prefix."""

    def __init__(self, code):
        super().__init__(f"{code}: {TEXTS[code]}")
        self.code = code


class Model:
    """The Verilated model; ``make -f software/Makefile server`` builds it in the folder of the system."""

    base, limit = 0, (1 << 64) - 1
    patience = 10_000_000  # cycles

    def __init__(self, stalls=0, interrupt=False, program=HERE.parent / "build" / "server"):
        if not interrupt:
            self.sleep = None
        self._server = subprocess.Popen([str(program), str(stalls)], stdin=-1, stdout=-1, text=True, cwd=HERE.parent)

    def ask(self, *words):
        """A command and its answer."""
        self._server.stdin.write(" ".join(w if isinstance(w, str) else f"{w:x}" for w in words) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        if not answer:
            raise RuntimeError(f"the model has ended with {self._server.wait()}: {' '.join(map(str, words[:2]))}")
        return answer.strip()

    def close(self):
        """The hardware is not used any more."""
        self._server.communicate()

    def read(self, offset):
        """A register."""
        return int(self.ask("r", offset), 16)

    def write(self, offset, value):
        """A register."""
        self.ask("w", offset, value)

    def allocate(self, size):
        """The program's bytes, their bus address, and what `clean` and `invalidate` are called with."""
        handle, address = (int(word, 16) for word in self.ask("b", size).split())
        data = np.zeros(size, np.uint8)
        return data, address, (handle, data)

    def clean(self, buffer):
        """What the program has written becomes the device's."""
        self.ask("c", buffer[0], buffer[1].size, buffer[1].tobytes().hex())

    def invalidate(self, buffer):
        """What the device has written becomes the program's."""
        answer = self.ask("i", buffer[0], buffer[1].size)
        buffer[1][:] = np.frombuffer(bytes.fromhex(answer), np.uint8)

    def now(self):
        """The time."""
        return int(self.ask("n"), 16)

    def sleep(self, ticks):
        """Until an interrupt, at most so long."""
        self.ask("s", int(ticks))


class Overlay:
    """A bitstream on a board that runs PYNQ. Time is in seconds.

    Args:
        bitfile: Of the overlay, its ``.hwh`` beside it.
        name: Of the accelerator in the block design.
        device: Of PYNQ, where there are several.
    """

    base, limit = 0, (1 << 64) - 1
    patience = 10.0
    sleep = None  # the interrupt of PYNQ is for coroutines: this driver polls

    def __init__(self, bitfile, name="accelerator", device=None):
        import pynq

        self._pynq = pynq
        self.overlay = pynq.Overlay(str(bitfile)) if device is None else pynq.Overlay(str(bitfile), device=device)
        place = self.overlay.ip_dict[name]
        self._registers = pynq.MMIO(place["phys_addr"], 128)

    def close(self):
        """The hardware is not used any more."""
        self.overlay.free()

    def read(self, offset):
        """A register."""
        return self._registers.read(offset)

    def write(self, offset, value):
        """A register."""
        self._registers.write(offset, value)

    def allocate(self, size):
        """See :class:`Model`."""
        buffer = self._pynq.allocate(shape=(size,), dtype=np.uint8)
        return np.asarray(buffer), int(buffer.physical_address), buffer

    def clean(self, buffer):
        """What the program has written becomes the device's."""
        buffer.flush()

    def invalidate(self, buffer):
        """What the device has written becomes the program's."""
        buffer.invalidate()

    def now(self):
        """The time."""
        return time.monotonic()


class _Port:
    """The frames of a port: arrays of its tensor's shape to bytes of a record, and back."""

    def __init__(self, entry):
        self.name, self.offset, self.length = entry["port"], entry["offset"], entry["bytes"]
        self.size, self.slot, self.width = entry["elements"], entry["slot_bits"], entry["element_bits"]
        self.signed, self.shape, self._format = entry["signed"], tuple(entry["shape"]), entry["format"]
        order = np.arange(self.size)
        if entry["layout"]:
            factors = entry["layout"]["factors"]
            order = order.reshape(factors).transpose(entry["layout"]["order"]).reshape(-1)
        self._order = order  # place in the tensor of every element of the stream

    def takes(self, shape):
        """Whether it is that of a frame or of several; sizes of 1 at the beginning may be left out."""
        kept = next((i for i, size in enumerate(self.shape) if size != 1), len(self.shape))
        inner = self.shape[kept:]
        return shape[len(shape) - len(inner) :] == inner and len(shape) <= len(self.shape) + 1

    def _scale(self):
        scale, axis = np.asarray(self._format["scale"], np.float64), self._format.get("axis", 0)
        if scale.ndim:
            scale = scale.reshape([-1 if i == axis % len(self.shape) else 1 for i in range(len(self.shape))])
        return scale, self._format.get("zero_point", 0)

    def quantize(self, values):
        """Half to even, saturated."""
        scale, zero = self._scale()
        odd = int(self._format.get("odd_ties", False))
        low = -(1 << (self.width - 1)) if self.signed else 0
        low, high = self._format.get("limits", (low, low + (1 << self.width) - 1))
        return np.clip(np.rint(np.asarray(values, np.float64) / scale + odd) - odd + zero, low, high).astype(np.int64)

    def real(self, integers):
        scale, zero = self._scale()
        return (integers - zero) * scale

    def pack(self, integers):
        """Integers of shape ``(frames, *shape)`` to bytes, a row a frame."""
        codes = np.asarray(integers, np.int64).reshape(-1, self.size)[:, self._order].astype("<i8", order="C")
        bits = np.unpackbits(codes.view(np.uint8).reshape(len(codes), self.size, 8), axis=2, bitorder="little")
        packed = np.packbits(
            bits[:, :, : self.slot].reshape(len(codes), self.size * self.slot), axis=1, bitorder="little"
        )
        return np.pad(packed, ((0, 0), (0, self.length - packed.shape[1])))

    def unpack(self, rows):
        bits = np.unpackbits(rows, axis=1, bitorder="little")[:, : self.size * self.slot]
        bits = bits.reshape(len(rows), self.size, self.slot)[:, :, : self.width]
        wide = np.zeros((*bits.shape[:2], 64), np.uint8)
        wide[:, :, : self.width] = bits
        if self.signed:
            wide[:, :, self.width :] = bits[:, :, -1:]
        codes = np.packbits(wide, axis=2, bitorder="little").view("<i8").reshape(len(rows), self.size)
        tensors = np.empty_like(codes)
        tensors[:, self._order] = codes
        return tensors.reshape(len(rows), *self.shape)


class Device:
    """An accelerator behind a hardware layer, which is a :class:`Model`, an :class:`Overlay` or alike.

    Args:
        hal: The hardware layer.
        folder: Of the system.

    Raises:
        MaseError: If another design answers.
    """

    def __init__(self, hal, folder=HERE.parent):
        self.hal = hal
        self.manifest = json.loads((Path(folder) / "manifest.json").read_text())
        self._inputs, self._outputs = ([_Port(e) for e in self.manifest["frames"][way]] for way in ("in", "out"))
        self._buffers = {}
        self._started = None
        self._frames = 0  # of the last job
        self._image = None  # in memory: which of two buffers holds the one that is used
        if hal.read(REG["MAGIC"]) != REG["MAGIC_VALUE_IS"]:
            raise MaseError("WRONG_MAGIC")
        if hal.read(REG["VERSION"]) >> 16 != REG["VERSION_MAJOR_IS"]:
            raise MaseError("WRONG_VERSION")
        if hal.read(REG["DIGEST_HIGH"]) << 32 | hal.read(REG["DIGEST_LOW"]) != int(self.manifest["design"][:16], 16):
            raise MaseError("WRONG_DESIGN")
        self._address("BASE", hal.base)
        self._address("LIMIT", hal.limit)

    def _address(self, register, value):
        self.hal.write(REG[f"{register}_LOW"], value & 0xFFFFFFFF)
        self.hal.write(REG[f"{register}_HIGH"], value >> 32)

    def _buffer(self, way, size):
        """The same one again, as long as it is large enough."""
        if way not in self._buffers or self._buffers[way][0].size < size:
            self._buffers[way] = self.hal.allocate(size)
        return self._buffers[way]

    def _rows(self, inputs, integers):
        """The frames of every input as they lie in memory, a row each."""
        if len(inputs) != len(self._inputs):
            raise ValueError(f"{len(inputs)} arrays, expected {[port.name for port in self._inputs]}")
        rows = []
        for port, values in zip(self._inputs, inputs, strict=True):
            values = np.asarray(values)
            if not port.takes(values.shape):
                raise ValueError(f"{port.name}: shape {values.shape}, expected {port.shape} or (frames, *{port.shape})")
            codes = values if integers else port.quantize(values)
            if integers and not np.array_equal(port.unpack(port.pack(codes)).reshape(codes.shape), codes):
                raise ValueError(f"{port.name}: an integer does not fit into {port.width} bits")
            rows.append(port.pack(codes))
        if len({len(row) for row in rows}) > 1:
            raise ValueError(f"{[len(row) for row in rows]} frames at the inputs, expected as many at each")
        if len(rows[0]) == 0:
            raise MaseError("NO_FRAMES")
        return rows

    def start(self, *inputs, integers=False):
        """Start a job of all frames: for each input an array of its tensor's shape, or of several along a new axis.

        Raises:
            MaseError: If a job runs, or there are no frames.
            ValueError: If an array has another shape, or an integer does not fit.
        """
        if self.manifest["options"]["data"] == "stream":
            raise ValueError("frames come on streams, which only `run` drives")
        rows = self._rows(inputs, integers)
        frames = len(rows[0])
        if self._started is not None or self.hal.read(REG["STATUS"]) & (REG["STATUS_BUSY"] | REG["STATUS_RESETTING"]):
            raise MaseError("BUSY")
        if not self.hal.read(REG["PARAMETERS"]) & REG["PARAMETERS_STORED"]:
            raise MaseError("NOT_STORED")
        record = np.concatenate(rows, axis=1)
        given, source, given_handle = self._buffer("in", record.size)
        _, target, result_handle = self._buffer("out", frames * sum(port.length for port in self._outputs))
        given[: record.size] = record.reshape(-1)
        self.hal.clean(given_handle)
        self.hal.clean(result_handle)
        self.hal.write(REG["ERRORS"], 0xFFFFFFFF)
        self.hal.write(REG["INTERRUPT_STATUS"], REG["INTERRUPT_STATUS_DONE"] | REG["INTERRUPT_STATUS_ERROR"])
        self.hal.write(REG["INTERRUPT_ENABLE"], REG["INTERRUPT_ENABLE_DONE"] if self.hal.sleep else 0)
        self._address("SOURCE", source)
        self._address("TARGET", target)
        self.hal.write(REG["FRAMES"], frames)
        self.hal.write(REG["CONTROL"], REG["CONTROL_ENABLE"] | REG["CONTROL_START"])
        self._started = frames

    def wait(self, timeout=None):
        """Wait for the end of the job; the time is in the hardware layer's unit, its ``patience`` by default.

        Raises:
            MaseError: With the code of what went wrong; after ``TIMEOUT`` the job runs on.
        """
        if self._started is None:
            raise MaseError("NOT_STARTED")
        timeout = self.hal.patience if timeout is None else timeout
        begin = self.hal.now()
        while True:
            spent = self.hal.now() - begin
            busy = self.hal.read(REG["STATUS"]) & REG["STATUS_BUSY"]
            # In this order: a job that ends between the two reads is found done.
            done = self.hal.read(REG["INTERRUPT_STATUS"]) & REG["INTERRUPT_STATUS_DONE"]
            if done or not busy:
                break
            if spent >= timeout:
                raise MaseError("TIMEOUT")
            if self.hal.sleep:
                self.hal.sleep(timeout - spent)
        self._frames, self._started = self._started, None
        self.hal.write(REG["INTERRUPT_STATUS"], REG["INTERRUPT_STATUS_DONE"] | REG["INTERRUPT_STATUS_ERROR"])
        self.hal.invalidate(self._buffers["out"][2])
        errors = self.hal.read(REG["ERRORS"])
        for code in ("REFUSED", "READ_BUS", "WRITE_BUS", "OVERRUN"):
            if errors & REG[f"ERRORS_{code}"]:
                raise MaseError({"READ_BUS": "BUS_READ", "WRITE_BUS": "BUS_WRITE"}.get(code, code))
        if not done:
            raise MaseError("ABANDONED")

    def _stream(self, rows, timeout):
        """A transfer of each DMA for every frame: both end with TLAST. PYNQ's driver of it cleans and invalidates."""
        timeout = self.hal.patience if timeout is None else timeout
        senders, receivers = (
            [getattr(getattr(self.hal.overlay, f"dma{index}"), channel) for index in range(len(ports))]
            for ports, channel in ((self._inputs, "sendchannel"), (self._outputs, "recvchannel"))
        )
        given, got = ([self.hal.allocate(p.length) for p in ports] for ports in (self._inputs, self._outputs))
        self._frames, results = 0, []
        for frame in zip(*rows, strict=True):
            for channel, (_, _, buffer) in zip(receivers, got, strict=True):
                channel.transfer(buffer)
            for channel, (data, _, buffer), row in zip(senders, given, frame, strict=True):
                data[:] = row
                channel.transfer(buffer)
            begin = self.hal.now()
            for channel in (*senders, *receivers):
                while not channel.idle and not channel.error:
                    if self.hal.now() - begin >= timeout:
                        raise MaseError("TIMEOUT")
                channel.wait()
            results.append(np.concatenate([data for data, _, _ in got]))
        self._buffers["out"] = (np.concatenate(results),)
        self._frames = len(results)

    def read(self, integers=False):
        """The results of the last job: for each output an array ``(frames, *shape)``.

        Raises:
            MaseError: If no job has ended.
        """
        if not self._frames:
            raise MaseError("NOT_STARTED")
        total = sum(port.length for port in self._outputs)
        rows = self._buffers["out"][0][: self._frames * total].reshape(self._frames, total)
        found = [port.unpack(rows[:, port.offset : port.offset + port.length]) for port in self._outputs]
        return found if integers else [port.real(codes) for port, codes in zip(self._outputs, found, strict=True)]

    def run(self, *inputs, integers=False, timeout=None):
        """Start, wait and read; where frames come on streams, through the AXI DMAs of the overlay."""
        if self.manifest["options"]["data"] == "stream":
            self._stream(self._rows(inputs, integers), timeout)
            return self.read(integers)
        self.start(*inputs, integers=integers)
        self.wait(timeout)
        return self.read(integers)

    def generate(self, prompts, slots=None, timeout=None):
        """Continue prompts by a design that generates by itself.

        Args:
            prompts: Lists of ids.
            slots: The slot of each prompt; by default they have turns.
            timeout: See :meth:`wait`.

        Returns:
            For each prompt the list of ids that were chosen.

        Raises:
            ValueError: If the design does not generate by itself, or has no such prompts or slots.
            MaseError: See :meth:`start`.
        """
        decode = self.manifest.get("decode", {})
        if "generate" not in decode:
            raise ValueError("the design does not generate by itself: compile it with decode.stop or decode.length")
        (taken,), (given,) = self._inputs, self._outputs
        count = decode.get("slots", 1)
        high = 1 << (taken.width - 1 - (count - 1).bit_length())  # the mark of a last token; above it is the slot
        slots = [at % count for at in range(len(prompts))] if slots is None else list(slots)
        if len(slots) != len(prompts) or not all(0 <= slot < count for slot in slots):
            raise ValueError(f"slots {slots} of {len(prompts)} prompts, expected as many of 0 to {count - 1}")
        frames = np.zeros((len(prompts), taken.size), np.int64)
        for frame, prompt, slot in zip(frames, prompts, slots, strict=True):
            if not 1 <= len(prompt) <= taken.size or not all(0 <= token < high for token in prompt):
                raise ValueError(f"prompt {list(prompt)}, expected 1 to {taken.size} ids of 0 to {high - 1}")
            frame[: len(prompt)] = prompt
            frame[len(prompt) - 1] += high
            frame += 2 * high * slot
        (found,) = self.run(frames, integers=True, timeout=timeout)
        found = found.reshape(-1)
        # Tokens of several slots come as they are chosen; those of a slot belong to its prompts in their order.
        rows = [iter(found[found // (2 * high) == slot].reshape(-1, given.size) % (2 * high)) for slot in range(count)]
        tokens = [next(rows[slot]).tolist() for slot in slots]
        ends = [next(at for at, token in enumerate(row) if token >= high) for row in tokens]
        return [[*row[:end], row[end] - high] for row, end in zip(tokens, ends, strict=True)]

    def reset(self, timeout=None):
        """Abandon the job.

        Raises:
            MaseError: ``TIMEOUT`` if the memory leaves a burst unanswered for so long.
        """
        timeout = self.hal.patience if timeout is None else timeout
        begin = self.hal.now()
        self.hal.write(REG["CONTROL"], REG["CONTROL_ENABLE"] | REG["CONTROL_SOFT_RESET"])
        while self.hal.read(REG["STATUS"]) & REG["STATUS_RESETTING"]:
            if self.hal.now() - begin >= timeout:
                raise MaseError("TIMEOUT")
        self._started = None

    def _settled(self, bits, value, timeout=None):
        """Wait until bits of PARAMETERS have a value."""
        timeout = self.hal.patience if timeout is None else timeout
        begin = self.hal.now()
        while self.hal.read(REG["PARAMETERS"]) & REG[f"PARAMETERS_{bits}"] != value:
            if self.hal.now() - begin >= timeout:
                raise MaseError("TIMEOUT")

    def _give(self, words, timeout):
        for index, word in enumerate(words):
            self._settled("PENDING", 0, timeout)
            self.hal.write(REG["PARAMETER_WORD"], int(word))
            self.hal.write(REG["PARAMETERS"], REG["PARAMETERS_GIVE" + ("_LAST" if index + 1 == len(words) else "")])
        self._settled("PENDING", 0, timeout)

    def store(self, image, timeout=None):
        """Load the parameters of a design that has them in RAM; frames that run are finished with those they have.

        Args:
            image: As ``mase-hw weights`` writes it: ``Path("weights/image.bin").read_bytes()``.
            timeout: For any word.

        Raises:
            MaseError: ``BAD_IMAGE`` if it is incomplete, changed or of another design.
        """
        words = np.frombuffer(image[: len(image) // 4 * 4], "<u4")
        if len(image) != 4 * self.manifest.get("image_words", 0) or not len(words):
            raise MaseError("BAD_IMAGE")
        if self.hal.read(REG["PARAMETERS"]) & REG["PARAMETERS_BUSY"]:
            self._give([0], timeout)  # another program has not ended its image
        self._settled("BUSY", 0, timeout)
        self._give(words, timeout)
        self._settled("BUSY", 0, timeout)
        state = self.hal.read(REG["PARAMETERS"])
        if state & REG["PARAMETERS_REFUSED"] or self.hal.read(REG["PARAMETER_DIGEST"]) != words[-1]:
            raise MaseError("BAD_IMAGE")

    def use(self, image, timeout=None):
        """Read the parameters from an image in memory, between two frames.

        Args:
            image: As ``mase-hw weights`` writes it: ``Path("weights/external.bin").read_bytes()``.
            timeout: For the frames that are inside, and the image.

        Raises:
            MaseError: ``BAD_IMAGE`` if it is changed or of another design; the image before is used then.
        """
        if len(image) != self.manifest.get("outside_bytes", 0) or not image:
            raise MaseError("BAD_IMAGE")
        way = next(name for name in ("image 0", "image 1") if name != self._image)
        data, address, handle = self._buffer(way, len(image))
        data[: len(image)] = np.frombuffer(image, np.uint8)
        self.hal.clean(handle)
        self._settled("BUSY", 0, timeout)
        self.hal.write(REG["PARAMETER_WORD"], address // (self.manifest["options"]["bus"] // 8))
        self.hal.write(REG["PARAMETERS"], REG["PARAMETERS_USE"])
        self._settled("PENDING", 0, timeout)
        self._settled("BUSY", 0, timeout)
        state, digest = self.hal.read(REG["PARAMETERS"]), int.from_bytes(image[-4:], "little")
        if state & REG["PARAMETERS_USE_REFUSED"] or self.hal.read(REG["PARAMETER_DIGEST"]) != digest:
            raise MaseError("BAD_IMAGE")
        self._image = way

    def recall(self, timeout=None):
        """Read the image of what is stored.

        Raises:
            MaseError: If no whole set is stored.
        """
        self._give([0x4D415352], timeout)
        if self.hal.read(REG["PARAMETERS"]) & REG["PARAMETERS_REFUSED"]:
            raise MaseError("NOT_STORED")
        words = []
        for _ in range(self.manifest.get("image_words", 0)):
            self._settled("ANSWER", REG["PARAMETERS_ANSWER"], timeout)
            words.append(self.hal.read(REG["PARAMETER_ANSWER"]))
            self.hal.write(REG["PARAMETERS"], REG["PARAMETERS_NEXT"])
        self._settled("BUSY", 0, timeout)
        return np.array(words, "<u4").tobytes()

    def counters(self, clear=False):
        """Frames, cycles and stalls by name."""
        names = (
            "PARAMETERS_LATE",
            "FRAMES_IN",
            "FRAMES_OUT",
            "FRAMES_FLAGGED",
            "CYCLES_LAST",
            "CYCLES_LEAST",
            "CYCLES_MOST",
        )
        found = {name.lower(): self.hal.read(REG[name]) for name in (*names, "STALLS_IN", "STALLS_OUT")}
        if clear:
            self.hal.write(REG["CONTROL"], REG["CONTROL_ENABLE"] | REG["CONTROL_CLEAR"])
        return found

    def _vectors(self, weights):
        """Integers that go in and must come out, an array ``(frames, *shape)`` a port."""
        if weights is not None:
            found = np.load(Path(weights) / "vectors.npz")
            return [[found[port.name] for port in ports] for ports in (self._inputs, self._outputs)]
        text = (HERE / "mase_vectors.c").read_text()
        frames = int(re.search(r"MASE_VECTORS (\d+)u", (HERE / "mase_vectors.h").read_text())[1])
        found = re.findall(r"\{([^{}]+)\}", text)[: 2 * frames]
        rows = [[int(v) for v in row.split(",")] for row in found]
        values, expected = np.array(rows[:frames]), np.array(rows[frames:], np.uint8)
        given, at = [], 0
        for port in self._inputs:
            tensors = np.empty((frames, port.size), np.int64)
            tensors[:, port._order] = values[:, at : at + port.size]
            given.append(tensors.reshape(frames, *port.shape))
            at += port.size
        return given, [p.unpack(expected[:, p.offset : p.offset + p.length]) for p in self._outputs]

    def _own_image(self):
        """The image of the bundle's parameters in memory."""
        words = re.search(r"mase_outside\[\d+\] = \{([^}]+)\}", (HERE / "mase_vectors.c").read_text())[1]
        return np.array([int(word) for word in re.findall(r"\d+", words)], "<u4").tobytes()

    def selftest(self, timeout=None, weights=None):
        """Play the vectors of the bundle; PASS and the cycles of a frame, or what differs first.

        Args:
            timeout: Of the job.
            weights: Folder that ``mase-hw weights`` wrote: its image is loaded, and its vectors are played.
        """
        given, expected = self._vectors(weights)
        if weights is not None and "image_words" in self.manifest:
            self.store((Path(weights) / "image.bin").read_bytes(), timeout)
        if "outside_bytes" in self.manifest:
            self.use(self._own_image() if weights is None else (Path(weights) / "external.bin").read_bytes(), timeout)
        frames = len(expected[0])
        self.counters(clear=True)
        results = self.run(*given, integers=True, timeout=timeout)
        for port, got, wanted in zip(self._outputs, results, expected, strict=True):
            for place in np.argwhere(got != wanted)[:1]:
                where = tuple(int(i) for i in place)
                values = f"got {got[where]}, expected {wanted[where]}"
                return f"FAIL: {port.name}, frame {where[0]}, element {where[1:]}: {values}"
        cycles, interval = self.counters()["cycles_last"], self.manifest["interval"]
        return f"PASS: {frames} frames, {cycles} cycles for the last ({interval} predicted)"
