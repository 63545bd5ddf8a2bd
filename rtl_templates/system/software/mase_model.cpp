// SPDX-License-Identifier: Apache-2.0
//
// A system as a Verilated model, and the memory at its bus. The clock runs only while the
// program touches the hardware. The memory checks the rules of AXI4 and gets some wrong on
// demand. It is not the program's memory: without `clean` and `invalidate` nothing is copied.
#include "mase_model.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "Vsystem.h"

namespace {

constexpr uint64_t kBase = 0x40000000;
constexpr size_t kSize = (size_t{1} << 22) + 4 * ((size_t{MASE_OUTSIDE_BYTES} + 4095) / 4096 * 4096);
constexpr unsigned kHung = 1000000;
constexpr int kReset = 64;  // cycles in which the core is reset, whatever clock it has
constexpr uint64_t kBusPeriod = 1000;
constexpr unsigned kOkay = 0;
constexpr unsigned kSlaveError = 2;

struct Burst {
    uint64_t address;
    unsigned beats;
    unsigned delay;
    bool bad;
};

// A beat of data on its way to a write.
struct Word {
    std::array<unsigned char, MASE_BUS_BYTES> bytes;
    bool last;
};

// A channel on which the model speaks: what it offers stays until it is taken.
struct Watched {
    bool waiting = false;
    std::string payload;
};

class System {
   public:
    System(unsigned stalls, bool interrupts) : stalls_(stalls), interrupts_(interrupts) {
        context_.randReset(2);
        context_.randSeed(1);
        top_ = std::make_unique<Vsystem>(&context_);
        memory_.resize(kSize);
        for (CData *input : {&top_->rst_n, &top_->m_axi_rvalid, &top_->m_axi_bvalid, &top_->s_axil_awvalid,
                             &top_->s_axil_wvalid, &top_->s_axil_bready, &top_->s_axil_arvalid,
                             &top_->s_axil_rready}) {
            *input = 0;
        }
        for (int i = 0; i < 8; i++) {
            tick();
        }
        top_->rst_n = 1;
        for (int i = 0; i < kReset; i++) {
            tick();
        }
    }

    uint32_t read(uint32_t offset) {
        top_->s_axil_araddr = offset;
        top_->s_axil_arvalid = 1;
        until([this] { return top_->s_axil_arready != 0; });
        top_->s_axil_arvalid = 0;
        top_->s_axil_rready = 1;
        uint32_t value = 0;
        until([this, &value] {
            value = top_->s_axil_rdata;
            return top_->s_axil_rvalid != 0;
        });
        top_->s_axil_rready = 0;
        return value;
    }

    void write(uint32_t offset, uint32_t value) {
        top_->s_axil_awaddr = offset;
        top_->s_axil_wdata = value;
        top_->s_axil_wstrb = 15;
        top_->s_axil_awvalid = 1;
        top_->s_axil_wvalid = 1;
        // The block takes both at once; that is checked by a bus model of other people.
        until([this] { return top_->s_axil_awready && top_->s_axil_wready; });
        top_->s_axil_awvalid = 0;
        top_->s_axil_wvalid = 0;
        top_->s_axil_bready = 1;
        until([this] { return top_->s_axil_bvalid != 0; });
        top_->s_axil_bready = 0;
    }

    void sleep(uint32_t ticks) {
        for (uint32_t i = 0; i < ticks; i++) {
            if (top_->irq && lost_ == 0) {
                return;
            }
            tick();
        }
        if (lost_ > 0) {
            lost_--;
        }
    }

    uint32_t now() const { return static_cast<uint32_t>(cycles_); }
    bool interrupts() const { return interrupts_; }
    uint8_t *at(size_t offset) { return reinterpret_cast<uint8_t *>(memory_.data()) + offset; }

    model_kind fault = MODEL_NONE;
    uint64_t fault_at = 0;
    int lost_ = 0;
    unsigned violations = 0;
    uint64_t beats = 0;
    unsigned longest = 0;

   private:
    // Runs the clock up to and including the cycle in which the condition holds.
    template <typename Condition>
    void until(Condition condition) {
        for (unsigned i = 0; i < kHung; i++) {
            settle();
            bool met = condition();
            tick();
            if (met) {
                return;
            }
        }
        std::fprintf(stderr, "the registers do not answer\n");
        std::exit(3);
    }

