// Techmap for Yosys: operands are extended to one width where Verilog would do it silently, so that
// the Verilog written from them gives no width warning in any tool.

(* techmap_celltype = "$add $sub" *)
module equal_widths_sum (A, B, Y);
  parameter A_SIGNED = 0;
  parameter B_SIGNED = 0;
  parameter A_WIDTH = 1;
  parameter B_WIDTH = 1;
  parameter Y_WIDTH = 1;
  parameter _TECHMAP_CELLTYPE_ = "";
  input [A_WIDTH-1:0] A;
  input [B_WIDTH-1:0] B;
  output [Y_WIDTH-1:0] Y;

  wire _TECHMAP_FAIL_ = A_WIDTH > Y_WIDTH || B_WIDTH > Y_WIDTH
      || (A_WIDTH == Y_WIDTH && B_WIDTH == Y_WIDTH && !A_SIGNED);

  generate
    if (_TECHMAP_CELLTYPE_ == "$add")
      assign Y = {{(Y_WIDTH-A_WIDTH){A_SIGNED ? A[A_WIDTH-1] : 1'b0}}, A}
               + {{(Y_WIDTH-B_WIDTH){B_SIGNED ? B[B_WIDTH-1] : 1'b0}}, B};
    else
      assign Y = {{(Y_WIDTH-A_WIDTH){A_SIGNED ? A[A_WIDTH-1] : 1'b0}}, A}
               - {{(Y_WIDTH-B_WIDTH){B_SIGNED ? B[B_WIDTH-1] : 1'b0}}, B};
  endgenerate
endmodule

(* techmap_celltype = "$eq $ne $lt $le $gt $ge" *)
module equal_widths_comparison (A, B, Y);
  parameter A_SIGNED = 0;
  parameter B_SIGNED = 0;
  parameter A_WIDTH = 1;
  parameter B_WIDTH = 1;
  parameter Y_WIDTH = 1;
  parameter _TECHMAP_CELLTYPE_ = "";
  localparam WIDTH = A_WIDTH > B_WIDTH ? A_WIDTH : B_WIDTH;
  input [A_WIDTH-1:0] A;
  input [B_WIDTH-1:0] B;
  output [Y_WIDTH-1:0] Y;

  wire _TECHMAP_FAIL_ = A_WIDTH == B_WIDTH || A_SIGNED;

  generate
    if (_TECHMAP_CELLTYPE_ == "$eq") assign Y = {{(WIDTH-A_WIDTH){1'b0}}, A} == {{(WIDTH-B_WIDTH){1'b0}}, B};
    else if (_TECHMAP_CELLTYPE_ == "$ne") assign Y = {{(WIDTH-A_WIDTH){1'b0}}, A} != {{(WIDTH-B_WIDTH){1'b0}}, B};
    else if (_TECHMAP_CELLTYPE_ == "$lt") assign Y = {{(WIDTH-A_WIDTH){1'b0}}, A} < {{(WIDTH-B_WIDTH){1'b0}}, B};
    else if (_TECHMAP_CELLTYPE_ == "$le") assign Y = {{(WIDTH-A_WIDTH){1'b0}}, A} <= {{(WIDTH-B_WIDTH){1'b0}}, B};
    else if (_TECHMAP_CELLTYPE_ == "$gt") assign Y = {{(WIDTH-A_WIDTH){1'b0}}, A} > {{(WIDTH-B_WIDTH){1'b0}}, B};
    else assign Y = {{(WIDTH-A_WIDTH){1'b0}}, A} >= {{(WIDTH-B_WIDTH){1'b0}}, B};
  endgenerate
endmodule

(* techmap_celltype = "$lt $le $gt $ge" *)
module equal_widths_signed_comparison (A, B, Y);
  parameter A_SIGNED = 0;
  parameter B_SIGNED = 0;
  parameter A_WIDTH = 1;
  parameter B_WIDTH = 1;
  parameter Y_WIDTH = 1;
  parameter _TECHMAP_CELLTYPE_ = "";
  localparam WIDTH = A_WIDTH > B_WIDTH ? A_WIDTH : B_WIDTH;
  input [A_WIDTH-1:0] A;
  input [B_WIDTH-1:0] B;
  output [Y_WIDTH-1:0] Y;

  wire _TECHMAP_FAIL_ = A_WIDTH == B_WIDTH || !A_SIGNED || !B_SIGNED;

  wire signed [WIDTH-1:0] a = {{(WIDTH-A_WIDTH){A[A_WIDTH-1]}}, A};
  wire signed [WIDTH-1:0] b = {{(WIDTH-B_WIDTH){B[B_WIDTH-1]}}, B};
  generate
    if (_TECHMAP_CELLTYPE_ == "$lt") assign Y = a < b;
    else if (_TECHMAP_CELLTYPE_ == "$le") assign Y = a <= b;
    else if (_TECHMAP_CELLTYPE_ == "$gt") assign Y = a > b;
    else assign Y = a >= b;
  endgenerate
endmodule

(* techmap_celltype = "$not" *)
module equal_widths_not (A, Y);
  parameter A_SIGNED = 0;
  parameter A_WIDTH = 1;
  parameter Y_WIDTH = 1;
  input [A_WIDTH-1:0] A;
  output [Y_WIDTH-1:0] Y;

  wire _TECHMAP_FAIL_ = A_WIDTH >= Y_WIDTH || A_SIGNED;

  assign Y = ~{{(Y_WIDTH-A_WIDTH){1'b0}}, A};
endmodule

(* techmap_celltype = "$logic_not" *)
module equal_widths_zero (A, Y);
  parameter A_SIGNED = 0;
  parameter A_WIDTH = 1;
  parameter Y_WIDTH = 1;
  input [A_WIDTH-1:0] A;
  output [Y_WIDTH-1:0] Y;

  wire _TECHMAP_FAIL_ = A_WIDTH == 1;

  assign Y = A == {A_WIDTH{1'b0}};
endmodule
