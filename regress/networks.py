"""Small networks of the regression matrices; each function is a model specification."""

import runpy
from pathlib import Path

import torch
from torch import Tensor, nn

EXAMPLES = Path(__file__).parents[1] / "examples"


def mlp() -> tuple[nn.Module, Tensor]:
    """Two layers of sizes that no lane count divides."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 10), nn.ReLU(), nn.Linear(10, 5)), torch.rand(1, 12) * 2 - 1


class Fork(nn.Module):
    """A layer beside a connection around it."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x: Tensor) -> Tensor:
        """Of the shape of ``x``."""
        return x + self.fc(x)


def fork() -> tuple[nn.Module, Tensor]:
    """A fork, a join, and weights from memories: what a netlist places, and no op case has."""
    torch.manual_seed(2)
    return Fork(), torch.rand(1, 6) * 2 - 1


def rows() -> tuple[nn.Module, Tensor]:
    """Three dimensions, so that a frame has many rows."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 4, bias=False), nn.ReLU(), nn.Linear(4, 4)), torch.rand(2, 3, 6) * 2 - 1


def digits_vit() -> tuple[nn.Module, Tensor, list[Tensor]]:
    """The transformer of the examples as it is before its training, after which its tables differ between machines."""
    example = runpy.run_path(str(EXAMPLES / "digits_vit.py"))
    images = example["digits_mlp"].load().train_images
    torch.manual_seed(0)
    return example["DigitsViT"]().eval(), images[:1], list(images.split(256))