    bool luck() { return static_cast<unsigned>(std::rand()) % 100 >= stalls_; }

    void settle() {
        top_->clk = 0;
        top_->eval();
    }

    void violation(const char *what) {
        violations++;
        std::fprintf(stderr, "AXI4: %s\n", what);
    }

    void watch(Watched &channel, bool valid, bool ready, std::string payload) {
        if (channel.waiting && (!valid || channel.payload != payload)) {
            violation("what was offered has changed");
        }
        channel.waiting = valid && !ready && top_->rst_n;
        channel.payload = std::move(payload);
    }

    Burst burst(uint64_t address, unsigned length) {
        unsigned bytes = (length + 1) * MASE_BUS_BYTES;
        if (address / 4096 != (address + bytes - 1) / 4096) {
            violation("a burst crosses 4 KiB");
        }
        if (address < kBase || address + bytes > kBase + kSize) {
            violation("a burst outside the memory");
            address = kBase;
        }
        longest = length + 1 > longest ? length + 1 : longest;
        unsigned delay = stalls_ == 0 ? 4 : static_cast<unsigned>(std::rand()) % 40;
        return {address, length + 1, delay, false};
    }

    bool hit(uint64_t address, model_kind kind) const {
        return fault == kind && fault_at >= address && fault_at < address + MASE_BUS_BYTES;
    }

    void tick() {
        settle();
        if (top_->rst_n) {
            handshakes();
        }
        top_->clk = 1;
        top_->eval();
        cycles_++;
        offer();
        core_clock();
    }

    // The edges of the core's clock before the next one of the bus; its period drifts about one and a half times
    // as long as that of the bus.
    void core_clock() {
#if MASE_CORE_CLOCK
        for (; core_left_ < kBusPeriod; core_left_ += kBusPeriod * 3 / 4 + cycles_ / 8 % 199) {
            top_->core_clk = !top_->core_clk;
            top_->eval();
        }
        core_left_ -= kBusPeriod;
#endif
    }

    // What the two sides have agreed on in this cycle, before the edge: no input changes here.
    void handshakes() {
        watch(read_address_, top_->m_axi_arvalid, top_->m_axi_arready,
              std::to_string(uint64_t{top_->m_axi_araddr}) + "+" + std::to_string(top_->m_axi_arlen));
        watch(write_address_, top_->m_axi_awvalid, top_->m_axi_awready,
              std::to_string(uint64_t{top_->m_axi_awaddr}) + "+" + std::to_string(top_->m_axi_awlen));
        std::string data(reinterpret_cast<const char *>(&top_->m_axi_wdata), MASE_BUS_BYTES);
        watch(write_data_, top_->m_axi_wvalid, top_->m_axi_wready, data + (top_->m_axi_wlast ? "!" : ""));
        for (Burst &waiting : reads_) {
            waiting.delay -= waiting.delay > 0;
        }
        for (Burst &waiting : answers_) {
            waiting.delay -= waiting.delay > 0;
        }
        if (top_->m_axi_arvalid && top_->m_axi_arready) {
            reads_.push_back(burst(top_->m_axi_araddr, top_->m_axi_arlen));
        }
        if (top_->m_axi_rvalid && top_->m_axi_rready) {
            beats++;
            reads_.front().address += MASE_BUS_BYTES;
            if (--reads_.front().beats == 0) {
                reads_.pop_front();
            }
            read_taken_ = true;
        }
        if (top_->m_axi_awvalid && top_->m_axi_awready) {
            writes_.push_back(burst(top_->m_axi_awaddr, top_->m_axi_awlen));
        }
        if (top_->m_axi_wvalid && top_->m_axi_wready) {
            Word word;
            std::memcpy(word.bytes.data(), &top_->m_axi_wdata, MASE_BUS_BYTES);
            word.last = top_->m_axi_wlast != 0;
            words_.push_back(word);
            beats++;
        }
        // Data may come before its address.
        while (!words_.empty() && !writes_.empty()) {
            take();
        }
        if (top_->m_axi_bvalid && top_->m_axi_bready) {
            answers_.pop_front();
            answer_taken_ = true;
        }
    }

