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

// Levels of adder trees (mase_hw/simulate/engines/batch/sums.py): neighbours are added without overflow, each sum being a
// bit wider than what it adds, and bits above it are 0.
template <int LANES> using Signed = typename Vector<LANES, int32_t>::type;
template <int LANES> using Unsigned = typename Vector<LANES, uint32_t>::type;

template <int LANES, int BITS>
inline __attribute__((always_inline)) Signed<LANES> extended(Unsigned<LANES> value) {
    return (Signed<LANES>)(value << (32 - BITS)) >> (32 - BITS);
}

template <int LANES>
inline __attribute__((always_inline)) void sums_of_16_in(char *to, const char *from) {
    Unsigned<LANES> pairs;
    std::memcpy(&pairs, from, sizeof pairs);
    const Signed<LANES> sum = extended<LANES, 16>(pairs) + ((Signed<LANES>)pairs >> 16);
    const Unsigned<LANES> cut = (Unsigned<LANES>)sum & 0x1ffffU;
    std::memcpy(to, &cut, sizeof cut);
}

// Of two vectors that follow each other, the numbers at even places, and those at odd ones.
template <int LANES> struct Neighbours;
template <> struct Neighbours<4> {
    using Four = Unsigned<4>;
    static inline __attribute__((always_inline)) Four even(Four a, Four b) { return BATCH_SHUFFLE(a, b, Four, 0, 2, 4, 6); }
    static inline __attribute__((always_inline)) Four odd(Four a, Four b) { return BATCH_SHUFFLE(a, b, Four, 1, 3, 5, 7); }
};
template <> struct Neighbours<2> {
    using Two = Unsigned<2>;
    static inline __attribute__((always_inline)) Two even(Two a, Two b) { return BATCH_SHUFFLE(a, b, Two, 0, 2); }
    static inline __attribute__((always_inline)) Two odd(Two a, Two b) { return BATCH_SHUFFLE(a, b, Two, 1, 3); }
};

template <int LANES, int BITS>
inline __attribute__((always_inline)) void sums_in(char *to, const char *from) {
    Unsigned<LANES> a, b;
    std::memcpy(&a, from, sizeof a);
    std::memcpy(&b, from + sizeof a, sizeof b);
    const Signed<LANES> sum
        = extended<LANES, BITS>(Neighbours<LANES>::even(a, b)) + extended<LANES, BITS>(Neighbours<LANES>::odd(a, b));
    const Unsigned<LANES> cut = (Unsigned<LANES>)sum & ((2U << BITS) - 1U);
    std::memcpy(to, &cut, sizeof cut);
}

// The neighbours are numbers of 16 bits, behind each other.
template <int COUNT>
inline __attribute__((always_inline)) void sums_of_16(void *to, const void *from) {
    char *const out = static_cast<char *>(to);
    const char *const in = static_cast<const char *>(from);
    constexpr int FOURS = COUNT / 4 * 4, TWOS = COUNT / 2 * 2;
    for (int lane = 0; lane < FOURS; lane += 4) sums_of_16_in<4>(out + 4 * lane, in + 4 * lane);
    if (TWOS > FOURS) sums_of_16_in<2>(out + 4 * FOURS, in + 4 * FOURS);
    if (COUNT > TWOS) {
        uint32_t pair;
        std::memcpy(&pair, in + 4 * TWOS, sizeof pair);
        pair = static_cast<uint32_t>(static_cast<int16_t>(pair) + static_cast<int16_t>(pair >> 16)) & 0x1ffffU;
        std::memcpy(out + 4 * TWOS, &pair, sizeof pair);
    }
}

// The neighbours are numbers of BITS in 32 each, which follow each other.
template <int COUNT, int BITS>
inline __attribute__((always_inline)) void sums(void *to, const void *from) {
    char *const out = static_cast<char *>(to);
    const char *const in = static_cast<const char *>(from);
    constexpr int FOURS = COUNT / 4 * 4, TWOS = COUNT / 2 * 2;
    for (int lane = 0; lane < FOURS; lane += 4) sums_in<4, BITS>(out + 4 * lane, in + 8 * lane);
    if (TWOS > FOURS) sums_in<2, BITS>(out + 4 * FOURS, in + 8 * FOURS);
    if (COUNT > TWOS) {
        uint32_t pair[2];
        std::memcpy(pair, in + 8 * TWOS, sizeof pair);
        int32_t sum = static_cast<int32_t>(pair[0] << (32 - BITS)) >> (32 - BITS);
        sum += static_cast<int32_t>(pair[1] << (32 - BITS)) >> (32 - BITS);
        const uint32_t cut = static_cast<uint32_t>(sum) & ((2U << BITS) - 1U);
        std::memcpy(out + 4 * TWOS, &cut, sizeof cut);
    }
}

}  // namespace batch
