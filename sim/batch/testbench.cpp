// The batch bench: plays a plan against a model without Python or VPI in the loop. It does in every cycle what
// sim/stream_testbench.py does, and leaves the same files behind; outcome.json comes last, so one that exists is whole.
//
// The plan is read from beats/batch.txt, which the host derives from plan.json: words separated by blanks.

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>

#include "end_with_parent.h"
#include "stream.h"
#include "verilated.h"
#if VM_COVERAGE
#include "verilated_cov.h"
#endif

namespace {

using batch::Driver;
using batch::Monitor;
using batch::Probe;
using Clock = std::chrono::steady_clock;

constexpr int64_t PROGRESS_CYCLES = 1024;
constexpr int64_t TAIL_CYCLES = 256;
constexpr unsigned long long PERIOD = 10;

struct Verdict {
    std::string kind, message;
};

// A reset in the middle of the run: after `at` cycles (unit 0), beats of all inputs (1) or of all outputs (2).
struct Reset {
    int unit;
    int64_t at, length;
};

// Beats that are offered when those of the turn `after` and all before it have moved, behind a reset if it has cycles.
struct Turn {
    int64_t reset, wait, after;
    std::vector<size_t> beats;  // in all so far, of every stream of the plan
};

class Bench {
public:
    Bench(VerilatedContext *context, bool waves, int64_t from, int64_t to)
        : m_context{context}, m_waves{waves}, m_from{from}, m_to{to}, m_model{batch::open_model(context)} {
        std::ifstream plan{"beats/batch.txt"};
        size_t streams = 0, resets = 0;
        plan >> m_id >> m_reset >> m_start >> m_watchdog >> m_limit >> m_tail >> resets;
        for (size_t i = 0; plan && i < resets; ++i) {
            Reset reset{};
            plan >> reset.unit >> reset.at >> reset.length;
            m_resets.push_back(reset);
        }
        size_t turns = 0;
        plan >> streams >> turns;
        std::vector<size_t> sums(streams);
        for (size_t i = 0; plan && i < turns; ++i) {
            Turn turn{};
            plan >> turn.reset >> turn.wait >> turn.after;
            for (size_t &sum : sums) {
                size_t beats = 0;
                plan >> beats;
                sum += beats;
            }
            turn.beats = sums;
            m_turns.push_back(turn);
        }
        // A stream that the plan does not name stays idle.
        for (const batch::Signals &port : m_model.ports) *port.valid = *port.ready = 0;
        for (size_t i = 0; i < streams; ++i) add_stream(plan);
        if (!plan) batch::die("beats/batch.txt is cut short");
        for (const batch::Signals &probe : m_model.probes) m_probes.emplace_back(probe);
        m_progress = ::open("progress", O_WRONLY | O_CREAT, 0644);
        if (waves) batch::trace_model("dump.fst");
    }

    // The whole run: every reset of the plan ends an attempt that is then forgotten.
    Verdict run() {
        reset(m_reset, true);
        Verdict verdict;
        for (const Reset &next : m_resets) {
            if (play(&next, verdict)) return verdict;
            for (Driver &driver : m_drivers) driver.restart();
            for (Monitor &monitor : m_monitors) monitor.restart();
            for (Probe &probe : m_probes) probe.restart();
            for (batch::Level &level : m_model.levels) level.most = 0;
            ++m_done;
            reset(next.length, false);
            cycle = 0;
        }
        play(nullptr, verdict);
        return verdict;
    }

    void reset(int64_t length, bool first) {
        if (!first) rise();  // the edge that was sampled last
        *m_model.clk = 0;
        *m_model.rst = 1;
        for (Driver &driver : m_drivers) driver.idle();
        for (Monitor &monitor : m_monitors) monitor.idle();
        if (first) {
            batch::eval_model();
            dump();
        } else {
            fall();
        }
        for (int64_t i = 0; i < length; ++i) {
            // At the first edge of reset a register still shows what it held before.
            if (i + 1 == length && (first || length > 1)) {
                for (const Monitor &monitor : m_monitors) monitor.check_reset();
            }
            rise();
            if (i + 1 == length) *m_model.rst = 0;
            fall();
        }
    }

