# SPDX-License-Identifier: Apache-2.0
# The crossings of a system whose core has a clock of its own, for Vivado. Read it for the module of the system, late:
#
#   read_xdc -ref <top> clocks.xdc; set_property PROCESSING_ORDER LATE [get_files clocks.xdc]
#
# as vivado/build.tcl does, for the module that a block design makes of it.
# Both clocks exist by then and are not the same one. Every crossing is bounded by the shorter period, without regard to
# the phase of the clocks; so the bits of a Gray pointer are less than a period of their clock apart. What crosses beside
# the pointers stands still for two cycles before it is read.
set bus_clock [get_clocks -of_objects [get_ports clk]]
set core_clock [get_clocks -of_objects [get_ports core_clk]]
set crossing [expr {min([get_property PERIOD $bus_clock], [get_property PERIOD $core_clock])}]
set_max_delay -datapath_only -from $bus_clock -to $core_clock $crossing
set_max_delay -datapath_only -from $core_clock -to $bus_clock $crossing
