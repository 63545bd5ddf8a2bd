// One side of a stream each: Driver offers beats, Monitor accepts and compares them. Both act twice a cycle: `sample`
// looks at what every flip-flop samples at this rising edge and decides, `drive` applies the decision after it. They
// mirror sim/stream_driver.py and sim/stream_monitor.py to the cycle; tests/engines holds them equal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "files.h"
#include "model.h"

namespace batch {

// sim/stall_pattern.py: the host gives threshold and initial state.
struct Stalls {
    uint64_t threshold, go, period, state, count = 0;
    bool stall() {
        if (period) {
            const uint64_t position = count++ % period;
            if (position >= go) return true;
        }
        if (!threshold) return false;
        state = state * 6364136223846793005ULL + 1442695040888963407ULL;
        return (state >> 32) < threshold;
    }
};

// Plays a pattern from its beginning again.
struct Pattern {
    explicit Pattern(Stalls stalls) : m_first{stalls}, m_now{stalls} {}
    bool stall() { return m_now.stall(); }
    void restart() { m_now = m_first; }

private:
    Stalls m_first, m_now;
};

struct Violation {
    std::string message;
};

struct Cycles {
    std::vector<int64_t> presented, accepted;
    void clear() {
        presented.clear();
        accepted.clear();
    }
    void write(const std::string &name) const {
        write_file("cycles/" + name + ".presented.bin", presented.data(), presented.size() * sizeof(int64_t));
        write_file("cycles/" + name + ".accepted.bin", accepted.data(), accepted.size() * sizeof(int64_t));
    }
};

// Offers the beats of a file in order; the data port of an idle input carries garbage.
class Driver {
public:
    Driver(Signals port, Stalls stalls, BeatFile beats, BeatFile garbage)
        : port{std::move(port)}, m_stalls{stalls}, m_beats{beats}, m_garbage{garbage} {
        cycles.presented.reserve(beats.count());
        cycles.accepted.reserve(beats.count());
    }
    // Forget what was seen: play everything from the first beat.
    void restart() {
        cycles.clear();
        abandon();
        m_stalls.restart();
    }
    // Behind a reset nothing is offered; beats that were accepted are gone.
    void abandon() {
        valid = false;
        m_next = nullptr;
    }
    void idle() {
        *port.valid = 0;
        std::memcpy(port.data, m_garbage.at(0), m_garbage.size());
    }
    bool sample(int64_t cycle, bool calm) {
        m_next = nullptr;
        bool moved = false;
        if (valid) {
            if (!*port.ready) return false;
            cycles.accepted.push_back(cycle);
            moved = true;
        }
        const size_t index = cycles.accepted.size();
        valid = index < std::min(limit, m_beats.count()) && (calm || !m_stalls.stall());
        if (valid) cycles.presented.push_back(cycle + 1);
        m_next = valid ? m_beats.at(index) : m_garbage.at(static_cast<size_t>(cycle) % m_garbage.count());
        return moved;
    }
    void drive() {
        if (!m_next) return;
        *port.valid = valid;
        std::memcpy(port.data, m_next, m_beats.size());
        m_next = nullptr;
    }
    bool done() const { return cycles.accepted.size() == m_beats.count(); }
    size_t total() const { return m_beats.count(); }

