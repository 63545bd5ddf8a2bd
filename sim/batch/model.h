// What the driver knows of a design. The generated glue fills it in; nothing else depends on the design.
#pragma once

#include <string>
#include <vector>

class VerilatedContext;

namespace batch {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "beats are copied as they lie in memory");

// A valid/ready stream. `data` points at Verilator's storage of the port: little-endian, unused high bits 0, which is
// the layout of a beat file too.
struct Signals {
    std::string name;
    void *data;
    unsigned char *valid;
    unsigned char *ready;
    unsigned bits;
};

// The fill level of a FIFO inside the design.
struct Level {
    std::string name;
    unsigned long long (*read)();
    unsigned long long most = 0;
};

struct Model {
    unsigned char *clk;
    unsigned char *rst;
    std::vector<Signals> ports;
    std::vector<Signals> probes;
    std::vector<Level> levels;
};

// The glue.
Model open_model(VerilatedContext *context);
void eval_model();
void trace_model(const char *file);           // only in a build with waves
void dump_model(unsigned long long time);     // only in a build with waves
void close_model();

}  // namespace batch
