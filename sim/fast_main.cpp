// The main program of the fast engine: runs the clock itself and enters cocotb only where something happens, which is
// when `done`, `tick` or `wake` of the harness change, or when a timer of a test is due. Everything else is as in cocotb's own
// main program for Verilator.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "Vtop.h"
#include "verilated.h"
#include "verilated_vpi.h"
#if VM_TRACE
#include "verilated_fst_c.h"
#endif

namespace {
constexpr vluint64_t HALF_PERIOD = 5000;  // 10 ns in the precision of a picosecond
vluint64_t now = 0;

void settle() {
    while (VerilatedVpi::callValueCbs()) {}
}

void end_of_simulation() { VerilatedVpi::callCbs(cbEndOfSimulation); }
}  // namespace

double sc_time_stamp() { return static_cast<double>(now); }

extern "C" {
void vlog_startup_routines_bootstrap(void);
}

int main(int argc, char **argv) {
    Verilated::commandArgs(argc, argv);
    const auto top = std::make_unique<Vtop>("");
    Verilated::fatalOnVpiError(false);
#if VM_TRACE
    VerilatedFstC waves;
    const bool tracing = std::any_of(argv + 1, argv + argc, [](const char *word) { return std::string{word} == "--trace"; });
    Verilated::traceEverOn(true);
    // Cycles to write waves of, counted in the attempt that counts, the one after the last reset of the plan.
    long long from = 0, to = -1;
    int resets = 0;
    for (int i = 1; i < argc; ++i) std::sscanf(argv[i], "--window=%lld,%lld,%d", &from, &to, &resets);
    const auto seen = [&] {
        const auto cycle = static_cast<long long>(top->cycle);
        return tracing && (to < 0 || (top->resets == static_cast<unsigned>(resets) && cycle >= from && cycle <= to));
    };
    if (tracing) {
        top->trace(&waves, 99);
        waves.open("dump.fst");
    }
    // A design that ends the program itself still leaves its waves.
    Verilated::addExitCb([](void *file) { static_cast<VerilatedFstC *>(file)->close(); }, &waves);
#endif
    vlog_startup_routines_bootstrap();
    top->clk = 0;
    top->eval();
    VerilatedVpi::callCbs(cbStartOfSimulation);
    settle();
    // What the test wrote before the first edge.
    VerilatedVpi::doInertialPuts();
    top->eval();
    vluint64_t edge = HALF_PERIOD;
    while (!Verilated::gotFinish()) {
        const auto done = top->done, tick = top->tick, wake = top->wake;
        const vluint64_t timer = VerilatedVpi::cbNextDeadline();
        do {
            now = std::min(edge, timer);
            if (now == edge) {
                top->clk = !top->clk;
                edge += HALF_PERIOD;
                top->eval();
#if VM_TRACE
                if (seen()) waves.dump(now);
#endif
            }
        } while (now < timer && top->done == done && top->tick == tick && top->wake == wake && !Verilated::gotFinish());
        VerilatedVpi::callCbs(cbNextSimTime);
        VerilatedVpi::callTimedCbs();
        settle();
        VerilatedVpi::doInertialPuts();
        VerilatedVpi::callCbs(cbReadWriteSynch);
        VerilatedVpi::doInertialPuts();
        top->eval();
        settle();
        VerilatedVpi::callCbs(cbReadOnlySynch);
    }
    top->final();
    end_of_simulation();
#if VM_TRACE
    if (tracing) waves.close();
#endif
    return Verilated::threadContextp()->errorCount() > 0 ? 1 : 0;
}
