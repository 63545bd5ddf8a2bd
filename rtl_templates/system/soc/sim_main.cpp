// SPDX-License-Identifier: Apache-2.0
// Runs a SoC until its software says EOT on the console. Argument: cycles at most. A clock for cores has a period that is
// no multiple of the other one's.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "Vsim.h"
#include "verilated.h"

int main(int argc, char **argv) {
  const std::uint64_t limit = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100'000'000;
  const auto context = std::make_unique<VerilatedContext>();
  const auto soc = std::make_unique<Vsim>(context.get());

#ifdef CORE_CLOCK
  unsigned core_left = 0;  // until its next edge, in thousandths of a cycle
#endif
  soc->serial_source_ready = 1;
  soc->serial_sink_valid = 0;
  for (std::uint64_t cycle = 0; cycle < limit; ++cycle) {
    soc->sys_clk = 0;
    soc->eval();
    if (soc->serial_source_valid) {
      const char said = static_cast<char>(soc->serial_source_data);
      if (said == '\x04') {
        std::printf("%llu cycles of the SoC\n", static_cast<unsigned long long>(cycle));
        return 0;
      }
      std::putchar(said);
    }
    soc->sys_clk = 1;
    soc->eval();
#ifdef CORE_CLOCK
    for (; core_left < 1000; core_left += 713) {
      soc->core_clk = !soc->core_clk;
      soc->eval();
    }
    core_left -= 1000;
#endif
  }
  std::printf("FAIL: no end within %llu cycles\n", static_cast<unsigned long long>(limit));
  return 1;
}
