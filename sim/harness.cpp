// Drives the streams of a Verilated design from arrays: one harness for every block.
//
// design.h, written for each design, defines Top (the Verilated class), INPUTS, OUTPUTS, PROBES and
// bind(), which fills in where each stream's signals and each probe are. Everything here is in terms of
// these. Python calls run() in chunks of clock cycles; the simulation keeps its state in between.

#include <cstdint>
#include <cstring>
#include <vector>

#include "verilated.h"

struct Stream {
    void* payload;
    size_t bytes;  // of the payload as Verilator stores it
    CData* valid;
    CData* ready;
};

struct Probe {
    const void* data;
    size_t bytes;
};

#include "design.h"

enum Outcome : int32_t { BUDGET_USED = 0, DONE = 1, STUCK = 2, PROTOCOL = 3, SURPLUS = 4 };

// When a stream moves: a bool per cycle from `pattern`, again and again, or a chance in each cycle.
struct Pace {
    const uint8_t* pattern;
    int64_t length;
    double chance;  // of no valid (input) or no ready (output)
    uint64_t state;

    bool rests(int64_t cycle) {
        if (pattern != nullptr) return pattern[cycle % length] != 0;
        if (chance <= 0) return false;
        state ^= state << 13;  // xorshift64 (Marsaglia 2003)
        state ^= state >> 7;
        state ^= state << 17;
        return static_cast<double>(state >> 11) * 0x1p-53 < chance;
    }
};

// The beats of one stream: to send, or room for those taken.
struct Beats {
    uint32_t* words;
    int64_t words_per_beat;
    int64_t count;  // to send, or wanted
    int64_t done;
    Pace pace;
};

struct Run {
    Beats inputs[INPUTS];
    Beats outputs[OUTPUTS];
    int64_t budget;     // clock cycles of this call
    int64_t patience;   // clock cycles without any handshake after which the run is stuck
    int32_t open_ended; // more input will follow: stop when this input is sent
    int32_t trace;      // keep the probes of each issue
    int32_t stream;     // result: the stream that broke the protocol or gave a surplus
};

struct Simulation {
    VerilatedContext context;
    Top top;
    Stream inputs[INPUTS];
    Stream outputs[OUTPUTS];
    Probe probes[PROBES];  // the first says in which cycles the others are kept
    std::vector<uint8_t> held[OUTPUTS];
    bool holding[OUTPUTS] = {};
    bool offering[INPUTS] = {};
    int64_t cycle = 0, first_taken = -1, last_given = -1, last_move = 0;
    std::vector<uint32_t> trace;

    explicit Simulation(int seed) : top((prepare(context, seed), &context), "top") {
        bind(top, inputs, outputs, probes);
        for (int k = 0; k < OUTPUTS; k++) held[k].resize(outputs[k].bytes);
    }

    static void prepare(VerilatedContext& context, int seed) {
        context.randReset(2);  // random values, in models that are built for them
        context.randSeed(seed);
    }

    void clock() {
        top.clk = 1;
        top.eval();
        top.clk = 0;
        top.eval();
        cycle++;
    }

    void reset(int cycles) {
        for (Stream& stream : inputs) *stream.valid = 0;
        for (Stream& stream : outputs) *stream.ready = 0;
        top.rst = 1;
        top.clk = 0;
        top.eval();
        for (int k = 0; k < cycles; k++) clock();
        top.rst = 0;
        top.eval();
        for (int k = 0; k < OUTPUTS; k++) holding[k] = false;
        for (int k = 0; k < INPUTS; k++) offering[k] = false;
        cycle = 0;
        first_taken = last_given = -1;
        last_move = 0;
        trace.clear();
    }

    void keep_probes() {
        const uint64_t now = static_cast<uint64_t>(cycle);
        trace.push_back(static_cast<uint32_t>(now));
        trace.push_back(static_cast<uint32_t>(now >> 32));
        for (int k = 1; k < PROBES; k++) {
            const size_t at = trace.size();
            trace.resize(at + (probes[k].bytes + 3) / 4, 0);
            std::memcpy(&trace[at], probes[k].data, probes[k].bytes);
        }
    }

