// SPDX-License-Identifier: Apache-2.0
// A 10GBASE-R transmitter for legal sequences of vectors: 64B/66B encoder and scrambler. Written for
// a test from IEEE 802.3 Clause 49, apart from the Rust code. Reads vectors, 18 hexadecimal digits
// each (control bits, then the octet of lane 7 to lane 0); writes header and payload of each block as
// the line sees them, first bit in the lowest place.
`timescale 1ns / 1ps
module base_r;
  reg [71:0] vectors[0:65535];
  reg [57:0] register;  // register[0] is the latest bit.
  integer count, n, lane, bit_index;
  reg [7:0] ctrl;
  reg [63:0] data, coded, out;
  reg [1:0] header;
  reg fed;

  function [7:0] octet(input [63:0] word, input integer index);
    octet = word >> (8 * index);
  endfunction

  function [6:0] code(input [7:0] character);
    case (character)
      8'h07: code = 7'h00;
      8'h06: code = 7'h06;
      8'hfe: code = 7'h1e;
      8'h1c: code = 7'h2d;
      8'h3c: code = 7'h33;
      8'h7c: code = 7'h4b;
      8'hbc: code = 7'h55;
      8'hdc: code = 7'h66;
      default: code = 7'h78;
    endcase
  endfunction

  function [3:0] ordered(input [7:0] character);
    ordered = character == 8'h5c ? 4'hf : 4'h0;
  endfunction

  function [7:0] end_type(input integer index);
    case (index)
      0: end_type = 8'h87;
      1: end_type = 8'h99;
      2: end_type = 8'haa;
      3: end_type = 8'hb4;
      4: end_type = 8'hcc;
      5: end_type = 8'hd2;
      6: end_type = 8'he1;
      default: end_type = 8'hff;
    endcase
  endfunction

  task encode;
    integer last, i;
    reg lower_ordered, upper_ordered, upper_start;
    begin
      coded = 0;
      header = 2'b01;
      last = -1;
      for (i = 7; i >= 0; i = i - 1) if (ctrl[i] && octet(data, i) == 8'hfd) last = i;
      lower_ordered = ctrl[0] && (octet(data, 0) == 8'h9c || octet(data, 0) == 8'h5c);
      upper_ordered = ctrl[4] && (octet(data, 4) == 8'h9c || octet(data, 4) == 8'h5c);
      upper_start = ctrl[4] && octet(data, 4) == 8'hfb;
      if (ctrl == 0) begin
        header = 2'b10;
        coded = data;
      end else if (last >= 0) begin
        for (i = 0; i < 8; i = i + 1) begin
          if (i < last) coded = coded | ({56'b0, octet(data, i)} << (8 + 8 * i));
          if (i > last) coded = coded | ({57'b0, code(octet(data, i))} << (8 + 7 * i));
        end
        coded[7:0] = end_type(last);
      end else if (ctrl[0] && octet(data, 0) == 8'hfb) begin
        coded = {data[63:8], 8'h78};
      end else begin
        if (lower_ordered) begin
          coded[31:8] = data[31:8];
          coded[35:32] = ordered(octet(data, 0));
        end else
          for (i = 0; i < 4; i = i + 1)
            coded = coded | ({57'b0, code(octet(data, i))} << (8 + 7 * i));
        if (upper_ordered || upper_start) begin
          coded[63:40] = data[63:40];
          if (upper_ordered) coded[39:36] = ordered(octet(data, 4));
        end else
          for (i = 4; i < 8; i = i + 1)
            coded = coded | ({57'b0, code(octet(data, i))} << (8 + 7 * i));
        case ({lower_ordered, upper_ordered, upper_start})
          3'b000: coded[7:0] = 8'h1e;
          3'b001: coded[7:0] = 8'h33;
          3'b010: coded[7:0] = 8'h2d;
          3'b100: coded[7:0] = 8'h4b;
          3'b101: coded[7:0] = 8'h66;
          default: coded[7:0] = 8'h55;
        endcase
      end
    end
  endtask

  initial begin
    if (!$value$plusargs("count=%d", count)) count = 0;
    $readmemh("vectors.hex", vectors);
    register = {58{1'b1}};
    for (n = 0; n < count; n = n + 1) begin
      ctrl = vectors[n][71:64];
      data = vectors[n][63:0];
      encode;
      for (bit_index = 0; bit_index < 64; bit_index = bit_index + 1) begin
        fed = coded[bit_index] ^ register[38] ^ register[57];
        out[bit_index] = fed;
        register = {register[56:0], fed};
      end
      $display("%h %h", header, out);
    end
    $finish;
  end
endmodule
