// Products of bytes, lane by lane, to 16 bits: what the host puts in place of statements that it has shown to compute
// them (mase_hw/simulate/engines/batch/products.py). Included before the generated files; tests/engines compares both.
#pragma once

#include <cstdint>
#include <cstring>

namespace batch {

// The vectors of the compiler, which every processor has in some form; the sizes are powers of two.
template <int LANES, typename TYPE> struct Vector {
    typedef TYPE type __attribute__((vector_size(LANES * sizeof(TYPE))));
};
using Bytes = Vector<16, uint8_t>::type;
using Halves = Vector<8, uint16_t>::type;

#ifdef __clang__
#define BATCH_SHUFFLE(left, right, type, ...) __builtin_shufflevector(left, right, __VA_ARGS__)
#else
#define BATCH_SHUFFLE(left, right, type, ...) __builtin_shuffle(left, right, type{__VA_ARGS__})
#endif

// Eight bytes from FIRST on as numbers of 16 bits: behind zeros, or in front of them and shifted down with the sign. A
// conversion of eight bytes at a time is three times as many instructions with g++.
template <int FIRST, bool SIGNED>
inline __attribute__((always_inline)) Halves widened(Bytes bytes) {
    const Bytes zero{}, low = SIGNED ? zero : bytes, high = SIGNED ? bytes : zero;
    const Halves pairs = (Halves)BATCH_SHUFFLE(
        low, high, Bytes, FIRST, FIRST + 16, FIRST + 1, FIRST + 17, FIRST + 2, FIRST + 18, FIRST + 3, FIRST + 19,
        FIRST + 4, FIRST + 20, FIRST + 5, FIRST + 21, FIRST + 6, FIRST + 22, FIRST + 7, FIRST + 23);
    return SIGNED ? (Halves)((Vector<8, int16_t>::type)pairs >> 8) : pairs;
}

// Few bytes, and nothing in those above them.
template <int COUNT>
inline __attribute__((always_inline)) Bytes loaded(const char *from) {
    uint64_t word = 0;
    std::memcpy(&word, from, COUNT);
    return (Bytes)Vector<2, uint64_t>::type{word, 0};
}

template <int LANES, bool LEFT_SIGNED, bool RIGHT_SIGNED>
inline __attribute__((always_inline)) void products_of(char *to, const char *left, const char *right) {
    // In 16 bits without a sign nothing overflows, and the low bits are the same.
    const Halves product = widened<0, LEFT_SIGNED>(loaded<LANES>(left)) * widened<0, RIGHT_SIGNED>(loaded<LANES>(right));
    std::memcpy(to, &product, 2 * LANES);
}

template <bool LEFT_SIGNED, bool RIGHT_SIGNED>
inline __attribute__((always_inline)) void products_of_16(char *to, const char *left, const char *right) {
    Bytes a, b;
    std::memcpy(&a, left, sizeof a);
    std::memcpy(&b, right, sizeof b);
    const Halves low = widened<0, LEFT_SIGNED>(a) * widened<0, RIGHT_SIGNED>(b);
    const Halves high = widened<8, LEFT_SIGNED>(a) * widened<8, RIGHT_SIGNED>(b);
    std::memcpy(to, &low, sizeof low);
    std::memcpy(to + sizeof low, &high, sizeof high);
}

// LANES is even: storage is whole words of 32 bits, and lanes that nothing needs are 0.
template <int LANES, bool LEFT_SIGNED, bool RIGHT_SIGNED>
inline __attribute__((always_inline)) void products(void *to, const void *left, const void *right) {
    char *const out = static_cast<char *>(to);
    const char *const a = static_cast<const char *>(left), *const b = static_cast<const char *>(right);
    constexpr int SIXTEENS = LANES / 16 * 16, EIGHTS = LANES / 8 * 8, FOURS = LANES / 4 * 4;
    for (int lane = 0; lane < SIXTEENS; lane += 16) {
        products_of_16<LEFT_SIGNED, RIGHT_SIGNED>(out + 2 * lane, a + lane, b + lane);
    }
    if (EIGHTS > SIXTEENS) products_of<8, LEFT_SIGNED, RIGHT_SIGNED>(out + 2 * SIXTEENS, a + SIXTEENS, b + SIXTEENS);
    if (FOURS > EIGHTS) products_of<4, LEFT_SIGNED, RIGHT_SIGNED>(out + 2 * EIGHTS, a + EIGHTS, b + EIGHTS);
    if (LANES > FOURS) products_of<2, LEFT_SIGNED, RIGHT_SIGNED>(out + 2 * FOURS, a + FOURS, b + FOURS);
}

}  // namespace batch
