"""The fast cocotb engine: sources and sinks in SystemVerilog, Python only where something happens."""
