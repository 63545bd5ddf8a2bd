// Waves of a window only, in cocotb's own main program for Verilator, which is compiled after this file: `+window=A,B`
// are the first and the last time to write, in the precision of the simulation.
#pragma once
#if VM_TRACE
#include <cstdint>
#include <cstdio>

#include "verilated.h"
#include "verilated_fst_c.h"

namespace window {
class WindowFst : public VerilatedFstC {
public:
    WindowFst() {
        const char *const words = Verilated::threadContextp()->commandArgsPlusMatch("window=");
        m_all = std::sscanf(words, "+window=%llu,%llu", &m_from, &m_to) != 2;
    }
    void dump(uint64_t time) {
        if (m_all || (time >= m_from && time <= m_to)) VerilatedFstC::dump(time);
    }

private:
    unsigned long long m_from = 0, m_to = 0;
    bool m_all = true;
};
}  // namespace window
#define VerilatedFstC window::WindowFst
#endif
