// The block RAM of ECP5 for simulation, as Yosys uses it: always selected, without output registers; both ports on
// the rising edge of one clock, CLKA. What else its parameters can ask for is refused as the model is built. Yosys
// has no model of it. Memory begins unknown, whatever INITVAL_xx say, since reset alone must do.
// What one port reads while the other changes it is wrong: hardware promises nothing there.
module DP16KD(
  input DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4, DIA3, DIA2,
  DIA1, DIA0,
  input ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0,
  input CLKA, CEA, OCEA, WEA, RSTA, CSA2, CSA1, CSA0,
  input DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4, DIB3, DIB2,
  DIB1, DIB0,
  input ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0,
  input CLKB, CEB, OCEB, WEB, RSTB, CSB2, CSB1, CSB0,
  output DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3, DOA2,
  DOA1, DOA0,
  output DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2,
  DOB1, DOB0
);
  parameter DATA_WIDTH_A = 18;
  parameter DATA_WIDTH_B = 18;
  parameter WRITEMODE_A = "NORMAL";
  parameter WRITEMODE_B = "NORMAL";
  parameter RESETMODE = "SYNC";
  parameter REGMODE_A = "NOREG", REGMODE_B = "NOREG", ASYNC_RESET_RELEASE = "SYNC", GSR = "AUTO";
  parameter CSDECODE_A = "0b000", CSDECODE_B = "0b000", CLKAMUX = "CLKA", CLKBMUX = "CLKB";
  parameter INITVAL_00 = 0, INITVAL_01 = 0, INITVAL_02 = 0, INITVAL_03 = 0, INITVAL_04 = 0, INITVAL_05 = 0,
  INITVAL_06 = 0, INITVAL_07 = 0, INITVAL_08 = 0, INITVAL_09 = 0, INITVAL_0A = 0, INITVAL_0B = 0, INITVAL_0C = 0,
  INITVAL_0D = 0, INITVAL_0E = 0, INITVAL_0F = 0, INITVAL_10 = 0, INITVAL_11 = 0, INITVAL_12 = 0, INITVAL_13 = 0,
  INITVAL_14 = 0, INITVAL_15 = 0, INITVAL_16 = 0, INITVAL_17 = 0, INITVAL_18 = 0, INITVAL_19 = 0, INITVAL_1A = 0,
  INITVAL_1B = 0, INITVAL_1C = 0, INITVAL_1D = 0, INITVAL_1E = 0, INITVAL_1F = 0, INITVAL_20 = 0, INITVAL_21 = 0,
  INITVAL_22 = 0, INITVAL_23 = 0, INITVAL_24 = 0, INITVAL_25 = 0, INITVAL_26 = 0, INITVAL_27 = 0, INITVAL_28 = 0,
  INITVAL_29 = 0, INITVAL_2A = 0, INITVAL_2B = 0, INITVAL_2C = 0, INITVAL_2D = 0, INITVAL_2E = 0, INITVAL_2F = 0,
  INITVAL_30 = 0, INITVAL_31 = 0, INITVAL_32 = 0, INITVAL_33 = 0, INITVAL_34 = 0, INITVAL_35 = 0, INITVAL_36 = 0,
  INITVAL_37 = 0, INITVAL_38 = 0, INITVAL_39 = 0, INITVAL_3A = 0, INITVAL_3B = 0, INITVAL_3C = 0, INITVAL_3D = 0,
  INITVAL_3E = 0, INITVAL_3F = 0;

  generate
    if (REGMODE_A != "NOREG" || REGMODE_B != "NOREG") DP16KD_has_no_model_of_output_registers refused();
    if (CLKAMUX != "CLKA" || CLKBMUX != "CLKB") DP16KD_has_no_model_of_inverted_clocks refused();
    if (CSDECODE_A != "0b000" || CSDECODE_B != "0b000") DP16KD_has_no_model_of_selection refused();
  endgenerate

  // An access of 36 bits takes the data pins of both sides: port A writes it, port B reads it.
  wire [13:0] address_a = {ADA13, ADA12, ADA11, ADA10, ADA9, ADA8, ADA7, ADA6, ADA5, ADA4, ADA3, ADA2, ADA1, ADA0};
  wire [13:0] address_b = {ADB13, ADB12, ADB11, ADB10, ADB9, ADB8, ADB7, ADB6, ADB5, ADB4, ADB3, ADB2, ADB1, ADB0};
  wire [17:0] data_a = {DIA17, DIA16, DIA15, DIA14, DIA13, DIA12, DIA11, DIA10, DIA9, DIA8, DIA7, DIA6, DIA5, DIA4,
    DIA3, DIA2, DIA1, DIA0};
  wire [17:0] data_b = {DIB17, DIB16, DIB15, DIB14, DIB13, DIB12, DIB11, DIB10, DIB9, DIB8, DIB7, DIB6, DIB5, DIB4,
    DIB3, DIB2, DIB1, DIB0};
  wire blocked_a = RSTA && RESETMODE == "SYNC", blocked_b = RSTB && RESETMODE == "SYNC";
  wire a_writes = CEA & WEA & ~blocked_a, b_writes = CEB & WEB & ~blocked_b;
  wire a_reads = CEA && !(WEA && WRITEMODE_A == "NORMAL"), b_reads = CEB && !(WEB && WRITEMODE_B == "NORMAL");

  reg [8:0] bytes [0:2047];  // the ninth bit is for widths of 9 and more

  function [35:0] word(input [13:0] address, input integer width);
    case (width)
      36: word = {bytes[{address[13:5], 2'd3}], bytes[{address[13:5], 2'd2}],
                  bytes[{address[13:5], 2'd1}], bytes[{address[13:5], 2'd0}]};
      18: word = {18'b0, bytes[{address[13:4], 1'b1}], bytes[{address[13:4], 1'b0}]};
      9: word = {27'b0, bytes[address[13:3]]};
      4: word = {32'b0, bytes[address[13:3]][{address[2], 2'b0} +: 4]};
      2: word = {34'b0, bytes[address[13:3]][{address[2:1], 1'b0} +: 2]};
      default: word = {35'b0, bytes[address[13:3]][address[2:0]]};
    endcase
  endfunction

  // The address of a wide word ends in an enable for each byte.
  task write(input [13:0] address, input integer width, input [35:0] data);
    integer k;
    case (width)
      36: for (k = 0; k < 4; k = k + 1) if (address[k]) bytes[{address[13:5], k[1:0]}] = data[9*k +: 9];
      18: for (k = 0; k < 2; k = k + 1) if (address[k]) bytes[{address[13:4], k[0]}] = data[9*k +: 9];
      9: bytes[address[13:3]] = data[8:0];
      4: bytes[address[13:3]][{address[2], 2'b0} +: 4] = data[3:0];
      2: bytes[address[13:3]][{address[2:1], 1'b0} +: 2] = data[1:0];
      default: bytes[address[13:3]][address[2:0]] = data[0];
    endcase
  endtask

  function [35:0] changed(input [35:0] old, input [35:0] now);  // all bits of each byte that differs
    changed = {{9{old[35:27] !== now[35:27]}}, {9{old[26:18] !== now[26:18]}},
               {9{old[17:9] !== now[17:9]}}, {9{old[8:0] !== now[8:0]}}};
  endfunction

  reg [35:0] old_a, old_b, own_a, own_b, read_a, read_b;
  reg [35:0] disturbed_a, disturbed_b;

  always @(posedge CLKA) begin
    old_a = word(address_a, DATA_WIDTH_A);
    old_b = word(address_b, DATA_WIDTH_B);
    if (a_writes) write(address_a, DATA_WIDTH_A, {data_b, data_a});
    own_a = word(address_a, DATA_WIDTH_A);
    disturbed_b = changed(old_b, word(address_b, DATA_WIDTH_B));
    if (b_writes) write(address_b, DATA_WIDTH_B, {18'b0, data_b});
    own_b = word(address_b, DATA_WIDTH_B);
    disturbed_a = changed(own_a, word(address_a, DATA_WIDTH_A));

    if (a_reads) read_a <= disturbed_a ^ (a_writes && WRITEMODE_A == "WRITETHROUGH" ? own_a : old_a);
    if (b_reads) read_b <= disturbed_b ^ (b_writes && WRITEMODE_B == "WRITETHROUGH" ? own_b : old_b);
  end

  reg cleared_a, cleared_b;  // since what was read last
  wire clears_a = RSTA && RESETMODE == "ASYNC", clears_b = RSTB && RESETMODE == "ASYNC";
  always @(posedge CLKA or posedge clears_a) if (RSTA) cleared_a <= 1; else if (a_reads) cleared_a <= 0;
  always @(posedge CLKA or posedge clears_b) if (RSTB) cleared_b <= 1; else if (b_reads) cleared_b <= 0;

  wire [35:0] given_a = cleared_a ? 36'b0 : read_a;
  wire [35:0] given_b = cleared_b ? 36'b0 : read_b;
  assign {DOB17, DOB16, DOB15, DOB14, DOB13, DOB12, DOB11, DOB10, DOB9, DOB8, DOB7, DOB6, DOB5, DOB4, DOB3, DOB2,
    DOB1, DOB0, DOA17, DOA16, DOA15, DOA14, DOA13, DOA12, DOA11, DOA10, DOA9, DOA8, DOA7, DOA6, DOA5, DOA4, DOA3,
    DOA2, DOA1, DOA0} = DATA_WIDTH_B == 36 ? given_b : {given_b[17:0], given_a[17:0]};
endmodule
