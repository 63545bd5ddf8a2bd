// Products of bytes, lane by lane, to 16 bits: what the host puts in place of statements that it has shown to compute
// them (mase_hw/simulate/engines/batch/products.py). Included before the generated files; tests/engines compares both.
#pragma once

#include <cstdint>
#include <cstring>

namespace batch {

template <bool SIGNED> struct Byte { using type = int8_t; };
template <> struct Byte<false> { using type = uint8_t; };

// The vectors of the compiler, which every processor has in some form; the sizes are powers of two.
template <int LANES, typename TYPE> struct Vector {
    typedef TYPE type __attribute__((vector_size(LANES * sizeof(TYPE))));
};

template <int LANES, bool LEFT_SIGNED, bool RIGHT_SIGNED>
inline __attribute__((always_inline)) void products_of(char *to, const char *left, const char *right) {
    using Result = typename Vector<LANES, int16_t>::type;
    typename Vector<LANES, typename Byte<LEFT_SIGNED>::type>::type a;
    typename Vector<LANES, typename Byte<RIGHT_SIGNED>::type>::type b;
    std::memcpy(&a, left, sizeof a);
    std::memcpy(&b, right, sizeof b);
    // In 16 bits without a sign nothing overflows, and the low bits are the same.
    using Wide = typename Vector<LANES, uint16_t>::type;
    const Wide product = (Wide)__builtin_convertvector(a, Result) * (Wide)__builtin_convertvector(b, Result);
    std::memcpy(to, &product, sizeof product);
}

// LANES is even: storage is whole words of 32 bits, and lanes that nothing needs are 0.
template <int LANES, bool LEFT_SIGNED, bool RIGHT_SIGNED>
inline __attribute__((always_inline)) void products(void *to, const void *left, const void *right) {
    char *const out = static_cast<char *>(to);
    const char *const a = static_cast<const char *>(left), *const b = static_cast<const char *>(right);
    constexpr int EIGHTS = LANES / 8 * 8, FOURS = LANES / 4 * 4;
    for (int lane = 0; lane < EIGHTS; lane += 8) {
        products_of<8, LEFT_SIGNED, RIGHT_SIGNED>(out + 2 * lane, a + lane, b + lane);
    }
    if (FOURS > EIGHTS) products_of<4, LEFT_SIGNED, RIGHT_SIGNED>(out + 2 * EIGHTS, a + EIGHTS, b + EIGHTS);
    if (LANES > FOURS) products_of<2, LEFT_SIGNED, RIGHT_SIGNED>(out + 2 * FOURS, a + FOURS, b + FOURS);
}

}  // namespace batch
