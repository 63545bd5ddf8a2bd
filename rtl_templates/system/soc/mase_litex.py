# SPDX-License-Identifier: Apache-2.0
"""A system of mase_hw as a module of LiteX: ``MaseAccelerator(platform, folder).connect(soc, "mase")``."""

import json
from pathlib import Path
from types import SimpleNamespace

from litex.gen import ClockSignal, Instance, LiteXModule, ResetSignal, Signal
from litex.soc.integration.soc import SoCRegion
from litex.soc.interconnect import axi


class MaseAccelerator(LiteXModule):
    """The registers, the bus master and the core.

    Args:
        platform: The sources are added to it.
        system: Folder written by ``mase-hw system``, with frames in memory.
        verilog: One file of plain Verilog to add instead of the system's SystemVerilog.
        core_domain: Clock domain of the core, if the system has a clock for it.
    """

    def __init__(self, platform, system, verilog=None, core_domain="sys"):
        system = Path(system).resolve()
        manifest = json.loads((system / "manifest.json").read_text())
        options = manifest["options"]
        if options["data"] != "memory":
            raise ValueError(f"{system}: frames come from {options['data']}; make the system with --data memory")
        self.bus = axi.AXIInterface(data_width=options["bus"], address_width=options["address_bits"], id_width=1)
        self.control = axi.AXILiteInterface(data_width=32, address_width=32)
        self.irq = Signal()
        self.ev = SimpleNamespace(irq=self.irq)  # where LiteX looks for it

        has_memory = any(file.startswith("mem/") for file in manifest["files"])
        parameters = {"p_MEM_DIR": str(system / "mem")} if has_memory and verilog is None else {}
        bus, control = self.bus, self.control
        ports = {
            "i_clk": ClockSignal(),
            "i_rst_n": ~ResetSignal(),
            "o_irq": self.irq,
            "i_s_axil_awaddr": control.aw.addr[:7],
            "i_s_axil_awprot": control.aw.prot,
            "i_s_axil_wdata": control.w.data,
            "i_s_axil_wstrb": control.w.strb,
            "o_s_axil_bresp": control.b.resp,
            "i_s_axil_araddr": control.ar.addr[:7],
            "i_s_axil_arprot": control.ar.prot,
            "o_s_axil_rdata": control.r.data,
            "o_s_axil_rresp": control.r.resp,
            "o_m_axi_wdata": bus.w.data,
            "o_m_axi_wstrb": bus.w.strb,
            "o_m_axi_wlast": bus.w.last,
            "i_m_axi_bresp": bus.b.resp,
            "i_m_axi_rdata": bus.r.data,
            "i_m_axi_rresp": bus.r.resp,
            "i_m_axi_rlast": bus.r.last,
        }
        if options["core_clock"]:
            ports["i_core_clk"] = ClockSignal(core_domain)
        for channel in ("aw", "ar"):
            for name in ("addr", "len", "size", "burst", "cache", "prot"):
                ports[f"o_m_axi_{channel}{name}"] = getattr(getattr(bus, channel), name)
        for channel in ("aw", "w", "ar", "b", "r"):
            back = channel in ("b", "r")
            for prefix, side, mine in (("s_axil", control, back), ("m_axi", bus, not back)):
                stream = getattr(side, channel)
                ports[f"{'o' if mine else 'i'}_{prefix}_{channel}valid"] = stream.valid
                ports[f"{'i' if mine else 'o'}_{prefix}_{channel}ready"] = stream.ready
        self.specials += Instance(manifest["top"], **parameters, **ports)
        files = [verilog] if verilog else (system / "rtl" / "files.f").read_text().split()
        platform.add_sources(system, *map(str, files))

    def connect(self, soc, name):
        """Add it to a SoC, after its memory: registers (not cached), interrupt, and a port of the main memory.

        With LiteDRAM the port is one of its own, beside the L2 cache, else the SoC's bus.
        """
        soc.add_module(name=name, module=self)
        soc.bus.add_slave(name, self.control, SoCRegion(size=0x1000, cached=False))
        if soc.irq.enabled:
            soc.irq.add(name, use_loc_if_exists=True)
        if hasattr(soc, "sdram"):
            from litedram.frontend.axi import LiteDRAMAXI2Native

            port = soc.sdram.crossbar.get_port(data_width=self.bus.data_width)
            origin = soc.bus.regions["main_ram"].origin
            self.submodules += LiteDRAMAXI2Native(self.bus, port, base_address=origin)
        else:
            soc.bus.add_master(name, self.bus)
