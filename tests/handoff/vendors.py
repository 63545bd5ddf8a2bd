"""The commands of Vivado and Quartus that the generated scripts use, with the options their reference manuals give.

Vivado: UG835 (Tcl command reference) and UG1118 (packaging IP); Quartus: the Quartus Prime scripting reference.
"""

from __future__ import annotations

from tests.handoff.tcl import Command

SOURCES = {
    "read_verilog": Command({"-sv": 0, "-library": 1}, 1, 1),
    "read_mem": Command({}, 1, 1),
    "read_xdc": Command({"-mode": 1, "-cells": 1, "-ref": 1, "-unmanaged": 0}, 1, 1),
}
VIVADO = {
    **SOURCES,
    "set_msg_config": Command({"-id": 1, "-new_severity": 1, "-string": 1, "-limit": 1, "-suppress": 0}),
    "synth_design": Command(
        {"-top": 1, "-part": 1, "-mode": 1, "-flatten_hierarchy": 1, "-directive": 1, "-retiming": 0, "-generic": 1}
    ),
    "opt_design": Command({"-directive": 1}),
    "place_design": Command({"-directive": 1}),
    "phys_opt_design": Command({"-directive": 1}),
    "route_design": Command({"-directive": 1}),
    "report_utilization": Command({"-hierarchical": 0, "-file": 1}),
    "report_timing_summary": Command({"-file": 1, "-max_paths": 1}),
    "write_checkpoint": Command({"-force": 0}, 1, 1),
    "get_timing_paths": Command({"-max_paths": 1, "-setup": 0, "-hold": 0}, result="worst"),
    "get_property": Command({}, 2, 2, result="$::slack"),
}
VIVADO_IP = {
    "create_project": Command({"-force": 0, "-part": 1, "-in_memory": 0}, 1, 2),
    "add_files": Command({"-norecurse": 0, "-fileset": 1}, 1, 1),
    "set_property": Command({}, 3, 3),
    "current_fileset": Command(result="sources_1"),
    "current_project": Command(result="project"),
    "close_project": Command({"-delete": 0}),
    "ipx::package_project": Command(
        {
            "-root_dir": 1,
            "-vendor": 1,
            "-library": 1,
            "-taxonomy": 1,
            "-import_files": 0,
            "-force": 0,
            "-set_current": 1,
            "-module": 1,
        }
    ),
    "ipx::current_core": Command(result="the_core"),
    "ipx::get_user_parameters": Command({"-of_objects": 1}, 1, 1, result="user_parameter"),
    "ipx::get_hdl_parameters": Command({"-of_objects": 1}, 1, 1, result="hdl_parameter"),
    "ipx::create_xgui_files": Command({}, 1, 1),
    "ipx::update_checksums": Command({}, 1, 1),
    "ipx::check_integrity": Command({}, 1, 1),
    "ipx::save_core": Command({}, 1, 1),
}
QUARTUS = {
    "load_package": Command({}, 1, 1),
    "project_new": Command({"-overwrite": 0, "-revision": 1}, 1, 1),
    "set_global_assignment": Command({"-name": 1}, 1, 1),
    "set_instance_assignment": Command({"-name": 1, "-to": 1}, 1, 1),
    "set_parameter": Command({"-name": 1}, 1, 1),
    "export_assignments": Command(),
    "execute_flow": Command({"-compile": 0}),
    "project_close": Command(),
}
ASSIGNMENTS = {
    "FAMILY",
    "DEVICE",
    "TOP_LEVEL_ENTITY",
    "VERILOG_MACRO",
    "SYSTEMVERILOG_FILE",
    "VERILOG_FILE",
    "SDC_FILE",
    "VIRTUAL_PIN",
}
CONSTRAINTS = {
    "create_clock": Command({"-name": 1, "-period": 1, "-waveform": 1}, 1, 1),
    "get_ports": Command({}, 1, 1, result="port:[lindex $args 0]"),
    "derive_clock_uncertainty": Command(),
}
YOSYS = {
    "yosys": Command({"-import": 0, "-assert": 0, "-j": 1, "--top": 1}, 0, 99),
    "plugin": Command({"-i": 1}),
    "synth_xilinx": Command({"-family": 1, "-flatten": 0, "-top": 1}),
    "verilog_defaults": Command({"-push": 0, "-pop": 0, "-add": 0, "-defer": 0}),
    "read_verilog": Command({"-sv": 0}, 1, 1),
}
