// SPDX-License-Identifier: Apache-2.0
//
// system_registers: the registers of a system behind AXI4-Lite.
//
// Generated from system_registers.rdl by `python -m scripts.registers`. A write is taken
// when its address and its data are there. Reserved addresses read 0 and ignore what is
// written; every answer is OKAY.
//
// Latency:    1 cycle from a request to its answer.
// Throughput: 1 access of each direction per cycle, if the answers are taken at once.
// Golden:     system_registers.rdl.
module system_registers (
    input logic clk,
    input logic rst,
    // AXI4-Lite
    input logic [6:0] awaddr,
    input logic awvalid,
    output logic awready,
    input logic [31:0] wdata,
    input logic [3:0] wstrb,
    input logic wvalid,
    output logic wready,
    output logic [1:0] bresp,
    output logic bvalid,
    input logic bready,
    input logic [6:0] araddr,
    input logic arvalid,
    output logic arready,
    output logic [31:0] rdata,
    output logic [1:0] rresp,
    output logic rvalid,
    input logic rready,
    // fields
    input logic [31:0] digest_low_value,
    input logic [31:0] digest_high_value,
    output logic control_start,
    output logic control_enable,
    output logic control_soft_reset,
    output logic control_clear,
    input logic status_busy,
    input logic status_resetting,
    input logic status_occupied,
    output logic interrupt_enable_done,
    output logic interrupt_enable_error,
    output logic interrupt_status_done,
    output logic interrupt_status_error,
    output logic [31:0] source_low_value,
    output logic [31:0] source_high_value,
    output logic [31:0] target_low_value,
    output logic [31:0] target_high_value,
    output logic [31:0] frames_value,
    input logic [31:0] parameters_late_value,
    input logic [31:0] frames_in_value,
    input logic [31:0] frames_out_value,
    input logic [31:0] frames_flagged_value,
    input logic [31:0] cycles_last_value,
    input logic [31:0] cycles_least_value,
    input logic [31:0] cycles_most_value,
    input logic [31:0] stalls_in_value,
    input logic [31:0] stalls_out_value,
    output logic [31:0] base_low_value,
    output logic [31:0] base_high_value,
    output logic [31:0] limit_low_value,
    output logic [31:0] limit_high_value,
    input logic parameters_stored,
    input logic parameters_busy,
    input logic parameters_refused,
    input logic parameters_bank,
    input logic parameters_pending,
    input logic parameters_answer,
    input logic parameters_answer_last,
    input logic parameters_use_refused,
    output logic parameters_give,
    output logic parameters_give_last,
    output logic parameters_next,
    output logic parameters_use,
    output logic [31:0] parameter_word_value,
    input logic [31:0] parameter_answer_value,
    input logic [31:0] parameter_digest_value,
    input logic set_interrupt_status_done,
    input logic set_interrupt_status_error,
    input logic set_errors_tlast_early,
    input logic set_errors_tlast_late,
    input logic set_errors_read_bus,
    input logic set_errors_write_bus,
    input logic set_errors_overrun,
    input logic set_errors_refused
);

  logic write;
  logic [31:0] value;
  logic errors_tlast_early;
  logic errors_tlast_late;
  logic errors_read_bus;
  logic errors_write_bus;
  logic errors_overrun;
  logic errors_refused;

  assign write   = awvalid && wvalid && (!bvalid || bready);
  assign awready = write;
  assign wready  = write;
  assign bresp   = 2'b00;
  assign arready = !rvalid || rready;
  assign rresp   = 2'b00;
  unread u_unread (.unused(&{awaddr[1:0], araddr[1:0]}));

  always_ff @(posedge clk) begin
    if (rst) begin
      bvalid <= 1'b0;
      rvalid <= 1'b0;
    end else begin
      bvalid <= write || (bvalid && !bready);
      rvalid <= arvalid || (rvalid && !rready);
    end
  end

  // Registers that software writes
  logic write_control;
  logic write_interrupt_enable;
  logic write_interrupt_status;
  logic write_errors;
  logic write_source_low;
  logic write_source_high;
  logic write_target_low;
  logic write_target_high;
  logic write_frames;
  logic write_base_low;
  logic write_base_high;
  logic write_limit_low;
  logic write_limit_high;
  logic write_parameters;
  logic write_parameter_word;
  assign write_control = write && awaddr[6:2] == 5'd4;
  assign write_interrupt_enable = write && awaddr[6:2] == 5'd6;
  assign write_interrupt_status = write && awaddr[6:2] == 5'd7;
  assign write_errors = write && awaddr[6:2] == 5'd8;
  assign write_source_low = write && awaddr[6:2] == 5'd9;
  assign write_source_high = write && awaddr[6:2] == 5'd10;
  assign write_target_low = write && awaddr[6:2] == 5'd11;
  assign write_target_high = write && awaddr[6:2] == 5'd12;
  assign write_frames = write && awaddr[6:2] == 5'd13;
  assign write_base_low = write && awaddr[6:2] == 5'd24;
  assign write_base_high = write && awaddr[6:2] == 5'd25;
  assign write_limit_low = write && awaddr[6:2] == 5'd26;
  assign write_limit_high = write && awaddr[6:2] == 5'd27;
  assign write_parameters = write && awaddr[6:2] == 5'd28;
  assign write_parameter_word = write && awaddr[6:2] == 5'd29;

  // Held fields: a write replaces the bytes whose strobes are set.
  always_ff @(posedge clk) begin
    if (rst) begin
      control_enable <= 1'd1;
      interrupt_enable_done <= 1'd0;
      interrupt_enable_error <= 1'd0;
      source_low_value <= 32'd0;
      source_high_value <= 32'd0;
      target_low_value <= 32'd0;
      target_high_value <= 32'd0;
      frames_value <= 32'd0;
      base_low_value <= 32'd0;
      base_high_value <= 32'd0;
      limit_low_value <= 32'd4294967295;
      limit_high_value <= 32'd4294967295;
      parameter_word_value <= 32'd0;
    end else begin
      if (write_control && wstrb[0]) control_enable <= wdata[1];
      if (write_interrupt_enable && wstrb[0]) interrupt_enable_done <= wdata[0];
      if (write_interrupt_enable && wstrb[0]) interrupt_enable_error <= wdata[1];
      for (int b = 0; b < 4; b++) begin
        if (wstrb[b]) begin
          if (write_source_low) source_low_value[8*b+:8] <= wdata[8*b+:8];
          if (write_source_high) source_high_value[8*b+:8] <= wdata[8*b+:8];
          if (write_target_low) target_low_value[8*b+:8] <= wdata[8*b+:8];
          if (write_target_high) target_high_value[8*b+:8] <= wdata[8*b+:8];
          if (write_frames) frames_value[8*b+:8] <= wdata[8*b+:8];
          if (write_base_low) base_low_value[8*b+:8] <= wdata[8*b+:8];
          if (write_base_high) base_high_value[8*b+:8] <= wdata[8*b+:8];
          if (write_limit_low) limit_low_value[8*b+:8] <= wdata[8*b+:8];
          if (write_limit_high) limit_high_value[8*b+:8] <= wdata[8*b+:8];
          if (write_parameter_word) parameter_word_value[8*b+:8] <= wdata[8*b+:8];
        end
      end
    end
  end

  // Pulses: high for the cycle after a 1 was written.
  always_ff @(posedge clk) begin
    control_start <= !rst && write_control && wdata[0] && wstrb[0];
    control_soft_reset <= !rst && write_control && wdata[2] && wstrb[0];
    control_clear <= !rst && write_control && wdata[3] && wstrb[0];
    parameters_give <= !rst && write_parameters && wdata[8] && wstrb[1];
    parameters_give_last <= !rst && write_parameters && wdata[9] && wstrb[1];
    parameters_next <= !rst && write_parameters && wdata[10] && wstrb[1];
    parameters_use <= !rst && write_parameters && wdata[11] && wstrb[1];
  end

  // Events: set by the hardware, cleared by a written 1.
  always_ff @(posedge clk) begin
    if (rst) begin
      interrupt_status_done <= 1'b0;
      interrupt_status_error <= 1'b0;
      errors_tlast_early <= 1'b0;
      errors_tlast_late <= 1'b0;
      errors_read_bus <= 1'b0;
      errors_write_bus <= 1'b0;
      errors_overrun <= 1'b0;
      errors_refused <= 1'b0;
    end else begin
      if (set_interrupt_status_done) interrupt_status_done <= 1'b1;
      else if (write_interrupt_status && wdata[0] && wstrb[0]) interrupt_status_done <= 1'b0;
      if (set_interrupt_status_error) interrupt_status_error <= 1'b1;
      else if (write_interrupt_status && wdata[1] && wstrb[0]) interrupt_status_error <= 1'b0;
      if (set_errors_tlast_early) errors_tlast_early <= 1'b1;
      else if (write_errors && wdata[0] && wstrb[0]) errors_tlast_early <= 1'b0;
      if (set_errors_tlast_late) errors_tlast_late <= 1'b1;
      else if (write_errors && wdata[1] && wstrb[0]) errors_tlast_late <= 1'b0;
      if (set_errors_read_bus) errors_read_bus <= 1'b1;
      else if (write_errors && wdata[2] && wstrb[0]) errors_read_bus <= 1'b0;
      if (set_errors_write_bus) errors_write_bus <= 1'b1;
      else if (write_errors && wdata[3] && wstrb[0]) errors_write_bus <= 1'b0;
      if (set_errors_overrun) errors_overrun <= 1'b1;
      else if (write_errors && wdata[4] && wstrb[0]) errors_overrun <= 1'b0;
      if (set_errors_refused) errors_refused <= 1'b1;
      else if (write_errors && wdata[5] && wstrb[0]) errors_refused <= 1'b0;
    end
  end

  always_comb begin
    value = '0;
    unique case (araddr[6:2])
      5'd0: value = {32'd1296126789};
      5'd1: value = {16'd1, 16'd3};
      5'd2: value = {digest_low_value};
      5'd3: value = {digest_high_value};
      5'd4: value = {28'd0, 1'd0, 1'd0, control_enable, 1'd0};
      5'd5: value = {29'd0, status_occupied, status_resetting, status_busy};
      5'd6: value = {30'd0, interrupt_enable_error, interrupt_enable_done};
      5'd7: value = {30'd0, interrupt_status_error, interrupt_status_done};
      5'd8:
      value = {
        26'd0,
        errors_refused,
        errors_overrun,
        errors_write_bus,
        errors_read_bus,
        errors_tlast_late,
        errors_tlast_early
      };
      5'd9: value = {source_low_value};
      5'd10: value = {source_high_value};
      5'd11: value = {target_low_value};
      5'd12: value = {target_high_value};
      5'd13: value = {frames_value};
      5'd14: value = {parameters_late_value};
      5'd16: value = {frames_in_value};
      5'd17: value = {frames_out_value};
      5'd18: value = {frames_flagged_value};
      5'd19: value = {cycles_last_value};
      5'd20: value = {cycles_least_value};
      5'd21: value = {cycles_most_value};
      5'd22: value = {stalls_in_value};
      5'd23: value = {stalls_out_value};
      5'd24: value = {base_low_value};
      5'd25: value = {base_high_value};
      5'd26: value = {limit_low_value};
      5'd27: value = {limit_high_value};
      5'd28:
      value = {
        20'd0,
        1'd0,
        1'd0,
        1'd0,
        1'd0,
        parameters_use_refused,
        parameters_answer_last,
        parameters_answer,
        parameters_pending,
        parameters_bank,
        parameters_refused,
        parameters_busy,
        parameters_stored
      };
      5'd29: value = {parameter_word_value};
      5'd30: value = {parameter_answer_value};
      5'd31: value = {parameter_digest_value};
      default: value = '0;
    endcase
  end

  always_ff @(posedge clk) begin
    if (arvalid && arready) begin
      rdata <= value;
    end
  end

endmodule
