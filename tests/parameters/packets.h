// SPDX-License-Identifier: Apache-2.0
//
// Gives images to a design in packets of words, and asks for what is stored; see parameter_load.

// A packet of words on its way into the design.
struct Packet {
    std::vector<uint32_t> words;
    size_t at = 0;
    int set = -1;  // the one that it stores, if it is a whole image
    bool asks = false;
    bool refused = false;
    bool foreign = false;  // its first words say so
};

struct Loader {
    int active = 0;  // -1: nothing whole is stored
    unsigned long done = 0, refused = 0, asked = 0;
    unsigned reset_in = 0;

    Loader(const std::string &kind, unsigned stalls) : kind_(kind), stalls_(stalls)
    {
        for (unsigned set = 0; set < SETS; set++) images_[set] = words(file("image." + std::to_string(set) + ".bin"));
#ifdef EXTERNAL
        dut->parameters_image_valid = 0;
#endif
    }

    void restart()
    {
        sending_ = was_busy_ = false;
        answer_.clear();
    }

    void frame_begins() { begun_ = true; }

    // What is driven in this cycle.
    void drive(bool draining)
    {
        if (!sending_ && !dut->rst && !draining && !was_busy_ && chance(active < 0 ? 50 : 1)) begin();
        // Frames need not wait until a packet that is not for this design has ended.
        const bool last = packet_.at + 1 == packet_.words.size();
        const bool waits = packet_.foreign && last && active >= 0 && !begun_;
        dut->parameters_in_valid = sending_ && packet_.at < packet_.words.size() && !waits && !chance(stalls_ / 2);
        dut->parameters_in = dut->parameters_in_valid ? packet_.words[packet_.at] : random_bits();
        dut->parameters_in_last = last;
        dut->parameters_out_ready = !chance(stalls_);
    }

    // What happens at its end; whether anything does.
    bool taken()
    {
        bool moved = false;
        if (dut->parameters_in_valid && dut->parameters_in_ready) {
            moved = true;
            // One bank: the words of an image of this design replace what is there.
            if (BANKS == 1 && packet_.at == 2 && !packet_.asks && packet_.words[0] == images_[0][0] &&
                packet_.words[1] == images_[0][1])
                active = -1;
            packet_.at++;
            if (packet_.at + 1 == packet_.words.size()) begun_ = false;
            was_busy_ = true;
        }
        if (dut->parameters_out_valid && dut->parameters_out_ready) {
            moved = true;
            answer_.push_back(dut->parameters_out);
            if (dut->parameters_out_last != (answer_.size() == images_[0].size())) fail("the answer ends elsewhere");
        }
        return moved;
    }

    // After the first cycle of a reset.
    void interrupted()
    {
        const bool changed = bank_ != bool(dut->parameters_state & 8);
        if (!(dut->parameters_state & 1)) active = -1;
        else if (changed || active < 0) active = packet_.set;
        if (changed) bank_ = !bank_;
    }

    // After every other cycle.
    void settled()
    {
        const bool busy = dut->parameters_state & 2;
        if (!was_busy_ || busy || packet_.at != packet_.words.size()) return;
        if (bool(dut->parameters_state & 4) != packet_.refused) fail("refused, or not, against what was expected");
        if (packet_.set >= 0) active = packet_.set, bank_ = dut->parameters_state & 8;
        if (packet_.set >= 0 && dut->parameters_digest != images_[packet_.set].back()) fail("another digest");
        if (packet_.asks) {
            if (answer_ != images_[active]) fail("what is read back is not what is stored");
            if (dut->parameters_digest != images_[active].back()) fail("another digest of what was read back");
            asked++;
            answer_.clear();
        }
        if (bool(dut->parameters_state & 1) != (active >= 0)) fail("stored, or not, against what was expected");
        refused += packet_.refused;
        done++;
        sending_ = was_busy_ = false;
    }

   private:
    void begin()
    {
        packet_ = Packet();
        const int set = random_bits() % SETS;
        packet_.words = images_[set];
        packet_.set = set;
        const unsigned fault = kind_ == "plain" ? 0 : random_bits() % 8;
        if (fault == 1) packet_.words[2 + random_bits() % (packet_.words.size() - 3)] ^= 1u << random_bits() % 8;
        if (fault == 2) packet_.words.resize(1 + random_bits() % (packet_.words.size() - 1));
        if (fault == 3) packet_.words.push_back(random_bits());
        if (fault == 4) packet_.words[random_bits() % 2] ^= 4;
        if (fault == 5 && active >= 0) {
            packet_.words = {0x4D415352};
            packet_.asks = true;
        }
        packet_.refused = fault >= 1 && fault <= 4;
        packet_.foreign = fault == 4;
        if (packet_.refused || packet_.asks) packet_.set = -1;
        sending_ = true;
        if (kind_ == "resets" && chance(30)) reset_in = 1 + random_bits() % (2 * packet_.words.size());
    }

    const std::string kind_;
    const unsigned stalls_;
    std::vector<uint32_t> images_[SETS];
    Packet packet_;
    std::vector<uint32_t> answer_;
    bool sending_ = false, was_busy_ = false, bank_ = false;
    bool begun_ = false;  // a frame, since all but the last word were taken
};
