"""A network on several devices: bundles, links, and all of them in one simulation."""

from mase_hw.devices.area import beyond, taken
from mase_hw.devices.built import fit_built
from mase_hw.devices.design import DevicesDesign, compile_devices, load_devices
from mase_hw.devices.fit import DevicesFit, fit_devices
from mase_hw.devices.records import Device, Devices, Link
from mase_hw.devices.weights import DevicesWeights, make_devices_weights

__all__ = [
    "Device",
    "Devices",
    "DevicesDesign",
    "DevicesFit",
    "DevicesWeights",
    "Link",
    "beyond",
    "compile_devices",
    "fit_built",
    "fit_devices",
    "load_devices",
    "make_devices_weights",
    "taken",
]
