# SPDX-License-Identifier: Apache-2.0
# The crossings of a system whose core has a clock of its own, for Quartus. Clocks with these names exist by then, and
# are not the same one:
set bus_clock clk
set core_clock core_clk

# Every crossing is bounded by the shorter period, without regard to the phase of the clocks, and the bits of a Gray
# pointer are less than a period of their clock apart. What crosses beside the pointers stands still for two cycles
# before it is read.
set bus_period [get_clock_info -period [get_clocks $bus_clock]]
set core_period [get_clock_info -period [get_clocks $core_clock]]
set crossing [expr {min($bus_period, $core_period)}]
foreach {from to} [list $bus_clock $core_clock $core_clock $bus_clock] {
    set_max_delay -from [get_clocks $from] -to [get_clocks $to] 100
    set_min_delay -from [get_clocks $from] -to [get_clocks $to] -100
    set_net_delay -max $crossing -from [get_clocks $from] -to [get_clocks $to]
}
set_max_skew -from [get_registers *|write_gray_q*] -to [get_registers *|u_to_out|first_q*] $crossing
set_max_skew -from [get_registers *|read_gray_q*] -to [get_registers *|u_to_in|first_q*] $crossing
