// SPDX-License-Identifier: Apache-2.0
//
// Leaky ReLU whose slope is a power of two, one beat: y = x < 0 ? x * 2^-SHIFT : x.
//
// Both are exact in the type of `fine`; the assignment to y rounds and saturates as the type of y says.
template <class Node>
void leaky_shift_hls(const typename Node::data_in_0_t x[], typename Node::data_out_0_t y[]) {
  for (int lane = 0; lane < Node::LANES; lane++) {
#pragma HLS UNROLL
    typedef ap_fixed<Node::DATA_IN_0_PRECISION_0 + 1 + Node::SHIFT,
                     Node::DATA_IN_0_PRECISION_0 + 1 - Node::DATA_IN_0_PRECISION_1> exact;
    exact fine = x[lane];
    if (fine < 0) {
      fine >>= Node::SHIFT;
    }
    y[lane] = fine;
  }
}
