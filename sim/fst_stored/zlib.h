// The two zlib functions that Verilator's FST writer calls, for machines without zlib1g-dev.
//
// The result is a valid zlib stream (RFC 1950) of stored deflate blocks (RFC 1951, 3.2.4): nothing is compressed.
#pragma once
#include <cstring>

typedef unsigned char Bytef;
typedef unsigned long uLong;
typedef uLong uLongf;
#define Z_OK 0
#define Z_BUF_ERROR (-5)

static inline uLong compressBound(uLong size) { return size + 5 * (size / 65535 + 1) + 6; }

static inline int compress2(Bytef* target, uLongf* target_size, const Bytef* source, uLong size, int /*level*/) {
  if (*target_size < compressBound(size)) return Z_BUF_ERROR;
  Bytef* out = target;
  *out++ = 0x78;
  *out++ = 0x01;
  uLong rest = size;
  const Bytef* in = source;
  do {
    const uLong block = rest < 65535 ? rest : 65535;
    *out++ = block == rest ? 1 : 0;  // last block?
    *out++ = static_cast<Bytef>(block & 255);
    *out++ = static_cast<Bytef>(block >> 8);
    *out++ = static_cast<Bytef>(~block & 255);
    *out++ = static_cast<Bytef>((~block >> 8) & 255);
    if (block) std::memcpy(out, in, block);
    out += block;
    in += block;
    rest -= block;
  } while (rest);
  uLong a = 1;  // Adler-32
  uLong b = 0;
  for (uLong i = 0; i < size; ++i) {
    a = (a + source[i]) % 65521;
    b = (b + a) % 65521;
  }
  *out++ = static_cast<Bytef>(b >> 8);
  *out++ = static_cast<Bytef>(b & 255);
  *out++ = static_cast<Bytef>(a >> 8);
  *out++ = static_cast<Bytef>(a & 255);
  *target_size = static_cast<uLong>(out - target);
  return Z_OK;
}
