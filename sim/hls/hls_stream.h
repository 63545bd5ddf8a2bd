// SPDX-License-Identifier: Apache-2.0
//
// hls::stream for a native build: as much of it as generated code and test benches use. Vitis HLS has its own.
#ifndef MASE_HW_HLS_STREAM_H
#define MASE_HW_HLS_STREAM_H

#include <cstdlib>
#include <iostream>
#include <queue>

namespace hls {

template <typename T>
class stream {
 public:
  bool empty() const { return beats_.empty(); }
  void write(const T& beat) { beats_.push(beat); }
  T read() {
    if (beats_.empty()) {
      std::cout << "a stream is read that has no beat\n";
      std::exit(1);
    }
    const T beat = beats_.front();
    beats_.pop();
    return beat;
  }

 private:
  std::queue<T> beats_;
};

}  // namespace hls

#endif
