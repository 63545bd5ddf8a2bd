// Sign extension, signed products and signed comparisons as shifts, which a compiler turns into one instruction where the
// width is that of a type. Verilator's own are a mask, a negation and an "or", in 64 bits for comparisons; they are a
// quarter of the work of a multiplier array. Included before the generated files, which then use these instead;
// tests/engines compares both.
#pragma once

#include "verilated.h"

namespace batch {

inline IData extend_i(int bits, IData value) {
    return static_cast<IData>(static_cast<int32_t>(value << (32 - bits)) >> (32 - bits));
}
inline QData extend_q(int bits, QData value) {
    return static_cast<QData>(static_cast<int64_t>(value << (64 - bits)) >> (64 - bits));
}
inline IData multiply_i(int bits, IData left, IData right) { return extend_i(bits, left) * extend_i(bits, right); }

// The sign in the highest bit: two such numbers compare like those they came from.
inline int32_t top_i(int bits, IData value) { return static_cast<int32_t>(value << (32 - bits)); }

}  // namespace batch

#define VL_EXTENDS_II(to, from, value) batch::extend_i(from, value)
#define VL_EXTENDS_QI(to, from, value) batch::extend_q(from, value)
#define VL_EXTENDS_QQ(to, from, value) batch::extend_q(from, value)
#define VL_MULS_III(bits, left, right) batch::multiply_i(bits, left, right)
#define VL_GTS_III(bits, left, right) static_cast<IData>(batch::top_i(bits, left) > batch::top_i(bits, right))
#define VL_GTES_III(bits, left, right) static_cast<IData>(batch::top_i(bits, left) >= batch::top_i(bits, right))
#define VL_LTS_III(bits, left, right) static_cast<IData>(batch::top_i(bits, left) < batch::top_i(bits, right))
#define VL_LTES_III(bits, left, right) static_cast<IData>(batch::top_i(bits, left) <= batch::top_i(bits, right))