    void take() {
        Burst &front = writes_.front();
        front.bad = front.bad || hit(front.address, MODEL_WRITE_ERROR);
        std::memcpy(at(front.address - kBase), words_.front().bytes.data(), MASE_BUS_BYTES);
        front.address += MASE_BUS_BYTES;
        front.beats--;
        if ((front.beats == 0) != words_.front().last) {
            violation("WLAST is not on the last beat");
        }
        words_.pop_front();
        if (front.beats == 0) {
            answers_.push_back(front);
            writes_.pop_front();
        }
    }

    // What the memory offers in the next cycle; what was not taken stays.
    void offer() {
        bool stuck = fault == MODEL_STUCK;
        if (std::exchange(read_taken_, false)) {
            top_->m_axi_rvalid = 0;
        }
        if (std::exchange(answer_taken_, false)) {
            top_->m_axi_bvalid = 0;
        }
        top_->m_axi_arready = !stuck && luck();
        top_->m_axi_awready = !stuck && luck();
        top_->m_axi_wready = !stuck && luck();
        if (!top_->m_axi_rvalid && !stuck && !reads_.empty() && reads_.front().delay == 0 && luck()) {
            const Burst &front = reads_.front();
            top_->m_axi_rvalid = 1;
            top_->m_axi_rlast = front.beats == 1;
            top_->m_axi_rresp = hit(front.address, MODEL_READ_ERROR) ? kSlaveError : kOkay;
            std::memcpy(&top_->m_axi_rdata, at(front.address - kBase), MASE_BUS_BYTES);
        }
        if (!top_->m_axi_bvalid && !stuck && !answers_.empty() && answers_.front().delay == 0 && luck()) {
            top_->m_axi_bvalid = 1;
            top_->m_axi_bresp = answers_.front().bad ? kSlaveError : kOkay;
        }
    }

    VerilatedContext context_;
    std::unique_ptr<Vsystem> top_;
    std::string memory_;
    unsigned stalls_;
    bool interrupts_;
    uint64_t cycles_ = 0;
    uint64_t core_left_ = kBusPeriod / 2;  // until the next edge
    std::deque<Burst> reads_;
    std::deque<Burst> writes_;
    std::deque<Word> words_;
    std::deque<Burst> answers_;
    bool read_taken_ = false;
    bool answer_taken_ = false;
    Watched read_address_;
    Watched write_address_;
    Watched write_data_;
};

std::unique_ptr<System> the_system;
alignas(4096) uint8_t arena[kSize];
size_t used = 0;

size_t offset_of(const void *buffer) { return static_cast<size_t>(static_cast<const uint8_t *>(buffer) - arena); }

uint32_t hal_read(void *, uint32_t offset) { return the_system->read(offset); }
void hal_write(void *, uint32_t offset, uint32_t value) { the_system->write(offset, value); }
uint64_t hal_address(void *, const void *buffer) { return kBase + offset_of(buffer); }
uint32_t hal_now(void *) { return the_system->now(); }
void hal_sleep(void *, uint32_t ticks) { the_system->sleep(ticks); }
void hal_clean(void *, const void *buffer, size_t bytes) {
    std::memcpy(the_system->at(offset_of(buffer)), buffer, bytes);
}
void hal_invalidate(void *, void *buffer, size_t bytes) {
    std::memcpy(buffer, the_system->at(offset_of(buffer)), bytes);
}

}  // namespace

void model_open(struct mase_hal *hal, unsigned stalls, int interrupts) {
    the_system = std::make_unique<System>(stalls, interrupts != 0);
    *hal = {nullptr, hal_read, hal_write, hal_address, hal_clean, hal_invalidate, nullptr, hal_now,
            interrupts ? hal_sleep : nullptr, kBase, kBase + kSize - 1};
}

uint8_t *model_buffer(size_t bytes) {
    uint8_t *made = arena + used;
    used += (bytes + 15) / 16 * 16;
    if (used > kSize) {
        std::fprintf(stderr, "the buffers are larger than the memory of the model\n");
        std::exit(3);
    }
    return made;
}

void model_fault(enum model_kind fault, const void *at) {
    the_system->fault = fault;
    the_system->fault_at = kBase + (at == nullptr ? 0 : offset_of(at));
}

void model_lose_interrupts(int lost) { the_system->lost_ = lost; }
unsigned model_violations(void) { return the_system->violations; }
uint64_t model_beats(void) { return the_system->beats; }
unsigned model_longest(void) { return the_system->longest; }
