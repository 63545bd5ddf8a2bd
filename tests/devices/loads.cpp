// SPDX-License-Identifier: Apache-2.0
//
// Plays frames through all devices, loads images into two of them, and plays the frames again: each time every beat
// of the results has to be what the parameters give that are loaded. Images with a wrong bit are refused before.
//
// Arguments: folder with in.bin, out.0.bin, out.1.bin, image.1.bin and image.2.bin. ports.h says how many beats.
#include <verilated.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "Vdut.h"
#include "ports.h"

static Vdut *dut;
static std::string folder;

[[noreturn]] static void fail(const std::string &what)
{
    std::printf("FAIL: %s\n", what.c_str());
    std::exit(1);
}

static std::vector<uint8_t> file(const std::string &name)
{
    std::ifstream in(folder + "/" + name, std::ios::binary);
    if (!in) fail("no file " + name);
    return {std::istreambuf_iterator<char>(in), {}};
}

static void edge()
{
    dut->clk = 1;
    dut->eval();
    dut->clk = 0;
    dut->eval();
}

// All frames at full rate, against the results of a set.
static void play(const std::vector<uint8_t> &given, const std::vector<uint8_t> &expected)
{
    size_t in = 0, out = 0;
    dut->data_out_0_ready = 1;
    for (unsigned cycle = 0; out < expected.size(); cycle++) {
        if (cycle > 100000) fail("nothing comes");
        dut->data_in_0_valid = in < given.size();
        if (dut->data_in_0_valid) std::memcpy(&dut->data_in_0, &given[in], IN_BYTES);
        dut->eval();
        if (dut->data_in_0_valid && dut->data_in_0_ready) in += IN_BYTES;
        if (dut->data_out_0_valid) {
            if (std::memcmp(&dut->data_out_0, &expected[out], OUT_BYTES) != 0)
                fail("beat " + std::to_string(out / OUT_BYTES) + " is another one");
            out += OUT_BYTES;
        }
        edge();
    }
    dut->data_in_0_valid = 0;
}

struct Loader {
    std::vector<uint8_t> image;
    IData *data;
    CData *last, *valid, *ready, *state;
    size_t at = 0;
};

// Both images at once, of which each is taken or refused.
static void load(std::vector<Loader> loaders, bool refused)
{
    for (unsigned cycle = 0;; cycle++) {
        if (cycle > 100000) fail("an image is not taken");
        bool done = true;
        for (Loader &each : loaders) {
            *each.valid = each.at < each.image.size();
            *each.last = each.at + 4 == each.image.size();
            if (*each.valid) std::memcpy(each.data, &each.image[each.at], 4);
        }
        dut->eval();
        for (Loader &each : loaders) {
            if (*each.valid && *each.ready) each.at += 4;
            done = done && each.at == each.image.size() && !(*each.state & 2);
        }
        edge();
        if (done) break;
    }
    for (Loader &each : loaders) {
        *each.valid = 0;
        if ((*each.state & 5) != (refused ? 4 : 1)) fail("the state of a loader is " + std::to_string(*each.state));
    }
}

int main(int argc, char **argv)
{
    Verilated::commandArgs(argc, argv);
    folder = argv[1];
    dut = new Vdut;
    dut->clk = 0;
    dut->rst = 1;
    dut->data_in_0_valid = 0;
    // Nothing is asked of the memories but what the devices read.
    dut->device_0_parameters_image_valid = 0;
    dut->device_1_parameters_image_valid = 0;
    dut->device_1_parameters_in_valid = 0;
    dut->device_2_parameters_in_valid = 0;
    for (int i = 0; i < 4; i++) edge();
    dut->rst = 0;
    Loader first{file("image.1.bin"), &dut->device_1_parameters_in, &dut->device_1_parameters_in_last,
                 &dut->device_1_parameters_in_valid, &dut->device_1_parameters_in_ready,
                 &dut->device_1_parameters_state};
    Loader second{file("image.2.bin"), &dut->device_2_parameters_in, &dut->device_2_parameters_in_last,
                  &dut->device_2_parameters_in_valid, &dut->device_2_parameters_in_ready,
                  &dut->device_2_parameters_state};
    const std::vector<uint8_t> given = file("in.bin");
    play(given, file("out.0.bin"));
    Loader wrong[2] = {first, second};
    for (Loader &each : wrong) each.image[each.image.size() / 2] ^= 1;
    load({wrong[0], wrong[1]}, true);
    load({first, second}, false);
    play(given, file("out.1.bin"));
    std::printf("PASS\n");
    return 0;
}
