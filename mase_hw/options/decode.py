"""Options of a causal language model whose tokens come one at a time."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator


class DecodeOptions(BaseModel):
    """A causal language model whose tokens come one at a time."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    context: int = Field(
        default=0,
        ge=0,
        le=1 << 16,
        description="most tokens of a sequence, whose keys and values stay in the design; 0: not such a model",
    )
    slots: Literal[1, 2, 4, 8, 16, 32] = Field(
        default=1,
        description="sequences in turn, each with a slot of its own for its keys, values and position; of more than "
        "one an input ``slot`` says of every token whose it is",
    )
    cache: Literal["block_ram", "external"] = Field(
        default="block_ram",
        description="where keys and values are kept: ``block_ram``; or ``external``, a memory outside, written and "
        "read through ports of its own, for one sequence at a time",
    )
    sample: Literal["none", "greedy", "top_k"] = Field(
        default="none",
        description="what chooses the next token in hardware, whose result is the token then: ``greedy``, the highest "
        "score, the first one of equals; ``top_k``, one of the highest by chance; ``none``: the scores leave",
    )
    candidates: PositiveInt = Field(default=8, description="of ``top_k``: how many of the highest scores take part")
    temperature: PositiveFloat = Field(
        default=1.0, description="of ``top_k``: what scores are divided by before their softmax"
    )
    seed: int = Field(
        default=1, ge=1, lt=1 << 31, description="of ``top_k``: what random numbers of every sequence begin with"
    )

    stop: int = Field(
        default=-1, ge=-1, description="the token that ends a sequence, of a design that generates by itself; -1: none"
    )
    length: NonNegativeInt = Field(
        default=0,
        description="most tokens that a design chooses by itself for a prompt; 0: up to ``stop``, and by no other "
        "limit than the context; without ``stop`` as well the tokens come from outside, one by one",
    )

    @property
    def by_itself(self) -> bool:
        """Whether chosen tokens enter the design again without a host."""
        return self.stop >= 0 or self.length > 0

    @model_validator(mode="after")
    def _of_tokens(self) -> DecodeOptions:
        if self.cache == "external" and (self.slots > 1 or self.by_itself):
            raise ValueError("keys and values in external memory are those of one sequence, whose tokens a host gives")
        asked = self.slots > 1 or self.cache != "block_ram" or self.sample != "none" or self.by_itself
        if asked and not self.context:
            raise ValueError(
                "slots, cache, sample, stop and length are of a model with a decode.context, which is missing"
            )
        return self
