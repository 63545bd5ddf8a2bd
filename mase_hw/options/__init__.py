"""What the models of arguments accept, as tables, commented files and schemas."""

from mase_hw.options.describe import REQUIRED, UNSET, Option, accepted, models_below, options_of, toml_key, toml_value
from mase_hw.options.toml import commented_toml

__all__ = [
    "REQUIRED",
    "UNSET",
    "Option",
    "accepted",
    "commented_toml",
    "models_below",
    "options_of",
    "toml_key",
    "toml_value",
]
