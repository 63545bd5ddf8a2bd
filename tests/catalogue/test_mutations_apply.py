"""Every fault can be put into the files as they are now, also those that only `make test-long` simulates."""

from __future__ import annotations

from . import test_mutations, test_pool_mutations, test_product_mutations
from .test_mutations import Mutation, faulty


def faults() -> dict[str, Mutation]:
    found: dict[str, Mutation] = {}
    for module in (test_mutations, test_pool_mutations, test_product_mutations):
        for table in (module.WRONG, getattr(module, "SLOW", {})):
            for name, fault in table.items():
                assert name not in found
                found[name] = fault if isinstance(fault, Mutation) else fault[0]
    return found


def test_every_fault_is_one_of_the_files_as_they_are() -> None:
    assert len(faults()) > 60
    for name, mutation in faults().items():
        assert faulty(mutation), name
