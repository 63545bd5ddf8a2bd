// SPDX-License-Identifier: Apache-2.0
//
// A memory with images, and which of them the design is to use; see external_image. The memory answers in order, takes
// requests and brings words when it likes.

struct Request {
    size_t address;
    unsigned words;
    unsigned delay;
};

struct Loader {
    int active = -1;  // -1: there is no image
    unsigned long done = 0, refused = 0, asked = 0;
    unsigned reset_in = 0;

    Loader(const std::string &kind, unsigned stalls) : kind_(kind), stalls_(stalls)
    {
        for (unsigned set = 0; set < SETS; set++) images_[set] = file("image." + std::to_string(set) + ".bin");
        size_ = images_[0].size() / WORD;
        memory_.resize(PLACES * (size_ + GAP) * WORD, 0xA5);
        dut->parameters_image_valid = 0;
    }

    void restart()
    {
        requests_.clear();
        sending_ = was_busy_ = false;
        dut->parameters_image_valid = 0;
    }

    void frame_begins() {}

    void drive(bool draining)
    {
        if (wait_ > 0) wait_--;
        if (!sending_ && !dut->rst && !draining && (wait_ == 0 || active < 0)) begin();
        dut->parameters_image_valid = sending_ && !was_busy_;
        dut->parameters_image = place_of(place_);
        dut->parameters_read_ready = !chance(stalls_);
        for (Request &each : requests_) each.delay -= each.delay > 0;
        dut->parameters_data_valid = !requests_.empty() && requests_.front().delay == 0 && !chance(stalls_ / 2);
        const size_t at = dut->parameters_data_valid ? requests_.front().address : random_bits() % size_;
        std::memcpy(&dut->parameters_data, memory_.data() + at * WORD, WORD);
    }

    bool taken()
    {
        bool moved = false;
        if (dut->parameters_data_valid) {
            moved = true;
            requests_.front().address++;
            if (--requests_.front().words == 0) requests_.pop_front();
        }
        const bool offered = dut->parameters_read_valid;
        if (waiting_ && (!offered || address_ != dut->parameters_read_address || words_ != dut->parameters_read_words))
            fail("a request has changed");
        waiting_ = offered && !dut->parameters_read_ready;
        address_ = dut->parameters_read_address;
        words_ = dut->parameters_read_words;
        if (offered && dut->parameters_read_ready) {
            moved = true;
            if (words_ == 0 || size_t(address_ + words_) * WORD > memory_.size()) fail("a request outside the memory");
            if (active < 0 && !was_busy_) fail("words are asked for before there is an image");
            requests_.push_back({address_, words_, 1 + unsigned(random_bits() % LATENCY)});
        }
        if (dut->parameters_image_valid && dut->parameters_image_ready) was_busy_ = moved = true;
        return moved;
    }

    void interrupted()
    {
        waiting_ = false;
        if (bool(dut->parameters_image_state & 1) != (active >= 0) && set_ < 0) fail("an image, or none");
        if (!(dut->parameters_image_state & 1) || !was_busy_ || set_ < 0) return;
        if (set_ == active) {
            perhaps_ = place_;  // the same set is there
        } else if (dut->parameters_image_digest == digest_of(images_[set_])) {
            active = set_;
            used_ = perhaps_ = place_;
        }
    }

    void settled()
    {
        if (!was_busy_ || (dut->parameters_image_state & 2)) return;
        if (bool(dut->parameters_image_state & 4) != (set_ < 0)) fail("refused, or not, against what was expected");
        if (set_ >= 0) active = set_, used_ = perhaps_ = place_;
        if (bool(dut->parameters_image_state & 1) != (active >= 0)) fail("an image, or none, against what was expected");
        if (dut->parameters_image_digest != (active < 0 ? 0 : digest_of(images_[active]))) fail("another digest");
        refused += set_ < 0;
        done++;
        // Soon, while the sources fill, or after some frames.
        wait_ = random_bits() % (chance(50) ? PRIMED / 2 : 8 * PRIMED);
        sending_ = was_busy_ = false;
    }

   private:
    static constexpr unsigned WORD = EXTERNAL, PLACES = 4, GAP = 5, LATENCY = 60;

    static uint32_t digest_of(const std::vector<uint8_t> &image)
    {
        uint32_t digest;
        std::memcpy(&digest, image.data() + image.size() - 4, 4);
        return digest;
    }

    // CRC-32 bit by bit.
    static uint32_t crc(const std::vector<uint8_t> &bytes, size_t size)
    {
        uint32_t value = ~0u;
        for (size_t i = 0; i < 8 * size; i++) {
            const uint32_t bit = (value ^ (bytes[i / 8] >> i % 8)) & 1;
            value = (value >> 1) ^ (bit ? 0xEDB88320u : 0u);
        }
        return ~value;
    }

    uint32_t place_of(unsigned place) const { return place * (size_ + GAP); }

    // Writes an image beside the one that is used, and has it used.
    void begin()
    {
        do place_ = random_bits() % PLACES;
        while (active >= 0 && (place_ == used_ || place_ == perhaps_));
        set_ = random_bits() % SETS;
        std::vector<uint8_t> image = images_[set_];
        const unsigned fault = kind_ == "plain" ? 0 : random_bits() % 8;
        if (fault == 1) image[random_bits() % image.size()] ^= 1u << random_bits() % 8;
        if (fault == 2) {  // only its begin is there
            const size_t whole = random_bits() % size_ * WORD;
            const std::vector<uint8_t> &other = images_[1 - set_];
            std::copy(other.begin() + whole, other.end(), image.begin() + whole);
        }
        if (fault == 3) {  // of another design
            const size_t end = image.size() - 4;
            image[WORD == 4 ? end - 4 : image.size() - WORD] ^= 1;
            const uint32_t right = crc(image, end);
            std::memcpy(image.data() + end, &right, 4);
        }
        std::memcpy(memory_.data() + place_of(place_) * WORD, image.data(), image.size());
        if (image == images_[1 - set_]) set_ = 1 - set_;
        if (image != images_[set_]) set_ = -1;
        sending_ = true;
        if (kind_ == "resets" && chance(30)) reset_in = 1 + random_bits() % (3 * size_ + 2 * LATENCY);
    }

    const std::string kind_;
    const unsigned stalls_;
    std::vector<uint8_t> images_[SETS];
    std::vector<uint8_t> memory_;
    size_t size_;
    std::deque<Request> requests_;
    int set_ = -1;  // what is examined; -1: what has to be refused
    unsigned wait_ = 0;
    unsigned place_ = 0, used_ = 0, perhaps_ = 0;  // the last may be used instead, after a reset
    bool sending_ = false, was_busy_ = false, waiting_ = false;
    uint32_t address_ = 0;
    unsigned words_ = 0;
};