    // Offers what is due, and says whether the output streams keep the protocol.
    bool prepare_cycle(Run& run) {
        for (int k = 0; k < INPUTS; k++) {
            Beats& beats = run.inputs[k];
            if (!offering[k] && beats.done < beats.count && !beats.pace.rests(cycle)) {
                std::memcpy(inputs[k].payload, beats.words + beats.done * beats.words_per_beat, inputs[k].bytes);
                offering[k] = true;
            }
            *inputs[k].valid = offering[k];
        }
        for (int k = 0; k < OUTPUTS; k++) {
            *outputs[k].ready = !run.outputs[k].pace.rests(cycle);
            const bool same = *outputs[k].valid && !std::memcmp(held[k].data(), outputs[k].payload, outputs[k].bytes);
            if (holding[k] && !same) {
                run.stream = k;
                return false;
            }
        }
        return true;
    }

    // Moves what is offered and wanted; false for a beat that nobody expects.
    bool handshakes(Run& run) {
        for (int k = 0; k < INPUTS; k++) {
            if (!offering[k] || !*inputs[k].ready) continue;
            run.inputs[k].done++;
            offering[k] = false;
            last_move = cycle;
            if (first_taken < 0) first_taken = cycle;
        }
        for (int k = 0; k < OUTPUTS; k++) {
            const bool valid = *outputs[k].valid, ready = *outputs[k].ready;
            holding[k] = valid && !ready;
            if (holding[k]) std::memcpy(held[k].data(), outputs[k].payload, outputs[k].bytes);
            if (!valid || !ready) continue;
            Beats& beats = run.outputs[k];
            if (beats.done == beats.count) {
                run.stream = k;
                return false;
            }
            std::memcpy(beats.words + beats.done * beats.words_per_beat, outputs[k].payload, outputs[k].bytes);
            beats.done++;
            last_move = last_given = cycle;
        }
        return true;
    }

    static bool finished(const Run& run) {
        for (const Beats& beats : run.inputs)
            if (beats.done < beats.count) return false;
        if (!run.open_ended)
            for (const Beats& beats : run.outputs)
                if (beats.done < beats.count) return false;
        return true;
    }

    Outcome step(Run& run) {
        for (int64_t used = 0; used < run.budget; used++) {
            if (finished(run)) return DONE;
            if (cycle - last_move > run.patience) return STUCK;
            if (!prepare_cycle(run)) return PROTOCOL;
            if (run.trace && *static_cast<const CData*>(probes[0].data)) keep_probes();
            if (!handshakes(run)) return SURPLUS;
            clock();
        }
        return BUDGET_USED;
    }

    // Lets the design run with nothing to do; a surplus beat is an error.
    Outcome idle(Run& run) {
        for (int64_t used = 0; used < run.budget; used++) {
            for (int k = 0; k < INPUTS; k++) *inputs[k].valid = 0;
            for (int k = 0; k < OUTPUTS; k++) {
                *outputs[k].ready = 1;
                if (*outputs[k].valid) {
                    run.stream = k;
                    return SURPLUS;
                }
            }
            clock();
        }
        return DONE;
    }
};

extern "C" {
void* skiptile_open(int32_t seed) { return new Simulation(seed); }
void skiptile_close(void* handle) { delete static_cast<Simulation*>(handle); }
void skiptile_reset(void* handle, int32_t cycles) { static_cast<Simulation*>(handle)->reset(cycles); }
int32_t skiptile_run(void* handle, Run* run) { return static_cast<Simulation*>(handle)->step(*run); }
int32_t skiptile_idle(void* handle, Run* run) { return static_cast<Simulation*>(handle)->idle(*run); }

// Clock cycles from the first beat taken to the last one given, both included.
int64_t skiptile_elapsed(void* handle) {
    const Simulation& simulation = *static_cast<Simulation*>(handle);
    return simulation.last_given < 0 ? 0 : simulation.last_given - simulation.first_taken + 1;
}

int64_t skiptile_trace(void* handle, const uint32_t** words) {
    const Simulation& simulation = *static_cast<Simulation*>(handle);
    *words = simulation.trace.data();
    return static_cast<int64_t>(simulation.trace.size());
}
}
