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


class Scales(nn.Module):
    """Two scales of an image side by side, through all that takes several positions a beat besides convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.act, self.norm = nn.Conv2d(2, 4, 3, padding=1), nn.PReLU(4), nn.BatchNorm2d(4)
        self.down, self.deep, self.up = (
            nn.MaxPool2d(3, 2, 1),
            nn.Conv2d(4, 3, 3, padding=1),
            nn.Upsample(scale_factor=2),
        )
        self.smooth, self.leave = nn.AvgPool2d(3, 1, 1), nn.Conv2d(7, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        """An image to another one of its size."""
        kept = self.norm(self.act(self.enter(x)))
        low = nn.functional.pad(self.up(torch.relu(self.deep(self.down(kept)))), (0, 0, 1, 0))
        return self.leave(self.smooth(torch.cat((nn.functional.pad(kept, (0, 0, 0, 1)), low), 1)))


def scales() -> tuple[nn.Module, Tensor]:
    """Pools with windows that overlap, parameters by channel, enlarging, zeros around an image, a concatenation."""
    torch.manual_seed(3)
    model = Scales()
    nn.init.uniform_(model.act.weight)
    model.norm.running_mean, model.norm.running_var = torch.rand(4), torch.rand(4) + 0.5
    return model.eval(), torch.rand(1, 2, 8, 8) * 2 - 1


def digits_vit() -> tuple[nn.Module, Tensor, list[Tensor]]:
    """The transformer of the examples as it is before its training, after which its tables differ between machines."""
    example = runpy.run_path(str(EXAMPLES / "digits_vit.py"))
    images = example["digits_mlp"].load().train_images
    torch.manual_seed(0)
    return example["DigitsViT"]().eval(), images[:1], list(images.split(256))
