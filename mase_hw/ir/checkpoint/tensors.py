"""The tensors of a checkpoint: an ordinary ``.pt`` file that is read without unpickling a byte of it.

``torch.save`` writes the file, so ``torch.load(file, weights_only=True)`` gives the tensors to anybody. Reading goes
another way: the document says type, shape, strides and record of every tensor, and the raw bytes of the record are all
that is taken from the file. No pickle is interpreted, so there is nothing in it that could run.
"""

from __future__ import annotations

import contextlib
import math
import sys
import zipfile
from collections.abc import Iterator, Mapping
from typing import IO, Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor

from mase_hw.errors import CheckpointError
from mase_hw.ir.checkpoint.values import DTYPES


class TensorDocument(BaseModel):
    """One tensor.

    Args:
        dtype: Name of the element type.
        shape: Sizes.
        stride: Strides in elements; the tensor fills its record without gaps.
        record: Number of its record in the file; None for a tensor on the ``meta`` device, which has no content.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    dtype: str
    shape: list[int] = Field(max_length=64)
    stride: list[int] = Field(max_length=64)
    record: int | None = Field(ge=0)


class TensorTable:
    """Collects the tensors of a checkpoint; the same memory seen in the same way is stored once."""

    def __init__(self) -> None:
        self.documents: dict[str, TensorDocument] = {}
        self._content: dict[str, Tensor] = {}
        self._keys: dict[tuple[Any, ...], tuple[str, Tensor]] = {}

    def add(self, key: str, tensor: Tensor, where: str) -> str:
        """Store a tensor under a key, unless it is there already; returns the key it has.

        Raises:
            CheckpointError: If it is sparse, quantised by PyTorch, or not initialised.
        """
        if tensor.layout is not torch.strided or tensor.is_quantized or torch.nn.parameter.is_lazy(tensor):
            raise CheckpointError(
                "a checkpoint holds plain dense tensors only",
                node=where,
                got=f"{type(tensor).__name__} {tensor.layout}",
            )
        plain = tensor.detach()
        identity = _identity(plain)
        if identity in self._keys:
            return self._keys[identity][0]
        # The tensor is kept, so that its memory, and with it the identity, is not used again.
        self._keys[identity] = (key, plain)
        meta = plain.device.type == "meta"
        content = plain if meta else plain.cpu()
        if meta or not _dense(content):
            content = content.clone(memory_format=torch.preserve_format)
        record = None if meta else len(self._content)
        dtype = str(content.dtype).removeprefix("torch.")
        shape, stride = list(content.shape), list(content.stride())
        self.documents[key] = TensorDocument(dtype=dtype, shape=shape, stride=stride, record=record)
        if not meta:
            # Interned, so that the pickler remembers the same keys whatever made the text.
            self._content[sys.intern(key)] = content
        return key

    def save(self, file: IO[bytes]) -> None:
        """Write the file: a flat dict of tensors by key; same tensors, same bytes."""
        torch.save(self._content, file)

    def verify(self, file: IO[bytes]) -> None:
        """Read a file back and compare every bit.

        Raises:
            CheckpointError: If it does not hold these tensors.
        """
        with _opened(file) as archive:
            for key, tensor in self._content.items():
                if not torch.equal(_bytes(tensor), _bytes(_read(archive, key, self.documents[key]))):
                    raise CheckpointError("a tensor did not reach the file as it is", node=key)


def _identity(tensor: Tensor) -> tuple[Any, ...]:
    storage = tensor.untyped_storage()
    return (storage._cdata, tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.dtype)


def _dense(tensor: Tensor) -> bool:
    """Whether a tensor is all of its memory, so that it can be written as it is."""
    whole = tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    return whole and not (tensor.is_conj() or tensor.is_neg()) and _fills(tensor.shape, tensor.stride())


def _fills(shape: Any, stride: Any) -> bool:
    """Whether strides enumerate every element of a block exactly once, in some order of the dimensions."""
    if 0 in shape:
        return True
    expected = 1
    for step, size in sorted((st, sz) for sz, st in zip(shape, stride, strict=True) if sz != 1):
        if step != expected:
            return False
        expected *= size
    return True


def _bytes(tensor: Tensor) -> Tensor:
    flat = tensor.as_strided((tensor.numel(),), (1,)) if tensor.numel() else tensor.reshape(0)
    return flat.view(torch.uint8)


def read_tensors(file: IO[bytes], documents: Mapping[str, TensorDocument]) -> dict[str, Tensor]:
    """Read the tensors of a ``.pt`` file as the documents describe them.

    Raises:
        CheckpointError: If the file is no such file, or a tensor does not fit its record.
    """
    with _opened(file) as archive:
        return {key: _read(archive, key, document) for key, document in documents.items()}


@contextlib.contextmanager
def _opened(file: IO[bytes]) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(file) as archive:
            order = archive.read("archive/byteorder").decode()
            if order != sys.byteorder:
                raise CheckpointError("the tensors were written on a machine of another byte order", got=order)
            yield archive
    except (OSError, KeyError, ValueError, NotImplementedError, zipfile.BadZipFile) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError("the tensors cannot be read", got=f"{type(error).__name__}: {error}") from error


def _read(archive: zipfile.ZipFile, key: str, document: TensorDocument) -> Tensor:
    dtype, shape, stride = DTYPES.get(document.dtype), document.shape, document.stride
    if dtype is None or len(shape) != len(stride) or min([0, *shape, *stride]) < 0 or not _fills(shape, stride):
        raise CheckpointError("a tensor is described in a way that cannot be", node=key, got=repr(document))
    if document.record is None:
        return torch.empty_strided(shape, stride, dtype=dtype, device="meta")
    count = math.prod(shape)
    info = archive.getinfo(f"archive/data/{document.record}")
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != count * dtype.itemsize:
        raise CheckpointError(
            "a tensor does not fit its record",
            node=key,
            got=f"{info.file_size} bytes",
            expected=f"{count * dtype.itemsize} bytes for {document.dtype} {shape}",
        )
    content = torch.empty(info.file_size, dtype=torch.uint8)
    content.numpy()[:] = np.frombuffer(archive.read(info), dtype=np.uint8)
    return content.view(dtype).as_strided(shape, stride)
