// SPDX-License-Identifier: Apache-2.0
//
// Plays frames through a design whose parameters change at random moments, and judges every beat of its results
// by the set with which the frame has to be computed: the one that was whole when its first beat was taken.
//
// Arguments: folder, seed, stalls in percent, swaps, what else happens ("plain", "faults", "resets").
// `ports.h` declares the ports; <port>.in has the beats of all frames, <port>.<set>.out those that each set gives,
// image.<set>.bin the images. LOADER gives the images to the design: packets.h in packets of words, images.h in memory.
#include <verilated.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "Vdut.h"

struct Port {
    const char *name;
    void *data;
    unsigned bytes;  // of a beat
    unsigned beats;  // of a frame
    CData *valid;
    CData *ready;
};

static Vdut *dut;
#include "ports.h"

static constexpr unsigned SETS = 2;
static std::string folder;
static unsigned long cycle;

[[noreturn]] static void fail(const std::string &what)
{
    std::printf("FAIL: cycle %lu: %s\n", cycle, what.c_str());
    std::exit(1);
}

static std::vector<uint8_t> file(const std::string &name)
{
    std::ifstream in(folder + "/" + name, std::ios::binary);
    if (!in) fail("no file " + name);
    return {std::istreambuf_iterator<char>(in), {}};
}

static std::mt19937 random_bits;
static bool chance(unsigned percent) { return random_bits() % 100 < percent; }

struct Input {
    Port port;
    std::vector<uint8_t> beats;
    unsigned beat = 0;
    unsigned long frame = 0;
    bool offered = false;
};

struct Output {
    Port port;
    std::vector<uint8_t> beats[SETS];
    unsigned beat = 0;
    unsigned long frame = 0;
};

static std::vector<uint32_t> words(const std::vector<uint8_t> &bytes)
{
    std::vector<uint32_t> found(bytes.size() / 4);
    std::memcpy(found.data(), bytes.data(), found.size() * 4);
    return found;
}

#include LOADER

int main(int argc, char **argv)
{
    Verilated::commandArgs(argc, argv);
    folder = argv[1];
    const unsigned seed = std::atoi(argv[2]), stalls = std::atoi(argv[3]), swaps = std::atoi(argv[4]);
    const std::string kind = argv[5];
    random_bits.seed(seed);
    dut = new Vdut;
    std::vector<Input> inputs;
    std::vector<Output> outputs;
    for (const Port &port : input_ports()) inputs.push_back({port, file(std::string(port.name) + ".in")});
    for (const Port &port : output_ports()) {
        Output made{port, {}};
        for (unsigned set = 0; set < SETS; set++)
            made.beats[set] = file(std::string(port.name) + "." + std::to_string(set) + ".out");
        outputs.push_back(made);
    }
    const unsigned long frames = inputs[0].beats.size() / inputs[0].port.bytes / inputs[0].port.beats;
    Loader loader(kind, stalls);
    std::vector<int> set_of;  // of every frame that was begun since the reset
    unsigned long compared = 0, resets = 0, used[SETS] = {0, 0};
    unsigned rest = 4, since_moved = 0;

    auto restart = [&] {
        for (Input &in : inputs) in.beat = 0, in.frame = 0, in.offered = false;
        for (Output &out : outputs) out.beat = 0, out.frame = 0;
        set_of.clear();
        loader.restart();
        rest = 4;
    };
    restart();
    while (loader.done < swaps || compared == 0 || outputs[0].frame < set_of.size()) {
        const bool draining = loader.done >= swaps;
        dut->rst = rest > 0;
        // What is driven in this cycle.
        for (Input &in : inputs) {
            const bool within = in.beat != 0 || in.frame < set_of.size();
            if (!in.offered) in.offered = (!draining || within) && !dut->rst && !chance(stalls);
            *in.port.valid = in.offered;
            const size_t at = ((in.frame % frames) * in.port.beats + in.beat) * in.port.bytes;
            std::memcpy(in.port.data, in.beats.data() + at, in.port.bytes);
        }
        for (Output &out : outputs) *out.port.ready = !chance(stalls);
        loader.drive(draining);
        dut->clk = 0;
        dut->eval();
        // What happens at its end.
        bool moved = dut->rst;
        if (!dut->rst) {
            for (size_t i = 0; i < inputs.size(); i++) {
                Input &in = inputs[i];
                if (!*in.port.valid || !*in.port.ready) continue;
                moved = true;
                in.offered = false;
                if (in.beat == 0 && in.frame == set_of.size()) {
                    if (loader.active < 0) fail("a frame is taken though nothing whole is stored");
                    set_of.push_back(loader.active);
                    loader.frame_begins();
                    used[loader.active]++;
                }
                if (++in.beat == in.port.beats) in.beat = 0, in.frame++;
            }
            for (Output &out : outputs) {
                if (!*out.port.valid || !*out.port.ready) continue;
                moved = true;
                if (out.frame >= set_of.size()) fail("a beat of a frame that was not begun");
                const size_t at = ((out.frame % frames) * out.port.beats + out.beat) * out.port.bytes;
                if (std::memcmp(out.port.data, out.beats[set_of[out.frame]].data() + at, out.port.bytes) != 0)
                    fail(std::string(out.port.name) + ", frame " + std::to_string(out.frame) + ", beat " +
                         std::to_string(out.beat) + ": not what set " + std::to_string(set_of[out.frame]) + " gives");
                compared++;
                if (++out.beat == out.port.beats) out.beat = 0, out.frame++;
            }
            moved = loader.taken() || moved;
        }
        dut->clk = 1;
        dut->eval();
        cycle++;
        since_moved = moved ? 0 : since_moved + 1;
        if (since_moved > 200000) fail("nothing moves");
        if (rest > 0) rest--;
        if (loader.reset_in > 0 && --loader.reset_in == 0) {
            resets++;
            // A set that was whole in the last cycle counts; the state says so after the first cycle of reset.
            dut->rst = 1;
            dut->clk = 0;
            dut->eval();
            dut->clk = 1;
            dut->eval();
            loader.interrupted();
            restart();
            continue;
        }
        loader.settled();
    }
    std::printf("PASS: %lu packets, %lu refused, %lu read back, %lu resets, %lu and %lu frames, %lu beats\n",
                loader.done, loader.refused, loader.asked, resets, used[0], used[1], compared);
    return 0;
}