    // Stream until everything has come, plus a tail in which nothing more may come; false if `until` is due before.
    bool play(const Reset *until, Verdict &verdict) {
        int64_t start = m_start, last = m_start, longest = 0, end = -1, wait = 0;
        bool calm = false;
        size_t turn = 0;
        if (!m_turns.empty()) allow(m_turns[0]);
        for (int64_t now = 0;;) {
            bool moved = false;
            for (Monitor &monitor : m_monitors) moved |= monitor.sample(now, calm);
            bool restarted = false;
            while (!restarted && turn + 1 < m_turns.size() && may_follow(m_turns[turn + 1])
                   && wait++ >= m_turns[turn].wait) {
                wait = 0;
                const Turn &next = m_turns[++turn];
                allow(next);
                restarted = next.reset > 0;
                if (restarted) {
                    reset(next.reset, false);
                    for (Driver &driver : m_drivers) driver.abandon();
                    for (Monitor &monitor : m_monitors) monitor.abandon();
                    start = last = cycle = ++now;
                    start += m_start;
                }
            }
            if (restarted) continue;
            if (now >= start) {
                for (Driver &driver : m_drivers) moved |= driver.sample(now, calm);
            }
            for (Probe &probe : m_probes) probe.sample(now);
            for (batch::Level &level : m_model.levels) level.most = std::max(level.most, level.read());
            if (until && due(*until, now + 1)) return false;
            if (moved) {
                longest = std::max(longest, now - last);
                last = now;
                calm = end >= 0;
            }
            if (end < 0 && (moved || now == m_start) && all_done()) {
                // As long as the design has ever been silent, a beat too many may still be on its way. What was promised
                // counts only as far as the run itself shows it: it took a frame through, and the next one behind it.
                end = now + std::max(std::min(m_tail, 2 * now + TAIL_CYCLES), longest + 16);
                calm = true;
            } else if (end < 0 && !moved && now - last >= m_watchdog) {
                if (calm && now - last >= 2 * m_watchdog) {
                    verdict = {"hang", "no stream moved for " + std::to_string(now - last)
                                           + " cycles, half of them without any stall"};
                    return true;
                }
                calm = true;
            }
            cycle = ++now;
            if (end >= 0 && end <= now) {
                verdict = compared();
                return true;
            }
            if (end < 0 && now >= m_limit) {
                verdict = {"limit", "not finished after " + std::to_string(now) + " cycles"};
                return true;
            }
            if (now % PROGRESS_CYCLES == 0) report();
            rise();
            for (Monitor &monitor : m_monitors) monitor.drive();
            for (Driver &driver : m_drivers) driver.drive();
            fall();
        }
    }

    void write(const Verdict &verdict, double seconds) const {
        std::string streams;
        for (const Driver &d : m_drivers) {
            d.cycles.write(d.port.name);
            streams += comma(streams) + entry(d.port, d.cycles, "in", d.total(), d.valid, *d.port.ready) + "}";
        }
        for (const Monitor &m : m_monitors) {
            m.cycles.write(m.port.name);
            batch::write_file("found/" + m.port.name + ".bin", m.found.data(), m.found.size());
            streams += comma(streams) + entry(m.port, m.cycles, "out", m.total(), *m.port.valid, m.ready) + field("compared", m.compared)
                       + field("extra", m.extra()) + field("mismatches", m.mismatches) + ", \"first\": "
                       + (m.mismatches ? std::to_string(m.first) : "null") + "}";
        }
        std::string probes;
        for (const Probe &p : m_probes) {
            p.cycles.write(p.port.name);
            batch::write_file("found/" + p.port.name + ".bin", p.found.data(), p.found.size());
            probes += comma(probes) + entry(p.port, p.cycles, "probe", 0, *p.port.valid, *p.port.ready) + "}";
        }
        std::string levels;
        for (const batch::Level &level : m_model.levels) {
            levels += std::string{comma(levels)} + "\n  \"" + level.name + "\": {\"level\": " + std::to_string(level.read())
                      + ", \"most\": " + std::to_string(level.most) + "}";
        }
        // Messages are made of names, numbers and plain sentences: nothing in them needs escaping.
        const std::string text = "{\"version\": 1, \"plan\": \"" + m_id + "\", \"verdict\": \"" + verdict.kind
                                 + "\", \"message\": \"" + verdict.message + "\", \"cycles\": " + std::to_string(cycle)
                                 + ", \"resets\": " + std::to_string(m_done) + ", \"seconds\": " + std::to_string(seconds) + ", \"streams\": {" + streams
                                 + "\n}, \"probes\": {" + probes + "\n}, \"levels\": {" + levels
                                 + "\n}, \"complete\": true}\n";
        batch::write_file("outcome.json.partial", text.data(), text.size());
        if (std::rename("outcome.json.partial", "outcome.json")) batch::die("outcome.json cannot be written");
    }

