// The two LZ4 functions that Verilator's FST writer calls, for machines without liblz4-dev.
//
// The result is a valid LZ4 block that holds the input as literals, without compressing it: one token whose high
// nibble is the literal length (15 continues in bytes of 255), then the literals; a block may end after them.
#pragma once
#include <cstring>

static inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

static inline int LZ4_compress_default(const char* source, char* target, int size, int capacity) {
  if (capacity < LZ4_compressBound(size)) return 0;
  unsigned char* out = reinterpret_cast<unsigned char*>(target);
  *out++ = static_cast<unsigned char>((size < 15 ? size : 15) << 4);
  if (size >= 15) {
    int rest = size - 15;
    for (; rest >= 255; rest -= 255) *out++ = 255;
    *out++ = static_cast<unsigned char>(rest);
  }
  if (size > 0) std::memcpy(out, source, static_cast<size_t>(size));
  return static_cast<int>(out - reinterpret_cast<unsigned char*>(target)) + size;
}
