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

  // CONTROL: Control
  logic write_control;
  assign write_control = write && awaddr[6:2] == 5'd4;
  always_ff @(posedge clk) begin
    if (rst) begin
      control_enable <= 1'd1;
    end else begin
      if (write_control && wstrb[0]) control_enable <= wdata[1];
    end
  end
  always_ff @(posedge clk) begin
    control_start <= !rst && write_control && wdata[0] && wstrb[0];
  end
  always_ff @(posedge clk) begin
    control_soft_reset <= !rst && write_control && wdata[2] && wstrb[0];
  end
  always_ff @(posedge clk) begin
    control_clear <= !rst && write_control && wdata[3] && wstrb[0];
  end

  // INTERRUPT_ENABLE: Interrupt enable
  logic write_interrupt_enable;
  assign write_interrupt_enable = write && awaddr[6:2] == 5'd6;
  always_ff @(posedge clk) begin
    if (rst) begin
      interrupt_enable_done <= 1'd0;
    end else begin
      if (write_interrupt_enable && wstrb[0]) interrupt_enable_done <= wdata[0];
    end
  end
  always_ff @(posedge clk) begin
    if (rst) begin
      interrupt_enable_error <= 1'd0;
    end else begin
      if (write_interrupt_enable && wstrb[0]) interrupt_enable_error <= wdata[1];
    end
  end

  // INTERRUPT_STATUS: Interrupt status
  logic write_interrupt_status;
  assign write_interrupt_status = write && awaddr[6:2] == 5'd7;
  always_ff @(posedge clk) begin
    if (rst) begin
      interrupt_status_done <= 1'b0;
    end else if (set_interrupt_status_done) begin
      interrupt_status_done <= 1'b1;
    end else if (write_interrupt_status && wdata[0] && wstrb[0]) begin
      interrupt_status_done <= 1'b0;
    end
  end
  always_ff @(posedge clk) begin
    if (rst) begin
      interrupt_status_error <= 1'b0;
    end else if (set_interrupt_status_error) begin
      interrupt_status_error <= 1'b1;
    end else if (write_interrupt_status && wdata[1] && wstrb[0]) begin
      interrupt_status_error <= 1'b0;
    end
  end

  // ERRORS: Errors
  logic write_errors;
  assign write_errors = write && awaddr[6:2] == 5'd8;
  always_ff @(posedge clk) begin
    if (rst) begin
      errors_tlast_early <= 1'b0;
    end else if (set_errors_tlast_early) begin
      errors_tlast_early <= 1'b1;
    end else if (write_errors && wdata[0] && wstrb[0]) begin
      errors_tlast_early <= 1'b0;
    end
  end
  always_ff @(posedge clk) begin
    if (rst) begin
      errors_tlast_late <= 1'b0;
    end else if (set_errors_tlast_late) begin
      errors_tlast_late <= 1'b1;
    end else if (write_errors && wdata[1] && wstrb[0]) begin
      errors_tlast_late <= 1'b0;
    end
  end
  always_ff @(posedge clk) begin
    if (rst) begin
      errors_read_bus <= 1'b0;
    end else if (set_errors_read_bus) begin
      errors_read_bus <= 1'b1;
    end else if (write_errors && wdata[2] && wstrb[0]) begin
      errors_read_bus <= 1'b0;
    end
  end
  always_ff @(posedge clk) begin
    if (rst) begin
      errors_write_bus <= 1'b0;
    end else if (set_errors_write_bus) begin
      errors_write_bus <= 1'b1;
    end else if (write_errors && wdata[3] && wstrb[0]) begin
      errors_write_bus <= 1'b0;
    end
  end
  always_ff @(posedge clk) begin
    if (rst) begin
      errors_overrun <= 1'b0;
    end else if (set_errors_overrun) begin
      errors_overrun <= 1'b1;
    end else if (write_errors && wdata[4] && wstrb[0]) begin
      errors_overrun <= 1'b0;
    end
  end
  always_ff @(posedge clk) begin
    if (rst) begin
      errors_refused <= 1'b0;
    end else if (set_errors_refused) begin
      errors_refused <= 1'b1;
    end else if (write_errors && wdata[5] && wstrb[0]) begin
      errors_refused <= 1'b0;
    end
  end

  // SOURCE_LOW: Source, low half
  logic write_source_low;
  assign write_source_low = write && awaddr[6:2] == 5'd9;
  always_ff @(posedge clk) begin
    if (rst) begin
      source_low_value <= 32'd0;
    end else begin
      if (write_source_low && wstrb[0]) source_low_value[7:0] <= wdata[7:0];
      if (write_source_low && wstrb[1]) source_low_value[15:8] <= wdata[15:8];
      if (write_source_low && wstrb[2]) source_low_value[23:16] <= wdata[23:16];
      if (write_source_low && wstrb[3]) source_low_value[31:24] <= wdata[31:24];
    end
  end

  // SOURCE_HIGH: Source, high half
  logic write_source_high;
  assign write_source_high = write && awaddr[6:2] == 5'd10;
  always_ff @(posedge clk) begin
    if (rst) begin
      source_high_value <= 32'd0;
    end else begin
      if (write_source_high && wstrb[0]) source_high_value[7:0] <= wdata[7:0];
      if (write_source_high && wstrb[1]) source_high_value[15:8] <= wdata[15:8];
      if (write_source_high && wstrb[2]) source_high_value[23:16] <= wdata[23:16];
      if (write_source_high && wstrb[3]) source_high_value[31:24] <= wdata[31:24];
    end
  end

  // TARGET_LOW: Target, low half
  logic write_target_low;
  assign write_target_low = write && awaddr[6:2] == 5'd11;
  always_ff @(posedge clk) begin
    if (rst) begin
      target_low_value <= 32'd0;
    end else begin
      if (write_target_low && wstrb[0]) target_low_value[7:0] <= wdata[7:0];
      if (write_target_low && wstrb[1]) target_low_value[15:8] <= wdata[15:8];
      if (write_target_low && wstrb[2]) target_low_value[23:16] <= wdata[23:16];
      if (write_target_low && wstrb[3]) target_low_value[31:24] <= wdata[31:24];
    end
  end

  // TARGET_HIGH: Target, high half
  logic write_target_high;
  assign write_target_high = write && awaddr[6:2] == 5'd12;
  always_ff @(posedge clk) begin
    if (rst) begin
      target_high_value <= 32'd0;
    end else begin
      if (write_target_high && wstrb[0]) target_high_value[7:0] <= wdata[7:0];
      if (write_target_high && wstrb[1]) target_high_value[15:8] <= wdata[15:8];
      if (write_target_high && wstrb[2]) target_high_value[23:16] <= wdata[23:16];
      if (write_target_high && wstrb[3]) target_high_value[31:24] <= wdata[31:24];
    end
  end

  // FRAMES: Frames
  logic write_frames;
  assign write_frames = write && awaddr[6:2] == 5'd13;
  always_ff @(posedge clk) begin
    if (rst) begin
      frames_value <= 32'd0;
    end else begin
      if (write_frames && wstrb[0]) frames_value[7:0] <= wdata[7:0];
      if (write_frames && wstrb[1]) frames_value[15:8] <= wdata[15:8];
      if (write_frames && wstrb[2]) frames_value[23:16] <= wdata[23:16];
      if (write_frames && wstrb[3]) frames_value[31:24] <= wdata[31:24];
    end
  end

  // BASE_LOW: Base, low half
  logic write_base_low;
  assign write_base_low = write && awaddr[6:2] == 5'd24;
  always_ff @(posedge clk) begin
    if (rst) begin
      base_low_value <= 32'd0;
    end else begin
      if (write_base_low && wstrb[0]) base_low_value[7:0] <= wdata[7:0];
      if (write_base_low && wstrb[1]) base_low_value[15:8] <= wdata[15:8];
      if (write_base_low && wstrb[2]) base_low_value[23:16] <= wdata[23:16];
      if (write_base_low && wstrb[3]) base_low_value[31:24] <= wdata[31:24];
    end
  end

  // BASE_HIGH: Base, high half
  logic write_base_high;
  assign write_base_high = write && awaddr[6:2] == 5'd25;
  always_ff @(posedge clk) begin
    if (rst) begin
      base_high_value <= 32'd0;
    end else begin
      if (write_base_high && wstrb[0]) base_high_value[7:0] <= wdata[7:0];
      if (write_base_high && wstrb[1]) base_high_value[15:8] <= wdata[15:8];
      if (write_base_high && wstrb[2]) base_high_value[23:16] <= wdata[23:16];
      if (write_base_high && wstrb[3]) base_high_value[31:24] <= wdata[31:24];
    end
  end

  // LIMIT_LOW: Limit, low half
  logic write_limit_low;
  assign write_limit_low = write && awaddr[6:2] == 5'd26;
  always_ff @(posedge clk) begin
    if (rst) begin
      limit_low_value <= 32'd4294967295;
    end else begin
      if (write_limit_low && wstrb[0]) limit_low_value[7:0] <= wdata[7:0];
      if (write_limit_low && wstrb[1]) limit_low_value[15:8] <= wdata[15:8];
      if (write_limit_low && wstrb[2]) limit_low_value[23:16] <= wdata[23:16];
      if (write_limit_low && wstrb[3]) limit_low_value[31:24] <= wdata[31:24];
    end
  end

  // LIMIT_HIGH: Limit, high half
  logic write_limit_high;
  assign write_limit_high = write && awaddr[6:2] == 5'd27;
  always_ff @(posedge clk) begin
    if (rst) begin
      limit_high_value <= 32'd4294967295;
    end else begin
      if (write_limit_high && wstrb[0]) limit_high_value[7:0] <= wdata[7:0];
      if (write_limit_high && wstrb[1]) limit_high_value[15:8] <= wdata[15:8];
      if (write_limit_high && wstrb[2]) limit_high_value[23:16] <= wdata[23:16];
      if (write_limit_high && wstrb[3]) limit_high_value[31:24] <= wdata[31:24];
    end
  end

  // PARAMETERS: Parameters
  logic write_parameters;
  assign write_parameters = write && awaddr[6:2] == 5'd28;
  always_ff @(posedge clk) begin
    parameters_give <= !rst && write_parameters && wdata[8] && wstrb[1];
  end
  always_ff @(posedge clk) begin
    parameters_give_last <= !rst && write_parameters && wdata[9] && wstrb[1];
  end
  always_ff @(posedge clk) begin
    parameters_next <= !rst && write_parameters && wdata[10] && wstrb[1];
  end
  always_ff @(posedge clk) begin
    parameters_use <= !rst && write_parameters && wdata[11] && wstrb[1];
  end

  // PARAMETER_WORD: Parameter word
  logic write_parameter_word;
  assign write_parameter_word = write && awaddr[6:2] == 5'd29;
  always_ff @(posedge clk) begin
    if (rst) begin
      parameter_word_value <= 32'd0;
    end else begin
      if (write_parameter_word && wstrb[0]) parameter_word_value[7:0] <= wdata[7:0];
      if (write_parameter_word && wstrb[1]) parameter_word_value[15:8] <= wdata[15:8];
      if (write_parameter_word && wstrb[2]) parameter_word_value[23:16] <= wdata[23:16];
      if (write_parameter_word && wstrb[3]) parameter_word_value[31:24] <= wdata[31:24];
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