    int64_t cycle = 0;

private:
    void add_stream(std::istream &plan) {
        std::string direction, name;
        size_t bits = 0, beats = 0, garbage = 0;
        batch::Stalls stalls{};
        plan >> direction >> name >> bits >> beats >> garbage >> stalls.threshold >> stalls.go >> stalls.period
            >> stalls.state;
        for (const batch::Signals &port : m_model.ports) {
            if (port.name != name) continue;
            if (port.bits != bits) batch::die(name + " has another width than the plan says");
            const batch::BeatFile file{"beats/" + name + ".bin", (bits + 7) / 8, beats};
            if (direction == "in") {
                const batch::BeatFile noise{"beats/" + name + ".garbage.bin", (bits + 7) / 8, garbage};
                m_drivers.emplace_back(port, stalls, file, noise);
            } else {
                m_monitors.emplace_back(port, stalls, file);
            }
            return;
        }
        batch::die("the design has no stream " + name);
    }
    void rise() {
        *m_model.clk = 1;
        step();
        if (m_context->gotFinish()) {
            std::printf("the design ended the simulation in cycle %lld\n", static_cast<long long>(cycle));
            batch::close_model();
            std::fflush(stdout);
            std::_Exit(0);
        }
    }
    void fall() {
        *m_model.clk = 0;
        step();
    }
    void step() {
        m_context->timeInc(PERIOD / 2);
        batch::eval_model();
        dump();
    }
    void dump() {
#if VM_TRACE
        // A window is one of the attempt that counts, the one after the last reset.
        const bool seen = m_to < 0 || (m_done == m_resets.size() && cycle >= m_from && cycle <= m_to);
        if (m_waves && seen) batch::dump_model(m_context->time());
#endif
    }
    bool all_done() const {
        for (const Driver &driver : m_drivers)
            if (!driver.done()) return false;
        for (const Monitor &monitor : m_monitors)
            if (!monitor.done()) return false;
        return true;
    }
    // Streams of a plan are its inputs and then its outputs.
    void allow(const Turn &turn) {
        for (size_t i = 0; i < m_drivers.size(); ++i) m_drivers[i].limit = turn.beats[i];
    }
    bool may_follow(const Turn &next) const { return next.after < 0 || complete(m_turns[next.after]); }
    bool complete(const Turn &turn) const {
        for (size_t i = 0; i < m_drivers.size(); ++i)
            if (m_drivers[i].cycles.accepted.size() < turn.beats[i]) return false;
        for (size_t i = 0; i < m_monitors.size(); ++i)
            if (m_monitors[i].cycles.accepted.size() < turn.beats[m_drivers.size() + i]) return false;
        return true;
    }
    bool due(const Reset &reset, int64_t cycles) const {
        if (reset.unit == 0) return cycles >= reset.at;
        size_t beats = 0;
        if (reset.unit == 1) {
            for (const Driver &driver : m_drivers) beats += driver.cycles.accepted.size();
        } else {
            for (const Monitor &monitor : m_monitors) beats += monitor.cycles.accepted.size();
        }
        return static_cast<int64_t>(beats) >= reset.at;
    }
    Verdict compared() const {
        for (const Monitor &m : m_monitors)
            if (m.mismatches) return {"mismatch", std::to_string(m.mismatches) + " wrong beats on " + m.port.name};
        for (const Monitor &m : m_monitors)
            if (m.extra()) return {"extra", std::to_string(m.extra()) + " surplus beats on " + m.port.name};
        return {"pass", "every beat equals the reference"};
    }
    void report() {
        const auto now = Clock::now();
        if (now - m_reported < std::chrono::milliseconds{200}) return;
        m_reported = now;
        size_t done = 0;
        for (const Monitor &monitor : m_monitors) done += monitor.cycles.accepted.size();
        char line[64];
        const int size = std::snprintf(line, sizeof line, "%19lld %19zu\n", static_cast<long long>(cycle), done);
        // Only shown to people: a failure must not end a run.
        [[maybe_unused]] const auto ignored = ::pwrite(m_progress, line, size, 0);
    }
    static const char *comma(const std::string &before) { return before.empty() ? "" : ","; }
    static std::string field(const char *name, size_t value) {
        return std::string{", \""} + name + "\": " + std::to_string(value);
    }
    static std::string entry(const batch::Signals &port, const batch::Cycles &cycles, const char *direction,
                             size_t expected, unsigned valid, unsigned ready) {
        return std::string{"\n  \""} + port.name + "\": {\"direction\": \"" + direction + "\""
               + field("beats", cycles.accepted.size()) + field("expected", expected) + field("valid", valid)
               + field("ready", ready);
    }

    VerilatedContext *const m_context;
    const bool m_waves;
    const int64_t m_from, m_to;  // cycles to write waves of; all if m_to is negative
    batch::Model m_model;
    std::string m_id;
    int64_t m_reset = 0, m_start = 0, m_watchdog = 0, m_limit = 0, m_tail = 0;
    std::vector<Driver> m_drivers;
    std::vector<Monitor> m_monitors;
    std::vector<Probe> m_probes;
    std::vector<Reset> m_resets;
    std::vector<Turn> m_turns;
    size_t m_done = 0;  // resets
    int m_progress = -1;
    Clock::time_point m_reported = Clock::now();
};

}  // namespace

// $time of designs that ask for it without a context.
double sc_time_stamp() { return 0; }

int main(int argc, char **argv) {
    VerilatedContext context;
    context.commandArgs(argc, argv);
    bool waves = false;
    long long from = 0, to = -1;
    for (int i = 1; i < argc; ++i) {
        waves |= std::string{argv[i]} == "--trace";
        if (std::sscanf(argv[i], "--window=%lld,%lld", &from, &to) == 1) batch::die("a window needs two cycles");
    }
    Bench bench{&context, waves, from, to};
    const auto begin = Clock::now();
    Verdict verdict;
    try {
        verdict = bench.run();
    } catch (const batch::Violation &problem) { verdict = {"protocol", problem.message}; }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
#if VM_COVERAGE
    context.coveragep()->write("coverage.dat");
#endif
    bench.write(verdict, seconds);
    batch::close_model();
    std::fflush(stdout);
    return 0;
}
