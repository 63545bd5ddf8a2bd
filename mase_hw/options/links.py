"""Options of the links between devices."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt


class LinkOptions(BaseModel):
    """A link between two devices: the same for all streams between them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bits: PositiveInt = Field(default=32, description="of a word, of which one is sent at a time")
    latency: NonNegativeInt = Field(
        default=8, description="cycles of the devices' clock from one device to the other, of words and of credits"
    )
    clock_ratio: PositiveInt = Field(
        default=1, description="cycles of the devices' clock per word: how many times slower the link is"
    )
    credits: PositiveInt | None = Field(
        default=None,
        examples=[64],
        description="words that the far side holds, where more are wanted than the link needs for its full rate",
    )


class LinksOptions(LinkOptions):
    """The links of a design on several devices."""

    between: dict[str, LinkOptions] = Field(
        default_factory=dict,
        examples=[{"0-1": {"bits": 64}}],
        description="others than these, by the numbers of the two devices",
    )

    def of(self, source: int, sink: int) -> LinkOptions:
        """Of the links from one device to another."""
        return self.between.get(f"{source}-{sink}", self)