    Signals port;
    Cycles cycles;
    bool valid = false;
    size_t limit = SIZE_MAX;  // beats that may be offered

private:
    Pattern m_stalls;
    BeatFile m_beats, m_garbage;
    const unsigned char *m_next = nullptr;
};

// Accepts beats, checks the protocol, compares with the reference.
class Monitor {
public:
    Monitor(Signals port, Stalls stalls, BeatFile beats)
        : port{std::move(port)}, m_stalls{stalls}, m_beats{beats}, m_held(beats.size()) {
        found.reserve(beats.count() * beats.size());
        cycles.presented.reserve(beats.count());
        cycles.accepted.reserve(beats.count());
    }
    // Forget what was seen: expect everything from the first beat.
    void restart() {
        cycles.clear();
        found.clear();
        abandon();
        compared = mismatches = first = 0;
        m_stalls.restart();
    }
    // Behind a reset nothing is offered; a beat that was and was not accepted is gone.
    void abandon() {
        ready = m_holding = false;
        cycles.presented.resize(cycles.accepted.size());
    }
    void idle() { *port.ready = 0; }
    void check_reset() const {
        if (*port.valid) throw Violation{port.name + "_valid is high during reset"};
    }
    bool sample(int64_t cycle, bool calm) {
        bool moved = false;
        if (*port.valid) {
            const auto *const word = static_cast<const unsigned char *>(port.data);
            if (!m_holding) {
                cycles.presented.push_back(cycle);
                if (!ready) {
                    m_holding = true;
                    std::memcpy(m_held.data(), word, m_held.size());
                }
            } else if (std::memcmp(m_held.data(), word, m_held.size()) != 0) {
                throw Violation{"the data of " + port.name + " changed in cycle " + std::to_string(cycle)
                                + " while valid was high and ready low " + offered() + ": " + hex(m_held.data())
                                + " became " + hex(word)};
            }
            if (ready) {
                m_holding = false;
                take(cycle, word);
                moved = true;
            }
        } else if (m_holding) {
            throw Violation{"valid of " + port.name + " fell in cycle " + std::to_string(cycle)
                            + " before its beat was accepted " + offered()};
        }
        ready = calm || !m_stalls.stall();
        return moved;
    }
    void drive() { *port.ready = ready; }
    bool done() const { return cycles.accepted.size() >= m_beats.count(); }
    size_t total() const { return m_beats.count(); }
    size_t extra() const { return cycles.accepted.size() - compared; }

    Signals port;
    Cycles cycles;
    std::vector<unsigned char> found;
    bool ready = false;
    size_t compared = 0, mismatches = 0, first = 0;

private:
    void take(int64_t cycle, const unsigned char *word) {
        cycles.accepted.push_back(cycle);
        found.insert(found.end(), word, word + m_beats.size());
        if (compared == m_beats.count()) return;
        if (std::memcmp(word, m_beats.at(compared), m_beats.size()) != 0 && mismatches++ == 0) first = compared;
        ++compared;
    }
    std::string offered() const {
        return "(beat " + std::to_string(cycles.accepted.size()) + ", first offered in cycle "
               + std::to_string(cycles.presented.back()) + ")";
    }
    std::string hex(const unsigned char *word) const {
        std::string text;
        for (size_t i = m_held.size(); i-- > 0;) {
            for (const int nibble : {word[i] >> 4, word[i] & 15}) {
                if (nibble || !text.empty()) text += "0123456789abcdef"[nibble];
            }
        }
        return "0x" + (text.empty() ? "0" : text);
    }

    Pattern m_stalls;
    BeatFile m_beats;
    std::vector<unsigned char> m_held;
    bool m_holding = false;
};

// Records the handshakes of a stream inside the design; changes nothing and judges nothing.
class Probe {
public:
    explicit Probe(Signals port) : port{std::move(port)}, m_size{(this->port.bits + 7) / 8} {}
    void restart() {
        cycles.clear();
        found.clear();
        m_open = false;
    }
    void sample(int64_t cycle) {
        if (!*port.valid) {
            m_open = false;
            return;
        }
        if (!m_open) cycles.presented.push_back(cycle);
        m_open = !*port.ready;
        if (m_open) return;
        cycles.accepted.push_back(cycle);
        const auto *const word = static_cast<const unsigned char *>(port.data);
        found.insert(found.end(), word, word + m_size);
    }

    Signals port;
    Cycles cycles;
    std::vector<unsigned char> found;

private:
    size_t m_size;
    bool m_open = false;
};

}  // namespace batch
