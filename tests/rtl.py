"""The RTL library as files, for tools that read files."""

from mase_hw.hardware.library import render
from mase_hw.host.resources import PACKAGE

LIBRARY = render(PACKAGE.parent / "build" / "rtl_templates")
