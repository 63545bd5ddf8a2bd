"""A whole network of constants as one graph of sums, casts, maxima and tables, of every element of a frame at once.

What a linear op computes is found by its own golden: the results of unit vectors are the columns of its matrix. Rows
that share no input are planned apart, and equal ones once. Of a convolution a plan is made for one position, whose
pairs of terms are the same wherever the window moves them, and it is repeated at every position; a value that two
positions need is computed once. A sum whose window is partly outside the image has fewer terms.

If a frame comes in several beats, positions that are the same value in different beats repeat: what is computed of them
is found for the first of them, and is there in the beats of the others as well. A window reaches into the beats before
and behind; where it leaves the frame in some beats only, an element is masked in these. A linear layer over all
positions adds up what every beat gives, and weights that differ between beats are taken bit by bit.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from mase_hw.errors import UnsupportedError
from mase_hw.formats import FixedFormat, Overflow, Rounding, ScaledFormat
from mase_hw.formats.elements import format_of
from mase_hw.opdef import Arithmetic
from mase_hw.ops._conv import geometry_of
from mase_hw.ops.unrolled._beats import Over, Tile, bits_of, later, results
from mase_hw.ops.unrolled._carry_save import CarrySave
from mase_hw.ops.unrolled._casts import Casts, at_once
from mase_hw.ops.unrolled._delays import DELAYS, Delays
from mase_hw.ops.unrolled._network import (
    BEAT,
    WIDE,
    Elements,
    Looked,
    Network,
    Positive,
    Program,
    Rounded,
    Step,
)
from mase_hw.ops.unrolled._quotients import DIVIDING, PLACES, as_product, is_exact, quotients, units_of
from mase_hw.ops.unrolled._quotients import MOST as MOST_QUOTIENTS
from mase_hw.ops.unrolled._repeated import ROW, Repeated, of_vector, pixel
from mase_hw.ops.unrolled._solver import Early, Plan, apart, digits, finished, merged, plan
from mase_hw.ops.unrolled._tables import MOST_CODES, counted, leaves_of, table_layer, windows_of
from mase_hw.ops.unrolled._trees import Signed
from mase_hw.ops.unrolled.data._products import PRODUCTS, products
from mase_hw.ops.unrolled.data._shares import largest, softmax

MOST_DIGITS = 200_000
"""Most non-zero digits of the weights that one layer has at all positions together."""
_KEPT = 1 / 6
"""Adder bits that a bit of a sum counts for in every level: of three one has a register, of which a look-up table has
two beside it."""
_LINEAR = {"linear", "add", "sub", "sum", "sum_of_products", *DIVIDING}
"""Ops whose exact results are linear in the data."""
_CONVOLUTIONS = ("conv1d", "conv2d")
_TABLED = 128
"""Numbers of a sum up to which its quotient is a table."""
_MOVES = {"cat", "cat_part", "rearrange", "taps", "slice", "pad", "interpolate"}
"""Ops that put elements elsewhere, perhaps zeros between them, and cast them."""
_FUNCTIONS = {"fixed_function", "fixed_unary", "fixed_pieces", "fixed_prelu", "fixed_affine", "fixed_binary"}
"""Modules of functions of every element by itself, which may have parameters for it."""
_MAXIMA = {"max_pool1d", "max_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d", "amax"}


class _Lowering:
    """One step as values of the network's graph, with its own cast or with that of the next one as well."""

    def __init__(self, network: Network, step: Step, delays: Delays | None = None, casts: Casts | None = None) -> None:
        self.network, self.graph, self.step, self.delays = network, network.graph, step, delays
        self._casts = casts

    @property
    def casts(self) -> Casts:
        """What becomes of sums."""
        return self._casts or Casts.of(self.step)

    def run(self, given: Sequence[Elements]) -> Elements:
        """Elements of the result."""
        step = self.step
        if step.op is None:
            assert step.order is not None
            named: Elements = given[0].reshape(-1)[step.order.numpy().reshape(-1)].reshape(step.shape)
            return named
        if any(isinstance(fmt, ScaledFormat) for fmt in step.arithmetic.formats.values()):
            raise self._refused("scaled integers", "fixed-point formats")
        name = step.op.name
        of_data = name in PRODUCTS and len(given) > 1
        if name not in _LINEAR and not of_data:
            given = [self.network.plain(each) for each in given]
        if name in _CONVOLUTIONS:
            found = self._convolution(given[0])
        elif name in _LINEAR:
            found = self._linear(given)
        elif name == "softmax":
            found = self._softmax(given[0])
        elif of_data:
            found = self._of_data(given)
        elif name in _MOVES:
            found = self._moved(given)
        elif name in _MAXIMA:
            found = self._maxima(given[0])
        elif name in ("relu", "cast", "passed_on") and step.arithmetic.attributes.get("elements") is not None:
            found = self._each(given[0])
        elif name in ("relu", "cast", "passed_on"):
            found = self._cast(given[0], self._frac("data_in_0"), positive=name == "relu")
            found = self._dropped(found.reshape(step.shape))
        elif name in ("tables", "table_windows", "forest"):
            if self.network.beats > 1:
                raise self._refused(f"op {name!r} over several beats", "a whole frame in one beat")
            found = self._forest(given[0]) if name == "forest" else self._tables(given[0])
        elif self._of_one_value():
            found = self._table(given[0])
        else:
            raise self._refused(f"op {name!r}", "linear layers, convolutions, sums, pooling and functions of one value")
        shaped: Elements = found.reshape(step.shape)
        return shaped

    def _of_one_value(self) -> bool:
        """Whether the op is a function of every element by itself, perhaps with parameters for it."""
        op = self.step.op
        assert op is not None
        return len(self.step.inputs) == 1 and op.hardware is not None and op.hardware.module in _FUNCTIONS

    def _refused(self, got: str, expected: str) -> UnsupportedError:
        return UnsupportedError(
            "this op cannot take a whole frame per beat",
            node=self.step.node,
            field="hardware.unroll",
            got=got,
            expected=expected,
            remedy="leave hardware.unroll out, or compile the parts of the model before and after it",
        )

    # ---- Sums

    def _linear(self, given: Sequence[Elements]) -> Elements:
        """A linear op, from its results for unit vectors."""
        numbers = np.concatenate([each.reshape(-1) for each in given])
        (positive, negative), frac = units_of(self.step, [each.shape for each in given])
        if not is_exact(positive, negative):
            return self._divided(numbers, positive[1:].T)
        bits = int(np.bitwise_or.reduce(np.abs(positive).reshape(-1)))
        dividing = self.step.op is not None and self.step.op.name in DIVIDING
        spare = (bits & -bits).bit_length() - 1 if bits and dividing else 0
        matrix = (positive[1:] - positive[0]).T >> spare
        return self._summed(numbers, matrix, positive[0] >> spare, frac - spare)

    def _of_data(self, given: Sequence[Elements]) -> Elements:
        """Sums of products of data; one product alone is cast as it is."""
        inputs, matrix, constants, frac = products(self.network, self.step, given)
        alone = (np.count_nonzero(matrix, 1) == 1) & (matrix.sum(1) == 1) & (constants == 0)
        alone &= self.casts.first(frac) is None
        found = np.zeros(len(matrix), dtype=np.int64)
        found[~alone] = self._summed(inputs, matrix[~alone], constants[~alone], frac)
        if alone.any():
            found[alone] = self._cast(self.network.plain(inputs[matrix[alone].argmax(1)]), frac)
        return found

    def _divided(self, numbers: Elements, shares: npt.NDArray[np.int64]) -> Elements:
        """Means over numbers that are no powers of two, from what one has of each: exact sums, which are divided."""
        frac = self.step.arithmetic.formats["data_in_0"].frac_width
        exact = Casts(FixedFormat(WIDE, frac), Rounding.FLOOR, Overflow.SATURATE)
        zeros = np.zeros(len(shares), dtype=np.int64)
        sums = self._with(exact)._summed(numbers, (shares > 0).astype(np.int64), zeros, frac)
        divisors = [round((1 << PLACES) / max(int(most), 1)) for most in shares.max(1)]
        found = [self._quotient(int(total), by) for total, by in zip(sums, divisors, strict=True)]
        return np.array(found, dtype=np.int64)

    def _quotient(self, total: int, divisor: int) -> int:
        """A sum divided by a constant: a table where it has few codes, else a product."""
        a, ends = self.step.arithmetic, self.network.ends(total)
        codes, frac, out = ends[1] - ends[0] + 1, a.formats["data_in_0"].frac_width, self.casts.fmt
        if codes > MOST_QUOTIENTS:
            raise self._refused(f"a mean of {codes} numbers", f"at most {MOST_QUOTIENTS}")
        product = as_product(ends, divisor, frac, out.frac_width, a.rounding) if codes > _TABLED else None
        if product is None:
            if codes > MOST_CODES:
                raise self._refused(
                    f"a mean over {divisor} of {codes} numbers, rounded as {a.rounding.name.lower()}",
                    f"half_up, or at most {MOST_CODES}",
                )
            table = tuple(quotients(ends, divisor, frac, out, a.modes).tolist())
            made = self.network.enter(Looked((total % BEAT,), table), (min(table), max(table)), 1)
            return self._in(made, total // BEAT)
        by, constant, shift = product
        lowered = self._with(Casts(out, Rounding.FLOOR, a.overflow))
        return int(
            lowered._summed(np.array([total]), np.array([[by]]), np.array([constant]), out.frac_width + shift)[0]
        )

    def _with(self, casts: Casts) -> _Lowering:
        """The same with other casts of sums."""
        return _Lowering(self.network, self.step, self.delays, casts)

    def _summed(
        self, inputs: Elements, matrix: npt.NDArray[np.int64], biases: npt.NDArray[np.int64], frac: int
    ) -> Elements:
        """The casts of ``matrix @ inputs + biases``, a number with so many bits of fraction."""
        if self.network.beats == 1:
            inputs, matrix = counted(self.network, *merged(inputs, matrix))
        fixed = np.array([self.network.constant(int(number)) or 0 for number in inputs], dtype=np.int64)
        constants = (biases + matrix @ fixed).tolist()
        moving = np.array([self.network.constant(int(number)) is None for number in inputs], dtype=bool)
        shifts = [self.network.shifts.get(int(number), (0, None))[0] for number in inputs]
        matrix = matrix * moving << np.array(shifts, dtype=np.int64)
        terms: list[Signed | None] = [None] * len(matrix)
        for rows in apart(matrix):
            columns = np.flatnonzero(matrix[rows].any(0))
            numbers = [int(inputs[column]) for column in columns]
            if (over := Over.found(matrix[rows][:, columns], numbers, self.network.beats)) is not None:
                for row, term in zip(rows, self._accumulated(over), strict=True):
                    terms[row] = term
                continue
            planned = self._planned(matrix[rows][:, columns].tolist(), numbers, None, 1)
            repeated = Repeated(self.network, planned, functools.partial(of_vector, numbers))
            for row, term in zip(rows, planned.sums, strict=True):
                terms[row] = repeated.term(term, 0)
        return self._finished(terms, constants, frac)

    def _accumulated(self, over: Over) -> list[Signed | None]:
        """The rows of a linear op over all beats: in every beat its part of the sums, which are then added up."""
        network, start = self.network, over.start
        columns: dict[tuple[int, tuple[bool, ...]], dict[int, int]] = {}
        for (number, row), weights in over.weights.items():
            for weight, there in bits_of(weights):
                by_row = columns.setdefault((number, there), {})
                by_row[row] = by_row.get(row, 0) + weight
        numbers = [
            network.masked(
                network.at(number + over.first[number] * BEAT, start) + start * BEAT, over.beats(there, start)
            )
            for number, there in columns
        ]
        matrix = [[by_row.get(row, 0) for by_row in columns.values()] for row in range(over.rows)]
        planned = self._planned(matrix, numbers, None, 1)
        repeated = Repeated(network, planned, functools.partial(of_vector, numbers))
        begins = over.beats((True, *[False] * (over.times - 1)), start)
        low, high = [0] * over.rows, [0] * over.rows
        for (number, row), weights in over.weights.items():
            for ends in ([weight * end for end in network.ends(number)] for weight in weights):
                low[row], high[row] = low[row] + min(ends), high[row] + max(ends)
        found: list[Signed | None] = []
        for row, plain in enumerate(planned.sums):
            term = repeated.term(plain, 0)
            if term is not None:
                term = network.accumulated(term, (low[row], high[row]), begins, (over.times - 1) * over.step + 1)
            found.append(later(term, (over.times - 1) * over.step))
        return found

    def _convolution(self, x: Elements) -> Elements:
        """A convolution: a plan for each group, at every position."""
        step, formats = self.step, self.step.arithmetic.formats
        weight = step.parameters["weight"].to(torch.int64)
        g = geometry_of(step.arithmetic.attributes, tuple(weight.shape[2:]))
        if step.op is not None and step.op.name == "conv1d":  # positions are rows of one element
            turned = {key: getattr(g, key)[::-1] for key in ("stride", "before", "after", "dilation")}
            g, x, weight = dataclasses.replace(g, **turned), x[..., None], weight[..., None]
        frac = product_frac = formats["data_in_0"].frac_width + formats["weight"].frac_width
        biases = [0] * len(weight)
        if "bias" in step.parameters:
            frac = max(frac, formats["bias"].frac_width)
            biases = [int(b) << (frac - formats["bias"].frac_width) for b in step.parameters["bias"]]
        if "weight_shift" in step.parameters:
            fmt = formats["weight"]
            weight = weight * fmt.spread(fmt.factors(step.parameters["weight_shift"].to(torch.int64)), weight.shape)
        weight = weight.reshape(*weight.shape[:2], -1, weight.shape[-1]) << (frac - product_frac)
        pixels = x.reshape(x.shape[0], x.shape[1], -1, x.shape[-1])
        size, kernel = pixels.shape[2:], weight.shape[2:]
        rows, columns = g.out((size[0], size[1]), (kernel[0], kernel[1]))
        tile = Tile.found(pixels, g, rows, kernel[0], self.network.beats)
        terms = np.empty((len(x), len(weight), rows, columns), dtype=object)
        for group, weights in enumerate(weight.chunk(g.groups)):
            depth = weights.shape[1]
            own = pixels[:, group * depth : (group + 1) * depth]
            inputs: dict[tuple[int, int, int], int] = {}
            taps: list[tuple[int, int]] = []
            for channel, down, along in np.ndindex(*weights.shape[1:]):
                places = (down * g.dilation[0] - g.before[0], along * g.dilation[1] - g.before[1])
                (at_row, row), (at_column, column) = (divmod(p, s) for p, s in zip(places, g.stride, strict=True))
                taps.append((inputs.setdefault((channel, row, column), len(inputs)), at_row * ROW + at_column))
            phases = list(inputs)
            ends = []
            for channel, row, column in phases:
                each = own[:, channel, row :: g.stride[0], column :: g.stride[1]].reshape(-1)
                found = [self.network.ends(int(number)) for number in each] or [(0, 0)]
                ends.append((min(low for low, _ in found), max(high for _, high in found)))
            matrix = weights.flatten(1).tolist()
            planned = self._checked(matrix, ends, tuple(taps), len(x) * tile.rows * columns)
            for image in range(len(x)):
                element = functools.partial(pixel, self.network, own[image], phases, tile)
                repeated = Repeated(self.network, planned, element)
                for y, z in np.ndindex(tile.rows, columns):
                    for channel, term in enumerate(planned.sums):
                        found_term = repeated.term(term, y * ROW + z)
                        for times, row in enumerate(range(y, rows, tile.rows)):
                            place = image, group * len(weights) + channel, row, z
                            terms[place] = later(found_term, times * tile.step)
        each_bias = np.broadcast_to(np.array(biases, dtype=object).reshape(-1, 1, 1), terms.shape)
        constants = each_bias + self._fixed(pixels, weight)
        wanted = [int(constant) for constant in constants.reshape(-1)]
        return self._finished(terms.reshape(-1).tolist(), wanted, frac)

    def _fixed(self, pixels: Elements, weight: Tensor) -> npt.NDArray[np.int64] | int:
        """What elements that are always the same number add to the sums of a convolution."""
        fixed = np.array([self.network.constant(int(number)) or 0 for number in pixels.reshape(-1)])
        if not fixed.any():
            return 0
        raise self._refused("constants other than 0 in the input of a convolution", "data")

    def _planned(
        self, matrix: list[list[int]], numbers: Sequence[int], columns: tuple[tuple[int, int], ...] | None, times: int
    ) -> Plan:
        return self._checked(matrix, [self.network.ends(number) for number in numbers], columns, times)

    def _checked(
        self,
        matrix: list[list[int]],
        ends: Sequence[tuple[int, int]],
        columns: tuple[tuple[int, int], ...] | None,
        times: int,
    ) -> Plan:
        count = times * sum(len(digits(w)) for row in matrix for w in row)
        if count > MOST_DIGITS:
            raise self._refused(
                f"{count} non-zero digits of weights, over all positions", f"at most {MOST_DIGITS} digits"
            )
        return _plan(tuple(map(tuple, matrix)), tuple(ends), columns, self.delays is None)

    def _finished(self, terms: Sequence[Signed | None], constants: Sequence[int], frac: int) -> Elements:
        """The elements that are the casts of sums with their constants."""
        drop, half, first = frac - self.casts.fmt.frac_width, self.casts.halves(frac), self.casts.first(frac)
        wanted, halves = [], []
        beats = [0 if term is None else -term[0][2] for term in terms]
        # The same value in another beat has the same cast.
        terms = [later(term, -beat) for term, beat in zip(terms, beats, strict=True)]
        for term, constant in zip(terms, constants, strict=True):
            low, high = self._ends(term)
            most = max(abs(low + constant), abs(high + constant)).bit_length()
            halves.append(half if term is not None and (first is not None or drop <= most) else 0)
            wanted.append(int(constant) + halves[-1])
        found = []
        outputs = finished(self.graph, terms, wanted, Early(self.graph, terms))
        if self.delays is not None:
            outputs = CarrySave(self.network, self.delays, terms).sooner(terms, wanted, outputs)
        for output, half, beat in zip(outputs, halves, beats, strict=True):
            number, shift = (self.graph.constant(0), 0) if output is None else output
            value = self.graph.values[number]
            made = self._rounded((number, shift), (value.low, value.high), half, frac, False)
            found.append(self._in(made, beat))
        return np.array(found, dtype=np.int64)

    def _in(self, number: int, beat: int) -> int:
        """The element that a value is in a beat; one that never changes is in none."""
        return number + beat * BEAT if self.network.constant(number) is None else number

    def _ends(self, term: Signed | None) -> tuple[int, int]:
        """The smallest and the largest number that a term is, without the constant of its value."""
        if term is None:
            return 0, 0
        (number, shift, _), sign = term
        value = self.graph.values[number]
        ends = [sign * (end - value.constant) << shift for end in (value.low, value.high)]
        return min(ends), max(ends)

    def _rounded(self, term: tuple[int, int], ends: tuple[int, int], less: int, frac: int, element: bool) -> int:
        """The cast of a shifted value in a range, in which so much of half an LSB is that is to be taken off."""
        number, shift = term
        casts, out = self.casts, self.casts.fmt
        exact = [(end << shift) - less for end in ends]
        low, high = casts.ends(exact, frac)
        drop = frac - out.frac_width
        wires = drop <= 0 and [low, high] == [end << -drop for end in exact]
        first = casts.first(frac)
        made = Rounded(number, shift, frac, out, casts.rounding, casts.overflow, bool(less), element, first=first)
        return self.network.enter(made, (low, high), 0 if wires else 1)

    # ---- Single elements

    def _frac(self, name: str) -> int:
        """The fraction width of an operand."""
        return self.step.arithmetic.formats[name].frac_width

    def _cast(self, x: Elements, frac: int, positive: bool = False) -> Elements:
        """Elements of so much fraction in the format of the result, perhaps without negative numbers."""
        out, found = self.casts.fmt, []
        for beat, number in (divmod(int(element), BEAT) for element in x.reshape(-1)):
            low, high = self.network.ends(number)
            if positive and low < 0:
                number = self.network.enter(Positive(number), (0, max(high, 0)), 0)
                low, high = self.network.ends(number)
            if frac != out.frac_width or low < out.min_mantissa or high > out.max_mantissa:
                number = self._rounded((number, 0), (low, high), 0, frac, True)
            found.append(self._in(number, beat))
        return np.array(found, dtype=np.int64).reshape(x.shape)

    def _dropped(self, x: Elements) -> Elements:
        """Elements without the lowest bits that each of them drops, so that sums of them are as much narrower."""
        a, out = self.step.arithmetic, self.step.arithmetic.formats["data_out_0"]
        drops = a.attributes.get("drops")
        if drops is None:
            return x
        if self.network.beats > 1:
            raise self._refused("bits of every element over several beats", "a whole frame in one beat")
        found = []
        for number, drop in zip(map(int, x.reshape(-1)), np.broadcast_to(drops, (len(x), x[0].size)).flat, strict=True):
            k, (low, high) = int(drop), self.network.ends(number)
            if k >= out.width or low >> k == high >> k:
                number = self.graph.constant(0 if k >= out.width else low >> k << k)
            elif k:
                narrow = FixedFormat(out.width - k, out.frac_width - k, out.signed)
                made = Rounded(number, 0, out.frac_width, narrow, Rounding.FLOOR, a.overflow, False, True)
                number = self._shifted(made, (low >> k, high >> k), 0)
            found.append(number)
        return np.array(found, dtype=np.int64).reshape(x.shape)

    def _shifted(self, made: Rounded, ends: tuple[int, int], delay: int) -> int:
        """An element in a format that is coarser than that of the result, of which it is a multiple."""
        out = self.step.arithmetic.formats["data_out_0"]
        shift = out.frac_width - made.fmt.frac_width
        number = self.network.enter(dataclasses.replace(made, stands=shift), ends, delay)
        if self.network.constant(number) is not None:
            return self.graph.constant(ends[0] << shift)
        if shift:
            self.network.shifts.setdefault(number, (shift, out))
        return number

    def _each(self, x: Elements) -> Elements:
        """Elements in formats of their own."""
        a, out = self.step.arithmetic, self.step.arithmetic.formats["data_out_0"]
        if self.network.beats > 1:
            raise self._refused("formats of every element over several beats", "a whole frame in one beat")
        frac, found = a.formats["data_in_0"].frac_width, []
        formats = itertools.cycle([format_of(element) for element in a.attributes["elements"] or ()])
        for number, own in zip(map(int, x.reshape(-1)), formats, strict=False):
            low, high = self.network.ends(number)
            if own is None:
                found.append(self.graph.constant(0))
                continue
            ends = Casts(own, a.rounding, a.overflow).ends((low, high), frac)
            wires = own.frac_width >= frac and ends == (low << own.frac_width - frac, high << own.frac_width - frac)
            if wires and own.frac_width == out.frac_width == frac:
                found.append(number)
                continue
            made = Rounded(number, 0, frac, own, a.rounding, a.overflow, False, True)
            found.append(self._shifted(made, ends, 0 if wires else 1))
        return np.array(found, dtype=np.int64).reshape(x.shape)

    def _table(self, x: Elements) -> Elements:
        """A function of every element, from its golden for every number; with parameters another one for each."""
        found, tables = [], dict[tuple[int, int], npt.NDArray[np.int64]]()
        for place, (beat, number) in enumerate(divmod(int(element), BEAT) for element in x.reshape(-1)):
            ends = low, high = self.network.ends(number)
            if high - low >= MOST_CODES:
                raise self._refused(f"a function of {high - low + 1} numbers", f"at most {MOST_CODES}")
            if ends not in tables:
                # Of every frame all elements are the same number; without parameters one element says it all.
                shape = x.shape[1:] if self.step.parameters else (1,) * (x.ndim - 1)
                codes = torch.arange(low, high + 1, dtype=torch.float32).reshape(-1, *(1 for _ in shape))
                made = self.step.run([codes.expand(-1, *shape)])
                tables[ends] = made.reshape(len(made), -1).to(torch.int64).numpy().T
            table = tuple(tables[ends][place % len(tables[ends])].tolist())
            looked = self.network.enter(Looked((number,), table), (min(table), max(table)), 1)
            found.append(self._in(looked, beat))
        return np.array(found, dtype=np.int64)

    # ---- Several elements

    def _tables(self, x: Elements) -> Elements:
        """A layer of tables, of every row or window."""
        a = self.step.arithmetic
        fmt = a.attributes["formats"]["data"]
        formats = {"data_in_0": a.formats["data_in_0"], "data_out_0": fmt}
        entering = dataclasses.replace(self.step, arithmetic=Arithmetic(formats))
        codes = _Lowering(self.network, entering)._cast(x, self._frac("data_in_0")).reshape(x.shape)
        windows = self.step.op is not None and self.step.op.name == "table_windows"
        given = windows_of(codes, self.graph.constant(0), a.attributes) if windows else codes.reshape(-1, x.shape[-1])
        rows = [
            table_layer(self.network, row.tolist(), fmt, a.attributes["table_sources"], a.attributes["table_words"])
            for row in given
        ]
        return np.stack(rows).reshape(len(x), -1, len(rows[0])).swapaxes(1, 2) if windows else np.concatenate(rows)

    def _forest(self, x: Elements) -> Elements:
        """The sums of what the trees say, of every row."""
        a, found = self.step.arithmetic, []
        base = np.array(a.attributes["base_leaf"], dtype=np.int64)
        for row in x.reshape(-1, x.shape[-1]).tolist():
            trees = [leaves_of(self.network, row, a.formats["data_in_0"], tree) for tree in a.attributes["trees"]]
            leaves = np.array(trees, dtype=np.int64).T
            matrix = np.repeat(np.eye(len(base), dtype=np.int64), len(trees), 1)
            found.append(self._summed(leaves.reshape(-1), matrix, base, a.attributes["leaf_frac"]))
        return np.concatenate(found)

    def _moved(self, given: Sequence[Elements]) -> Elements:
        """Elements elsewhere: their numbers take their ways."""
        cast_first = [self._cast(x, self._frac(f"data_in_{k}")) for k, x in enumerate(given)]
        numbers = np.concatenate([np.zeros(1, np.int64), *[x.reshape(-1) for x in cast_first]])
        places = self._alike()
        ways = []
        for first in (1, 1 + len(numbers)):
            tensors, at = [], first
            for x in given:
                tensors.append(torch.arange(at, at + x.size, dtype=torch.float64).reshape(x.shape))
                at += x.size
            ways.append(places.run(tensors).to(torch.int64).numpy())
        if (np.where(ways[0] == ways[1], ways[0], 0) != 0).any():
            raise self._refused("elements that are no numbers of the input", "zeros between them")
        numbers[0] = self.graph.constant(0)
        found: Elements = numbers[ways[0]]
        return found

    def _maxima(self, x: Elements) -> Elements:
        """The largest element of every window, whose members are found with unit vectors."""
        units = torch.eye(x.size).reshape(-1, *x.shape[1:])
        members = self._alike().run([units]).reshape(x.size, -1).numpy() > 0
        found = [largest(self.network, x.reshape(-1)[window].tolist()) for window in members.T]
        return self._cast(np.array(found, dtype=np.int64), self._frac("data_in_0"))

    def _softmax(self, x: Elements) -> Elements:
        """The casts of the shares of rows."""
        if self.network.beats > 1:
            raise self._refused("a softmax over several beats", "a whole frame in one beat")
        exact = self._with(Casts(FixedFormat(WIDE, 0), Rounding.FLOOR, Overflow.SATURATE))

        def summed(row: Sequence[int]) -> int:
            ones, zero = np.ones((1, len(row)), dtype=np.int64), np.zeros(1, dtype=np.int64)
            return int(exact._summed(np.array(row, dtype=np.int64), ones, zero, 0)[0])

        shares, frac = softmax(self.network, self.step, x, summed)
        ends = [(0, min(self.graph.values[number].high, 1 << frac >> shift)) for number, shift in shares]
        found = [self._rounded(share, end, 0, frac, False) for share, end in zip(shares, ends, strict=True)]
        return np.array(found, dtype=np.int64)

    def _alike(self) -> Step:
        """The step with one format, of plain integers, for all data."""
        a = self.step.arithmetic
        formats = {n: FixedFormat(40, 0) if n.startswith("data_") else f for n, f in a.formats.items()}
        return dataclasses.replace(self.step, arithmetic=dataclasses.replace(a, formats=formats))


@functools.lru_cache(maxsize=256)
def _plan(
    matrix: tuple[tuple[int, ...], ...],
    ends: tuple[tuple[int, int], ...],
    columns: tuple[tuple[int, int], ...] | None,
    late: bool,
) -> Plan:
    return plan(matrix, [0] * len(matrix), ends, columns, _KEPT, late)


@functools.lru_cache(maxsize=32)
def network_of(program: Program) -> Network:
    """The network of a program.

    Raises:
        UnsupportedError: If a step is not one of constants, or has too many of them.
    """
    network = Network(beats=program.beats)
    shape, beats, axis = program.shape, program.beats, program.axis
    size = shape[axis] // beats if beats > 1 else 0
    part = (*shape[:axis], size, *shape[axis + 1 :]) if beats > 1 else shape
    formats = [fmt for size, fmt in program.ports for _ in range(size // beats)]
    network.inputs = [network.graph.enter(fmt.min_mantissa, fmt.max_mantissa, 0) for fmt in formats]
    numbers = np.array(network.inputs, dtype=np.int64)
    tile = program.layout(part).from_stream(numbers[None])[0]
    found: list[Elements] = [np.concatenate([tile + beat * BEAT for beat in range(beats)], axis if beats > 1 else 0)]
    delays = DELAYS.get(program.family) if program.carry_save else None
    done = at_once(program.steps, {*_LINEAR, *_CONVOLUTIONS, *PRODUCTS})
    shapes = [program.shape, *(step.shape for step in program.steps)]
    for number in list(done):
        before = program.steps[program.steps[number].inputs[0] - 1]
        name = "" if before.op is None else before.op.name
        means = name in DIVIDING and not is_exact(*units_of(before, [shapes[i] for i in before.inputs])[0])
        if means or (name in PRODUCTS and len(before.inputs) == 1):
            del done[number]  # a quotient is rounded by itself, and a product by a stored tensor is a table
    casts = {program.steps[number].inputs[0]: both for number, both in done.items()}
    for number, step in enumerate(program.steps):
        given = [found[i] for i in step.inputs]
        if number in done:
            found.append(given[0].reshape(step.shape))
        else:
            found.append(_Lowering(network, step, delays, casts.get(number + 1)).run(given))
    network.graph.outputs = [(number, 0) for number in results(network, program, network.plain(found[-1]))]
    return network
